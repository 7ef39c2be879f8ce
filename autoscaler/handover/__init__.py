"""The protocol by which partitions change hands: records, their encoding, and both sides as pure state machines.

Lives here: what controller, workers and assignor must agree on. May not: read a clock or a log, or know a client. May import:
``errors`` and the standard library only, because the worker is the base install.
"""
