"""Fakes of every port, for tests of whatever stands on the ports: the controller, a scenario, a new adapter.

They keep the ports' promises (``tests/contracts`` runs one suite on each and on the real adapter) and need no broker, process,
disk or time: ``FakeClock`` stands still until told otherwise, and workers take their partitions after a number of looks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.errors import AutoscalerError, FencedError, TransientError
from autoscaler.model import (
    Decision,
    GroupMembers,
    GroupState,
    HandoverDone,
    Hindered,
    LoadSnapshot,
    OutOfRange,
    Parked,
    Retention,
    TopicPartition,
    WorkerPhase,
    WorkerView,
)
from autoscaler.ports import ActionOutcome, Clock, Inputs, PlanIntent, PoolState

_HANDOVER_S = 0.03


@dataclass(slots=True)
class FakeClock:
    """Time that passes only by ``advance``."""

    wall: float = 1_700_000_000.0
    elapsed: float = 0.0

    def now(self) -> float:
        """Return seconds since the Unix epoch."""
        return self.wall + self.elapsed

    def monotonic(self) -> float:
        """Return seconds passed since the start."""
        return self.elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.elapsed += seconds


@dataclass(slots=True)
class FakeReader:
    """Answers with the memberships that ``groups`` holds; a group that is missing has not been read, ``failures`` says why."""

    groups: dict[str, GroupMembers] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def members(self, group: str) -> GroupMembers | None:
        """Return what was put there."""
        return self.groups.get(group)

    def failure(self, group: str) -> str | None:
        """Return what was put there."""
        return self.failures.get(group)

    def close(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class FakePlacements:
    """Keeps what members are told to hold, without a broker.

    Attributes:
        owners: The latest placement.
        published: Every one that was another than the one before it.
        calls: How often it was written, or written once more.
        fails: Raised by the next ``publish``, which then changes nothing.
        fenced: Another controller has taken over.
    """

    owners: dict[TopicPartition, str] = field(default_factory=dict)
    published: list[dict[TopicPartition, str]] = field(default_factory=list)
    calls: int = 0
    fails: AutoscalerError | None = None
    fenced: bool = False

    def publish(self, owners: Mapping[TopicPartition, str]) -> None:
        """Keep it."""
        if self.fenced:
            msg = "another controller writes placements of this group"
            raise FencedError(msg)
        error, self.fails = self.fails, None
        if error is not None:
            raise error
        self.calls += 1
        if owners != self.owners or not self.published:
            self.owners = dict(owners)
            self.published.append(self.owners)

    def close(self) -> None:
        """Do nothing: the placement stays."""


@dataclass(slots=True)
class FakeRetention:
    """Knows of the topics in ``topics`` how long they keep records; of any other that is not known."""

    topics: dict[str, Retention] = field(default_factory=dict)

    def retention(self) -> Mapping[str, Retention]:
        """Return what was put there."""
        return self.topics


@dataclass(slots=True)
class _Life:
    """One incarnation of a fake worker; ``silent`` once it has died without a word."""

    view: WorkerView
    silent: bool = False
    left: bool = False


@dataclass(slots=True)
class _Owned:
    """A planned partition: who it was granted to, and who had it before."""

    owner: _Life
    epoch: int
    previous: _Life | None = None
    was_alive: bool = False
    looks: int = 0
    taken: bool = False
    counted: bool = False


@dataclass(slots=True, kw_only=True)
class FakePublisher:
    """A control log without Kafka: plans are applied by workers that ``join`` added.

    Attributes:
        takes_after: How many ``observe`` calls a worker needs to take a partition.
        fails: Raised by the next call of ``observe`` or ``publish``, which then changes nothing.
        fenced: Another controller has taken over.
        published: Every intent, oldest first.
        park_after: Owners in a row lost by a partition that is ``behind`` until it is parked.
        behind: Partitions with something to process, of which nothing is ever committed.
        out_of_range: Committed offset, out of range, of partitions that stand still for it.
    """

    group: str
    clock: Clock
    takes_after: int = 1
    fails: AutoscalerError | None = None
    fenced: bool = False
    published: list[PlanIntent] = field(default_factory=list)
    park_after: int = 3
    behind: set[TopicPartition] = field(default_factory=set)
    out_of_range: dict[TopicPartition, int] = field(default_factory=dict)
    _losses: dict[TopicPartition, int] = field(default_factory=dict)
    _parked: set[TopicPartition] = field(default_factory=set)
    _lives: list[_Life] = field(default_factory=list)
    _plan: dict[TopicPartition, _Owned] = field(default_factory=dict)
    _plan_at: float | None = None
    _ended: set[str] = field(default_factory=set)

    # --- the world's side ---

    def join(self, slot: int, instance: str | None = None, *, phase: WorkerPhase = WorkerPhase.ACTIVE) -> None:
        """Let a new incarnation of a slot's worker appear; an earlier one of the slot fills it no more."""
        for life in self._lives:
            if life.view.slot == slot:
                life.view = replace(life.view, slot=None)
        number = len(self._lives)
        view = WorkerView(
            name=f"{self.group}-{slot}",
            uuid=f"uuid-{number}",
            slot=slot,
            phase=phase,
            instance=instance or f"instance-{number}",
            owned=frozenset(),
        )
        self._lives.append(_Life(view))

    def die(self, slot: int) -> None:
        """Let a slot's worker die without a word: only ``ended`` or ``expire`` makes it known."""
        for life in self._of(slot):
            life.silent = True

    def leave(self, slot: int) -> None:
        """Let a slot's worker give up what it holds and leave, as after SIGTERM."""
        for life in self._of(slot):
            life.left = True
            self._lives.remove(life)

    def expire(self) -> None:
        """Let the leases of all who died run out."""
        self._lives = [x for x in self._lives if not x.silent]

    def release(self, partition: TopicPartition) -> None:
        """Let a parked partition be handed out again, as an operator does."""
        self._parked.discard(partition)
        self._losses.pop(partition, None)

    # --- the port ---

    def observe(self) -> GroupState:
        """Let workers get on with the plan and return the group's state."""
        self._may_fail()
        self._lives = [x for x in self._lives if x.view.instance not in self._ended]
        self._count_losses()
        completed = [done for p, o in sorted(self._plan.items()) if (done := self._advance(p, o))]
        for life in self._lives:
            held = frozenset(p for p, o in self._plan.items() if o.taken and o.owner is life)
            life.view = replace(life.view, owned=held)
        alive = {p: o for p, o in self._plan.items() if o.owner in self._lives}
        return GroupState(
            epoch=len(self.published),
            workers=tuple(sorted((x.view for x in self._lives), key=lambda v: (v.name, v.uuid))),
            owner={p: self._slot(o.owner) for p, o in alive.items()},
            orphans=frozenset(self._plan) - frozenset(alive),
            pending=frozenset(p for p, o in alive.items() if not o.taken),
            requested=self.published[-1].requested if self.published else None,
            plan_at=self._plan_at,
            completed=tuple(completed),
            parked={
                p: Parked(owners=n, offset=-1, planned=p in self._parked)
                for p, n in sorted(self._losses.items())
                if n >= self.park_after
            },
            out_of_range={p: OutOfRange(offset=o, start=None) for p, o in sorted(self.out_of_range.items()) if p in alive},
        )

    def publish(self, intent: PlanIntent) -> int:
        """Take a plan; partitions on their way, and those of slots without a living worker, stay where they are planned."""
        self._may_fail()
        self.published.append(intent)
        self._plan_at = self.clock.now()
        lost = {p for p, n in self._losses.items() if n >= self.park_after}
        self._parked |= intent.parked & lost
        self._plan = {p: o for p, o in self._plan.items() if p not in self._parked}
        self.out_of_range = {p: o for p, o in self.out_of_range.items() if intent.resets.get(p, (None, 0))[0] != o}
        active = {x.view.slot: x for x in self._lives if x.view.slot is not None and x.view.phase is WorkerPhase.ACTIVE}
        for partition, slot in intent.target.items():
            present, life = self._plan.get(partition), active.get(slot)
            if life is None or partition in self._parked or (present and (present.owner is life or self._on_its_way(present))):
                continue
            previous = present.owner if present else None
            was_alive = previous in self._lives and not previous.silent if previous else False
            self._plan[partition] = _Owned(owner=life, epoch=len(self.published), previous=previous, was_alive=was_alive)
        return len(self.published)

    def ended(self, instances: frozenset[str]) -> None:
        """Remember who ended; the next ``observe`` counts them out."""
        self._ended |= instances

    def last_summary(self) -> str | None:
        """Return the latest plan's summary."""
        return self.published[-1].summary if self.published else None

    def close(self) -> None:
        """Do nothing; the plan stays."""

    def _may_fail(self) -> None:
        if self.fenced:
            raise FencedError(f"another controller has taken over group {self.group}")
        error, self.fails = self.fails, None
        if error is not None:
            raise error

    def _count_losses(self) -> None:
        """A member that is not listed any more and was not let go by ``leave`` has lost what it held; each is counted once."""
        for partition, owned in self._plan.items():
            lost = owned.owner not in self._lives and not owned.counted and not owned.owner.left
            if lost and partition in self.behind:
                self._losses[partition] = self._losses.get(partition, 0) + 1
            owned.counted = owned.counted or lost

    def _of(self, slot: int) -> list[_Life]:
        return [x for x in self._lives if x.view.slot == slot]

    def _slot(self, life: _Life) -> int:
        return int(life.view.name.rsplit("-", 1)[1])

    def _blocked(self, owned: _Owned) -> bool:
        """A predecessor that died without a word neither releases nor is over yet."""
        return owned.previous is not None and owned.previous in self._lives and owned.previous.silent

    def _on_its_way(self, owned: _Owned) -> bool:
        return not owned.taken and owned.owner in self._lives and owned.previous in self._lives

    def _advance(self, partition: TopicPartition, owned: _Owned) -> HandoverDone | None:
        if owned.taken or owned.owner not in self._lives or owned.owner.silent or self._blocked(owned):
            return None
        owned.looks += 1
        if owned.looks < self.takes_after:
            return None
        owned.taken = True
        source, owner = owned.previous, owned.owner
        return HandoverDone(
            partition=partition,
            topic_id=f"id-of-{partition.topic}",
            from_worker=source.view.name if source else None,
            from_uuid=source.view.uuid if source else None,
            to_worker=owner.view.name,
            to_uuid=owner.view.uuid,
            epoch=owned.epoch,
            offset=0,
            pause_s=_HANDOVER_S if owned.was_alive else None,
            at=self.clock.now(),
        )


@dataclass(slots=True, kw_only=True)
class FakePool:
    """A platform without processes: what is started runs at once.

    Attributes:
        on_start: Called with slot and instance of every start, for example ``publisher.join``.
        on_stop: Called with the slot of every worker that was drained, for example ``publisher.leave``.
        backoff_s: Pause before a dead worker is started again.
        fails: Raised by the next ``apply``, which then changes nothing.
        hindered: Told as it is.
    """

    group: str
    clock: Clock
    on_start: Callable[[int, str], None] | None = None
    on_stop: Callable[[int], None] | None = None
    backoff_s: float = 0.5
    fails: AutoscalerError | None = None
    hindered: dict[int, Hindered] = field(default_factory=dict)
    _running: dict[int, str] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _not_before: dict[int, float] = field(default_factory=dict)
    _starts: int = 0

    def die(self, slot: int) -> None:
        """Let a slot's worker end unasked."""
        self._ended.add(self._running.pop(slot))
        self._not_before[slot] = self.clock.monotonic() + self.backoff_s

    def slot_of(self, worker_name: str) -> int | None:
        """Return the slot in a worker's name."""
        number = worker_name.removeprefix(f"{self.group}-")
        return int(number) if number != worker_name and number.isascii() and number.isdecimal() else None

    def observe(self) -> PoolState:
        """Return what runs, what ended and what waits."""
        now = self.clock.monotonic()
        restarting = {s: max(0.0, t - now) for s, t in sorted(self._not_before.items()) if s not in self._running}
        return PoolState(
            running=dict(sorted(self._running.items())),
            ended=frozenset(self._ended),
            restarting=restarting,
            hindered=dict(self.hindered),
        )

    def apply(self, requested: frozenset[int], *, expected: frozenset[int], releasable: frozenset[int]) -> None:
        """Start and stop at once."""
        error, self.fails = self.fails, None
        if error is not None:
            raise error
        if others := set(self._running) - expected:
            raise TransientError(f"slots {sorted(others)} of group {self.group} run and were not expected to")
        for slot in sorted((set(self._running) - requested) & releasable):
            self._ended.add(self._running.pop(slot))
            if self.on_stop is not None:
                self.on_stop(slot)
        for slot in sorted(set(self._not_before) - requested):
            del self._not_before[slot]
        for slot in sorted(requested - set(self._running)):
            if self.clock.monotonic() >= self._not_before.get(slot, 0.0):
                self._start(slot)

    def close(self) -> None:
        """Do nothing: the workers go on."""

    def _start(self, slot: int) -> None:
        self._starts += 1
        self._running[slot] = f"{self.group}-{slot}-start-{self._starts}"
        self._not_before.pop(slot, None)
        if self.on_start is not None:
            self.on_start(slot, self._running[slot])


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One cycle as ``FakeAudit`` was told it."""

    decision: Decision
    snapshot: LoadSnapshot
    outcomes: tuple[ActionOutcome, ...]
    handovers: tuple[HandoverDone, ...]
    owner: Mapping[TopicPartition, int | str]
    inputs: Inputs | None = None


@dataclass(slots=True)
class FakeAudit:
    """Keeps in memory what it is told."""

    entries: list[AuditEntry] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    closed: bool = False

    def record(  # noqa: PLR0917  what one cycle leaves
        self,
        decision: Decision,
        snapshot: LoadSnapshot,
        outcomes: Sequence[ActionOutcome],
        handovers: Sequence[HandoverDone],
        owner: Mapping[TopicPartition, int | str],
        inputs: Inputs | None = None,
    ) -> None:
        """Keep one cycle."""
        entry = AuditEntry(
            decision=decision,
            snapshot=snapshot,
            outcomes=tuple(outcomes),
            handovers=tuple(handovers),
            owner=dict(owner),
            inputs=inputs,
        )
        self.entries.append(entry)

    def complete(self, summary: str) -> None:
        """Keep a summary, once."""
        if summary not in self.completed:
            self.completed.append(summary)

    def close(self) -> int:
        """Remember that it was closed: nothing is left."""
        self.closed = True
        return 0
