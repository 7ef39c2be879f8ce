"""One group as a cycle finds it: who holds what, what earlier cycles left behind, what the operator limits now.

Lives here: ``kinds``, ``observed_group``, ``history``, ``advice``, ``limits``. May not: size or choose. May import: ``capacity``,
``assignors`` and below.
"""
