"""Recorded cycles, decided again.

Lives here: ``redecide``, which makes every recorded decision once more and compares. May not: read a clock, connect to a cluster,
or write anything. May import: ``adapters.audit``, ``core`` and what stands below them.
"""
