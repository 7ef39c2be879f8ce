"""Placement by two demands at once.

Lives here: filling, exchanging, emptying, bringing home. May not: be asked by name. May import: ``kernels``, ``problem``.
"""
