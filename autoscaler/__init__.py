"""Sizes Kafka consumer groups and places their partitions, from measured byte rates and backlog.

Lives here: the packages below, and the few modules that all of them share: ``errors`` (named for what the loop does next),
``ports`` (what the controller asks of the outside), ``topic_selection`` (which topics a group means), ``concurrency`` (a call
with a deadline) and ``jars`` (the Java libraries that Spark and the test broker need). ``docs/design/architecture.md`` has the
map. May not: import ``jobs`` or ``tests``.
"""
