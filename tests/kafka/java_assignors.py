"""Kafka's own assignor classes, called in a Java process from the broker's published jars."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from autoscaler import jars
from autoscaler.core.assignors.group_model import Assigned, Assignor, Consumer, NativeGroup
from autoscaler.core.assignors.simulate import in_coordinator
from autoscaler.model import TopicPartition

_GENERATION = 7
_ROUNDS = 4


@contextmanager
def java() -> Iterator[JavaGateway]:
    """Start a Java process that has the broker's classes, and end it."""
    jars.fetch(jars.KAFKA)
    port, secret = launch_gateway(
        classpath=jars.class_path(jars.KAFKA), javaopts=["-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        java_path=jars.java(), die_on_exit=True, enable_auth=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True))
    try:
        yield gateway
    finally:
        gateway.shutdown()


@contextmanager
def kafka() -> Iterator["KafkaAssignors"]:
    """Start a Java process to call the assignors in."""
    with java() as gateway:
        yield KafkaAssignors(gateway)


class KafkaAssignors:
    """Asks them what they would do."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self._org = gateway.jvm.org.apache.kafka
        self._java = gateway.jvm.java
        clients = self._org.clients.consumer
        self._classic = {
            Assignor.RANGE: clients.RangeAssignor,
            Assignor.ROUND_ROBIN: clients.RoundRobinAssignor,
            Assignor.STICKY: clients.StickyAssignor,
            Assignor.COOPERATIVE_STICKY: clients.CooperativeStickyAssignor,
        }

    def assign(self, group: NativeGroup) -> Assigned:
        """Return what Kafka's class gives to every member of a classic group, when all rebalances are over."""
        owned: Mapping[str, Sequence[TopicPartition]] = {c.member_id: sorted(c.owned) for c in group.consumers}
        for _ in range(_ROUNDS):
            found = self._once(group, owned)
            if group.assignor is not Assignor.COOPERATIVE_STICKY or found == owned:
                return found
            owned = {m: list(ps) for m, ps in found.items()}
            if sum(map(len, owned.values())) == sum(group.partitions.values()):
                return found
        raise AssertionError(owned)

    def _once(self, group: NativeGroup, owned: Mapping[str, Sequence[TopicPartition]]) -> Assigned:
        subscriptions = self._java.util.HashMap()
        for c in group.consumers:
            subscriptions.put(c.member_id, self._subscription(c, owned[c.member_id]))
        partitions = self._java.util.HashMap()
        for topic, count in group.partitions.items():
            partitions.put(topic, count)
        found = self._classic[group.assignor]().assign(partitions, subscriptions)
        return {m: tuple(sorted(TopicPartition(p.topic(), p.partition()) for p in found[m])) for m in found}

    def _subscription(self, consumer: Consumer, owned: Sequence[TopicPartition]) -> Any:
        held = self._java.util.ArrayList()
        for p in owned:
            held.add(self._org.common.TopicPartition(p.topic, p.partition))
        topics = self._java.util.ArrayList(sorted(consumer.topics))
        clients, nothing = self._org.clients.consumer, self._java.util.Optional.empty()
        sticky = clients.StickyAssignor()
        sticky.onAssignment(
            getattr(clients, "ConsumerPartitionAssignor$Assignment")(held),
            clients.ConsumerGroupMetadata("g", _GENERATION, consumer.member_id, nothing),
        )
        said = sticky.subscriptionUserData(self._java.util.HashSet(topics)) if held else None
        made = getattr(clients, "ConsumerPartitionAssignor$Subscription")(topics, said, held, _GENERATION, nothing)
        if consumer.instance is not None:
            made.setGroupInstanceId(self._java.util.Optional.of(consumer.instance))
        return made

    def assign_in_coordinator(self, group: NativeGroup) -> Assigned:
        """Return what the group coordinator's class gives to every member of a group on the protocol of KIP-848."""
        coordinator = self._org.coordinator.group
        ids = {t: self._org.common.Uuid.fromString(i) for t, i in group.topic_ids.items()}
        names = {i: t for t, i in group.topic_ids.items()}
        members, inverted = self._java.util.HashMap(), self._java.util.HashMap()
        by_id = {c.member_id: c for c in group.consumers}
        for c in (by_id[m] for m in in_coordinator(group.consumers)):
            held = self._java.util.HashMap()
            for p in sorted(c.owned):
                if not held.containsKey(ids[p.topic]):
                    held.put(ids[p.topic], self._java.util.HashSet())
                held.get(ids[p.topic]).add(p.partition)
                if not inverted.containsKey(ids[p.topic]):
                    inverted.put(ids[p.topic], self._java.util.HashMap())
                inverted.get(ids[p.topic]).put(p.partition, c.member_id)
            topics = self._java.util.HashSet()
            for t in sorted(c.topics):
                topics.add(ids[t])
            optional = self._java.util.Optional
            instance = optional.empty() if c.instance is None else optional.of(c.instance)
            before = coordinator.modern.Assignment(self._java.util.Collections.unmodifiableMap(held))
            members.put(
                c.member_id, coordinator.modern.MemberSubscriptionAndAssignmentImpl(optional.empty(), instance, topics, before)
            )
        kind = coordinator.api.assignor.SubscriptionType
        spec = coordinator.modern.GroupSpecImpl(members, kind.HOMOGENEOUS if group.alike else kind.HETEROGENEOUS, inverted)
        classes = {Assignor.RANGE: coordinator.assignor.RangeAssignor, Assignor.UNIFORM: coordinator.assignor.UniformAssignor}
        found = classes[group.assignor]().assign(spec, self._describer(group, ids)).members()
        return {
            m: tuple(sorted(
                TopicPartition(names[i.toString()], n) for i, held in dict(found[m].partitions()).items() for n in held
            ))
            for m in found
        }  # fmt: skip

    def _describer(self, group: NativeGroup, ids: Mapping[str, Any]) -> Any:
        org = self._org
        delta = getattr(org.image, "MetadataDelta$Builder")().setImage(org.image.MetadataImage.EMPTY).build()
        one = self._java.util.ArrayList()
        one.add(1)
        directories = self._java.util.ArrayList()
        directories.add(org.common.Uuid.fromString("AAAAAAAAAAAAAAAAAAAAAQ"))
        for topic, count in group.partitions.items():
            delta.replay(org.common.metadata.TopicRecord().setName(topic).setTopicId(ids[topic]))
            for n in range(count):
                record = org.common.metadata.PartitionRecord().setTopicId(ids[topic]).setPartitionId(n).setLeader(1)
                delta.replay(record.setReplicas(one).setIsr(one).setDirectories(directories))
        image = delta.apply(org.image.MetadataProvenance.EMPTY)
        seen = org.coordinator.common.runtime.KRaftCoordinatorMetadataImage(image)
        return org.coordinator.group.modern.SubscribedTopicDescriberImpl(seen)
