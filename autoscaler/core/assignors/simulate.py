"""Kafka's own assignors as pure functions: who gets what, given the members, their topics and what they hold.

Followed to the letter from Kafka 4.x for groups whose members name no racks. Where members subscribe to different topics, range
and round robin are followed too; the sticky ones and uniform then take another way that is not followed here.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from autoscaler.core.assignors.group_model import Assigned, Assignor, Client, Consumer, NativeGroup, listed
from autoscaler.core.assignors.java_hash_order import hashed, spread_hash, string_hash, topic_id_hash
from autoscaler.core.assignors.sticky import cooperative_sticky, sticky
from autoscaler.model import TopicPartition

_TURNED = ((0, 0), (1, 1), (0, 1), (1, 0))  # by which order of topics members keep theirs, one after the other


def assign(group: NativeGroup, client: Client) -> Assigned | None:
    """Return what every member gets in the next rebalance, ordered by partition; ``None`` if that is not followed here.

    Args:
        group: The members as they will be then, with what they hold before.
        client: Who assigns, in a classic group.
    """
    if not group.consumers:
        return {}
    topics = frozenset(t for c in group.consumers for t in c.topics)
    if group.assignor is Assignor.RANGE:
        return _range(group, topics)
    if group.assignor is Assignor.ROUND_ROBIN:
        return _round_robin(group, topics)
    if not group.alike:
        return None
    if group.assignor is Assignor.UNIFORM:
        return _uniform(group, topics)
    kept = cooperative_sticky if group.assignor is Assignor.COOPERATIVE_STICKY else sticky
    return kept(group.consumers, listed(group.partitions, topics), client)


def _range(group: NativeGroup, topics: frozenset[str]) -> Assigned:
    """Cut every topic into ranges, the longer ones first; KIP-848's assignor of this name does the same."""
    held: dict[str, list[TopicPartition]] = {c.member_id: [] for c in group.consumers}
    for topic in sorted(topics):
        members = sorted((c for c in group.consumers if topic in c.topics), key=lambda c: c.order)
        each, longer = divmod(group.partitions.get(topic, 0), len(members))
        start = 0
        for i, c in enumerate(members):
            end = start + each + (i < longer)
            held[c.member_id] += [TopicPartition(topic, n) for n in range(start, end)]
            start = end
    return {m: tuple(sorted(ps)) for m, ps in held.items()}


def _round_robin(group: NativeGroup, topics: frozenset[str]) -> Assigned:
    held: dict[str, list[TopicPartition]] = {c.member_id: [] for c in group.consumers}
    members = sorted(group.consumers, key=lambda c: c.order)
    turn = 0
    for p in listed(group.partitions, topics):
        while p.topic not in members[turn % len(members)].topics:
            turn += 1
        held[members[turn % len(members)].member_id].append(p)
        turn += 1
    return {m: tuple(sorted(ps)) for m, ps in held.items()}


def _uniform(group: NativeGroup, topics: frozenset[str]) -> Assigned:
    """Keep up to a quota each, one more for the first that have it in the order of the coordinator's map; fill one by one."""
    orders = _topics_in_order(group, topics)
    by_topic = orders[group.ties % 2]
    everything = [TopicPartition(t, n) for t in by_topic for n in range(group.partitions.get(t, 0))]
    there = set(everything)
    owned = {c.member_id: c.owned & there for c in group.consumers}
    holders = {p for ps in owned.values() for p in ps}
    free = [p for p in everything if p not in holders]
    least, with_one_more = divmod(len(everything), len(group.consumers))
    held: dict[str, list[TopicPartition]] = {}
    room: dict[str, int] = {}
    for i, member in enumerate(hashed(in_coordinator(group.consumers), string_hash)):
        one_more = with_one_more > 0
        kept_by_topic = orders[_TURNED[group.ties // 2][i % 2]]
        mine = [p for t in kept_by_topic for p in hashed(sorted(x for x in owned[member] if x.topic == t), lambda x: x.partition)]
        held[member] = mine[: least + one_more]
        free += mine[least + one_more :]
        if len(held[member]) <= least and len(owned) - i > with_one_more:
            one_more = False  # enough members are left to take what this one would have to be given anew
        with_one_more -= one_more
        room[member] = least + one_more - len(held[member])
    rest = iter(free)
    for member, places in room.items():
        held[member] += [p for _, p in zip(range(places), rest, strict=False)]
    return {m: tuple(sorted(ps)) for m, ps in held.items()}


def in_coordinator(consumers: Sequence[Consumer]) -> list[str]:
    """Return members in the order in which the coordinator hands them to an assignor: as in its table, who joins last.

    Its table has a few slots for many members, and those of one slot stand there as they have come. So those that it lists are in
    the order of the list; others come where the slots of their hash do.
    """
    listed = sorted((c for c in consumers if c.place is not None), key=lambda c: c.place or 0)
    slots = accumulate((spread_hash(c.member_id) for c in listed), max)
    slot_of = {c.member_id: slot for c, slot in zip(listed, slots, strict=True)}

    def order(c: Consumer) -> tuple[bool, int, int]:
        joins = c.place is None and not c.owned
        return joins, slot_of.get(c.member_id, spread_hash(c.member_id)), c.place or 0

    return [c.member_id for c in sorted(consumers, key=order)]


def _topics_in_order(group: NativeGroup, topics: frozenset[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return them as a map of their ids has them that they were put into by their names, and by their names turned round."""
    ordered = sorted(topics)
    if any(t not in group.topic_ids for t in ordered):
        return ordered, ordered
    codes = {t: topic_id_hash(group.topic_ids[t]) for t in ordered}
    return hashed(ordered, codes.__getitem__), hashed(reversed(ordered), codes.__getitem__)


def ties(group: NativeGroup) -> range:
    """Return the values of ``NativeGroup.ties`` to follow: one, unless topics come in an order that cannot be known."""
    if group.assignor is not Assignor.UNIFORM:
        return range(1)
    one, other = _topics_in_order(group, frozenset(t for c in group.consumers for t in c.topics))
    return range(1 if one == other else 2 * len(_TURNED))


def following(group: NativeGroup, consumers: Sequence[Consumer]) -> NativeGroup:
    """Return the group with other members."""
    return replace(group, consumers=tuple(consumers))
