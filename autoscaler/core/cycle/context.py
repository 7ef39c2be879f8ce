"""What the rules of one cycle share: the inputs as read, and the step that a rule answers with."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.group.history import History
from autoscaler.core.group.kinds import Kind
from autoscaler.core.group.limits import Limits
from autoscaler.core.group.observed_group import Present
from autoscaler.core.load.group_load import GroupLoad
from autoscaler.core.load.partition_progress import Progress
from autoscaler.core.load.retention_risk import Risk
from autoscaler.core.sizing.native_outlook import Outlook
from autoscaler.core.sizing.planner import Planner
from autoscaler.core.sizing.size import Size
from autoscaler.model import Finding, Observation, Reason, TopicPartition
from autoscaler.model.findings import What


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Everything a rule may look at.

    Attributes:
        kind: What decides who holds what, and whether consumers are started here.
        planner: The policy's algorithm, with what this group's rates have shown so far.
        progress: How every partition gets on of which that is known.
        capacity: What one consumer can do; ``policy`` has it too.
        limits: The policy's limits as they hold now.
        now: On the clock that is never set, as all times in ``history``.
        at: The same by the wall clock: for what is written down.
        outlook: For a native group whose members are known: what its assignor will do.
        risks: Partitions that may lose records before they are read, the one that loses them first at the front.
        late: Bytes/s at which partitions that are behind must be read to catch up in the operator's time.
        urgent: What is asked is what it takes to read those in time: nothing soft bounds that.
        advised: Nothing will be carried out, so nothing is waited for: steps are shown as if every consumer were there.
    """

    observation: Observation
    kind: Kind
    load: GroupLoad
    present: Present
    size: Size
    planner: Planner
    history: History
    policy: Policy
    capacity: Capacity
    limits: Limits
    now: float
    at: float
    progress: Mapping[TopicPartition, Progress] = field(default_factory=dict)
    outlook: Outlook | None = None
    risks: tuple[Risk, ...] = ()
    late: Mapping[TopicPartition, float] = field(default_factory=dict)
    urgent: bool = False

    @property
    def advised(self) -> bool:
        """Say whether steps are only shown."""
        return self.policy.mode == "advise" or not self.kind.acting

    @property
    def floor(self) -> int:
        """Return how many consumers stay in any case: the minimum, but not more than there are partitions, and one."""
        return max(1, min(self.limits.least, len(self.load.partitions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A rule's answer.

    Attributes:
        reason: What it is reported as; nothing is decided by it.
        findings: Why, the rule's own finding first; a guard adds its own.
        limited_by: What it is reported to be limited by; nothing is decided by it.
        target: Wanted owner of every partition that can have one; ``None``: as observed.
        requested: Consumers that should run; ``None``: as requested so far.
        waiting: Requested consumers are awaited.
        inert: Not even consumers that hold nothing are ended.
        counted: Only the number of consumers is set here: who holds what is not.
        ordered: It follows from the operator's limits, from partitions without an owner, or from records that are about to be
            deleted unread, which no later step makes good: nothing soft holds it.
        mandatory: No guard holds it: it places what a lost consumer has left.
        to_limit: It leads to a limit of the operator's: held, it keeps no later rule from acting.
        unmeasured: It waits for measurements: where that lasts, the fallback answers instead.
        spares: Fewer consumers would do: held, it matters less than what an operator can act on.
    """

    reason: Reason
    findings: tuple[Finding, ...]
    limited_by: Reason | None = None
    target: Mapping[TopicPartition, int] | None = None
    requested: frozenset[int] | None = None
    hot: tuple[TopicPartition, ...] = ()
    waiting: bool = False
    inert: bool = False
    counted: bool = False
    ordered: bool = False
    mandatory: bool = False
    to_limit: bool = False
    unmeasured: bool = False
    spares: bool = False

    @property
    def idle(self) -> bool:
        """Say whether it changes nothing."""
        return self.target is None and self.requested is None

    def saying(self, *more: Finding) -> "Step":
        """Return the step with more to say."""
        return replace(self, findings=(*self.findings, *more))


def error_of(cycle: Cycle) -> str | None:
    """Return the first error of the measurement by name, ``None`` if no read has failed."""
    return min((x.error for x in cycle.observation.snapshot.loads if x.error), default=cycle.observation.snapshot.error)


def not_measured(cycle: Cycle) -> Finding | None:
    """Return what of the load is not measured right now; ``None`` if all of it is."""
    load = cycle.load
    if load.absent:
        return Finding.of(What.TOPIC_NOT_MEASURED, topic=load.absent[0])
    if not load.unknown:
        return None
    return Finding.of(What.NOT_MEASURED, partitions=load.unknown, unknown=len(load.unknown), listed=len(load.partitions))
