"""Actions: the difference of two states, in order, in batches, with what they copy. Part of *goals*."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.goals.settings import Settings
from autoscaler.goals.snapshot import Snapshot, State


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLeadership:
    """Let another broker that has a replica of the partition lead it; nothing is copied."""

    partition: int  # as in ``Snapshot.partitions``
    source: int  # id of the broker that leads
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReplica:
    """Copy a replica of the partition to a broker that has none, and then delete it where it was."""

    partition: int
    source: int
    target: int
    leads: bool  # the replica leads before and afterwards
    size_bytes: float  # 0 where it is not known


Action = MoveLeadership | MoveReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a plan takes.

    Attributes:
        leaderships: How many leaderships move.
        replicas: How many replicas move.
        copied_bytes: By all of them.
        seconds: With the throttle that was asked about; ``None`` without one.
    """

    leaderships: int
    replicas: int
    copied_bytes: float
    seconds: float | None


def difference(snapshot: Snapshot, before: State, after: State, order: Sequence[int] = ()) -> tuple[Action, ...]:
    """Return what leads from one state to another: leaderships that can move at once, then replicas, then other leaderships.

    Args:
        snapshot: Of which cluster.
        before: Where replicas and leaders are.
        after: Where they shall be.
        order: Positions of partitions in the order in which their replicas shall move; others follow.
    """
    partition, racks = snapshot.partition, snapshot.racks.tolist()
    changed = partition[before.broker != after.broker]
    led = np.flatnonzero(before.broker[before.leader] != after.broker[after.leader])
    touched = dict.fromkeys([*order, *np.union1d(changed, led).tolist()])
    first, at_once, copies, later = snapshot.first, list[Action](), list[Action](), list[Action]()
    for p in touched:
        rows = slice(first[p], first[p + 1])
        was, now = before.broker[rows].tolist(), after.broker[rows].tolist()
        leader_was, leader_now = int(before.broker[before.leader[p]]), int(after.broker[after.leader[p]])
        gone, new = [b for b in was if b not in now], [b for b in now if b not in was]
        moved = _pairs(gone, new, racks, (leader_was, leader_now))
        kept = leader_now in was  # it can lead at once
        copies += [_replica(snapshot, p, a, b, leads=a == leader_was and not kept) for a, b in moved]
        source = leader_was if kept else dict(moved).get(leader_was, leader_was)
        if source != leader_now:
            step = MoveLeadership(
                partition=int(snapshot.partitions[p]),
                source=int(snapshot.brokers[source]),
                target=int(snapshot.brokers[leader_now]),
            )
            (at_once if kept else later).append(step)
    return (*at_once, *copies, *later)


def _pairs(gone: list[int], new: list[int], racks: list[int], leads: tuple[int, int]) -> list[tuple[int, int]]:
    """Return which broker's replica goes to which: one of its rack, so that none is shared in between, and leader to leader."""
    pairs = [leads] if leads[0] in gone and leads[1] in new and racks[leads[0]] == racks[leads[1]] else []
    for a in gone:
        if a not in {x for x, _ in pairs}:
            free = [b for b in new if b not in {y for _, y in pairs} and racks[b] == racks[a]]
            pairs += [(a, free[0])] if free else []
    rest = [[b for b in brokers if b not in {pair[i] for pair in pairs}] for i, brokers in enumerate((gone, new))]
    if leads[0] in rest[0] and leads[1] in rest[1]:
        rest = [[lead, *(b for b in brokers if b != lead)] for lead, brokers in zip(leads, rest, strict=True)]
    return [*pairs, *zip(*rest, strict=True)]


def _replica(snapshot: Snapshot, p: int, a: int, b: int, *, leads: bool) -> MoveReplica:
    size = 0.0 if snapshot.size_bytes is None else float(np.nan_to_num(snapshot.size_bytes[p], nan=0.0))
    return MoveReplica(
        partition=int(snapshot.partitions[p]),
        source=int(snapshot.brokers[a]),
        target=int(snapshot.brokers[b]),
        leads=leads,
        size_bytes=size,
    )


def applied(snapshot: Snapshot, state: State, actions: Sequence[Action]) -> State:
    """Return the state after actions; replicas of a partition are told apart by their brokers.

    Raises:
        ValueError: An action's source is not there, or its target has a replica already or none to lead.
    """
    after, fits = fitting(snapshot, state, actions)
    for n, action in enumerate(actions):
        if n == len(fits) or fits[n] != action:
            raise ValueError(f"{action} does not fit what is there")
    return after


def fitting(snapshot: Snapshot, state: State, actions: Sequence[Action]) -> tuple[State, tuple[Action, ...]]:
    """Return the state after those actions that fit what is there, each after the ones before it, and which these are."""
    broker, leader, fits = state.broker.copy(), state.leader.copy(), list[Action]()
    first, position = snapshot.first, {int(b): i for i, b in enumerate(snapshot.brokers)}
    number = {int(n): p for p, n in enumerate(snapshot.partitions)}
    for action in actions:
        p, a, b = number.get(action.partition), position.get(action.source), position.get(action.target)
        if p is None or a is None or b is None:
            continue
        rows = {int(broker[r]): r for r in range(first[p], first[p + 1])}
        leads = a == broker[leader[p]]
        if isinstance(action, MoveLeadership) and leads and b in rows:
            leader[p] = rows[b]
        elif isinstance(action, MoveReplica) and a in rows and b not in rows:
            broker[rows[a]] = b
        else:
            continue
        fits.append(action)
    return State(broker=broker, leader=leader), tuple(fits)


def target_replicas(snapshot: Snapshot, state: State, partition: int) -> tuple[int, ...]:
    """Return the ids of the brokers that hold a partition in a state, the leader first: what a reassignment asks Kafka for."""
    p = int(np.searchsorted(snapshot.partitions, partition))
    rows = range(*np.searchsorted(snapshot.partition, (p, p + 1)).tolist())  # ``first`` is of all partitions: too long for each
    ordered = sorted(rows, key=lambda r: r != state.leader[p])
    return tuple(int(snapshot.brokers[state.broker[r]]) for r in ordered)


def estimate(actions: Sequence[Action], throttle_bytes_per_s: float | None = None) -> Estimate:
    """Return what actions take; each broker sends, and receives, at most as fast as the throttle."""
    copies = [a for a in actions if isinstance(a, MoveReplica)]
    sent, received = dict[int, float](), dict[int, float]()
    for a in copies:
        sent[a.source] = sent.get(a.source, 0.0) + a.size_bytes
        received[a.target] = received.get(a.target, 0.0) + a.size_bytes
    longest = max([0.0, *sent.values(), *received.values()])
    return Estimate(
        leaderships=len(actions) - len(copies),
        replicas=len(copies),
        copied_bytes=sum(a.size_bytes for a in copies),
        seconds=longest / throttle_bytes_per_s if throttle_bytes_per_s else None,
    )


def batches(snapshot: Snapshot, actions: Sequence[Action], settings: Settings) -> Iterator[tuple[Action, ...]]:
    """Return the actions in batches, in their order: what does not fit into a batch is in a later one.

    A batch has at most so many actions per broker, part of a topic's partitions, and brokers that one copies from. Of one
    partition it has one action, the first that is left.
    """
    topic = dict(zip(snapshot.partitions.tolist(), snapshot.topics.tolist(), strict=True))
    numbers, sizes = np.unique(snapshot.topics, return_counts=True)
    most = {int(t): max(1, int(n * settings.topic_ratio)) for t, n in zip(numbers, sizes, strict=True)}
    waiting = list(actions)
    while waiting:
        batch, waiting = _batch(waiting, topic, most, settings)
        yield batch


def _batch(
    waiting: list[Action], topic: Mapping[int, int], most: Mapping[int, int], settings: Settings
) -> tuple[tuple[Action, ...], list[Action]]:
    """Return what of the waiting actions goes now, and what goes on waiting."""
    now, later = list[Action](), list[Action]()
    brokers, topics, sources, seen = dict[int, int](), dict[int, int](), dict[int, set[int]](), set[int]()
    for action in waiting:
        t, ends = topic[action.partition], (action.source, action.target)
        feeding = sources.setdefault(action.target, set())
        fits = (
            action.partition not in seen
            and topics.get(t, 0) < most[t]
            and all(brokers.get(b, 0) < settings.actions_per_broker for b in ends)
            and (action.source in feeding or len(feeding) < settings.sources_per_target)
        )
        seen.add(action.partition)
        if not fits:
            later.append(action)
            continue
        now.append(action)
        topics[t] = topics.get(t, 0) + 1
        feeding.add(action.source)
        for b in ends:
            brokers[b] = brokers.get(b, 0) + 1
    return tuple(now), later
