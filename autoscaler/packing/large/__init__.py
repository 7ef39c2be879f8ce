"""Best fit and home fit for a million partitions, by whole levels of the capacity.

Lives here: what ``quantised`` asks for. May not: be called in a cycle. May import: ``kernels``, ``problem``.
"""
