"""What goes wrong in one history, drawn from its seed: a value, so that a failing one can be made shorter and written down.

A fault happens at a time, or when something is done for the n-th time in the history (``on``, ``nth``): chance over time hardly
ever hits the moment between a commit and the release behind it. Small delays are not faults: the world draws them as it goes.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

WORKERS = ("w-0", "w-1", "w-2")
FAULTS_END_S = 9.0
LEASE_S = 3.0


class Kind(StrEnum):
    """What can go wrong, and what operators and planners do meanwhile."""

    MOVE = "move"
    UNPARK = "unpark"
    CRASH = "crash"
    PAUSE = "pause"
    CUT = "cut"
    LEAVE = "leave"
    LOSE = "lose"
    LOSE_ACK = "lose_ack"
    LATE = "late"
    SECOND = "second"
    CRASH_CONTROLLER = "crash_controller"
    PAUSE_CONTROLLER = "pause_controller"
    HANG = "hang"
    FAILOVER = "failover"
    LEADERLESS = "leaderless"
    TRIM = "trim"
    COMPACT = "compact"
    STRANGE = "strange"
    RECORDS_GONE = "records_gone"
    ADD_PARTITION = "add_partition"
    CONTROL_ANEW = "control_anew"
    HEARTBEATS_ANEW = "heartbeats_anew"
    TOPIC_ANEW = "topic_anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One of them.

    Attributes:
        at: When, in simulated seconds; or else ``on``: what is being done (a message sent, a step taken), for the ``nth`` time.
        who: Worker that it strikes; whoever does ``on`` otherwise.
        for_s: How long it lasts, or how late something comes.
        partition: Which one is moved, or how much is trimmed. to: to whom.
    """

    kind: Kind
    at: float = -1.0
    on: str = ""
    nth: int = 0
    who: str = ""
    for_s: float = 0.0
    partition: int = 0
    to: str = ""

    def __str__(self) -> str:
        when = f"{self.on} no. {self.nth}" if self.on else f"{self.at:5.2f} s"
        what = {Kind.MOVE: f"p{self.partition} to {self.to}", Kind.TRIM: f"all but {self.partition}"}.get(self.kind, "")
        lasting = f"for {self.for_s:.2f} s" if self.for_s else ""
        return " ".join(x for x in (f"{when}:", self.kind.value, self.who, what, lasting) if x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One history: equal schedules give equal histories.

    Attributes:
        seed: Of the small delays and of everybody's rhythm.
        drift: Clocks run at rates within 1 ± this.
        slow: Share of messages that take up to a second.
        platform: Whether the platform sees a process end.
        partitions: How many there are at first.
        quiet_from: When partition 0 gets its last record.
        park_after: Owners in a row that a partition may be lost by (rule 9); operators release it when faults have ended.
        spelled: Heartbeats are bytes in the log, too (plans and the like always are).
        steady: No noise: every small delay takes as long.
        exactly_once: Workers commit in transactions, outputs and offsets together.
        tidy: At the end, look at what is left in the control log.
        faults: In no order.
    """

    seed: int
    drift: float = 0.0
    slow: float = 0.0
    platform: bool = True
    partitions: int = 3
    quiet_from: float | None = None
    park_after: int | None = None
    spelled: bool = False
    tidy: bool = False
    steady: bool = False
    exactly_once: bool = False
    faults: tuple[Fault, ...] = ()


SENT = {"heartbeat": 40, "release": 6, "commit": 40, "offsets": 8, "tick": 30, "begin": 12, "end": 12, "init": 2, "left": 3}
DONE = {"plan read": 20, "stop": 4, "drained": 4, "released": 6, "free": 10, "started": 8, "lapse": 3, "batch": 60, "joined": 6}
WRITTEN = {"transaction": 20, "written": 20, "fence": 3}  # of exactly-once histories
LED = {"opened": 3, "decided": 12, "begun": 12, "ended": 12}  # by a controller


def draw(seed: int) -> Schedule:
    """Return the history of a seed. Which kinds of fault occur at all is drawn first, so that histories differ in character."""
    rng = random.Random(seed)
    faults = [*_moves(rng), *(f for make, share in _MAKERS if rng.random() < share for f in make(rng))]
    apart = random.Random(f"exactly once {seed}")  # of its own, so that histories without it stay as they were
    exactly_once = apart.random() < _EXACTLY_ONCE
    if exactly_once:
        faults += _transactions(apart)
    if (apart := random.Random(f"control markers {seed}")).random() < _CONTROL_MARKERS:
        faults += _control_markers(apart)
    return Schedule(
        seed=seed,
        drift=rng.choice((0.0, 0.02, 0.11)),
        slow=rng.choice((0.0, 0.02, 0.1)),
        platform=rng.random() < 0.6,
        partitions=rng.choice((2, 3, 3, 4)),
        quiet_from=rng.choice((None, None, None, 3.0)),
        park_after=rng.choice((None, None, 1, 2)),
        spelled=rng.random() < 0.1,
        tidy=rng.random() < 0.1,
        exactly_once=exactly_once,
        faults=tuple(faults),
    )


def calm(seed: int) -> Schedule:
    """Return a history of planned moves alone: nothing is late, nobody fails."""
    rng = random.Random(seed)
    return Schedule(seed=seed, drift=0.02, faults=(*_moves(rng), *_rolling(rng)))


def _time(rng: random.Random, until: float = FAULTS_END_S - 0.5) -> float:
    return round(rng.uniform(0.8, until), 3)


def _for(rng: random.Random, most: float) -> float:
    return round(rng.uniform(0.1, most), 3)


def _moves(rng: random.Random) -> Iterator[Fault]:
    for _ in range(rng.randint(1, 5)):
        at, partition = _time(rng), rng.randrange(4)
        yield Fault(kind=Kind.MOVE, at=at, partition=partition, to=rng.choice(WORKERS))
        if rng.random() < 0.4:  # A -> B -> A or C, before or after the release
            later = round(at + rng.uniform(0.2, 1.5), 3)
            yield Fault(kind=Kind.MOVE, at=later, partition=partition, to=rng.choice(WORKERS))


def _processes(rng: random.Random) -> Iterator[Fault]:
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice((Kind.CRASH, Kind.PAUSE, Kind.PAUSE, Kind.CUT, Kind.CUT, Kind.LEAVE))
        most = {Kind.CRASH: 3.0, Kind.LEAVE: 2.0}.get(kind, 2.2 * LEASE_S)
        yield Fault(kind=kind, at=_time(rng), who=rng.choice(WORKERS), for_s=_for(rng, most))


def _steps(rng: random.Random) -> Iterator[Fault]:
    """Strike whoever takes a step, while he takes it."""
    for _ in range(rng.randint(1, 3)):
        site, often = rng.choice(list({**DONE, **SENT}.items()))
        kind = rng.choice((Kind.CRASH, Kind.PAUSE, Kind.CUT))
        yield Fault(kind=kind, on=site, nth=rng.randrange(often), for_s=_for(rng, 2.2 * LEASE_S))


def _zombie(rng: random.Random) -> Iterator[Fault]:
    """Pause an owner beyond its lease while others go on."""
    yield Fault(kind=Kind.PAUSE, at=_time(rng, 5.0), who=rng.choice(WORKERS), for_s=round(rng.uniform(LEASE_S, 2.2 * LEASE_S), 3))


def _cut_off(rng: random.Random) -> Iterator[Fault]:
    """Cut an owner off for longer than its lease, after a while in which its answers were late."""
    at, who = _time(rng, 4.0), rng.choice(WORKERS)
    late_s = round(rng.uniform(0.0, 0.9 * LEASE_S), 3)
    yield Fault(kind=Kind.CUT, at=at, who=who, for_s=late_s)
    again = round(at + late_s + rng.uniform(0.05, 0.6), 3)
    yield Fault(kind=Kind.CUT, at=again, who=who, for_s=round(rng.uniform(0.8 * LEASE_S, 2.2 * LEASE_S), 3))


def _messages(rng: random.Random) -> Iterator[Fault]:
    for _ in range(rng.randint(1, 6)):
        site, often = rng.choice(list(SENT.items()))
        kind = rng.choice((Kind.LOSE, Kind.LOSE_ACK, Kind.LATE))
        yield Fault(kind=kind, on=site, nth=rng.randrange(often), for_s=_for(rng, LEASE_S))


def _controllers(rng: random.Random) -> Iterator[Fault]:
    for _ in range(rng.randint(1, 2)):
        kind = rng.choice((Kind.SECOND, Kind.SECOND, Kind.CRASH_CONTROLLER, Kind.PAUSE_CONTROLLER))
        if rng.random() < 0.6:
            yield Fault(kind=kind, at=_time(rng), for_s=_for(rng, 4.0))
        else:
            site, often = rng.choice(list(LED.items()))
            yield Fault(kind=kind, on=site, nth=rng.randrange(often), for_s=_for(rng, 4.0))


def _overtaken(rng: random.Random) -> Iterator[Fault]:
    """Start a second controller while the first stands still, in the middle of whatever it does."""
    site, often = rng.choice(list(LED.items()))
    nth, for_s = rng.randrange(often), round(rng.uniform(1.0, 4.0), 3)
    yield Fault(kind=Kind.PAUSE_CONTROLLER, on=site, nth=nth, for_s=for_s)
    yield Fault(kind=Kind.SECOND, on=site, nth=nth, for_s=round(for_s * rng.uniform(0.2, 0.9), 3))


def _moved_again(rng: random.Random) -> Iterator[Fault]:
    """A -> B while A stands still; B ends before it ever started; the partition goes to C, or back to A."""
    a, b, c = rng.sample(WORKERS, 3)
    at, partition = _time(rng, 6.0), rng.randrange(3)
    yield Fault(kind=Kind.MOVE, at=round(at - rng.uniform(0.5, 1.5), 3), partition=partition, to=a)
    yield Fault(kind=Kind.PAUSE, at=at, who=a, for_s=round(rng.uniform(1.2, 1.6 * LEASE_S), 3))
    yield Fault(kind=Kind.MOVE, at=at, partition=partition, to=b)
    ends = round(at + rng.uniform(0.5, 1.5), 3)
    yield Fault(kind=rng.choice((Kind.CRASH, Kind.LEAVE)), at=ends, who=b, for_s=_for(rng, 3.0))
    yield Fault(kind=Kind.MOVE, at=ends, partition=partition, to=rng.choice((a, c)))


def _rolling(rng: random.Random) -> Iterator[Fault]:
    at, apart = _time(rng, 5.0), rng.uniform(0.3, 2.0)
    for i, name in enumerate(rng.sample(WORKERS, rng.randint(1, 3))):
        yield Fault(kind=Kind.LEAVE, at=round(at + i * apart, 3), who=name, for_s=round(rng.uniform(0.3, 1.0), 3))


def _cluster(rng: random.Random) -> Iterator[Fault]:
    for _ in range(rng.randint(1, 2)):
        kind = rng.choice((Kind.HANG, Kind.FAILOVER))
        yield Fault(kind=kind, at=_time(rng), to=rng.choice(("control", "heartbeats", "offsets")), for_s=_for(rng, 2.0))


def _retention(rng: random.Random) -> Iterator[Fault]:
    for _ in range(rng.randint(1, 3)):
        yield Fault(kind=rng.choice((Kind.TRIM, Kind.COMPACT)), at=_time(rng), partition=rng.choice((0, 2, 10, 40)))


def _strange(rng: random.Random) -> Iterator[Fault]:
    yield Fault(kind=Kind.STRANGE, at=_time(rng), for_s=_for(rng, 9.0))


def _records_gone(rng: random.Random) -> Iterator[Fault]:
    yield Fault(kind=Kind.RECORDS_GONE, at=_time(rng), partition=rng.randrange(3))


def _unpark(rng: random.Random) -> Iterator[Fault]:
    yield Fault(kind=Kind.UNPARK, at=_time(rng))


def _more(rng: random.Random) -> Iterator[Fault]:
    yield Fault(kind=Kind.ADD_PARTITION, at=_time(rng))


def _anew(rng: random.Random) -> Iterator[Fault]:
    kind = rng.choice((Kind.CONTROL_ANEW, Kind.CONTROL_ANEW, Kind.HEARTBEATS_ANEW, Kind.TOPIC_ANEW))
    yield Fault(kind=kind, at=_time(rng, 7.0))


def _transactions(rng: random.Random) -> Iterator[Fault]:
    """Stop or end an owner behind its last check, or between its outputs and its commit; let a fence go astray."""
    if rng.random() < 0.6:  # for as long as it takes until others have gone on with what it holds
        for_s = round(rng.uniform(1.6, 2.5) * LEASE_S, 3)
        yield Fault(kind=Kind.PAUSE, on="transaction", nth=rng.randrange(12), for_s=for_s)
    for _ in range(rng.randint(0, 2)):
        site, often = rng.choice(list(WRITTEN.items()))
        if site == "fence":
            yield Fault(
                kind=rng.choice((Kind.LOSE, Kind.LOSE_ACK, Kind.LATE)), on=site, nth=rng.randrange(often), for_s=_for(rng, 1.0)
            )
        else:
            kind = rng.choice((Kind.PAUSE, Kind.PAUSE, Kind.PAUSE, Kind.CUT, Kind.CRASH))
            for_s = round(rng.uniform(0.5, 2.5) * LEASE_S, 3)
            yield Fault(kind=kind, on=site, nth=rng.randrange(often), for_s=for_s)
    for _ in range(rng.randint(0, 3)):  # a request or its answer is lost, or it comes late; then markers are not written, too
        kind = rng.choice((Kind.LOSE, Kind.LOSE_ACK, Kind.LATE, Kind.LATE))
        nth, for_s = rng.randrange(40), _for(rng, LEASE_S)
        yield Fault(kind=kind, on="commit", nth=nth, for_s=for_s)
        if rng.random() < 0.5:
            yield Fault(kind=Kind.LEADERLESS, on="commit", nth=nth, for_s=for_s)


def _control_markers(rng: random.Random) -> Iterator[Fault]:
    """Replace or end a controller in the middle of a transaction, of which only half may be there, and which gets no marker."""
    for _ in range(rng.randint(1, 2)):
        site, nth, for_s = rng.choice(("begun", "ended")), rng.randrange(12), round(rng.uniform(0.5, 3.0), 3)
        yield Fault(kind=Kind.LEADERLESS, on=site, nth=nth, for_s=for_s, to="control")
        if rng.random() < 0.6:
            kind = rng.choice((Kind.CRASH_CONTROLLER, Kind.PAUSE_CONTROLLER))
            yield Fault(kind=kind, on=site, nth=nth, for_s=for_s)
            yield Fault(kind=Kind.SECOND, on=site, nth=nth, for_s=round(for_s * rng.uniform(0.1, 0.9), 3))


_EXACTLY_ONCE = 0.4  # share of the histories
_CONTROL_MARKERS = 0.2
_MAKERS = (
    (_processes, 0.4),
    (_steps, 0.4),
    (_zombie, 0.4),
    (_cut_off, 0.15),
    (_messages, 0.5),
    (_controllers, 0.25),
    (_overtaken, 0.15),
    (_moved_again, 0.25),
    (_rolling, 0.2),
    (_cluster, 0.25),
    (_retention, 0.3),
    (_strange, 0.15),
    (_more, 0.15),
    (_unpark, 0.1),
    (_records_gone, 0.15),
    (_anew, 0.1),
)  # how to make faults, and the share of histories that have them
