"""MMR and HFD, the two simpler algorithms.

Lives here: one module for each. May not: take a price. May import: ``pace``, ``kernels``, ``problem``.
"""
