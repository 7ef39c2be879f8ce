"""What the rules of one cycle share: the inputs as read, and the step that a rule answers with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.group.history import History
from autoscaler.core.group.limits import Orders
from autoscaler.core.group.observed_group import Present
from autoscaler.core.load.group_load import GroupLoad
from autoscaler.core.load.partition_progress import Progress
from autoscaler.core.load.retention_risk import Risk
from autoscaler.core.sizing.native_outlook import Outlook
from autoscaler.core.sizing.planner import Planner
from autoscaler.core.sizing.size import Size
from autoscaler.model import Observation, Reason, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Everything a rule may look at.

    Attributes:
        planner: The policy's algorithm, with what this group's rates have shown so far.
        progress: How every partition gets on of which that is known.
        capacity: What one consumer can do; ``policy`` has it too.
        orders: The policy's limits as they hold now.
        now: On the clock that is never set, as all times in ``history``.
        at: The same by the wall clock: for what is written down.
        outlook: For a native group whose members are known: what its assignor will do.
        risks: Partitions that may lose records before they are read, the one that loses them first at the front.
        urgent: What is asked is what it takes to read those in time: nothing soft bounds that.
        advised: Nothing will be carried out, so nothing is waited for: steps are shown as if every consumer were there.
    """

    observation: Observation
    load: GroupLoad
    present: Present
    size: Size
    planner: Planner
    history: History
    policy: Policy
    capacity: Capacity
    orders: Orders
    now: float
    at: float
    progress: Mapping[TopicPartition, Progress] = field(default_factory=dict)
    outlook: Outlook | None = None
    risks: tuple[Risk, ...] = ()
    urgent: bool = False

    @property
    def advised(self) -> bool:
        """Say whether steps are only shown."""
        return self.policy.mode == "advise" or (self.observation.state is None and self.observation.started is None)

    @property
    def floor(self) -> int:
        """Return how many consumers stay in any case: the minimum, but not more than there are partitions, and one."""
        return max(1, min(self.orders.least, len(self.load.partitions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A rule's answer.

    Attributes:
        target: Wanted owner of every partition that can have one; ``None``: as observed.
        requested: Consumers that should run; ``None``: as requested so far.
        waiting: Requested consumers are awaited.
        inert: Not even consumers that hold nothing are ended.
        counted: Only the number of consumers is ours to set: who holds what binds nobody.
    """

    reason: Reason
    detail: str
    limited_by: Reason | None = None
    target: Mapping[TopicPartition, int] | None = None
    requested: frozenset[int] | None = None
    hot: tuple[TopicPartition, ...] = ()
    waiting: bool = False
    inert: bool = False
    counted: bool = False


def rate_text(bytes_per_s: float) -> str:
    """Return a rate for people, such as ``1.25 MB/s``."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.3g} {unit}"
    return f"{bytes_per_s:.3g} B/s"


def time_text(seconds: float) -> str:
    """Return a time for people, such as ``40 min``."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def many(count: int, what: str) -> str:
    """Return a count for people: ``1 consumer``, ``2 consumers``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def names(values: tuple[object, ...] | list[int], most: int = 4) -> str:
    """Return the first few of many things by name and how many more there are."""
    shown = ", ".join(str(v) for v in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"
