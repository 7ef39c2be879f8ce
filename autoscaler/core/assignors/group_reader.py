"""From a group's description to what the simulated assignors take, or why its assignment cannot be predicted."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from autoscaler.core.assignors.group_model import Assignor, Client, Consumer, NativeGroup
from autoscaler.model import GroupMembers, Member, Started, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpredictable:
    """Why nobody can say what another number of consumers would get.

    Attributes:
        why: Half a sentence, and what to do.
    """

    why: str


_KINDS = {
    "SHARE": "it is a share group: its records are dealt out one by one, not its partitions; scale it by its lag",
    "STREAMS": "it is a Streams group: its tasks belong together with their state; scale it by its own metrics",
    "OTHER": "its members are no consumers",
}
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
    if why := _KINDS.get(members.kind):
        return Unpredictable(why=why)
    if not members.members:
        return Unpredictable(why="it has no members: nothing shows how its consumers subscribe and which assignor they use")
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
        started: The consumers that run here, which members are then named after; ``None``: nobody is told anything.
    """
    if why := _subscriptions(members.members, {p.topic: 1 for p in partitions}):
        return Unpredictable(why=why)
    called = Counter(m.name for m in members.members)
    if called[""]:
        return Unpredictable(
            why=f"{called['']} of its {called.total()} members have no name to be told by: give their assignor one"
        )
    if shared := sorted(name for name, count in called.items() if count > 1):
        return Unpredictable(why=f"several of its members call themselves {shared[0]!a}: give each a name of its own")
    strange = sorted(m.name for m in members.members if started is not None and m.member_id not in started.slots)
    if strange:
        why = f"no consumer that is started here is called {strange[0]!a}: let them take their names from AUTOSCALER_WORKER_NAME"
        return Unpredictable(why=why)
    return None


def _unknown_assignor(members: GroupMembers) -> str:
    if members.assignor == "stream":
        return "it is a Kafka Streams application: its tasks belong together with their state; scale it by its own metrics"
    known = ", ".join(sorted(_PROTOCOLS.get(members.kind, ())))
    if not members.assignor:
        return f"its members have not agreed on an assignor: let all of them name the same, one of {known or ', '.join(Assignor)}"
    return f"nothing is known of assignor {members.assignor!r}: it takes one of {known or ', '.join(Assignor)}"


def _subscriptions(members: Collection[Member], counts: Mapping[str, int]) -> str | None:
    said = {m.topics for m in members if m.topics is not None}
    if len(said) < len({m.topics for m in members}):
        return "what its members subscribe to is not known, or a pattern"
    if len(said) > 1:
        return (
            f"its members subscribe to different topics ({len(said)} ways): give all of them the same, or each kind its own group"
        )
    topics = next(iter(said))
    if more := sorted(topics - set(counts)):
        return f"its members also subscribe to {', '.join(more[:4])}, which is not measured: add it to topics of the group"
    if fewer := sorted(set(counts) - topics):
        todo = "remove it from topics of the group, or wait until they look for new topics"
        return f"its members do not subscribe to {', '.join(fewer[:4])}: {todo}"
    return None


def _racks(members: GroupMembers) -> str | None:
    if members.kind != "CLASSIC" or members.assignor not in _BY_RACK:
        return None
    racks = {m.rack for m in members.members if m.rack}
    if not racks:
        return None
    return (
        f"its members name racks ({len(racks)}), and assignor {members.assignor} may place partitions by them: "
        f"leave client.rack out, or take {Assignor.ROUND_ROBIN}"
    )


def _held_twice(members: GroupMembers) -> str | None:
    if members.assignor not in _BY_HOLDER:
        return None
    holders = Counter(p for m in members.members for p in m.assigned)
    twice = sorted(p for p, count in holders.items() if count > 1)
    if not twice:
        return None
    return f"its description names {holders[twice[0]]} holders of {twice[0]}, which cannot be: it is read again with every cycle"


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
