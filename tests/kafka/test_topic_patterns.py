"""Topics by pattern on a real broker: they come and go while everything runs, and all who ask mean the same ones."""

from confluent_kafka import Consumer

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from autoscaler.core.decide import History, decide
from autoscaler.devtools.broker import Broker
from autoscaler.model import GroupMembers, LoadSnapshot, Observation, Reason, TopicPartition
from autoscaler.ports import PlanIntent
from autoscaler.streaming.lag import GroupRules
from tests.builders import moment, policy
from tests.conftest import create_topic, delete_topic
from tests.contracts.publishers import KafkaWorld
from tests.kafka.measuring import Measured
from tests.kafka.permissions import DESCRIBE, TOPIC, Permissions
from tests.until import until

BATCH_S = 0.3  # between two batches, each of which asks brokers and computes: without a pause they keep a core busy


def listed(snapshot: LoadSnapshot) -> set[str]:
    return {x.partition.topic for x in snapshot.loads}


def test_a_topic_that_matches_is_measured_once_it_is_there_and_until_it_is_gone(broker: Broker, group: str) -> None:
    rules = (
        GroupRules(group=group, topics=(f"^{group}-in", f"!^{group}-in.*-dead$")),
        GroupRules(group=f"{group}-other", topics=(f"^{group}-other",)),
    )
    with Measured(broker.connection(), rules) as measured:
        assert measured.batch() == {}, "nothing yet, and no error"
        first, other = create_topic(broker, f"{group}-in-1", 2), create_topic(broker, f"{group}-other", 1)
        create_topic(broker, f"{group}-in-1-dead", 1)
        each = {group: {first}, f"{group}-other": {other}}
        until(
            "each has its own",
            lambda: {g: listed(s) for g, s in measured.batch().items()},
            lambda found: found == each,
            every_s=BATCH_S,
        )
        second = create_topic(broker, f"{group}-in-2", 3)
        until(
            "the new one is known",
            lambda: measured.batch()[group],
            lambda found: found.known and len(found.loads) == 5,
            every_s=BATCH_S,
        )
        delete_topic(broker, second)
        only = lambda found: listed(found) == {first} and found.known and not found.lost  # noqa: E731
        until("it is gone", lambda: measured.batch()[group], only, every_s=BATCH_S)
        delete_topic(broker, first)
        delete_topic(broker, other)
        until("the last of them goes too", measured.batch, lambda found: found == {}, every_s=BATCH_S)


def test_a_topic_that_may_not_be_described_any_more_is_not_taken_for_deleted(secure_broker: Broker, group: str) -> None:
    kept, lost = (create_topic(secure_broker, f"{group}-{n}", 1) for n in ("kept", "lost"))
    permissions = Permissions(secure_broker)
    permissions.grant("job", *((TOPIC, t, DESCRIBE) for t in (kept, lost)))
    try:
        with Measured(secure_broker.connection("job"), (GroupRules(group=group, topics=(f"^{group}-",)),)) as measured:
            both = lambda found: [listed(s) for s in found.values()] == [{kept, lost}]  # noqa: E731
            until("brokers know of it", measured.batch, both, every_s=BATCH_S)
            permissions.revoke("job", (TOPIC, lost, DESCRIBE))
            until("one is lost", measured.one, lambda found: listed(found) == {kept}, every_s=BATCH_S)
            assert measured.one().lost == {lost}
    finally:
        permissions.revoke("job")


def test_a_plan_names_what_a_pattern_means_by_now(broker: Broker, group: str) -> None:
    first = create_topic(broker, f"{group}-1", 2)
    world = KafkaWorld(broker, f"^{group}-", group)
    try:
        world.start(0)
        second, dead = create_topic(broker, f"{group}-2", 2), create_topic(broker, f"{group}x", 1)
        everything = {TopicPartition(t, n): 0 for t, count in ((first, 2), (second, 2), (dead, 1)) for n in range(count)}

        def planned() -> bool:
            world.publisher.publish(PlanIntent(target=everything, requested=frozenset({0}), summary="{}"))
            owner = world.until(lambda _: True).owner
            return set(owner) == {p for p in everything if p.topic != dead}

        until("a plan", planned, every_s=BATCH_S)
        delete_topic(broker, second)
        until(
            "only one is left",
            lambda: {p.topic for p in world.until(lambda _: True).owner},
            lambda found: found == {first},
            every_s=BATCH_S,
        )
    finally:
        world.close()


def test_a_native_group_that_subscribes_to_the_same_pattern_is_foretold_once_its_members_have_looked(
    broker: Broker, group: str
) -> None:
    pattern = f"^{group}-"
    topics = [create_topic(broker, f"{group}-1", 2)]
    consumer = Consumer({
        **broker.connection(), "group.id": group, "auto.offset.reset": "earliest", "log_level": 0,
        "topic.metadata.refresh.interval.ms": 1000, "partition.assignment.strategy": "range",
    })  # fmt: skip
    consumer.subscribe([pattern])
    reader = KafkaGroupReader(broker.connection(), (group,), SystemClock(), 0.2)
    asked = policy(group=group, topics=(pattern,), assignment="native", mode="advise")
    try:
        with Measured(broker.connection(), (GroupRules(group=group, topics=(pattern,)),)) as measured:

            def foretold(members: GroupMembers | None) -> bool:
                consumer.poll(0.1)
                seen = measured.batch().get(group)
                if seen is None:
                    return False
                decision, _ = decide(
                    Observation(group=group, snapshot=seen, state=None, members=members), History(), asked, moment(seen.sample_ts)
                )
                waits = {Reason.ASSIGNOR_UNPREDICTABLE, Reason.NOT_READY}
                return listed(seen) == set(topics) and decision.reason not in waits and decision.consumers_now == 1

            until("what was foretold", lambda: foretold(reader.members(group)), every_s=BATCH_S)
            topics.append(create_topic(broker, f"{group}-2", 2))
            until("what was foretold", lambda: foretold(reader.members(group)), every_s=BATCH_S)
    finally:
        reader.close()
        consumer.close()
