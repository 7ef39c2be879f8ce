"""Carrying out what ``goals`` has planned for brokers: what is read, what this job has begun, what is to be done next.

Lives here: ``view`` (a cluster as it was read, and commands), ``measured`` (a view with its rates as a snapshot of ``goals``),
``journal`` (what a job has begun, written ahead), ``throttle`` (what limits its copies), ``carry_out`` (view and journal in,
commands out), ``ports`` (what the job needs of the world). May not: know Kafka's clients, Spark or time. May import: ``goals``,
``model``, ``topic_selection``, numpy.
"""
