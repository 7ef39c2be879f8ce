"""The topics of a group as its worker asks for them: names as they are, patterns by what the cluster has now. To warm up only."""

from confluent_kafka import Consumer

from autoscaler.topic_selection import patterns, wanted


def meant(client: Consumer, topics: tuple[str, ...], timeout_s: float) -> tuple[str, ...]:
    """Return the topics' names.

    Raises:
        KafkaException: There is a pattern, and no broker answers.
    """
    if not patterns(topics):
        return topics
    return tuple(sorted(wanted(topics, client.list_topics(timeout=timeout_s).topics)))
