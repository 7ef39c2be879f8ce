"""Algorithms that no cycle of the job calls: rate and backlog at once, and sizes of consumers.

May import every other folder of ``packing``.
"""
