"""Placement where consumers differ, or a limit of records/s holds beside that of bytes/s.

Lives here: ``capacity_model`` (two limits as one number) and ``placement`` (within bounds). May not: weigh consumers against
moves, as PACE does. May import: ``vector``, ``problem``, ``model``.
"""
