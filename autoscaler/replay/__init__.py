"""Recorded cycles, decided again, and the recorded load under another policy.

Lives here: ``redecide``, which makes every recorded decision once more and compares, ``what_if``, which simulates what another
policy would have done, and ``tuning``, which judges several of them. May not: read a clock, connect to a cluster, or write
anything. May import: ``adapters.audit``, ``core`` and what stands below them.
"""
