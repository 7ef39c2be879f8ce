"""What every Kafka client needs before it connects: secrets by reference, and the two libraries' own ways.

Lives here: resolving ``env:`` and ``file:`` references, kafka-python from a librdkafka connection block, admin clients that
outlive their threads, and the follower of logs; the worker uses them too. May not: know what a record means. May import:
``handover``, ``errors``, the standard library and the Kafka clients.
"""
