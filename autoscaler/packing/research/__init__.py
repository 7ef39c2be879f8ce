"""Algorithms that no cycle of the job calls: rate and backlog at once, sizes of consumers, the least moves.

May import every other folder of ``packing``.
"""
