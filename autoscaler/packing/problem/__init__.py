"""What is asked of an algorithm and what it answers: options, checks, placements, bounds. No algorithm.

May import: ``model`` and the standard library, numpy.
"""
