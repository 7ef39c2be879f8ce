"""What is asked of an algorithm and what it answers.

Lives here: options, checks, placements, labels, bounds. May not: hold an algorithm. May import: ``model``, numpy.
"""
