"""Rate and backlog at once, and sizes of consumers: no decision by rates calls these.

Lives here: what ``evaluation`` and published sizings call. May not: be imported otherwise. May import all of ``packing`` below.
"""
