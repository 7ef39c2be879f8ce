"""Messages of Kafka's protocol that kafka-python has no layout for, as it reads them: https://kafka.apache.org/protocol.

Lives here: one file for each layout, and its class. May not: send them. May import: kafka-python only.
"""

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]  # the library's types do not name it
    """Asks for groups on the protocol of KIP-848."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """Their members, and what each holds."""
