"""The twelve published placements, to the last bit.

Lives here: the readable reference, and the same on arrays. May not: improve on them. May import: ``kernels``, ``problem``.
"""
