"""Kafka's own assignors as pure functions: who would get what with another number of consumers.

Lives here: range, round robin, sticky, uniform as Kafka 4 has them, the description of a group that they take, the forecast for
another number of members, and which number to ask for. May not: know a policy or a cycle. May import: ``model``, ``packing``.
"""
