"""What another policy would have done with a recorded load: a simulated group that carries decisions out.

The decisions are made by ``core.decide``; simulated is what it decides on. Records arrive as they were measured; consumers
process what they hold, each at the same rate, start after a while, and a partition stands still as it changes hands. Not
simulated: consumers that die or differ, retention, failed reads (a partition that was not measured goes on at its last rate).
Of a gap between two measurements, a minute counts. Pure: no clock, no I/O.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import (
    Decision,
    GroupState,
    LoadSnapshot,
    Moment,
    MovePartition,
    Observation,
    PartitionLoad,
    RateSource,
    RemoveWorkers,
    TopicPartition,
    WorkerPhase,
    WorkerView,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_RECORD_BYTES = 100.0  # of a partition whose records were never counted
_WINDOW_S = 30.0
_GAP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded load.

    Attributes:
        times: When it was measured, seconds since the Unix epoch, ascending: ``float64[measurements]``.
        partitions: In order.
        rates: Bytes/s: ``float64[measurements, partitions]``.
        record_bytes: Of each partition's records, on average: ``float64[partitions]``.
        owner: Consumer that held each partition at the beginning, -1 for none: ``int64[partitions]``.
    """

    times: Floats
    partitions: tuple[TopicPartition, ...]
    rates: Floats
    record_bytes: Floats
    owner: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What holds whatever the policy is.

    Attributes:
        consumer_bytes_per_s: What one consumer processes when it never waits.
        usable_bytes_per_s: What was planned to be put on one, by the recorded policy: moves are counted in these.
        start_s: From asking for a consumer until it is there.
        pause_s: For which a partition stands still as it changes hands.
    """

    consumer_bytes_per_s: float
    usable_bytes_per_s: float
    start_s: float
    pause_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a policy did with a load.

    Attributes:
        hours: That it lasted.
        consumer_hours: Of consumers from when they were asked for until they ended.
        most: Consumers at once, at most.
        scalings: Changes of the number of consumers.
        moves: Partitions that changed hands between living consumers.
        r_score: Sum of the moved rates over what one consumer was planned to get.
        above_s: Seconds in which more arrived for some consumer than it can process.
        worst_behind_s: Age of the oldest unread record, at most.
        mean_behind_s: The same of the partition that is furthest behind, on average over time.
        worst_backlog_bytes: Unread bytes of the group, at most.
    """

    hours: float
    consumer_hours: float
    most: int
    scalings: int
    moves: int
    r_score: float
    above_s: float
    worst_behind_s: float
    mean_behind_s: float
    worst_backlog_bytes: float


@dataclass(slots=True)
class _Tally:
    """Adds up what happens."""

    seconds: float = 0.0
    consumer_s: float = 0.0
    most: int = 0
    scalings: int = 0
    moves: int = 0
    r_score: float = 0.0
    above_s: float = 0.0
    worst_behind_s: float = 0.0
    behind_sum: float = 0.0
    worst_backlog: float = 0.0

    def outcome(self) -> Outcome:
        return Outcome(
            hours=self.seconds / 3600,
            consumer_hours=self.consumer_s / 3600,
            most=self.most,
            scalings=self.scalings,
            moves=self.moves,
            r_score=self.r_score,
            above_s=self.above_s,
            worst_behind_s=self.worst_behind_s,
            mean_behind_s=self.behind_sum / self.seconds if self.seconds else 0.0,
            worst_backlog_bytes=self.worst_backlog,
        )


@dataclass(slots=True, kw_only=True)
class _Group:
    """The simulated group: who runs, who holds what, and what is unread. Partitions and consumers are numbers."""

    policy: Policy
    load: Recorded
    world: World
    owner: Ints  # by plan; -1: none
    ready_at: dict[int, float]  # of each consumer that was asked for
    requested: frozenset[int] | None
    epoch: int
    plan_at: float = 0.0
    history: History = field(default_factory=History)
    tally: _Tally = field(default_factory=_Tally)
    arrived: Floats = field(init=False)
    read: Floats = field(init=False)
    taken_at: Floats = field(init=False)  # since when each partition's consumer holds it
    records: dict[int, float] = field(default_factory=dict)
    busy_s: dict[int, float] = field(default_factory=dict)
    _lives: dict[int, int] = field(default_factory=dict)
    _held: dict[int, tuple[bytes, frozenset[TopicPartition]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.load.partitions)
        self.arrived, self.read = np.zeros(count), np.zeros(count)
        self.taken_at = np.full(count, -math.inf)

    def pass_time(self, at: float, rates: Floats, seconds: float) -> None:
        """Let records arrive and be processed from ``at`` on."""
        self.arrived += rates * seconds
        free = np.clip((at + seconds - np.maximum(self.taken_at, at)) / seconds, 0.0, 1.0)
        there = np.array([self.ready_at.get(int(o), math.inf) <= at for o in self.owner])
        wanted = np.where(there, (self.arrived - self.read) * free, 0.0)
        slots = np.maximum(self.owner, 0)
        width = int(slots.max(initial=0)) + 1
        total = np.bincount(slots, wanted, width)
        can = self.world.consumer_bytes_per_s * seconds
        share = np.minimum(1.0, can / np.maximum(total, 1e-9))
        done = wanted * share[slots]
        self.read += done
        by_bytes = np.bincount(slots, done, width)
        by_records = np.bincount(slots, done / self.load.record_bytes, width)
        for slot in self.ready_at:
            if slot < width:
                self.records[slot] = self.records.get(slot, 0.0) + float(by_records[slot])
                self.busy_s[slot] = self.busy_s.get(slot, 0.0) + float(by_bytes[slot]) / self.world.consumer_bytes_per_s
        self._count(rates, seconds)

    def _count(self, rates: Floats, seconds: float) -> None:
        tally, held = self.tally, self.owner >= 0
        arriving = np.bincount(self.owner[held], rates[held]) if held.any() else np.zeros(1)
        behind = float(_behind_s(self.arrived - self.read, rates).max(initial=0.0))
        tally.seconds += seconds
        tally.consumer_s += seconds * len(self.ready_at)
        tally.most = max(tally.most, len(self.ready_at))
        tally.above_s += seconds * bool((arriving > self.world.consumer_bytes_per_s).any())
        tally.worst_behind_s = max(tally.worst_behind_s, behind)
        tally.behind_sum += seconds * behind
        tally.worst_backlog = max(tally.worst_backlog, float((self.arrived - self.read).sum()))

    def decide(self, at: float, rates: Floats) -> None:
        """Decide on what is measured at a time, and carry it out."""
        seen = Observation(group=self.policy.group, snapshot=self._measured(at, rates), state=self._state(at))
        decision, self.history = decide(seen, self.history, self.policy, Moment(now=at, wall=at))
        self._carry_out(decision, at, rates)

    def _measured(self, at: float, rates: Floats) -> LoadSnapshot:
        sizes = self.load.record_bytes
        ends, commits = (self.arrived / sizes).astype(np.int64), (self.read / sizes).astype(np.int64)
        unread = self.arrived - self.read
        columns = zip(
            self.load.partitions, rates.tolist(), (rates / sizes).tolist(), ends.tolist(), commits.tolist(), unread.tolist(),
            _behind_s(unread, rates).tolist(), strict=True,
        )  # fmt: skip
        loads = tuple(
            PartitionLoad(
                partition=p, topic_id="", bytes_per_s=rate, records_per_s=records, lag_records=end - done, lag_bytes=left,
                lag_s=behind, committed=done, log_start=0, log_end=end, known=True, age_s=0.0, window_s=_WINDOW_S,
                rate_source=RateSource.LOG_DIRS,
            )
            for p, rate, records, end, done, left, behind in columns
        )  # fmt: skip
        return LoadSnapshot(group=self.policy.group, sample_ts=at, loads=loads, known=True)

    def _state(self, at: float) -> GroupState:
        live = [s for s in sorted(self.ready_at) if self.ready_at[s] <= at]
        owners = self.owner.tolist()
        alive = set(live)
        return GroupState(
            epoch=self.epoch,
            workers=tuple(self._worker(s) for s in live),
            owner={p: o for p, o in zip(self.load.partitions, owners, strict=True) if o in alive},
            orphans=frozenset(),
            pending=frozenset(self.load.partitions[i] for i in np.flatnonzero(self.taken_at > at).tolist()),
            requested=self.requested,
            plan_at=self.plan_at,
        )

    def _worker(self, slot: int) -> WorkerView:
        mine = np.flatnonzero(self.owner == slot)
        key, owned = self._held.get(slot, (b"-", frozenset()))
        if key != (now := mine.tobytes()):
            owned = frozenset(self.load.partitions[i] for i in mine.tolist())
            self._held[slot] = (now, owned)
        return WorkerView(
            name=f"{self.policy.group}-{slot}",
            uuid=f"{slot}.{self._lives.get(slot, 0)}",
            slot=slot,
            phase=WorkerPhase.ACTIVE,
            instance=None,
            owned=owned,
            records=int(self.records.get(slot, 0.0)),
            busy_s=self.busy_s.get(slot, 0.0),
        )

    def _carry_out(self, decision: Decision, at: float, rates: Floats) -> None:
        if not decision.actions:
            return
        for slot in decision.requested - self.ready_at.keys():
            self.ready_at[slot] = at + self.world.start_s
            self._lives[slot] = self._lives.get(slot, 0) + 1
            self.records[slot] = self.busy_s[slot] = 0.0
        moved = sum(isinstance(a, MovePartition) and a.source is not None for a in decision.actions)
        self.tally.moves += moved
        self.tally.scalings += self.requested is not None and decision.requested != self.requested
        target = np.array([decision.target.get(p, -1) for p in self.load.partitions], np.int64)
        target = np.where(np.isin(target, [s for s, ready in self.ready_at.items() if ready <= at]), target, self.owner)
        changed = (target != self.owner) & (self.owner >= 0)
        self.tally.r_score += float(rates[changed].sum()) / self.world.usable_bytes_per_s
        self.taken_at[target != self.owner] = at + self.world.pause_s
        self.owner = target
        for action in decision.actions:
            if isinstance(action, RemoveWorkers):
                for slot in action.slots:
                    self.ready_at.pop(slot, None)
        for slot in self.ready_at.keys() - decision.requested:  # was asked for, and taken back before it was there
            if self.ready_at[slot] > at:
                del self.ready_at[slot]
        self.requested, self.epoch, self.plan_at = decision.requested, self.epoch + 1, at


def what_if(load: Recorded, policy: Policy, world: World) -> Outcome:
    """Return what a policy would have done with a recorded load.

    The group begins with the consumers and the placement that it had. It is taken for a managed one that acts, whatever it is.

    Args:
        load: What was measured; between two measurements the rates are those of the earlier one.
        policy: Whose decisions are made, one for each measurement.
        world: What is the same for every policy.
    """
    slots = sorted({int(o) for o in load.owner} - {-1})
    group = _Group(
        policy=policy.model_copy(update={"mode": "act", "assignment": "managed"}),
        load=load,
        world=world,
        owner=load.owner.copy(),
        ready_at=dict.fromkeys(slots, -math.inf),
        requested=frozenset(slots) or None,
        epoch=int(bool(slots)),
        plan_at=float(load.times[0]),
    )
    for i, at in enumerate(load.times[:-1].tolist()):
        group.decide(at, load.rates[i])
        group.pass_time(at, load.rates[i], min(float(load.times[i + 1]) - at, _GAP_S))
    return group.tally.outcome()


def as_it_was(
    load: Recorded, consumers: Sequence[int], held: Sequence[Ints], behind: Sequence[tuple[float, float]], world: World
) -> Outcome:
    """Return the same figures of what was recorded; what moved is told by who held what at one measurement and the next.

    Args:
        load: What was measured.
        consumers: How many were asked for, at each measurement.
        held: Who held each partition then, by number, -1 for none.
        behind: Age of the oldest unread record and unread bytes then.
        world: What one consumer can do.
    """
    tally = _Tally()
    for i, seconds in enumerate(np.minimum(np.diff(load.times), _GAP_S).tolist()):
        there, rates, (age_s, unread) = held[i] >= 0, load.rates[i], behind[i]
        arriving = np.bincount(held[i][there], rates[there], 1)
        tally.seconds += seconds
        tally.consumer_s += seconds * consumers[i]
        tally.most = max(tally.most, consumers[i])
        tally.above_s += seconds * bool((arriving > world.consumer_bytes_per_s).any())
        tally.worst_behind_s = max(tally.worst_behind_s, age_s)
        tally.behind_sum += seconds * age_s
        tally.worst_backlog = max(tally.worst_backlog, unread)
        moved = there & (held[i + 1] >= 0) & (held[i + 1] != held[i])
        tally.moves += int(moved.sum())
        tally.r_score += float(rates[moved].sum()) / world.usable_bytes_per_s
        tally.scalings += consumers[i + 1] != consumers[i]
    return tally.outcome()


def load_of(
    times: Sequence[float], measured: Sequence[Sequence[PartitionLoad]], owners: Mapping[TopicPartition, str]
) -> Recorded:
    """Return recorded measurements as arrays; a rate that was not measured is the last that was, 0 before the first.

    Args:
        times: When each was made, ascending.
        measured: What it found.
        owners: Who held what at the beginning, by any name.
    """
    partitions = tuple(sorted({x.partition for loads in measured for x in loads}))
    place = {p: i for i, p in enumerate(partitions)}
    rates, records = np.zeros((len(times), len(partitions))), np.zeros((len(times), len(partitions)))
    for i, loads in enumerate(measured):
        if i:
            rates[i], records[i] = rates[i - 1], records[i - 1]
        for x in loads:
            if x.bytes_per_s is not None and x.records_per_s is not None:
                rates[i, place[x.partition]], records[i, place[x.partition]] = x.bytes_per_s, x.records_per_s
    total, counted = rates.sum(axis=0), records.sum(axis=0)
    sizes = np.where((counted > 0) & (total > 0), total / np.where(counted > 0, counted, 1.0), _RECORD_BYTES)
    number = {name: i for i, name in enumerate(sorted(set(owners.values())))}
    held = np.array([number[owners[p]] if p in owners else -1 for p in partitions], np.int64)
    return Recorded(times=np.array(times, float), partitions=partitions, rates=rates, record_bytes=sizes, owner=held)


def _behind_s(unread: Floats, rates: Floats) -> Floats:
    """Return how old the oldest unread record is, as if all had arrived at the present rate; an hour where none arrives."""
    return np.where(unread < 1.0, 0.0, np.minimum(unread / np.maximum(rates, 1e-9), 3600.0))
