"""A consumer group that exists in arrays only: records arrive, wait and are read, and decisions are carried out on it.

Lives here: the queues of its partitions and the group itself, whose decisions are made by ``core.decide``, not by a copy of it.
``replay`` gives it a recorded load, ``evaluation`` published and made ones. May not: read a clock, draw a random number, or
connect to anything. May import: ``core`` and what stands below it.
"""
