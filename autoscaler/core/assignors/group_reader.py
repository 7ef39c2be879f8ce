"""From a group's description to what the simulated assignors take, or why its assignment cannot be predicted."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from autoscaler.core.assignors.group_model import Assignor, Client, Consumer, NativeGroup
from autoscaler.model import Finding, GroupMembers, Member, Started, TopicPartition
from autoscaler.model.findings import What


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpredictable:
    """Why it cannot be predicted what another number of consumers would get.

    Attributes:
        why: What stands against it.
    """

    why: Finding


NO_CONSUMERS = frozenset({"SHARE", "STREAMS", "OTHER"})
_BY_RACK = frozenset({Assignor.RANGE, Assignor.STICKY, Assignor.COOPERATIVE_STICKY})  # KIP-881, in the classic protocol only
_BY_HOLDER = frozenset({Assignor.STICKY, Assignor.COOPERATIVE_STICKY, Assignor.UNIFORM})  # what they give is what was held
_PROTOCOLS = {"CLASSIC": frozenset(Assignor) - {Assignor.UNIFORM}, "CONSUMER": frozenset({Assignor.RANGE, Assignor.UNIFORM})}


def read_group(
    members: GroupMembers, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str], leaving: tuple[str, ...] = ()
) -> NativeGroup | Unpredictable:
    """Return the group as an assignor sees it.

    Args:
        members: Its description.
        partitions: All partitions of the topics that are measured.
        topic_ids: Kafka's ids of those topics.
        leaving: Members in the order in which they would be ended, if that is known.
    """
    if members.kind in NO_CONSUMERS:
        return Unpredictable(why=Finding.of(What.NOT_CONSUMERS, kind=members.kind))
    if not members.members:
        return Unpredictable(why=Finding.of(What.NO_MEMBERS))
    if members.assignor not in _PROTOCOLS.get(members.kind, ()):
        return Unpredictable(why=_unknown_assignor(members))
    counts = {t: sum(p.topic == t for p in partitions) for t in sorted({p.topic for p in partitions})}
    if why := _subscriptions(members.members, counts):
        return Unpredictable(why=why)
    if why := _racks(members) or _held_twice(members):
        return Unpredictable(why=why)
    return NativeGroup(
        assignor=Assignor(members.assignor),
        consumers=tuple(_consumer(m) for m in sorted(members.members, key=lambda m: m.member_id)),
        partitions=counts,
        topic_ids=topic_ids,
        clients=_clients(members),
        leaving=leaving,
    )


def unplaceable(members: GroupMembers, partitions: Collection[TopicPartition], started: Started | None) -> Unpredictable | None:
    """Return why the members of a group that follows a placement cannot be told what to hold; ``None`` if they can.

    Args:
        members: Its description.
        partitions: All partitions of the topics that are measured.
        started: The consumers that run here, which members are then named after; ``None``: none are told anything.
    """
    if why := _subscriptions(members.members, {p.topic: 1 for p in partitions}):
        return Unpredictable(why=why)
    called = Counter(m.name for m in members.members)
    if called[""]:
        return Unpredictable(why=Finding.of(What.NAMELESS, nameless=called[""], members=called.total()))
    if shared := sorted(name for name, count in called.items() if count > 1):
        return Unpredictable(why=Finding.of(What.NAME_SHARED, name=ascii(shared[0])))
    strange = sorted(m.name for m in members.members if started is not None and m.member_id not in started.slots)
    if strange:
        return Unpredictable(why=Finding.of(What.NAME_UNKNOWN, name=ascii(strange[0])))
    return None


def _unknown_assignor(members: GroupMembers) -> Finding:
    if members.assignor == "stream":
        return Finding.of(What.NOT_CONSUMERS, kind="STREAMS")
    known = sorted(_PROTOCOLS.get(members.kind, Assignor))
    if not members.assignor:
        return Finding.of(What.NO_ASSIGNOR, known=known)
    return Finding.of(What.UNKNOWN_ASSIGNOR, assignor=members.assignor, known=known)


def _subscriptions(members: Collection[Member], counts: Mapping[str, int]) -> Finding | None:
    said = {m.topics for m in members if m.topics is not None}
    if len(said) < len({m.topics for m in members}):
        return Finding.of(What.SUBSCRIPTION_UNKNOWN)
    if len(said) > 1:
        return Finding.of(What.SUBSCRIPTIONS_DIFFER, ways=len(said))
    topics = next(iter(said))
    if more := sorted(topics - set(counts)):
        return Finding.of(What.SUBSCRIBED_TO_MORE, topics=more)
    if fewer := sorted(set(counts) - topics):
        return Finding.of(What.SUBSCRIBED_TO_FEWER, topics=fewer)
    return None


def _racks(members: GroupMembers) -> Finding | None:
    if members.kind != "CLASSIC" or members.assignor not in _BY_RACK:
        return None
    racks = {m.rack for m in members.members if m.rack}
    if not racks:
        return None
    return Finding.of(What.RACKS, racks=len(racks), assignor=members.assignor)


def _held_twice(members: GroupMembers) -> Finding | None:
    if members.assignor not in _BY_HOLDER:
        return None
    holders = Counter(p for m in members.members for p in m.assigned)
    twice = sorted(p for p, count in holders.items() if count > 1)
    if not twice:
        return None
    return Finding.of(What.HELD_TWICE, partitions=twice, holders=holders[twice[0]])


def _consumer(member: Member) -> Consumer:
    return Consumer(
        member_id=member.member_id,
        topics=member.topics or frozenset(),
        owned=member.assigned,
        instance=member.instance,
        place=member.place,
    )


def _clients(members: GroupMembers) -> tuple[Client, ...]:
    """Return the libraries that may assign: those of the members, any of them if not all are known."""
    said = {m.library for m in members.members}
    known = tuple(c for c in Client if c.value in said)
    return known if known and len(known) == len(said) else tuple(Client)
