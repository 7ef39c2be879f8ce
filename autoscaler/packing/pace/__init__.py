"""PACE, the default: consumers, moves now and moves to come, weighed against each other.

Lives here: ``pace`` (the algorithm), its portfolio of placements, local searches, and large groups in parts. May not: know
another algorithm. May import: ``kernels``, ``problem``.
"""
