"""The control log of managed groups: plans are published in a fenced transaction, heartbeats and commits are read.

Lives here: what writes to and reads from the two control topics, and what follows from it for one group (``group_view``). May
not: say what a record means (``handover`` does). May import: ``adapters.kafka`` and what stands below it, confluent-kafka.
"""
