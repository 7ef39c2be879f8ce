"""What the controller needs of the world: small protocols, one contract suite each.

Implementations live in ``adapters/`` (the real ones) and ``tests/fakes.py``. Every method has a bound on its time
and raises only errors of ``errors.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autoscaler.config.policy import Policy
from autoscaler.core.group.history import History
from autoscaler.model import (
    Decision,
    GroupMembers,
    GroupState,
    HandoverDone,
    Hindered,
    LoadSnapshot,
    Moment,
    Observation,
    Retention,
    Span,
    TopicPartition,
)


class Clock(Protocol):
    """Time, so that nothing else reads it."""

    def now(self) -> float:
        """Return seconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow, for measuring durations."""
        ...


class GroupReader(Protocol):
    """Reads a group's membership; answers from a background read, never blocks a cycle."""

    def members(self, group: str) -> GroupMembers | None:
        """Return the latest membership, ``None`` before the first read or when reads fail for long."""
        ...

    def failure(self, group: str) -> str | None:
        """Return why the latest read failed, ``None`` if it did not."""
        ...


class MarkerReader(Protocol):
    """Looks whether what a group has not read holds a record at all; answers from a background read, never blocks a cycle."""

    def ask(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Have these looked at soon; what is not among them is forgotten."""
        ...

    def empty(self) -> Mapping[TopicPartition, Span]:
        """Return those among the spans asked for of which it is known that no consumer gets a record of them."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class RetentionReader(Protocol):
    """Reads how long topics keep their records; answers from a background read, never blocks a cycle."""

    def retention(self) -> Mapping[str, Retention]:
        """Return what is known, by topic; a topic that has not been read, or may not be, is missing."""
        ...


class GroupWatch(Protocol):
    """Looks at the control log of a managed group that is only advised; writes nothing anywhere."""

    def observe(self) -> GroupState | None:
        """Return the group's state; ``None`` if the control log knows neither a plan nor a worker of it.

        Raises:
            TransientError: The log cannot be read right now, or this user may not.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanIntent:
    """What is to be published: slots, not incarnations; the publisher binds them to who is alive."""

    target: Mapping[TopicPartition, int]
    requested: frozenset[int]
    summary: str  # the decision as JSON text; the audit is completed from it after a crash
    parked: frozenset[TopicPartition] = frozenset()  # handed to no consumer until an operator releases them
    resets: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)  # out of range -> where to go on instead


class PlanPublisher(Protocol):
    """The fenced control log of one managed group."""

    def observe(self) -> GroupState:
        """Read past the own last commit and everything available, expire who is over, and return the group's state.

        Raises:
            TransientError: The log cannot be read right now.
            FencedError: Another controller has taken over.
        """
        ...

    def publish(self, intent: PlanIntent) -> int:
        """Publish a plan in the fenced transaction and return its epoch number.

        Partitions whose target slot has no live incarnation keep their present owner.

        Raises:
            TransientError: Nothing was published.
            FencedError: Another controller has taken over; it goes by whatever stands.
        """
        ...

    def ended(self, instances: frozenset[str]) -> None:
        """Tell which process or container instances the platform has seen end (rule 8a)."""
        ...

    def last_summary(self) -> str | None:
        """Return the summary of the latest committed plan, to complete the audit after a restart."""
        ...

    def close(self) -> None:
        """Release connections; the plan stays."""
        ...


class PlacementPublisher(Protocol):
    """The fenced placement of one native group whose members take their partitions from it."""

    def publish(self, owners: Mapping[TopicPartition, str]) -> None:
        """Write who is to hold what, by what members call themselves, unless just that was written a short while ago.

        Raises:
            TransientError: It is not known whether it was written.
            FencedError: Another controller writes for this group now; nothing was written.
        """
        ...

    def close(self) -> None:
        """Release connections; the placement stays until it lapses."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """Workers as the platform sees them; ``running``, ``restarting`` and ``hindered`` are by slot."""

    running: Mapping[int, str]  # instance, of those that live: also of one that is ending and has not ended yet
    ended: frozenset[str]  # instances that were seen to end, bounded history
    restarting: Mapping[int, float]  # seconds until the next try, of those that ended unasked; 0: the platform's to say
    draining: frozenset[int] = frozenset()  # of those running: were told to end, by the controller that ran the pool then
    hindered: Mapping[int, Hindered] = field(default_factory=dict)  # why one that was asked for does not run or is not ready


MayAct = Callable[[], None]  # raises ``TransientError`` while another job may act in this one's place, and says why


def unlimited() -> None:
    """Let anything be done: a ``MayAct`` of a job that no other one can take over from here."""


class WorkerPool(Protocol):
    """Starts and stops the workers of one group, by slot."""

    def slot_of(self, worker_name: str) -> int | None:
        """Return the slot that a worker of this name fills; ``None`` if it is not one of this pool's."""
        ...

    def observe(self) -> PoolState:
        """Look at the processes or pods, without blocking.

        Raises:
            TransientError: It is not known yet which workers there are.
            PermanentError: It cannot be known before an operator changes something; says what.
        """
        ...

    def apply(self, requested: frozenset[int], *, expected: frozenset[int], releasable: frozenset[int]) -> None:
        """Make exactly ``requested`` run: start the missing, restart the dead (with back-off), end those not requested.

        Args:
            requested: Slots that should run.
            expected: Slots believed to run; the precondition. If others ran at the last look too, nothing is done.
            releasable: Slots that hold nothing and may be ended; others are left alone although not requested.

        Raises:
            TransientError: The precondition failed or the platform did not answer; observe again.
            PermanentError: It cannot be done before an operator changes something; says what.
        """
        ...

    def close(self) -> None:
        """Forget the workers without stopping them: they go on while the controller is away."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRead:
    """A number of consumers as it was read back last.

    Attributes:
        wanted: How many should run, as set last by whom it may be.
        running: How many do.
        ours: The numbers of which one is the last that this controller has set; empty: it knows of none.
        writers: Who else has set it, as the platform calls them.
        hindered: Why some do not run, in the platform's words.
    """

    wanted: int
    running: int
    ours: frozenset[int] = frozenset()
    writers: tuple[str, ...] = ()
    hindered: tuple[Hindered, ...] = ()


class ConsumerNumber(Protocol):
    """A number of consumers that is set and read back."""

    @property
    def name(self) -> str:
        """Return what it is the number of, for people."""
        ...

    def read(self) -> NumberRead:
        """Return it as it was read last, without waiting.

        Raises:
            TransientError: It is not known now.
            PermanentError: It cannot be known before an operator changes something; says what.
        """
        ...

    def check(self, now: NumberRead) -> None:
        """Look whether something is there that sets it too.

        Raises:
            PermanentError: It is; says what.
        """
        ...

    def write(self, wanted: int, *, known: int) -> None:
        """Set it, if it is ``known`` still, and see that it reads so; in a thread of its own.

        Raises:
            TransientError: It was not set, or that is not known.
            PermanentError: It cannot be before an operator changes something; says what.
        """
        ...

    def close(self) -> None:
        """Release connections; the number stays."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """What became of one decision's actions."""

    decision_id: str
    group: str
    at: float
    epoch: int | None  # of the plan published; None if none was
    phase: str  # intent | outcome
    status: str  # planned | done | failed | fenced
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where decisions can be made again from without those before.

    Attributes:
        history: What was remembered before the decision.
        policy: What the user asked of the group, from here on until the next start.
        follows: The history is what the decision before it has left, and no other.
    """

    history: History
    policy: Policy
    follows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What one call of ``core.decide`` was given, so that the same can be decided again.

    Attributes:
        number: Of the call since the controller of the group was made; 0 is the first.
        start: History and policy, now and then and wherever they do not follow from the call before; ``None``: they do.
        held: Carrying it out failed, so that another decision was recorded.
    """

    number: int
    observation: Observation
    moment: Moment
    start: Start | None
    held: bool = False


class AuditLog(Protocol):
    """Append-only record of everything; never blocks a cycle, loses nothing of a decision that acted."""

    def record(  # noqa: PLR0917  what one cycle leaves
        self,
        decision: Decision,
        snapshot: LoadSnapshot,
        outcomes: Sequence[ActionOutcome],
        handovers: Sequence[HandoverDone],
        owner: Mapping[TopicPartition, int | str],
        inputs: Inputs | None = None,
    ) -> None:
        """Take one cycle's rows.

        Args:
            decision: What was decided.
            snapshot: What was measured.
            outcomes: What became of it.
            handovers: What has changed hands since the cycle before.
            owner: Who holds each partition now (slot, or member id in a native group).
            inputs: What it was decided from; ``None`` where nothing was decided, as after a failure.
        """
        ...

    def complete(self, summary: str) -> None:
        """Write the rows of a published plan that a crash kept from being written; does nothing if they are there."""
        ...

    def close(self) -> int:
        """Write what is left, and return how many cycles have no rows in the end."""
        ...
