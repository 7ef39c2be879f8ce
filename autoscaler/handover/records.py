"""Records of the control log and the heartbeat log: what they say, not yet how they are sent.

The vocabulary of the handover protocol (``docs/design/protocol.md``); the two state machines beside this module take and return
these values. Standard library only.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

PROTOCOL_VERSION = 1
CONTROL_TOPIC = "__autoscaler_control"
HEARTBEAT_TOPIC = "__autoscaler_heartbeats"
NO_AUTO_CREATION = {"allow.auto.create.topics": False}  # for every client: a topic of these that a broker makes is a wrong one
LEASE_S = 45.0  # how long a worker may act without having been heard, where nothing else is said (docs/decisions/0010)
MOST_LEASE_S = 86_400.0  # above, evidence would be kept for days, and a silent death take as long
HEARD_MOST = 2**52  # epochs beyond it that a heartbeat or a commit names are no plan's: plans count from 1, one at a time
LEAST_LEASE_S = 1.0  # below, one slow answer of a broker ends it: requests are given half a second at least
RECOMMIT_S = 600.0  # between two commits of an offset that does not advance, where nothing asks for a shorter time (rule 10)


def recommit_s(retention_s: float | None) -> float:
    """Return after how long an offset that does not advance is to be committed again, for brokers that keep it so long.

    A quarter, so that one that was missed twice is there still; the offset of a manual group expires partition by partition.
    """
    return RECOMMIT_S if retention_s is None else min(RECOMMIT_S, retention_s / 4)


def kafka_id(text: str) -> str:
    """Return a topic's id as Kafka's own tools print it; a client may spell the same 16 bytes with other letters of base64."""
    return text.rstrip("=").replace("+", "-").replace("/", "_")


class Incarnation(NamedTuple):
    """One life of a worker: the name is stable where the platform gives one, the uuid is new at every start and rejoin."""

    name: str
    uuid: str


class Tp(NamedTuple):
    """A partition by topic id: a topic made anew is another topic."""

    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """Order of plans: only numbers under the same control topic id compare."""

    control_id: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A planned owner and the epoch number that granted the partition to it (the fencing token)."""

    owner: Incarnation
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The new owner must see ``worker`` release at ``epoch`` or later, expire, or leave."""

    worker: Incarnation
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How many owners in a row a partition was lost by at one committed offset (rule 9)."""

    owners: int
    offset: int  # what was committed when the last of them was lost; -1: nothing
    epoch: int  # the grant of the last of them, so that none counts twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Where to go on instead of a committed offset that is out of range (rule 5), and the epoch that decided it."""

    offset: int
    start: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything about a group's placement; says all by itself after compaction (rule 2)."""

    group: str
    epoch: Epoch
    topics: dict[str, str]  # topic name of every topic id used
    grants: dict[Tp, Grant]  # owner of every planned partition
    waits: dict[Tp, tuple[Wait, ...]]  # unsatisfied predecessors of a partition; partitions without any are absent
    starts: dict[Tp, int]  # numeric start of each partition without a committed offset (rule 5)
    leases_s: dict[Incarnation, float]  # lease of each incarnation named
    requested: tuple[int, ...]  # consumer slots that should run
    summary: str  # the decision's id, reason and figures as JSON text, so that the audit can be completed after a crash
    at: float  # when it was published (controller's wall clock; for people and the audit only, never compared)
    # Partitions that owners were lost by since their committed offset last advanced (rule 9)
    losses: dict[Tp, Loss] = field(default_factory=dict)
    # Partitions that no worker gets until an operator releases them, and the epoch that parked each (rule 9)
    parked: dict[Tp, int] = field(default_factory=dict)
    # Partitions whose owner is to begin elsewhere, as long as this very offset is the committed one (rule 5)
    resets: dict[Tp, Reset] = field(default_factory=dict)
    # Longest time between two commits of an offset that does not advance (rule 10); ``None``: the brokers do not say how long
    # they keep offsets
    recommit_s: float | None = None
    # Those of the incarnations named whose transactional id is fenced before they are said to be over (rule 8)
    exactly_once: frozenset[Incarnation] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """A controller is the group's latest one: its number is one above its predecessor's (rule 1)."""

    group: str
    control_id: str
    number: int
    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A worker's lease is over, for ever, and by what evidence (``platform`` or ``heartbeats``)."""

    group: str
    worker: Incarnation
    control_id: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A worker does not hold a partition any more; ``failed`` if its application ended by an error in a record of it."""

    group: str
    tp: Tp
    worker: Incarnation
    control_id: str
    epoch: int
    offset: int  # committed; -1 if it never committed here
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparked:
    """An operator lets a partition be handed out again that was parked at this epoch or before (rule 9)."""

    group: str
    tp: Tp
    control_id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An incarnation holds nothing and gains nothing any more."""

    group: str
    worker: Incarnation
    control_id: str


class Phase(StrEnum):
    """State that a heartbeat names."""

    JOINING = "joining"
    ACTIVE = "active"
    DRAINING = "draining"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker's sign of life with its totals."""

    group: str
    worker: Incarnation
    stamp: float  # its own clock at sending, seconds; never compared with another machine's
    boot_id: str
    acked: int | None  # log offset of its own last acknowledged heartbeat when stamping; ``None`` before the first
    lease_s: float
    epoch: int  # newest plan epoch read; 0 before the first
    phase: Phase
    owned: dict[Tp, int]  # what it holds and the epoch that granted each
    # For partitions taken since the last few heartbeats: (partition, granting epoch, first offset)
    taken: tuple[tuple[Tp, int, int], ...] = ()
    # Owned partitions that stand still because this offset, the committed one, is out of range
    out_of_range: tuple[tuple[Tp, int], ...] = ()
    instance: str | None = None  # container or process identity given by the platform
    records: int = 0  # processed since start
    payload_bytes: int = 0  # their decompressed payload
    busy_s: float = 0.0  # seconds inside the application
    # Records by how long after they were appended they were processed (bounds are ``AGE_BOUNDS_S``), cumulative since start
    ages: tuple[int, ...] = ()
    last_progress: float = 0.0
    # It commits in transactions of ``commit_metadata.transactional_id``, which it has taken before its first heartbeat
    exactly_once: bool = False
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A controller's own stamp in the heartbeat log, usable as a source of expiry evidence (rule 8b)."""

    group: str
    incarnation: str
    stamp: float
    boot_id: str
    acked: int | None
    # As in ``TakeOver``; 0 before it has taken over. So that numbers go on where the control log has lost the record.
    number: int = 0
    version: int = field(default=PROTOCOL_VERSION)


AGE_BOUNDS_S = tuple(0.01 * 10 ** (i / 20) for i in range(96))  # upper ones, a twelfth apart; above ten minutes is the rest

Record = Plan | TakeOver | Expired | Released | Left | Unparked | Heartbeat | Tick
