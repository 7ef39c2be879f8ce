"""MMR, HFD and GOALS, the simpler algorithms.

Lives here: one module for each. May not: take a price. May import: ``pace``, ``kernels``, ``problem``, ``goals``.
"""
