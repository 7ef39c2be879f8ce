"""What the worker's machine is told, and what it wants done: its events and effects.

``worker_state`` takes and returns them; ``worker/`` feeds the events in and executes the effects. Pure values.
"""

from dataclasses import dataclass

from autoscaler.handover.codec import Key
from autoscaler.handover.records import Expired, Heartbeat, Left, Plan, Released, Tp


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the application has done since the process started; goes into heartbeats as it stands."""

    records: int = 0
    payload_bytes: int = 0
    busy_s: float = 0.0
    ages: tuple[int, ...] = ()
    last_progress: float = 0.0


# --- events: what has happened ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """Time has passed."""

    totals: Totals = Totals()
    # When the application got the batch that it has not returned from, or said last that it takes long
    busy_since: float | None = None
    read_at: float | None = None  # when the control log was last known to be read to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAcked:
    """The log has the heartbeat of this stamp, at this offset."""

    stamp: float
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFailed:
    """The heartbeat of this stamp will not be tried again."""

    stamp: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """Committed records and deleted keys of this group, in the log's order."""

    records: tuple[Plan | Expired | Released | Left | Key, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The control log has been read up to the present and the consumer is warm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRead:
    """Answers to ``ReadOffsets``: (partition, epoch asked with, committed offset or ``None`` if nothing is committed)."""

    offsets: tuple[tuple[Tp, int, int | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsUnread:
    """``ReadOffsets`` failed for these (partition, epoch asked with)."""

    asked: tuple[tuple[Tp, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Nothing of these partitions is in flight and everything processed is committed: (partition, committed offset or -1)."""

    offsets: tuple[tuple[Tp, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLost:
    """A ``released`` that was sent is not in the log and will not be tried again."""

    tp: Tp
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfRange:
    """The log does not hold the next offset of this partition; everything before it is processed and committed."""

    tp: Tp
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """The application ends: release everything; ``failed`` are the partitions that it ended by an error in (rule 9)."""

    failed: frozenset[Tp] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReplaced:
    """The control topic was made anew: plans come under another id from now on, and this incarnation is not in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """This incarnation cannot go on: its transactions are over, or an exception of a signal's handler met it in its middle."""

    why: str


Event = (
    Elapsed
    | HeartbeatAcked
    | HeartbeatFailed
    | LogRead
    | Ready
    | OffsetsRead
    | OffsetsUnread
    | Drained
    | ReleaseLost
    | OutOfRange
    | Leave
    | LogReplaced
    | GivenUp
)


# --- effects: what is to be done ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeat:
    """Append to the heartbeat log; answer with ``HeartbeatAcked`` or ``HeartbeatFailed``."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReleased:
    """Append to the control log; ownership has ended."""

    released: Released


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLeft:
    """Append to the control log; the last thing that this incarnation does."""

    left: Left


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFetching:
    """Stop these partitions only, finish what is in flight, commit synchronously, then answer with ``Drained``."""

    tps: tuple[Tp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOffsets:
    """Read the committed offset of each (partition, epoch); answer with ``OffsetsRead`` or ``OffsetsUnread``."""

    asked: tuple[tuple[Tp, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """One partition to fetch from ``offset``; ``unclaimed`` offsets are committed before the first batch (rule 5)."""

    tp: Tp
    epoch: int
    offset: int
    unclaimed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Fetch these partitions in addition to those held."""

    takings: tuple[Taking, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapse:
    """The lease is over, for ever: deliver, commit and release nothing more under this incarnation."""

    why: str


Effect = SendHeartbeat | SendReleased | SendLeft | StopFetching | ReadOffsets | Start | Lapse
