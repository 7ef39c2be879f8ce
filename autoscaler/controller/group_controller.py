"""One cycle of one group: observe, decide, act, record.

Sits between the measured ``LoadSnapshot`` and the ports. It decides nothing itself (``core`` does) and talks to no service
itself (``adapters`` do). What is only advised is not carried out here. The only place with a broad ``except``: a group whose
cycle fails is held and reported, the other groups go on.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from autoscaler.controller.native_actuator import NativeConsumers
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.decide import History, decide, hold
from autoscaler.core.group.kinds import kind_of
from autoscaler.core.load.transaction_markers import Standing, standing, without, worth_a_look
from autoscaler.core.messages import with_findings
from autoscaler.core.moment import Moment
from autoscaler.errors import AutoscalerError, FencedError, TransientError
from autoscaler.model import (
    CapacitySource,
    Decision,
    Finding,
    GroupMembers,
    GroupState,
    LoadSnapshot,
    MovePartition,
    Observation,
    ParkPartition,
    Reason,
    ResetOffset,
)
from autoscaler.model.findings import What
from autoscaler.ports import (
    ActionOutcome,
    AuditLog,
    Clock,
    GroupReader,
    GroupWatch,
    MarkerReader,
    PlanIntent,
    PlanPublisher,
    PoolState,
    RetentionReader,
    WorkerPool,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autoscaler.config.policy import Policy

log = logging.getLogger(__name__)


class _MembersUnreadError(AutoscalerError):
    """Before the first plan it is not known whether any member subscribes, from whom the group would be taken."""


class CycleSink(Protocol):
    """Takes one line per cycle, for people and dashboards that watch a running job."""

    def __call__(
        self, *, cycle: int, decision: Decision, snapshot: LoadSnapshot, observation: Observation, stages: Mapping[str, float]
    ) -> None:
        """Write the line."""
        ...


@dataclass(slots=True, kw_only=True)
class Stages:
    """Durations of a cycle's stages in seconds, by name."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> "Iterator[None]":
        """Add the time spent inside to ``name``."""
        began = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - began


@dataclass(slots=True, kw_only=True)
class GroupController:
    """Keeps one group at its target.

    Attributes:
        watch: Looks at the control log of a group that has no publisher: one that is only advised, or native.
        markers: Looks whether what is unread holds a record at all; without it every lag is one.
        retention: Knows how long topics keep their records; without it that is not known.
        consumers: Those of a native group that acts.
        connect: Makes the publisher and the pool when the group acts; called again after it raised ``TransientError``,
            so that a broker which is away at start delays the group and nothing else.
        summarise: Turns a decision into the text that the plan record carries.
        measured_bytes_per_s: Capacity that had been measured before a restart, where no plan of the group tells it.
        restore: Turns that text back; without it a restart forgets the capacity that was measured.
    """

    policy: "Policy"
    connect: Callable[[], tuple[PlanPublisher, WorkerPool]] | None
    reader: GroupReader
    audit: AuditLog
    clock: Clock
    summarise: Callable[[Decision], str]
    sink: CycleSink
    watch: GroupWatch | None = None
    markers: MarkerReader | None = None
    retention: RetentionReader | None = None
    _unread: Standing = field(default_factory=dict)
    consumers: NativeConsumers | None = None
    restore: Callable[[str], Decision] | None = None
    measured_bytes_per_s: float | None = None
    _history: History = field(default_factory=History)
    _publisher: PlanPublisher | None = None
    _pool: WorkerPool | None = None
    _completed: bool = False
    _state: GroupState | None = None  # as last observed: what a cycle that could not observe still shows

    def __post_init__(self) -> None:
        """Begin with what is known from before a restart."""
        if self.measured_bytes_per_s is not None:
            known = Capacity(bytes_per_s=self.measured_bytes_per_s, source=CapacitySource.MEASURED)
            self._history = History(capacity=known)

    def cycle(self, number: int, snapshot: LoadSnapshot, measured: Mapping[str, float]) -> Decision:
        """Run one cycle and return what was decided.

        Raises:
            FencedError: Another controller has taken over this group; the caller must end the job.
        """
        snapshot = self._without_markers(snapshot)
        stages = Stages(clock=self.clock, seconds=dict(measured))
        observation = Observation(group=self.policy.group, snapshot=snapshot, state=self._state, members=None)
        outcomes: tuple[ActionOutcome, ...] = ()
        observed = False
        try:
            with stages("observe_s"):
                pool, observation = self._observe(snapshot)
                observed = True
                if self.retention is not None:
                    observation = replace(observation, retention=self.retention.retention())
            with stages("decide_s"):
                decision, self._history = decide(observation, self._history, self.policy, self._moment())
                decision = with_findings(decision, *_failing_workers(pool), *_without_slot(observation.state, self._pool))
            outcomes = self._act(decision, observation, pool, stages)
            decision = with_findings(decision, *_not_carried_out(outcomes))
        except FencedError as e:
            decision = self._held(observation, e, observed=observed)
            self._record(number, decision, observation, (self._outcome(decision, None, "fenced", str(e)),), stages)
            raise
        except AutoscalerError as e:
            decision = self._held(observation, e, observed=observed)
        except Exception as e:  # a defect in one group's cycle must not stop the others
            log.exception("cycle %d of group %s failed", number, self.policy.group)
            decision = self._held(observation, e, observed=observed)
        self._record(number, decision, observation, outcomes, stages)
        return decision

    def _moment(self) -> Moment:
        return Moment(now=self.clock.monotonic(), wall=self.clock.now())

    def _past(self, at: float | None) -> float | None:
        """Return a time that was written down, on the clock that is never set."""
        return None if at is None else self._moment().of(at)

    def close(self) -> None:
        """Let go of the group: the plan stays, the workers go on."""
        if self._publisher is not None:
            self._publisher.close()
        if self._pool is not None:
            self._pool.close()
        if self.consumers is not None:
            self.consumers.close()
        if self.watch is not None:
            self.watch.close()
        if self.markers is not None:
            self.markers.close()

    def _without_markers(self, snapshot: LoadSnapshot) -> LoadSnapshot:
        """Return the measurement without lags that no consumer can ever work off."""
        if self.markers is None:
            return snapshot
        now = self.clock.monotonic()
        self._unread = standing(self._unread, snapshot, now)
        self.markers.ask(worth_a_look(self._unread, now))
        return without(snapshot, self.markers.empty())

    def _observe(self, snapshot: LoadSnapshot) -> tuple[PoolState | None, Observation]:
        members = self.reader.members(self.policy.group)
        if self.connect is None:
            seen = self._watched(snapshot, members)
            return (None, seen) if self.consumers is None else self.consumers.observe(seen)
        if self._publisher is None or self._pool is None:
            self._publisher, self._pool = self.connect()
        pool = self._pool.observe()
        self._publisher.ended(pool.ended)
        state = self._publisher.observe()
        if state.plan_at is None and members is None:
            raise _MembersUnreadError
        self._state = replace(state, completed=())
        if not self._completed:
            self._catch_up(state)
        return pool, self._seen(snapshot, state, members)

    def _watched(self, snapshot: LoadSnapshot, members: GroupMembers | None) -> Observation:
        """Return what is seen without touching anything; a control log that cannot be read keeps no group from being advised."""
        state, unread = None, None
        if self.watch is not None:
            try:
                state = self.watch.observe()
            except AutoscalerError as e:
                unread = str(e)
        if self.policy.assignment == "native":
            unread = None  # its members tell who consumes
            if state is not None and not state.workers:
                state = None  # what is left of a group that was managed is not followed by any worker
        if state is not None and not self._completed:
            self._history, self._completed = History.from_plan(self._past(state.plan_at)), True
        return replace(self._seen(snapshot, state, members), unread=unread)

    def _seen(self, snapshot: LoadSnapshot, state: GroupState | None, members: GroupMembers | None) -> Observation:
        failed = self.reader.failure(self.policy.group) if members is None else None
        return Observation(group=self.policy.group, snapshot=snapshot, state=state, members=members, unread_members=failed)

    def _catch_up(self, state: GroupState) -> None:
        capacity = None
        if self._publisher is not None and (summary := self._publisher.last_summary()):
            self.audit.complete(summary)
            capacity = self._measured_before(summary)
        self._history = History.from_plan(self._past(state.plan_at), capacity)
        self._completed = True

    def _measured_before(self, summary: str) -> Capacity | None:
        """Return the measured capacity that the latest plan was made with: what is assumed at first may be far from it."""
        try:
            latest = self.restore(summary) if self.restore is not None else None
        except ValueError as e:
            log.warning("group %s: the capacity that was measured is not known any more: %s", self.policy.group, e)
            return None
        if latest is None or latest.capacity_source is not CapacitySource.MEASURED:
            return None
        return Capacity(bytes_per_s=latest.capacity_bytes_per_s, source=CapacitySource.MEASURED)

    def _act(
        self, decision: Decision, observation: Observation, pool: PoolState | None, stages: Stages
    ) -> tuple[ActionOutcome, ...]:
        state = observation.state
        if self.consumers is not None and pool is not None:
            failed = self.consumers.act(decision, observation, pool, stages) if self.policy.mode == "act" else None
            happened = bool(decision.actions) or failed is not None
            return (self._outcome(decision, None, "failed" if failed else "done", failed),) if happened else ()
        if self.policy.mode != "act" or state is None or pool is None or self._publisher is None or self._pool is None:
            return ()
        outcomes: list[ActionOutcome] = []
        epoch: int | None = None
        requested = state.requested
        if _changes_plan(decision, state):
            outcomes.append(self._outcome(decision, None, "planned", None, phase="intent"))
            try:
                with stages("publish_s"):
                    intent = PlanIntent(
                        target=decision.target,
                        requested=decision.requested,
                        summary=self.summarise(decision),
                        parked=frozenset(decision.parked),
                        resets={a.partition: (a.offset, a.start) for a in decision.actions if isinstance(a, ResetOffset)},
                    )
                    epoch = self._publisher.publish(intent)
            except TransientError as e:
                log.warning("group %s: the plan was not published: %s", self.policy.group, e)
                return (*outcomes, self._outcome(decision, None, "failed", str(e)))
            requested = decision.requested
        error = None
        if requested is not None:
            try:
                with stages("apply_s"):
                    self._pool.apply(requested, expected=frozenset(pool.running), releasable=_releasable(state, decision))
            except AutoscalerError as e:
                log.warning("group %s: workers were not changed: %s", self.policy.group, e)
                error = str(e)
            except Exception as e:  # a plan may be out by now: its decision must be recorded whatever happened to the workers
                log.exception("group %s: workers were not changed", self.policy.group)
                error = f"{type(e).__name__}: {e}"
        if decision.actions or error or epoch is not None:
            outcomes.append(self._outcome(decision, epoch, "failed" if error else "done", error))
        return tuple(outcomes)

    def _outcome(
        self, decision: Decision, epoch: int | None, status: str, error: str | None, *, phase: str = "outcome"
    ) -> ActionOutcome:
        return ActionOutcome(
            decision_id=decision.decision_id,
            group=self.policy.group,
            at=self.clock.now(),
            epoch=epoch,
            phase=phase,
            status=status,
            error=error,
        )

    def _held(self, observation: Observation, error: Exception, *, observed: bool) -> Decision:
        """Return a decision that does nothing. Who consumes is only told if it was read in this cycle."""
        said = str(error) if isinstance(error, AutoscalerError) else f"{type(error).__name__}: {error}"
        found = (
            Finding.of(What.MEMBERS_NOT_READ) if isinstance(error, _MembersUnreadError) else Finding.of(What.FAILED, error=said)
        )
        decision = hold(observation, self._history, self.policy, self._moment(), Reason.NOT_READY, found)
        return decision if observed else replace(decision, consumers_now=None)

    def _record(
        self,
        number: int,
        decision: Decision,
        observation: Observation,
        outcomes: tuple[ActionOutcome, ...],
        stages: Stages,
    ) -> None:
        with stages("record_s"):
            handovers = observation.state.completed if observation.state else ()
            self.audit.record(
                decision, observation.snapshot, outcomes, handovers, kind_of(observation, self.policy.assignment).owners
            )
        try:
            self.sink(
                cycle=number, decision=decision, snapshot=observation.snapshot, observation=observation, stages=stages.seconds
            )
        except Exception:  # a line for people must not end the other groups' cycles
            log.exception("cycle %d of group %s: its line was not written", number, self.policy.group)


def _failing_workers(pool: PoolState | None) -> "Iterator[Finding]":
    """Yield which workers keep ending: an operator who waits for them must know where to look."""
    for slot, after_s in sorted(pool.restarting.items()) if pool is not None else ():
        yield Finding.of(What.WORKER_RESTARTED, consumers=(slot,), after_s=after_s)


def _without_slot(state: GroupState | None, pool: WorkerPool | None) -> "Iterator[Finding]":
    """Yield who has joined under a name that no plan can bind to: such a worker consumes nothing, and cannot know why."""
    if state is None or pool is None:
        return
    if names := sorted({w.name for w in state.workers if w.slot is None and pool.slot_of(w.name) is None}):
        yield Finding.of(What.NO_SUCH_SLOT, workers=names)


def _not_carried_out(outcomes: tuple[ActionOutcome, ...]) -> "Iterator[Finding]":
    """Yield why what was decided did not happen: an operator who watches sees the decision, not the outcome."""
    if errors := [o.error for o in outcomes if o.error]:
        yield Finding.of(What.NOT_CARRIED_OUT, error=errors[-1])


def _changes_plan(decision: Decision, state: GroupState) -> bool:
    moves = any(isinstance(a, MovePartition | ParkPartition | ResetOffset) for a in decision.actions)
    return moves or decision.requested != (state.requested or frozenset())


def _releasable(state: GroupState, decision: Decision) -> frozenset[int]:
    """Return slots that hold nothing, are owed nothing and are given nothing: their workers may end."""
    holding = {w.slot for w in state.workers if w.owned} | set(state.owner.values()) | set(decision.target.values())
    seen = {w.slot for w in state.workers if w.slot is not None}
    return frozenset(s for s in seen if s not in holding) if not state.pending else frozenset()
