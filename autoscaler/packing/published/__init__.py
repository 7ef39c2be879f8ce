"""The twelve published placements: the readable reference, and the same on arrays to the last bit.

May import: ``kernels``, ``problem``.
"""
