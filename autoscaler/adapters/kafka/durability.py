"""Whether the control log's topics outlive the loss of a broker: said once with what to do, and never refused.

A topic of one replica is right on a cluster of one broker, and what a larger one needs is its operator's business; but an
operator whose topics were made when there was one broker is told when there are three. ``control_log/publisher`` asks when
it opens the log.
"""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from autoscaler.adapters.kafka.control_topics import (
    TopicFacts,
    alter,
    client_log,
    configurations,
    wanted_in_sync,
    wanted_replication,
)
from autoscaler.errors import AutoscalerError
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC


class Durability:
    """Looks at the two topics and says what is weak about them, each thing once."""

    def __init__(self, group: str, replication_factor: int | None) -> None:
        self._group, self._factor = group, replication_factor
        self._said: set[str] = set()

    def look(self, admin: AdminClient, found: Mapping[str, TopicFacts]) -> None:
        """Say what is new; where it cannot be read nothing is said, because what must hold has been checked before."""
        try:
            wanted, config = wanted_replication(admin, self._factor), configurations(admin)
        except AutoscalerError as e:
            client_log.info("group %s: whether the control log outlives a broker is not known: %s", self._group, e)
            return
        for topic in (CONTROL_TOPIC, HEARTBEAT_TOPIC):
            for problem in weaknesses(topic, found[topic].replicas, config[topic], wanted):
                if problem not in self._said:
                    self._said.add(problem)
                    client_log.warning("group %s: %s", self._group, problem)


def weaknesses(topic: str, replicas: int, config: Mapping[str, str], wanted: int) -> tuple[str, ...]:
    """Return what is weak about a topic of so many ``replicas`` where ``wanted`` are possible, and what to do about it."""
    found = []
    if replicas < wanted:
        found.append(
            f"topic {topic}: it has {replicas} replica{'s' * (replicas > 1)} and should have {wanted}, or it may be lost with a "
            "broker: kafka-reassign-partitions.sh raises it"
        )
    in_sync = int(config.get("min.insync.replicas", "1"))
    if in_sync < (least := wanted_in_sync(replicas)):
        found.append(alter(topic, "min.insync.replicas", str(least), f"it is {in_sync}: a record may be lost with one broker"))
    elif in_sync > 1 and in_sync >= replicas:
        found.append(
            alter(
                topic, "min.insync.replicas", str(max(1, replicas - 1)), f"it is {in_sync} of {replicas}: no broker may be away"
            )
        )
    if config.get("unclean.leader.election.enable") == "true":
        found.append(alter(topic, "unclean.leader.election.enable", "false", "a leader may come back without what was written"))
    return tuple(found)
