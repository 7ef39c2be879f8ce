"""EXACT: what is optimal, or how far from it a plan can be at most (the extra ``exact``).

Lives here: the algorithm, its relaxations and the solvers behind one door. May not: be asked in mode act. May import: ``pace``,
``vector``, ``kernels``, ``problem``, ``errors``.
"""
