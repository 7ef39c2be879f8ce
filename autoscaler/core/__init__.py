"""Decisions about a group: pure functions of what was observed, remembered and asked for.

Lives here, from the top: ``decide``, ``rules`` (and their tables), ``guards``, ``cycle`` (what the rules look at), ``sizing``,
``group`` (who is there, what is remembered, what the operator limits), ``capacity`` and ``assignors``, ``load``; ``diff`` turns
the answer into actions. Beside the path, ``why_not`` says afterwards what speaks against other numbers, and ``survey`` judges
groups that are seen once with nothing configured. May not: read a clock, draw random numbers, log, or do I/O. May import:
``packing``, ``config.policy``, ``model``.
"""
