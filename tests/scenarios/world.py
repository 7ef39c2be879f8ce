"""A tiny world that carries decisions out: workers that take time to start, partitions that take a cycle to change hands.

It stands for the controller, the control log, the workers and the platform, as far as a decision can see them, and checks
after every cycle what must never happen.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import (
    Decision,
    GroupState,
    LoadSnapshot,
    Moment,
    MovePartition,
    Observation,
    OutOfRange,
    Parked,
    ParkPartition,
    PartitionLoad,
    Reason,
    RemoveWorkers,
    ResetOffset,
    Retention,
    TopicPartition,
    WorkerPhase,
    WorkerView,
)
from tests.builders import T0, load

PARK_AFTER = 3
Traffic = Callable[[float], Mapping[TopicPartition, float]]  # seconds since the start -> bytes/s


@lru_cache(maxsize=4096)
def ordinary(partition: TopicPartition, rate: float) -> PartitionLoad:
    """Return the load of a partition that its consumer keeps up with."""
    return load(partition, rate)


@dataclass(slots=True, kw_only=True)
class Process:
    """One incarnation of a worker."""

    ready_at: float
    life: int
    records: float = 0.0
    busy_s: float = 0.0
    owned: set[TopicPartition] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class World:
    """One managed group; time passes in ``step``.

    Attributes:
        start_s: From a request to a worker that is there. Slots in ``never`` do not start at all.
        away: Whether no broker answers.
        dark: Partitions whose broker does not answer.
        stuck: Partitions whose offset does not advance whoever holds them.
        deadly: Partition that kills whoever holds it, without its committed offset advancing.
        handover_s: From a plan to the new owner holding the partition.
        retention: What is known of how long topics keep their records.
        downstream: Records/s that what consumers write to takes in all; ``None``: the group is behind by ``lag_s``.
        each: Bytes/s that one consumer processes when nothing keeps it; ``None``: what the policy says.
        set_by: How far the wall clock has been set by then.
    """

    policy: Policy
    traffic: Traffic
    start_s: float = 2.0
    handover_s: float = 1.0
    never: set[int] = field(default_factory=set)
    away: Callable[[float], bool] = field(default=lambda _: False)
    dark: Callable[[float], Container[TopicPartition]] = field(default=lambda _: ())
    lag_s: Callable[[float], float] = field(default=lambda _: 0.0)
    stuck: Callable[[float], Container[TopicPartition]] = field(default=lambda _: ())
    deadly: Callable[[float], TopicPartition | None] = field(default=lambda _: None)
    retention: Callable[[float], Mapping[str, Retention]] = field(default=lambda _: {})
    downstream: Callable[[float], float] | None = None
    each: Callable[[float], float] | None = None
    set_by: Callable[[float], float] = field(default=lambda _: 0.0)
    t: float = 0.0
    epoch: int = 0
    plan_at: float | None = None
    requested: frozenset[int] | None = None
    plan: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)  # slot and life that it was granted to
    workers: dict[int, Process] = field(default_factory=dict)
    history: History = field(default_factory=History)
    decisions: list[Decision] = field(default_factory=list)
    losses: dict[TopicPartition, int] = field(default_factory=dict)
    parked: set[TopicPartition] = field(default_factory=set)
    out_of_range: dict[TopicPartition, OutOfRange] = field(default_factory=dict)
    arrived: float = 0.0
    committed: float = 0.0
    _lives: int = 0
    _moving: dict[TopicPartition, float] = field(default_factory=dict)
    _seen: dict[TopicPartition, tuple[float, float]] = field(default_factory=dict)

    def run(self, seconds: float) -> list[Decision]:
        """Let seconds pass, a decision each, and return these decisions."""
        before = len(self.decisions)
        for _ in range(int(seconds)):
            self.step()
        return self.decisions[before:]

    def step(self) -> Decision:
        """Measure, decide, carry out, and let a second pass."""
        self._let_happen()
        self._consume()
        now = T0 + self.t + self.set_by(self.t)
        moment = Moment(now=T0 + self.t, wall=now)
        decision, self.history = decide(self._observe(now), self.history, self.policy, moment)
        self._check(decision)
        self._carry_out(decision, now)
        self.decisions.append(decision)
        self.t += 1.0
        return decision

    def _observe(self, now: float) -> Observation:
        kept = self.retention(self.t)
        return Observation(group="g", snapshot=self._measure(now), state=self._state(), members=None, retention=kept)

    def kill(self, slot: int) -> None:
        """End a worker without a word; the platform starts another."""
        del self.workers[slot]

    def release(self, partition: TopicPartition) -> None:
        """Do as an operator does with a parked partition."""
        self.parked.discard(partition)
        self.losses.pop(partition, None)

    def restart_controller(self) -> None:
        """Forget everything that only the controller knew."""
        self.history = History.from_plan(self.plan_at)

    @property
    def live(self) -> frozenset[int]:
        """Return the slots whose worker is there."""
        return frozenset(s for s, w in self.workers.items() if w.ready_at <= self.t)

    @property
    def owner(self) -> dict[TopicPartition, int]:
        """Return the planned owner of every partition whose owner lives."""
        lives = {s: self.workers[s].life for s in self.live}
        return {p: s for p, (s, life) in self.plan.items() if lives.get(s) == life}

    def loads(self) -> dict[int, float]:
        """Return bytes/s on every live worker, as the plan has it."""
        rates, owner = self.traffic(self.t), self.owner
        return {s: sum(rates.get(p, 0.0) for p, o in owner.items() if o == s) for s in sorted(self.live)}

    def _consume(self) -> None:
        """Let a second's records arrive, and those be processed that consumers and what they write to can take."""
        if self.downstream is None:
            return
        self.arrived += self._records_per_s()
        working = [self.workers[s] for s in sorted(set(self.owner.values()))]
        each = (self.policy.able_bytes_per_s if self.each is None else self.each(self.t)) / 10
        done = min(self.arrived - self.committed, each * len(working), self.downstream(self.t))
        self.committed += done
        for worker in working:  # who waits for what it writes to is busy
            worker.records += done / len(working)
            worker.busy_s += done / len(working) / min(each, self.downstream(self.t) / len(working))

    def _records_per_s(self) -> float:
        return sum(self.traffic(self.t).values()) / 10

    def _fresh(self, partition: TopicPartition, rate: float) -> PartitionLoad:
        if self.downstream is None:
            found = {"lag_s": self.lag_s(self.t)} | self._behind(partition)
            return ordinary(partition, rate) if found == {"lag_s": 0.0} else load(partition, rate, **found)
        behind = (self.arrived - self.committed) / self._records_per_s()
        done = int((self.committed + partition.partition) / len(self.traffic(self.t)))  # all together are what was committed
        return load(partition, rate, lag_s=behind, committed=done)

    def _measure(self, now: float) -> LoadSnapshot:
        loads: list[PartitionLoad] = []
        for p, rate in sorted(self.traffic(self.t).items()):
            if not self.away(self.t) and p not in self.dark(self.t):
                self._seen[p] = (rate, self.t)
                loads.append(self._fresh(p, rate))
            elif p in self._seen:
                value, at = self._seen[p]
                loads.append(load(p, value, known=False, age_s=self.t - at, error="broker 0 does not answer"))
            else:
                loads.append(load(p, None, error="broker 0 does not answer"))
        return LoadSnapshot(group="g", sample_ts=now, loads=tuple(loads), known=all(x.known for x in loads))

    def _behind(self, p: TopicPartition) -> dict[str, object]:
        """Return what is measured of a partition that has been stuck for a while, or is not."""
        if p not in self.stuck(self.t):
            return {}
        since = self.t - next(t for t in range(int(self.t) + 1) if p in self.stuck(t))
        unread = 1 + int(10 * since)
        return {"log_end": 100 + unread, "lag_records": unread, "lag_s": since}

    def _state(self) -> GroupState:
        owner = self.owner
        return GroupState(
            epoch=self.epoch,
            workers=tuple(
                WorkerView(
                    name=f"g-{s}",
                    uuid=f"{s}.{w.life}",
                    slot=s,
                    phase=WorkerPhase.ACTIVE,
                    instance=str(w.life),
                    owned=frozenset(w.owned),
                    records=int(w.records),
                    busy_s=w.busy_s,
                )
                for s, w in sorted(self.workers.items())
                if w.ready_at <= self.t
            ),
            owner=owner,
            orphans=frozenset(self.plan) - frozenset(owner),
            pending=frozenset(p for p, s in owner.items() if p not in self.workers[s].owned),
            requested=self.requested,
            plan_at=self.plan_at,
            out_of_range=dict(self.out_of_range),
            parked={
                p: Parked(owners=n, offset=0, planned=p in self.parked)
                for p, n in self.losses.items()
                if p in self.parked or (n >= PARK_AFTER and p not in owner)
            },
        )

    def _let_happen(self) -> None:
        for slot in sorted(self.requested or ()):
            if slot not in self.workers and slot not in self.never:
                self._lives += 1
                self.workers[slot] = Process(ready_at=self.t + self.start_s, life=self._lives)
        for p, slot in self.owner.items():
            holding = [w for s, w in self.workers.items() if p in w.owned and s != slot]
            if holding and self._moving.get(p, self.t) <= self.t:
                for w in holding:
                    w.owned.discard(p)
            elif not holding and p not in self.workers[slot].owned and self._moving.get(p, self.t) <= self.t:
                self.workers[slot].owned.add(p)
                self._moving.pop(p, None)
        deadly = self.deadly(self.t)
        for slot in [s for s, w in self.workers.items() if deadly in w.owned]:
            del self.workers[slot]
            if deadly is not None:
                self.losses[deadly] = self.losses.get(deadly, 0) + 1

    def _carry_out(self, decision: Decision, now: float) -> None:
        self.out_of_range = {p: x for p, x in self.out_of_range.items() if x.start is None}  # who has read the plan goes on
        resets = {a.partition: OutOfRange(offset=a.offset, start=a.start) for a in decision.actions if isinstance(a, ResetOffset)}
        self.out_of_range |= resets
        parks = {a.partition for a in decision.actions if isinstance(a, ParkPartition)}
        self.parked |= parks
        changes = bool(decision.actions) and (decision.requested != self.requested or dict(decision.target) != self.owner)
        if changes or parks or resets:
            self.epoch, self.plan_at, self.requested = self.epoch + 1, now, decision.requested
            granted = {p: (s, self.workers[s].life) for p, s in decision.target.items() if s in self.live}
            for p, grant in granted.items():
                if self.plan.get(p) != grant:
                    self._moving[p] = self.t + self.handover_s
            kept = {p: g for p, g in self.plan.items() if p in decision.target and p not in granted}
            self.plan = {**kept, **granted}
        for action in decision.actions:
            if isinstance(action, RemoveWorkers):
                for slot in action.slots:
                    assert not self.workers[slot].owned, f"worker {slot} ended with {self.workers[slot].owned}"
                    del self.workers[slot]

    def _check(self, decision: Decision) -> None:
        owner, kinds = self.owner, [type(a).__name__ for a in decision.actions]
        assert kinds == sorted(
            kinds, key=["ParkPartition", "ResetOffset", "AddWorkers", "MovePartition", "RemoveWorkers"].index
        ), kinds
        assert len(decision.requested) <= max(self.policy.max_consumers, len(self.requested or ())), decision
        assert set(decision.target.values()) <= decision.requested, decision
        if owner and self.plan.keys() == owner.keys():
            assert owner.keys() <= decision.target.keys(), decision
        for action in decision.actions:
            if isinstance(action, MovePartition):
                assert action.target in self.live, f"{action} goes to a worker that is not there"
                assert action.source == owner.get(action.partition), action


def scalings(decisions: list[Decision]) -> list[int]:
    """Return the number of consumers after each change of it."""
    counts = [d.consumers for d in decisions]
    return [b for a, b in pairwise(counts) if a != b]


def moves(decisions: list[Decision]) -> list[MovePartition]:
    """Return every move from one live consumer to another."""
    return [a for d in decisions for a in d.actions if isinstance(a, MovePartition) and a.source is not None]


def reasons(decisions: list[Decision]) -> list[Reason]:
    """Return the reasons in order, repetitions left out."""
    found = [d.reason for d in decisions]
    return [r for i, r in enumerate(found) if i == 0 or found[i - 1] != r]


def settled(policy: Policy, rates: Mapping[TopicPartition, float], **changes: object) -> World:
    """Return a world whose group has been at rest with this traffic for a while."""
    world = World(policy=policy, traffic=lambda _: rates, **changes)  # type: ignore[arg-type]
    world.run(20)
    return replace(world, decisions=[])
