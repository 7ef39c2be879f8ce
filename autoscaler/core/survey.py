"""What a few looks at a cluster say of its consumer groups, with nothing configured: too many, too few, uneven, stuck, at risk.

Beside the path: no cycle asks this. Looks are some seconds apart. What could not be read is said and never counts as no load.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from autoscaler.core.assignors.consumer_count import fewest
from autoscaler.core.assignors.forecast import Roof
from autoscaler.core.assignors.group_reader import NO_CONSUMERS, Unpredictable, read_group
from autoscaler.core.load.retention_risk import NEAR, time_to_loss
from autoscaler.core.looks import SETTLED, Ends, GroupLook, Look, rebalances
from autoscaler.model import Member, PartitionLoad, Retention, TopicPartition
from autoscaler.model.reasons import RateSource
from autoscaler.packing import fewest_by_size

STILL_S = 12.0  # without a commit, before a partition counts as standing still: clients commit every 5 s unless told otherwise
BEHIND_S = 10.0  # of work that waits, before a consumer counts as behind: between two commits a healthy one has some, too
BEHIND_RECORDS = 100  # that wait, at least: a few say nothing of what a consumer can do
MEASURE_S = 20.0  # that a consumer must have been behind for, before what it handles is believed
UNEVEN = 1.5  # times what the hottest consumer would have if the load were spread
_OFTEN = 2  # looks between which who holds what changed, at least, and half of all: once is a consumer that came or went
_ROUNDING = 1e-9


class Trouble(IntEnum):
    """What is said of a group, in the order in which it asks for a person."""

    LOST = 0  # records were deleted before they were read
    RETENTION = 1  # some may be soon
    STUCK = 2
    REBALANCING = 3
    UNKNOWN = 4
    UNDER = 5
    NO_CONSUMERS = 6
    UNEVEN = 7
    OVER = 8
    FINE = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """By what consumers are counted.

    Attributes:
        capacity_bytes_per_s: What one consumer handles, as configured; ``None``: what consumers show.
        target: Share of it that is planned for.
        tolerance: Share of that which must stay free where fewer are to do.
    """

    capacity_bytes_per_s: float | None = None
    target: float = 0.8
    tolerance: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One group.

    Attributes:
        troubles: What is said of it, the most urgent first; never empty.
        why_unknown: What could not be read, or does not make sense.
        seconds: Between the first look at it and the last.
        rebalances: Between how many looks who holds what changed, or was being dealt out.
        consumers: Members; ``None``: not known.
        idle: Of these, those without a partition.
        topics: That it consumes.
        partitions: Of these.
        by_bytes: Rates are log bytes/s; ``False``: sizes of logs are not known, and they are records/s.
        arriving: Per second; ``None``: not known.
        consumed: Per second.
        lag: Records; of partitions with a commit.
        grown: By how many records that grew.
        uncommitted: Partitions without a commit, whose lag is not known.
        stuck: Partitions that have records and no new commit.
        at_risk: Partitions whose next record was deleted, or may be soon.
        hottest: The member with the most load, by client id and host, and that load.
        capacity: What one consumer handles, in the same unit; ``None``: not known.
        configured: The capacity is configured, not measured.
        at_least: One handles this and perhaps more: it is what the hottest keeps up with.
        takes: Consumers that the load takes, at most where capacity is ``at_least``; ``None``: not known.
        takes_by_load: The same if partitions were placed by load and not by the group's own assignor.
        saves: Consumers that it could do without.
        oversized: Partitions with more than is planned for one consumer, whatever their number.
    """

    group: str
    troubles: tuple[Trouble, ...]
    why_unknown: tuple[str, ...] = ()
    seconds: float = 0.0
    kind: str = ""
    state: str = ""
    assignor: str = ""
    rebalances: int = 0
    consumers: int | None = None
    idle: int = 0
    topics: tuple[str, ...] = ()
    partitions: int = 0
    by_bytes: bool = False
    arriving: float | None = None
    consumed: float | None = None
    lag: int | None = None
    grown: int = 0
    uncommitted: int = 0
    stuck: tuple[TopicPartition, ...] = ()
    at_risk: tuple[TopicPartition, ...] = ()
    hottest: tuple[str, float] | None = None
    capacity: float | None = None
    configured: bool = False
    at_least: bool = False
    takes: int | None = None
    takes_by_load: int | None = None
    saves: int = 0
    oversized: tuple[TopicPartition, ...] = ()


def survey(looks: Sequence[Look], kept: Mapping[str, Retention], sizings: Mapping[str, Sizing]) -> tuple[Verdict, ...]:
    """Return what is said of each group of consumers, those that ask for a person first.

    Args:
        looks: Two at least, oldest first.
        kept: How long topics keep records, as far as that is known.
        sizings: Of groups that are configured.
    """
    names = sorted({name for look in looks for name in look.groups})
    found = [v for name in names if (v := _verdict(name, looks, kept, sizings.get(name, Sizing()))) is not None]
    return tuple(sorted(found, key=lambda v: (v.troubles[0], -v.grown, -(v.lag or 0), -v.saves, v.group)))


def _verdict(name: str, looks: Sequence[Look], kept: Mapping[str, Retention], sizing: Sizing) -> Verdict | None:
    """Return what is said of a group; ``None`` for one that is not of consumers, or has none and has committed nothing."""
    at = [look.groups.get(name, "it was not there in every look") for look in looks]
    failed = next((x for x in reversed(at) if isinstance(x, str)), None)
    seen = [x for x in at if isinstance(x, GroupLook)]
    if seen and (seen[-1].members.kind in NO_CONSUMERS or not (seen[-1].members.members or seen[-1].committed)):
        return None
    if failed is not None:
        return Verdict(group=name, troubles=(Trouble.UNKNOWN,), why_unknown=(failed,))
    return _Seen(name, looks, seen, kept, sizing).verdict()


class _Seen:
    """One group in all looks."""

    def __init__(
        self, name: str, looks: Sequence[Look], seen: Sequence[GroupLook], kept: Mapping[str, Retention], sizing: Sizing
    ) -> None:
        self._name, self._looks, self._seen, self._kept, self._sizing = name, looks, seen, kept, sizing
        self._members = seen[-1].members.members
        self._topics = _topics(seen[-1])
        self._s = max(_ROUNDING, seen[-1].at - seen[0].at)
        there = [p for p in looks[-1].ends if p.topic in self._topics]
        self._partitions = sorted(p for p in there if all(_followed(look, p, looks[0]) for look in looks))
        apart = sorted(set(there) - set(self._partitions))
        self._unknown = [*self._unread(), *(f"{p} is new, or its log was made anew meanwhile" for p in apart)]
        self._by_bytes = all(self._sized(p) for p in self._partitions)
        self._rates = {p: self._per_record(p) * self._arrived(p) for p in self._partitions}

    def verdict(self) -> Verdict:
        """Return what is said of it."""
        seen, members = self._seen, self._members
        total = math.fsum(self._rates.values())
        lags = {p: self._lag(p, -1) for p in self._partitions}
        known = {p: lag for p, lag in lags.items() if lag is not None}
        beyond = [p for p in lags.keys() - known.keys() if p in seen[-1].committed]
        loads = self._loads()
        capacity, configured, at_least = self._capacity()
        usable = None if capacity is None else capacity if at_least else capacity * self._sizing.target
        takes, by_load, calm = self._takes(usable)
        if at_least and takes is not None and takes > len(members):
            takes = by_load = calm = None  # dealt out anew it might be less even than it is: no more is known
        idle = sum(not m.assigned for m in members) if seen[-1].members.state in SETTLED else 0
        saves = max(idle, len(members) - calm if calm is not None else 0) if members else 0
        stuck, risks = tuple(self._stuck()), tuple(self._risks())
        hottest = max(loads, key=lambda x: x[1], default=None)
        found = Verdict(
            group=self._name,
            troubles=(Trouble.FINE,),
            why_unknown=(*self._unknown, *(self._beyond(p) for p in beyond)),
            seconds=self._s,
            kind=seen[-1].members.kind,
            state=seen[-1].members.state,
            assignor=seen[-1].members.assignor,
            rebalances=rebalances(seen),
            consumers=len(members),
            idle=idle,
            topics=tuple(sorted(self._topics)),
            partitions=len(self._partitions),
            by_bytes=self._by_bytes,
            arriving=None if self._unknown else total,
            consumed=math.fsum(self._per_record(p) * self._drained(p) for p in self._partitions),
            lag=sum(known.values()) if known or not self._partitions else None,
            grown=sum(lag - (self._lag(p, 0) or 0) for p, lag in known.items()),
            uncommitted=len(lags) - len(known) - len(beyond),
            stuck=stuck,
            at_risk=tuple(p for p, _ in risks),
            hottest=hottest and (f"{hottest[0].client_id} on {hottest[0].host}", hottest[1]),
            capacity=capacity,
            configured=configured,
            at_least=at_least,
            takes=takes,
            takes_by_load=by_load,
            saves=0 if self._unknown else saves,
            oversized=tuple(p for p, r in self._rates.items() if usable and r > usable * (1 + _ROUNDING)),
        )
        troubles = tuple(sorted(set(self._troubles(found, dict(risks), loads)))) or (Trouble.FINE,)
        return replace(found, troubles=troubles)

    def _troubles(
        self, v: Verdict, risks: Mapping[TopicPartition, bool], loads: Sequence[tuple[Member, float]]
    ) -> Iterator[Trouble]:
        if any(risks.values()):
            yield Trouble.LOST
        if not self._members:
            yield from self._without_members(v)
            return
        if risks and not any(risks.values()):
            yield Trouble.RETENTION
        if v.stuck:
            yield Trouble.STUCK
        if self._rebalances_often(v.rebalances):
            yield Trouble.REBALANCING
        if v.why_unknown or (v.uncommitted == v.partitions and any(e.end > e.start for e in self._ends())):
            yield Trouble.UNKNOWN
        if self._falls_behind(v.stuck) or (v.takes is not None and v.takes > len(self._members)):
            yield Trouble.UNDER
        elif v.saves:
            yield Trouble.OVER
        best = max(math.fsum(load for _, load in loads) / len(loads), max(self._rates.values(), default=0.0)) if loads else 0.0
        if len(loads) > 1 and v.hottest is not None and v.hottest[1] > UNEVEN * best > 0:
            yield Trouble.UNEVEN

    def _rebalances_often(self, changed: int) -> bool:
        never_settled = all(look.members.state not in SETTLED for look in self._seen)
        return never_settled or (changed >= _OFTEN and 2 * changed >= len(self._seen) - 1)

    def _without_members(self, v: Verdict) -> Iterator[Trouble]:
        if len(v.why_unknown) > len(self._unknown):
            yield Trouble.UNKNOWN
        if v.consumed:  # consumers that assign partitions to themselves are no members
            if self._falls_behind(()):
                yield Trouble.UNDER
        elif v.lag or v.uncommitted or self._unknown:
            yield Trouble.NO_CONSUMERS

    def _beyond(self, p: TopicPartition) -> str:
        """Return why the lag of a partition is not known although it has a commit."""
        committed, end = self._seen[-1].committed[p], self._looks[-1].ends[p].end
        why = "the topic was made anew under its name, or its log lost records"
        return f"the commit of {p}, {committed:,}, is beyond the end of its log, {end:,}: {why}"

    def _unread(self) -> Iterator[str]:
        for topic in sorted(self._topics):
            if why := next((look.unread[topic] for look in self._looks if topic in look.unread), None):
                yield f"topic {topic}: {why}"

    def _ends(self) -> Iterator[Ends]:
        return (self._looks[-1].ends[p] for p in self._partitions)

    def _sized(self, p: TopicPartition) -> bool:
        size = _size_of_record(self._looks[-1], p)
        return size is not None and (size > 0 or self._arrived(p) == 0)

    def _per_record(self, p: TopicPartition) -> float:
        return (_size_of_record(self._looks[-1], p) or 0.0) if self._by_bytes else 1.0

    def _arrived(self, p: TopicPartition) -> float:
        first, last = self._looks[0], self._looks[-1]
        return (last.ends[p].end - first.ends[p].end) / max(_ROUNDING, last.at - first.at)

    def _drained(self, p: TopicPartition) -> float:
        """Return records/s that were committed; a commit that went back counts as none."""
        first, last = (look.committed.get(p) for look in (self._seen[0], self._seen[-1]))
        return 0.0 if first is None or last is None else max(0, last - first) / self._s

    def _lag(self, p: TopicPartition, look: int) -> int | None:
        """Return the records of a partition that wait; ``None`` where nothing is committed, or more than there is."""
        committed, ends = self._seen[look].committed.get(p), self._looks[look].ends[p]
        return None if committed is None or committed > ends.end else ends.end - max(committed, ends.start)

    def _stuck(self) -> Iterator[TopicPartition]:
        """Yield the partitions whose commits stand although there is something to read, in all looks, or that never had one."""
        if self._s < STILL_S or not self._members:
            return
        for p in self._partitions:
            commits = {look.committed.get(p) for look in self._seen}
            waits = self._arrived(p) > 0 if commits == {None} else all(self._lag(p, n) for n in range(len(self._looks)))
            if len(commits) == 1 and waits:
                yield p

    def _risks(self) -> Iterator[tuple[TopicPartition, bool]]:
        """Yield the partitions whose first unread record was deleted (true), or may be soon (false)."""
        for p in self._partitions:
            ends, committed = self._looks[-1].ends[p], self._seen[-1].committed.get(p)
            kept = self._kept.get(p.topic, Retention(seconds=math.inf, bytes=math.inf))
            if committed is None or ends.end <= committed:
                continue
            if committed < ends.start:
                yield p, True
            elif self._near_loss(p, ends, committed, kept):
                yield p, False

    def _near_loss(self, p: TopicPartition, ends: Ends, committed: int, kept: Retention) -> bool:
        if p.topic not in self._kept or kept == Retention(seconds=math.inf, bytes=math.inf):
            return False
        if ends.start > 0 and committed - ends.start <= NEAR * (ends.end - ends.start):
            return True  # of a log that records are deleted from, in the tenth that goes first
        left = time_to_loss(self._load(p, ends, committed), kept)
        return left is not None and left.seconds <= NEAR * left.span_s < math.inf

    def _load(self, p: TopicPartition, ends: Ends, committed: int) -> PartitionLoad:
        """Return a partition as rules look at it; how long its first unread record waits is told by the rate of now."""
        each, arrived, lag = _size_of_record(self._looks[-1], p), self._arrived(p), ends.end - committed
        return PartitionLoad(
            partition=p, topic_id="", bytes_per_s=None if each is None else each * arrived, records_per_s=arrived,
            lag_records=lag, lag_bytes=None if each is None else each * lag,
            lag_s=lag / arrived if arrived else None, committed=committed,
            log_start=ends.start, log_end=ends.end, known=True, age_s=0.0, window_s=self._s, rate_source=RateSource.LOG_DIRS,
        )  # fmt: skip

    def _falls_behind(self, stuck: Sequence[TopicPartition]) -> bool:
        """Say whether the lag of what is consumed grows by more than what lies between two commits."""
        moving = [p for p in self._partitions if p not in stuck]
        lags = [(self._lag(p, 0), self._lag(p, -1)) for p in moving]
        grown = sum(last - first for first, last in lags if first is not None and last is not None)
        return grown > max(1.0, BEHIND_S * math.fsum(self._arrived(p) for p in moving))

    def _loads(self) -> list[tuple[Member, float]]:
        """Return the load of each member; none while it is not settled who holds what."""
        if self._seen[-1].members.state != "STABLE" and self._members:
            return []
        return [(m, math.fsum(self._rates.get(p, 0.0) for p in m.assigned)) for m in self._members]

    def _capacity(self) -> tuple[float | None, bool, bool]:
        """Return what one consumer handles, whether that is configured, and whether it is perhaps more.

        Else one that was behind in all looks shows it, or, if none was, one that keeps up with more than the others.
        """
        given = self._sizing.capacity_bytes_per_s
        if given is not None and self._by_bytes:
            return given, True, False
        kept = [m for m in self._members if self._steady(m)] if self._s >= MEASURE_S else []
        behind = max((x for m in kept if (x := self._handled(m)) is not None), default=None)
        if behind is not None:
            return behind, False, False
        even = max((math.fsum(self._rates[p] for p in m.assigned) for m in kept if self._keeps_up(m)), default=0.0)
        return (even, False, True) if even else (None, False, False)

    def _steady(self, member: Member) -> bool:
        """Say whether a member has held the same all the time, of which the load is known."""
        held = {m.member_id: m.assigned for m in self._seen[0].members.members}.get(member.member_id)
        return held == member.assigned and held <= self._rates.keys()

    def _keeps_up(self, member: Member) -> bool:
        """Say whether a member has no more waiting, in any look, than lies between two commits."""
        most = max(BEHIND_RECORDS, BEHIND_S * math.fsum(self._arrived(p) for p in member.assigned))
        lags = [[self._lag(p, n) for p in member.assigned] for n in range(len(self._looks))]
        return all(None not in x and sum(y for y in x if y is not None) < most for x in lags)

    def _handled(self, member: Member) -> float | None:
        held = member.assigned
        drained = math.fsum(self._drained(p) for p in held)
        lags = [[self._lag(p, n) for p in held] for n in range(len(self._looks))]
        waiting = max(BEHIND_RECORDS, BEHIND_S * drained)
        behind = all(None not in x and sum(y for y in x if y is not None) >= waiting for x in lags)
        return math.fsum(self._per_record(p) * self._drained(p) for p in held) if drained and behind else None

    def _takes(self, usable: float | None) -> tuple[int | None, int | None, int | None]:
        """Return how many the load takes, the same if it were placed by load, and how few would do with a tolerance free."""
        rates = {p: r for p, r in self._rates.items() if r > 0}
        if not usable or self._unknown:
            return None, None, None
        if not rates:
            return 1, 1, 1
        by_load = fewest_by_size(tuple(rates.values()), usable)
        own = self._by_assignor(usable, usable)
        calmly = usable * (1 - self._sizing.tolerance)
        calm = self._by_assignor(calmly, usable) if own is not None else fewest_by_size(tuple(rates.values()), calmly)
        return own if own is not None else by_load, by_load, calm

    def _by_assignor(self, limit: float, usable: float) -> int | None:
        """Return how many the group's own assignor takes; ``None`` where it cannot be foretold, or no number is enough."""
        group = read_group(self._seen[-1].members, self._partitions, dict.fromkeys(self._topics, ""))
        if isinstance(group, Unpredictable):
            return None
        return fewest(group, self._rates, Roof(limit, usable, self._sizing.tolerance), at_least=1, at_most=len(self._partitions))


def _topics(look: GroupLook) -> frozenset[str]:
    """Return the topics that are consumed: those of the members, or, where none says so, those with a commit."""
    said = {t for m in look.members.members for t in (m.topics or ())} | {
        p.topic for m in look.members.members for p in m.assigned
    }
    return frozenset(said or {p.topic for p in look.committed})


def _followed(look: Look, p: TopicPartition, first: Look) -> bool:
    """Say whether a partition is in a look, and its log goes on from the first one."""
    return p in look.ends and p in first.ends and look.ends[p].end >= first.ends[p].end


def _size_of_record(look: Look, p: TopicPartition) -> float | None:
    """Return the log bytes of a record on average over all that the log has; ``None``: not known."""
    ends, size = look.ends[p], look.sizes.get(p)
    if size is None:
        return None
    return size / (ends.end - ends.start) if ends.end > ends.start else 0.0
