"""One cycle of one group: observe, decide, act, record.

Sits between the measured ``LoadSnapshot`` and the ports. It decides nothing itself (``core`` does) and talks to no service
itself (``adapters`` do). What is only advised is not carried out here. The only place with a broad ``except``: a group whose
cycle fails is held and reported, the other groups go on.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from autoscaler.controller.actuator import Actuator, MembersUnreadError, Stages
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.decide import History, decide, hold
from autoscaler.core.group.kinds import kind_of
from autoscaler.core.load.transaction_markers import Standing, standing, without, worth_a_look
from autoscaler.core.messages import with_findings
from autoscaler.errors import AutoscalerError, FencedError
from autoscaler.model import CapacitySource, Decision, Finding, GroupState, LoadSnapshot, Moment, Observation, Reason
from autoscaler.model.findings import What
from autoscaler.ports import ActionOutcome, AuditLog, Clock, GroupReader, Inputs, MarkerReader, RetentionReader, Start

if TYPE_CHECKING:
    from autoscaler.config.policy import Policy

log = logging.getLogger(__name__)

START_EVERY_S = 600.0  # between histories that are recorded as a whole: a few bytes of each cycle


class CycleSink(Protocol):
    """Takes one line per cycle, for people and dashboards that watch a running job."""

    def __call__(
        self, *, cycle: int, decision: Decision, snapshot: LoadSnapshot, observation: Observation, stages: Mapping[str, float]
    ) -> None:
        """Write the line."""
        ...


@dataclass(slots=True, kw_only=True)
class GroupController:
    """Keeps one group at its target.

    Attributes:
        actuator: Sees and changes the group's consumers; what it does depends on the kind of the group.
        markers: Looks whether what is unread holds a record at all; without it every lag is one.
        retention: Knows how long topics keep their records; without it that is not known.
        measured_bytes_per_s: Capacity that had been measured before a restart, where no plan of the group tells it.
        restore: Turns a plan's summary back; without it a restart forgets the capacity that was measured.
    """

    policy: "Policy"
    actuator: Actuator
    reader: GroupReader
    audit: AuditLog
    clock: Clock
    sink: CycleSink
    markers: MarkerReader | None = None
    retention: RetentionReader | None = None
    restore: Callable[[str], Decision] | None = None
    measured_bytes_per_s: float | None = None
    _unread: Standing = field(default_factory=dict)
    _history: History = field(default_factory=History)
    _completed: bool = False
    _number: int = 0  # decisions so far
    _left: "tuple[History, Policy] | None" = None  # with what the latest of them was left, and made
    _started_at: float = -math.inf  # when history and policy were last recorded as a whole

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
        observation = Observation(group=self.policy.group, snapshot=snapshot, state=self.actuator.last, members=None)
        outcomes: tuple[ActionOutcome, ...] = ()
        inputs: Inputs | None = None
        observed = False
        try:
            with stages("observe_s"):
                observation = self._observe(snapshot)
                observed = True
                if self.retention is not None:
                    observation = replace(observation, retention=self.retention.retention())
            with stages("decide_s"):
                inputs = self._inputs(observation)
                decision, self._history = decide(observation, self._history, self.policy, inputs.moment)
                self._left = (self._history, self.policy)
                self._number += 1
                decision = with_findings(decision, *self.actuator.warnings(observation))
            if self.policy.mode == "act":
                outcomes = self.actuator.act(decision, observation, stages)
            decision = with_findings(decision, *_not_carried_out(outcomes))
        except FencedError as e:
            decision = self._held(observation, e, observed=observed)
            fenced = (stages.outcome(decision, "fenced", str(e)),)
            self._record(number, decision, observation, fenced, stages, _held_after(inputs))
            raise
        except AutoscalerError as e:
            decision, inputs = self._held(observation, e, observed=observed), _held_after(inputs)
        except Exception as e:  # a defect in one group's cycle must not stop the others
            log.exception("cycle %d of group %s failed", number, self.policy.group)
            decision, inputs = self._held(observation, e, observed=observed), _held_after(inputs)
        self._record(number, decision, observation, outcomes, stages, inputs)
        return decision

    def _moment(self) -> Moment:
        return Moment(now=self.clock.monotonic(), wall=self.clock.now())

    def _inputs(self, observation: Observation) -> Inputs:
        """Return what is about to be decided from, for whoever decides it again."""
        moment, start = self._moment(), None
        follows = self._left is not None and self._left[0] is self._history
        unchanged = self._left is not None and self._left[1] is self.policy
        if not follows or not unchanged or moment.now - self._started_at >= START_EVERY_S:
            start, self._started_at = Start(history=self._history, policy=self.policy, follows=follows), moment.now
        return Inputs(number=self._number, observation=observation, moment=moment, start=start)

    def close(self) -> None:
        """Let go of the group: the plan stays, the workers go on."""
        self.actuator.close()
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

    def _observe(self, snapshot: LoadSnapshot) -> Observation:
        members = self.reader.members(self.policy.group)
        failed = self.reader.failure(self.policy.group) if members is None else None
        seen = Observation(group=self.policy.group, snapshot=snapshot, state=None, members=members, unread_members=failed)
        seen = self._as_asked(self.actuator.observe(seen))
        if seen.state is not None and not self._completed:
            self._catch_up(seen.state)
        return seen

    def _as_asked(self, seen: Observation) -> Observation:
        """Return what was observed, without ages of records where no promise needs them: they are recorded with each cycle."""
        if seen.state is None or self.policy.promise_within_s is not None:
            return seen
        workers = tuple(replace(w, ages=()) if w.ages else w for w in seen.state.workers)
        return replace(seen, state=replace(seen.state, workers=workers))

    def _catch_up(self, state: GroupState) -> None:
        capacity = None
        if summary := self.actuator.last_summary():
            self.audit.complete(summary)
            capacity = self._measured_before(summary)
        plan_at = None if state.plan_at is None else self._moment().of(state.plan_at)
        self._history = History.from_plan(plan_at, capacity)
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

    def _held(self, observation: Observation, error: Exception, *, observed: bool) -> Decision:
        """Return a decision that does nothing. Who consumes is only told if it was read in this cycle."""
        said = str(error) if isinstance(error, AutoscalerError) else f"{type(error).__name__}: {error}"
        found = (
            Finding.of(What.MEMBERS_NOT_READ) if isinstance(error, MembersUnreadError) else Finding.of(What.FAILED, error=said)
        )
        decision = hold(observation, self._history, self.policy, self._moment(), Reason.NOT_READY, found)
        return decision if observed else replace(decision, consumers_now=None)

    def _record(  # noqa: PLR0917  what a cycle ends with
        self,
        number: int,
        decision: Decision,
        observation: Observation,
        outcomes: tuple[ActionOutcome, ...],
        stages: Stages,
        inputs: Inputs | None,
    ) -> None:
        with stages("record_s"):
            handovers = observation.state.completed if observation.state else ()
            owners = kind_of(observation, self.policy.assignment).owners
            self.audit.record(decision, observation.snapshot, outcomes, handovers, owners, inputs)
        try:
            self.sink(
                cycle=number, decision=decision, snapshot=observation.snapshot, observation=observation, stages=stages.seconds
            )
        except Exception:  # a line for people must not end the other groups' cycles
            log.exception("cycle %d of group %s: its line was not written", number, self.policy.group)


def _held_after(inputs: Inputs | None) -> Inputs | None:
    """Return what was decided from, if anything was, where another decision is recorded in place of that one."""
    return None if inputs is None else replace(inputs, held=True)


def _not_carried_out(outcomes: tuple[ActionOutcome, ...]) -> Iterator[Finding]:
    """Yield why what was decided did not happen: an operator who watches sees the decision, not the outcome."""
    if errors := [o.error for o in outcomes if o.error]:
        yield Finding.of(What.NOT_CARRIED_OUT, error=errors[-1])
