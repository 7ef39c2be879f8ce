"""A simulated group: a load arrives, ``core.decide`` decides on what is measured of it, and what it decides is carried out.

Consumers process what they hold, start after a while, and a partition stands still as it changes hands; with a classic
rebalance all of them do. Not simulated: consumers that die, retention, failed reads. Of a gap between two measurements, a minute
counts. Pure: no clock, no I/O.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection
from typing import Protocol

import numpy as np

from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import (
    Decision,
    GroupState,
    LoadSnapshot,
    Moment,
    Observation,
    PartitionLoad,
    RateSource,
    RemoveWorkers,
    TopicPartition,
    WorkerPhase,
    WorkerView,
)
from autoscaler.simulation.outcome import Outcome, Tally
from autoscaler.simulation.queues import AGES, Floats, Ints, Queues, arrive_at_once, empty_queues, pass_step, waits_late
from autoscaler.simulation.world import Load, World, steps_s

_WINDOW_S = 30.0


def behind_s(unread: Floats, rates: Floats) -> Floats:
    """Return how old the oldest unread record is, as if all had arrived at the present rate; an hour where none arrives."""
    return np.where(unread < 1.0, 0.0, np.minimum(unread / np.maximum(rates, 1e-9), 3600.0))


class Sizer(Protocol):
    """Decides how many consumers there shall be, and nothing else."""

    def __call__(self, at: float, *, rates: Floats, lags: Floats, consumers: int) -> int:
        """Return the number.

        Args:
            at: When.
            rates: Bytes/s that are measured of each partition.
            lags: Bytes of each that are not committed.
            consumers: How many there are, or were asked for.
        """


def simulate(load: Load, policy: Policy, world: World) -> Outcome:
    """Return what a policy does with a load.

    The group begins with the consumers and the placement that it has. It is taken for a managed one that acts, whatever it is.

    Args:
        load: What arrives.
        policy: Whose decisions are made.
        world: What is the same for every policy.
    """
    return _run(_Managed(load, world, policy))


def simulate_native(load: Load, sizer: Sizer, world: World) -> Outcome:
    """Return what becomes of a group whose consumers are counted by a sizer, and dealt partitions to as Kafka's range does it.

    Args:
        load: What arrives, on partitions of one topic.
        sizer: How many consumers are asked for.
        world: What is the same for every sizer.
    """
    return _run(_Native(load, world, sizer))


def _run(group: "_Group") -> Outcome:
    load, world = group.load, group.world
    due = float(load.times[0])
    for at, rates, seconds in zip(load.times.tolist(), load.rates, steps_s(load.times), strict=False):
        if world.at_once:
            arrive_at_once(group.queues, rates * seconds, at)
        now, end = at, at + seconds
        while now < end:
            if due <= now:
                group.decide(now, rates)
                due = now + world.decide_s if world.decide_s else end
            until = min(end, due)
            group.pass_time(now, rates, until - now)
            now = until
    return group.tally.outcome(group.in_time())


class _Group(ABC):
    """The simulated group: who runs, who holds what, and what is unread. Partitions and consumers are numbers."""

    def __init__(self, load: Load, world: World, seen_s: float = 0.0) -> None:
        begin, slots = float(load.times[0]), sorted({int(o) for o in load.owner} - {-1})
        self.load, self.world = load, world
        self.owner = load.owner.astype(np.int64)  # by plan; -1: none
        self.taken_at = np.full(len(load.partitions), -math.inf)  # since when each partition's consumer holds it
        self.ready_at: dict[int, float] = dict.fromkeys(slots, -math.inf)  # of each consumer that was asked for
        self.requested = frozenset(slots) or None
        self.now, self.tally = begin, Tally()
        points = 8 + 3 * math.ceil(max(world.within_s or 0.0, seen_s) / world.tick_s)
        self.queues: Queues = empty_queues(len(load.partitions), begin, points)
        self.committed, count = self.queues.read.copy(), len(load.partitions)
        self.commit_at = begin + world.commit_s * np.arange(1, count + 1) / count  # of each partition next, one after the other
        self.measured: deque[tuple[float, Floats]] = deque([(begin, self.queues.arrived.copy())])

    @abstractmethod
    def decide(self, at: float, rates: Floats) -> None:
        """Decide on what is measured at a time, and carry it out."""

    def pass_time(self, at: float, rates: Floats, seconds: float) -> Floats:
        """Let records arrive and be processed from ``at`` on; return the bytes that were read of each partition."""
        world, queues, before = self.world, self.queues, self.queues.read.copy()
        ticks = max(1, math.ceil(seconds / world.tick_s - 1e-9))
        ready = np.full(int(self.owner.max(initial=0)) + 1, math.inf)
        for slot, there in self.ready_at.items():
            if slot < len(ready):
                ready[slot] = there
        tick_s = seconds / ticks
        evenly = np.zeros_like(rates) if world.at_once else rates
        for i in range(ticks):
            begin = at + i * tick_s
            able = np.where(ready <= begin, world.consumer_bytes_per_s, 0.0)
            pass_step(queues, evenly, self.owner, self.taken_at, able, begin, tick_s, world.within_s or 0.0)
            due = begin + tick_s >= self.commit_at
            self.committed[due] = queues.read[due]
            self.commit_at[due] += world.commit_s
        self.now = at + seconds
        self._count(rates, seconds)
        return queues.read - before

    def _count(self, rates: Floats, seconds: float) -> None:
        held, unread = self.owner >= 0, self.queues.arrived - self.queues.read
        arriving = np.bincount(self.owner[held], rates[held]) if held.any() else np.zeros(1)
        self.tally.add(
            seconds,
            consumers=len(self.ready_at),
            above=bool((arriving > self.world.consumer_bytes_per_s).any()),
            behind_s=float(behind_s(unread, rates).max(initial=0.0)),
            backlog=float(unread.sum()),
        )

    def in_time(self) -> float | None:
        """Return the share of the bytes that were not late; those that wait and are late already count too."""
        within_s = self.world.within_s
        if within_s is None:
            return None
        waiting = waits_late(self.queues, self.now, within_s)
        judged = float(self.queues.read.sum()) + waiting
        return 1 - (float(self.queues.late[0]) + waiting) / judged if judged else None

    def _known(self, at: float, rates: Floats) -> Floats:
        """Return the rates that are measured."""
        if not self.world.window_s:
            return rates
        self.measured.append((at, self.queues.arrived.copy()))
        while len(self.measured) > 2 and self.measured[1][0] <= at - self.world.window_s:  # noqa: PLR2004  a rate needs two
            self.measured.popleft()
        first, had = self.measured[0]
        return (self.queues.arrived - had) / max(at - first, 1e-9)

    def change(self, at: float, rates: Floats, *, requested: frozenset[int], target: Ints, gone: Collection[int]) -> None:
        """Ask for consumers, let partitions change hands, and end consumers.

        Args:
            at: When.
            rates: What is measured then, by which moves are counted.
            requested: Who shall be there.
            target: Who shall hold each partition; one that is not there yet gets none, and what it shall have stays where it is.
            gone: Who ends.
        """
        for slot in requested - self.ready_at.keys():
            self.ready_at[slot] = at + self.world.start_s
        self.tally.scalings += self.requested is not None and requested != self.requested
        target = np.where(np.isin(target, [s for s, ready in self.ready_at.items() if ready <= at]), target, self.owner)
        changed = target != self.owner
        moved = changed & (self.owner >= 0)
        self.tally.moves += int(moved.sum())
        self.tally.r_score += float(rates[moved].sum()) / self.world.usable_bytes_per_s
        self.taken_at[changed | (self.world.stops_all and bool(changed.any()))] = at + self.world.pause_s
        self.owner, self.requested = target, requested
        for slot in {*gone, *(s for s in self.ready_at.keys() - requested if self.ready_at[s] > at)}:  # or not there yet
            self.ready_at.pop(slot, None)


class _Managed(_Group):
    """One whose partitions are placed by ``core.decide``."""

    def __init__(self, load: Load, world: World, policy: Policy) -> None:
        super().__init__(load, world, policy.promise_within_s or 0.0)  # ages above that need not be told apart
        self.policy = policy.model_copy(update={"mode": "act", "assignment": "managed"})
        self.epoch, self.plan_at, self.history = int(bool(self.ready_at)), self.now, History()
        self._record_bytes = float(load.record_bytes.mean())
        self._processed: dict[int, tuple[float, float]] = {}  # of each consumer: records, and seconds that it was busy
        self._lives: dict[int, int] = {}
        self._held: dict[int, tuple[bytes, frozenset[TopicPartition]]] = {}

    def pass_time(self, at: float, rates: Floats, seconds: float) -> Floats:
        """Let consumers say what they have processed, too."""
        more = int(self.owner.max(initial=0)) + 1 - len(self.queues.ages)
        if self.policy.promise_within_s is not None and more > 0:
            self.queues = self.queues._replace(ages=np.vstack([self.queues.ages, np.zeros((more, AGES))]))
        done = super().pass_time(at, rates, seconds)
        slots = np.maximum(self.owner, 0)
        by_bytes, by_records = np.bincount(slots, done), np.bincount(slots, done / self.load.record_bytes)
        for slot in self.ready_at:
            if slot < len(by_bytes):
                records, busy_s = self._processed.get(slot, (0.0, 0.0))
                busy_s += float(by_bytes[slot]) / self.world.consumer_bytes_per_s
                self._processed[slot] = records + float(by_records[slot]), busy_s
        return done

    def decide(self, at: float, rates: Floats) -> None:
        """Decide on what is measured at a time, and carry it out."""
        known = self._known(at, rates)
        seen = Observation(group=self.policy.group, snapshot=self._measured(at, known), state=self._state(at))
        decision, self.history = decide(seen, self.history, self.policy, Moment(now=at, wall=at))
        self._carry_out(decision, at, known)

    def _measured(self, at: float, rates: Floats) -> LoadSnapshot:
        sizes = self.load.record_bytes
        ends, commits = (self.queues.arrived / sizes).astype(np.int64), (self.committed / sizes).astype(np.int64)
        unread = self.queues.arrived - self.committed
        columns = zip(
            self.load.partitions, rates.tolist(), (rates / sizes).tolist(), ends.tolist(), commits.tolist(), unread.tolist(),
            behind_s(unread, rates).tolist(), strict=True,
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
        records, busy_s = self._processed.get(slot, (0.0, 0.0))
        return WorkerView(
            name=f"{self.policy.group}-{slot}",
            uuid=f"{slot}.{self._lives.get(slot, 0)}",
            slot=slot,
            phase=WorkerPhase.ACTIVE,
            instance=None,
            owned=owned,
            records=int(records),
            busy_s=busy_s,
            ages=self._told_ages(slot),
        )

    def _told_ages(self, slot: int) -> tuple[tuple[int, int], ...]:
        """Return the whole records that a consumer has read since the decision before, by age; the rest is for the next."""
        if slot >= len(self.queues.ages):
            return ()
        read = self.queues.ages[slot]
        whole = (read / self._record_bytes).astype(np.int64)
        read -= whole * self._record_bytes
        return tuple((i, int(whole[i])) for i in np.flatnonzero(whole).tolist())

    def _carry_out(self, decision: Decision, at: float, rates: Floats) -> None:
        if not decision.actions:
            return
        for slot in decision.requested - self.ready_at.keys():
            self._lives[slot] = self._lives.get(slot, 0) + 1
            self._processed.pop(slot, None)
            self.queues.ages[slot : slot + 1] = 0.0
        target = np.array([decision.target.get(p, -1) for p in self.load.partitions], np.int64)
        gone = [slot for action in decision.actions if isinstance(action, RemoveWorkers) for slot in action.slots]
        self.change(at, rates, requested=decision.requested, target=target, gone=gone)
        self.epoch, self.plan_at = self.epoch + 1, at


class _Native(_Group):
    """One of which only the number of consumers is decided: a rebalance follows whenever one is there or gone."""

    def __init__(self, load: Load, world: World, sizer: Sizer) -> None:
        super().__init__(load, world)
        self.sizer = sizer

    def decide(self, at: float, rates: Floats) -> None:
        """Ask for the first so many consumers, and deal the partitions out to those of them that are there."""
        known = self._known(at, rates)
        asked = self.sizer(at, rates=known, lags=self.queues.arrived - self.committed, consumers=len(self.ready_at))
        requested = frozenset(range(max(1, min(asked, len(self.load.partitions)))))
        there = sorted(s for s, ready in self.ready_at.items() if ready <= at and s in requested)
        target = np.repeat(there, _ranges(len(self.owner), len(there))) if there else self.owner
        self.change(at, known, requested=requested, target=target, gone=self.ready_at.keys() - requested)


def _ranges(partitions: int, consumers: int) -> Ints:
    """Return how many partitions each consumer gets: the first ones one more where they do not go into each other."""
    each, longer = divmod(partitions, consumers)
    return each + (np.arange(consumers) < longer).astype(np.int64)
