"""The consumers of a native group that acts: which run here, how many should, and what they are told to hold.

It decides nothing and talks to no service itself. Kafka places the partitions, or the group's leader does by the placement that
is published here.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.controller.actuator import Actuator, Stages, hindrances
from autoscaler.core.group.kinds import kind_of
from autoscaler.errors import AutoscalerError, FencedError
from autoscaler.model import Decision, Finding, MovePartition, Observation, RemoveWorkers, Started, TopicPartition
from autoscaler.ports import ActionOutcome, PlacementPublisher, PoolState, WorkerPool

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class NativeConsumers(Actuator):
    """What one group's controller remembers of the consumers that it starts and ends.

    Attributes:
        group: The group's id.
        start: Makes the pool; called again after it raised ``TransientError``.
        place: Makes the publisher of placements, once members turn out to follow one; called again as above.
    """

    group: str
    start: Callable[[], WorkerPool]
    place: Callable[[], PlacementPublisher] | None = None
    native: bool = True
    _pool: WorkerPool | None = None
    _seen: PoolState | None = None
    _placements: PlacementPublisher | None = None
    _asked: frozenset[int] | None = None  # should run; None: none were asked for, and none are found to run
    _leaving: frozenset[int] = frozenset()  # were told to end
    _called: dict[int, str] = field(default_factory=dict)  # what members call themselves, by slot
    _told: Mapping[TopicPartition, int] | None = None  # who was last told to hold what

    def observe(self, seen: Observation) -> Observation:
        """Add which consumers run here; after a restart those that are found are those that were asked for."""
        seen = Actuator.observe(self, seen)
        if self._pool is None:
            self._pool = self.start()
        pool = self._seen = self._pool.observe()
        running = frozenset(pool.running)
        if self._asked is None and (found := (running | frozenset(pool.restarting)) - pool.draining):
            self._asked, self._leaving = found, pool.draining
        self._leaving &= running
        named = {m.member_id: m.name for m in seen.members.members if m.name} if seen.members is not None else {}
        slots = {m: slot for m, name in named.items() if (slot := self._pool.slot_of(name)) is not None}
        self._called |= {slot: named[m] for m, slot in slots.items()}
        started = Started(requested=self._asked, running=running, leaving=self._leaving, slots=slots, placement=self._told)
        return replace(seen, started=started)

    def warnings(self, observation: Observation) -> Iterator[Finding]:  # noqa: ARG002
        """Yield why some of them do not run."""
        return hindrances(self._seen)

    def act(self, decision: Decision, observation: Observation, stages: Stages) -> tuple[ActionOutcome, ...]:
        """Let as many run as were decided; those that ended are started again."""
        error = self._applied(decision, observation, stages)
        happened = bool(decision.actions) or error is not None
        return (stages.outcome(decision, "failed" if error else "done", error),) if happened else ()

    def close(self) -> None:
        """Let go of them: they go on, and so does the placement."""
        for opened in (self._pool, self._placements, self.watch):
            if opened is not None:
                opened.close()

    def _applied(self, decision: Decision, observation: Observation, stages: Stages) -> str | None:
        """Return what kept the decision from being carried out.

        Where they follow a placement, it is published first, and only who holds nothing by it ends.
        """
        if self._pool is None or self._seen is None or not (decision.requested or self._asked):
            return None
        running, error = frozenset(self._seen.running), None
        releasable = running - decision.requested
        try:
            with stages("publish_s"):
                self._tell(decision, observation)
        except FencedError:
            raise
        except AutoscalerError as e:
            log.warning("group %s: its placement was not published: %s", self.group, e)
            error = str(e)
        if self._told is not None or kind_of(observation, "native").follows:  # one that is to end may hold something till then
            releasable = frozenset(s for a in decision.actions if isinstance(a, RemoveWorkers) for s in a.slots)
        if error is not None and _moves(decision):
            return error
        try:
            with stages("apply_s"):
                self._pool.apply(decision.requested, expected=running, releasable=releasable)
            self._asked, self._leaving = decision.requested, self._leaving | releasable
        except AutoscalerError as e:
            log.warning("group %s: consumers were not changed: %s", self.group, e)
            error = str(e)
        return error

    def _tell(self, decision: Decision, observation: Observation) -> None:
        """Publish who is to hold what where members follow a placement, or what was published once more."""
        told = self._told
        if self.place is None:
            return
        if kind_of(observation, "native").follows:
            if _moves(decision) or (told is None and _all_named(observation)):
                told = {**(told or {}), **decision.target}
        elif kind_of(observation, "native").stable:
            told = None  # its members have turned to another assignor: what they were told lapses
        if told:
            self._placements = self._placements or self.place()
            self._placements.publish({p: self._called[slot] for p, slot in told.items()})
        self._told = told


def _all_named(observation: Observation) -> bool:
    """Say whether every member calls itself what one consumer that is started here is called, and no other one does."""
    members, started = observation.members, observation.started
    return members is not None and started is not None and len(set(started.slots.values())) == len(members.members)


def _moves(decision: Decision) -> bool:
    return any(isinstance(a, MovePartition) for a in decision.actions)
