"""A client that no longer knows a log is made to ask for it: by itself it would do so after five minutes."""

from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from autoscaler.clients.log_follower import LogFollower

LOG = ("__autoscaler_control", 3)


class Forgetful:
    """A consumer whose broker has just come back and did not know its topics when it was asked."""

    def __init__(self) -> None:
        self.knows = False
        self.asked: list[str] = []

    def get_watermark_offsets(self, _: TopicPartition, **_options: object) -> tuple[int, int]:
        if not self.knows:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return 2, 7

    def list_topics(self, topic: str, **_options: object) -> None:
        self.asked.append(topic)
        self.knows = True


def test_a_log_that_the_client_has_forgotten_is_known_again_at_the_next_look() -> None:
    consumer = Forgetful()
    follower = LogFollower(cast("Consumer", consumer))
    with pytest.raises(KafkaException):
        follower.edges(LOG, timeout_s=1.0)
    assert consumer.asked == [LOG[0]]
    assert follower.edges(LOG, timeout_s=1.0) == (2, 7)
    assert consumer.asked == [LOG[0]], "a client that knows it is left alone"
