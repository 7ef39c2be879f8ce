"""What every Kafka client needs before it connects: secrets by reference, and the two libraries' own ways.

Lives here: resolving ``env:`` and ``file:`` references, kafka-python from a librdkafka connection block, admin clients that
outlive their threads. The worker uses it too. May import: ``handover``, ``errors``, the standard library and the Kafka clients.
"""
