"""The published experiments, run again: placing algorithms on streams, sizing policies on loads; figures, tables and pages.

Lives here: streams and loads, the simulator of plans, what was published beside it. ``jobs/evaluate.py`` runs it on Spark. May
not: be imported by the controller. May import: ``packing``, ``simulation``, ``config`` and ``model``.
"""
