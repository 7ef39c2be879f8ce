"""The consumers of a managed group that acts: a plan in the control log says who holds what, and a pool lets workers run."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from autoscaler.controller.actuator import Actuator, MembersUnreadError, Stages, hindrances
from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.model import Decision, Finding, GroupState, MovePartition, Observation, ParkPartition, ResetOffset
from autoscaler.model.findings import What
from autoscaler.ports import ActionOutcome, PlanIntent, PlanPublisher, PoolState, WorkerPool

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ManagedConsumers(Actuator):
    """One group's plan publisher and its pool.

    Attributes:
        connect: Makes both; called again after it raised ``TransientError``, so that a broker which is away at start delays the
            group and nothing else.
        summarise: Turns a decision into the text that the plan record carries.
    """

    connect: Callable[[], tuple[PlanPublisher, WorkerPool]]
    summarise: Callable[[Decision], str]
    _publisher: PlanPublisher | None = None
    _pool: WorkerPool | None = None
    _seen: PoolState | None = None

    def observe(self, seen: Observation) -> Observation:
        """Read the control log after telling it which workers the platform has seen end."""
        if self._publisher is None or self._pool is None:
            self._publisher, self._pool = self.connect()
        self._seen = self._pool.observe()
        self._publisher.ended(self._seen.ended)
        state = self._publisher.observe()
        if state.plan_at is None and seen.members is None:
            raise MembersUnreadError
        self.last = replace(state, completed=())
        return replace(seen, state=state)

    def warnings(self, observation: Observation) -> Iterator[Finding]:
        """Yield why workers do not run, and who has joined under a name that no plan can bind to: it consumes nothing."""
        yield from hindrances(self._seen)
        workers = observation.state.workers if observation.state is not None else ()
        if names := sorted({w.name for w in workers if w.slot is None and self._pool and self._pool.slot_of(w.name) is None}):
            yield Finding.of(What.NO_SUCH_SLOT, workers=names)

    def act(self, decision: Decision, observation: Observation, stages: Stages) -> tuple[ActionOutcome, ...]:
        """Publish the plan if it changes, then let the requested workers run."""
        state = observation.state
        if state is None or self._publisher is None or self._pool is None or self._seen is None:
            return ()
        outcomes: list[ActionOutcome] = []
        epoch: int | None = None
        requested = state.requested
        if _changes_plan(decision, state):
            outcomes.append(stages.outcome(decision, "planned", None, phase="intent"))
            try:
                with stages("publish_s"):
                    epoch = self._publisher.publish(self._intent(decision))
            except TransientError as e:
                log.warning("group %s: the plan was not published: %s", decision.group, e)
                return (*outcomes, stages.outcome(decision, "failed", str(e)))
            requested = decision.requested
        error = None
        if requested is not None:
            try:
                with stages("apply_s"):
                    expected = frozenset(self._seen.running)
                    self._pool.apply(requested, expected=expected, releasable=_releasable(state, decision))
            except AutoscalerError as e:
                log.warning("group %s: workers were not changed: %s", decision.group, e)
                error = str(e)
            except Exception as e:  # a plan may be out by now: its decision must be recorded whatever happened to the workers
                log.exception("group %s: workers were not changed", decision.group)
                error = f"{type(e).__name__}: {e}"
        if decision.actions or error or epoch is not None:
            outcomes.append(stages.outcome(decision, "failed" if error else "done", error, epoch=epoch))
        return tuple(outcomes)

    def last_summary(self) -> str | None:
        """Return the summary of the plan in force."""
        return self._publisher.last_summary() if self._publisher is not None else None

    def close(self) -> None:
        """Let go of the group: the plan stays, the workers go on."""
        if self._publisher is not None:
            self._publisher.close()
        if self._pool is not None:
            self._pool.close()

    def _intent(self, decision: Decision) -> PlanIntent:
        return PlanIntent(
            target=decision.target,
            requested=decision.requested,
            summary=self.summarise(decision),
            parked=frozenset(decision.parked),
            resets={a.partition: (a.offset, a.start) for a in decision.actions if isinstance(a, ResetOffset)},
        )


def _changes_plan(decision: Decision, state: GroupState) -> bool:
    moves = any(isinstance(a, MovePartition | ParkPartition | ResetOffset) for a in decision.actions)
    return moves or decision.requested != (state.requested or frozenset())


def _releasable(state: GroupState, decision: Decision) -> frozenset[int]:
    """Return slots that hold nothing, are owed nothing and are given nothing: their workers may end."""
    holding = {w.slot for w in state.workers if w.owned} | set(state.owner.values()) | set(decision.target.values())
    seen = {w.slot for w in state.workers if w.slot is not None}
    return frozenset(s for s in seen if s not in holding) if not state.pending else frozenset()
