"""The sticky assignors of the classic protocol, for members that all subscribe to the same topics.

Kafka's own (``AbstractStickyAssignor`` with equal subscriptions, Kafka 3.5 and later) fills quotas; librdkafka and kafka-python
carry the older general algorithm of KIP-54, which moves one partition after the other from the fullest member to the emptiest.
All of them end with numbers that differ by one at most, but they give up different partitions. Racks are not looked at.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from autoscaler.core.assignors.group_model import Assigned, Client, Consumer
from autoscaler.core.assignors.java_hash_order import hashed, string_hash
from autoscaler.model import TopicPartition

_ROUNDS = 4  # two are enough by KIP-429; more would be a defect of the client

Held = dict[str, list[TopicPartition]]


def sticky(consumers: Sequence[Consumer], partitions: Sequence[TopicPartition], client: Client) -> Assigned:
    """Return what an eager sticky assignment gives to each member."""
    there = frozenset(partitions)
    owned = {c.member_id: sorted(c.owned & there) for c in consumers}
    return _settled(owned, partitions, client)


def cooperative_sticky(consumers: Sequence[Consumer], partitions: Sequence[TopicPartition], client: Client) -> Assigned:
    """Return what each member has when the last of the rebalances is over: what moves is withheld until it was given up."""
    there = frozenset(partitions)
    owned = {c.member_id: sorted(c.owned & there) for c in consumers}
    for _ in range(_ROUNDS):
        wanted = _settled(owned, partitions, client)
        holder = {p: m for m, ps in owned.items() for p in ps}
        kept = {m: [p for p in ps if holder.get(p, m) == m] for m, ps in wanted.items()}
        if all(len(kept[m]) == len(wanted[m]) for m in wanted):
            return wanted
        owned = {m: sorted(ps) for m, ps in kept.items()}
    return wanted


def _settled(owned: Mapping[str, list[TopicPartition]], partitions: Sequence[TopicPartition], client: Client) -> Assigned:
    held = _by_quota(owned, partitions) if client is Client.JAVA else _by_moves(owned, partitions, client)
    return {m: tuple(sorted(ps)) for m, ps in held.items()}


def _by_quota(owned: Mapping[str, list[TopicPartition]], partitions: Sequence[TopicPartition]) -> Held:
    least, with_one_more = divmod(len(partitions), len(owned))
    most = least + (with_one_more > 0)
    held: Held = {m: [] for m in owned}
    below: list[str] = []  # have fewer than everybody gets
    at_least: list[str] = []  # have exactly that, and may get one more
    full = 0
    for member in hashed(owned, string_hash):
        mine = sorted(owned[member], key=lambda p: (p.partition, p.topic))
        if len(mine) < least:
            held[member] = mine
            below.append(member)
        elif len(mine) >= most and full < with_one_more:
            held[member] = mine[:most]
            full += 1
            if full == with_one_more:
                at_least.clear()
        else:
            held[member] = mine[:least]
            if full < with_one_more:
                at_least.append(member)
    kept = {p for ps in held.values() for p in ps}
    _deal(held, [p for p in partitions if p not in kept], sorted(below), sorted(at_least), least)
    return held


def _deal(held: Held, free: Sequence[TopicPartition], below: list[str], at_least: list[str], least: int) -> None:
    """Deal out what is free: in turns to those below the quota, then one each to those at it."""
    turn = 0
    for p in free:
        if not below:
            held[at_least.pop(0)].append(p)
            continue
        turn %= len(below)
        member = below[turn]
        held[member].append(p)
        if len(held[member]) == least:
            below.pop(turn)
            at_least.append(member)
            if turn == len(below):
                turn = 0
        else:
            turn += 1


def _by_moves(owned: Mapping[str, list[TopicPartition]], partitions: Sequence[TopicPartition], client: Client) -> Held:
    held: Held = {m: list(ps) for m, ps in owned.items()}
    offered = _offered(held, 0 if client is Client.LIBRDKAFKA else -1)
    taken = set(offered)
    free = [p for p in partitions if p not in taken]
    if client is Client.LIBRDKAFKA and offered:
        free.reverse()  # it goes through its map of partitions backwards
    sizes = {m: len(ps) for m, ps in held.items()}
    holder = {p: m for m, ps in held.items() for p in ps}
    queue = [(size, m) for m, size in sizes.items()]  # with entries of former sizes, which are passed over
    heapify(queue)
    for p in free:
        _give(p, _emptiest(queue, sizes), holder, sizes, queue)
    for p in (*free, *offered):
        emptiest = _emptiest(queue, sizes)
        if sizes[holder[p]] > sizes[emptiest] + 1:
            sizes[holder[p]] -= 1
            heappush(queue, (sizes[holder[p]], holder[p]))
            _give(p, emptiest, holder, sizes, queue)
    given: Held = {m: [] for m in owned}
    for p, m in holder.items():
        given[m].append(p)
    return given


def _emptiest(queue: list[tuple[int, str]], sizes: Mapping[str, int]) -> str:
    while queue[0][0] != sizes[queue[0][1]]:
        heappop(queue)
    return queue[0][1]


def _give(
    p: TopicPartition, member: str, holder: dict[TopicPartition, str], sizes: dict[str, int], queue: list[tuple[int, str]]
) -> None:
    holder[p] = member
    sizes[member] += 1
    heappush(queue, (sizes[member], member))


def _offered(held: Held, first: int) -> list[TopicPartition]:
    """Return what members hold in the order in which it may be moved: always one of the member that has most left.

    Args:
        held: What each has, ordered.
        first: Which of its partitions is offered first: 0 or -1.
    """
    offered = []
    left = {m: iter(ps if first == 0 else reversed(ps)) for m, ps in held.items()}
    ranks = sorted(held, reverse=True)  # of equal ones the last by name
    for size in range(max(map(len, held.values()), default=0), 0, -1):
        offered += [next(left[m]) for m in ranks if len(held[m]) >= size]
    return offered
