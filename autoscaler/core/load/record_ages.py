"""*load*: how old records are as workers process them, and what follows for a promise: a share of them within a time.

How full a consumer may be follows from the ages at which records were processed. Two laws carry an age from the load at which it
was seen to another load, and the stricter one counts. Records that come together wait for each other: their ages grow as the load
does. Records that come at random wait as in a queue with one server: their ages grow as 1 / (1 - load) (heavy traffic, Kingman
1961). Neither holds for a worker that works off a backlog: that has taken or given up something lately, gets more than it can
process, or processes more than arrives.

What may be late is a budget. As much of it as was not used lately may be used by fuller consumers, and as long as backlogs have
used little of it, consumers are given back soon: each time that one has to come again costs some of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.handover.records import AGE_BOUNDS_S
from autoscaler.model import TopicPartition, WorkerView

Floats = NDArray[np.float64]

FULLEST, EMPTIEST = 0.95, 0.1  # that a consumer is planned to be, whatever the ages say
_ENOUGH = 100.0  # records, from which on ages say something
_AGES_S = 120.0  # half-life of ages
_BUDGET_S = 600.0  # half-life of what was late
_MORE, _LESS = 20.0, 0.5  # times the share that may be late, where little of it was used lately, and where too much was
_IDLE = 0.02  # load below which a consumer's ages say nothing of fuller ones
_SETTLED_S = 10.0  # after which what a worker took or gave up does not show in its ages any more
_WORKED_S = 5.0  # half-life of how busy a worker was
_BACKLOG = 0.25  # of the promised time: if every record of a look is older, there was one
_DRAINS = (1.25, 0.1)  # times what arrives, and more by that: who is busier works off a backlog
_SOONER, _SOONEST = 0.3, 3.0  # of the budget that backlogs may use before consumers stay longer; start-up times that they stay
_EMPTIER = 0.7  # times the load that was seen: not emptier at once
_EDGES = np.array([0.0, *AGE_BOUNDS_S, 2 * AGE_BOUNDS_S[-1]])


class Told(NamedTuple):
    """What is remembered of a worker.

    Attributes:
        at: When it last told of records.
        busy_s: Its total then.
        busy: The share of the time before that it was busy.
        worked: The same of a longer time.
        owned: What it holds.
        since: Since when it has held just that.
    """

    at: float
    busy_s: float
    busy: float
    worked: float
    owned: frozenset[TopicPartition]
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """What workers have shown, counted in records; older looks count less and less.

    Attributes:
        since: When the first look was; ``None`` before.
        at: When the latest was.
        by_load: By age over their worker's load, one count for each of ``AGE_BOUNDS_S`` and one for the rest.
        by_room: By age times what was free of their worker, likewise.
        loads: The sum of the loads at which these were counted.
        judged: All records.
        late: Those that were older than promised.
        backlog: Those of them that a worker processed while it worked off a backlog.
        workers: Those that live, by uuid.
    """

    since: float | None = None
    at: float = 0.0
    by_load: tuple[float, ...] = ()
    by_room: tuple[float, ...] = ()
    loads: float = 0.0
    judged: float = 0.0
    late: float = 0.0
    backlog: float = 0.0
    workers: Mapping[str, Told] = field(default_factory=dict)

    def seen(self, workers: Iterable[WorkerView], loads: Mapping[int, float], within_s: float, now: float) -> "Ages":
        """Return the value after one more look; one at the same time changes nothing.

        Args:
            workers: Who lives, with the ages of the records processed since the look before.
            loads: What arrives for each consumer, as a share of what it can process.
            within_s: Age that is promised.
            now: When that is.
        """
        if self.since is not None and now <= self.at:
            return self
        past_s = 0.0 if self.since is None else now - self.at
        faded = 0.5 ** (past_s / _AGES_S)
        by_load, by_room, seen = _faded(self.by_load, faded), _faded(self.by_room, faded), self.loads * faded
        judged, late, backlog = (x * 0.5 ** (past_s / _BUDGET_S) for x in (self.judged, self.late, self.backlog))
        known = dict[str, Told]()
        for worker in workers:
            told = known[worker.uuid] = _told(self.workers.get(worker.uuid), worker, now)
            if not worker.ages or worker.slot is None:
                continue
            edges, below = _spread(worker.ages)
            old = float(below[-1] - np.interp(within_s, edges, below))
            judged, late = judged + float(below[-1]), late + old
            load = loads.get(worker.slot, 0.0)
            drains = told.worked > _DRAINS[0] * load + _DRAINS[1]
            if now - told.since < _SETTLED_S or drains or load >= 1:
                backlog += old * (_EDGES[worker.ages[0][0]] > _BACKLOG * within_s)
            elif load >= _IDLE:
                by_load += np.diff(np.interp(_EDGES * max(told.busy, _IDLE), edges, below))
                by_room += np.diff(np.interp(_EDGES / (1 - load), edges, below))
                seen += load * float(below[-1])
        return replace(
            self,
            since=now if self.since is None else self.since,
            at=now,
            by_load=tuple(by_load.tolist()),
            by_room=tuple(by_room.tolist()),
            loads=seen,
            judged=judged,
            late=late,
            backlog=backlog,
            workers=known,
        )

    @property
    def known(self) -> bool:
        """Say whether enough records have been seen to say something."""
        return sum(self.by_load) >= _ENOUGH

    @property
    def late_share(self) -> float:
        """Return the share of the records that were too old; 0 before any."""
        return self.late / self.judged if self.judged >= _ENOUGH else 0.0

    def burst_s(self, share: float) -> float:
        """Return for how long records come that a full consumer processes one after the other; 0 while that is not known."""
        return _quantile(self.by_load, share) if self.known else 0.0

    def fullest(self, within_s: float, share: float) -> float | None:
        """Return how full a consumer may be so that this share is processed within the time; ``None`` while that is not known."""
        if not self.known or self.since is None:
            return None
        told = 1 - 0.5 ** ((self.at - self.since) / _BUDGET_S)  # at the beginning the budget counts as used up just so
        used = told * self.late_share / (1 - share) + 1 - told
        part = 1 - min(0.5, (1 - share) * min(max(max(used, 1e-3) ** -3, _LESS), _MORE))
        bursts = within_s / max(_quantile(self.by_load, part), 1e-9)
        queue = 1 - _quantile(self.by_room, part) / within_s
        seen = self.loads / sum(self.by_load)
        return max(EMPTIEST, _EMPTIER * seen, min(bursts, queue, FULLEST))

    def stay_s(self, share: float, start_s: float) -> float:
        """Return for how long fewer consumers must have done before some are given back.

        Args:
            share: Of the records, that is promised.
            start_s: That a consumer takes to be there once it is asked for.
        """
        used = self.backlog / self.judged / (1 - share) if self.judged >= _ENOUGH else 0.0
        return _SOONEST * start_s * float(max(1.0, (used / _SOONER) ** 3))


def _told(before: Told | None, worker: WorkerView, now: float) -> Told:
    """Return what is remembered of a worker after a look; how busy it was is judged when it tells of records."""
    if before is None:
        return Told(now, worker.busy_s, 0.0, 0.0, worker.owned, now)
    since = before.since if worker.owned == before.owned else now
    if not worker.ages:
        return before._replace(owned=worker.owned, since=since)
    past_s = now - before.at
    busy = min(1.0, max(0.0, worker.busy_s - before.busy_s) / past_s)
    worked = busy + (before.worked - busy) * 0.5 ** (past_s / _WORKED_S)
    return Told(now, worker.busy_s, busy, worked, worker.owned, since)


def _faded(counts: tuple[float, ...], by: float) -> Floats:
    return np.array(counts) * by if counts else np.zeros(len(_EDGES) - 1)


def _spread(ages: Sequence[tuple[int, int]]) -> tuple[Floats, Floats]:
    """Return edges of ages, and how many records are below each: evenly between two.

    The highest age lies somewhere below the last edge: where it would be if records were as dense as in the place before.
    """
    counts, edges = np.zeros(len(_EDGES) - 1), _EDGES.copy()
    for index, count in ages:
        counts[min(index, len(counts) - 1)] += count
    last = int(np.flatnonzero(counts)[-1])
    if last and counts[last - 1] > 0:
        dense = counts[last - 1] / (edges[last] - edges[last - 1])
        edges[last + 1] = min(edges[last + 1], edges[last] + counts[last] / dense)
    return edges, np.concatenate([[0.0], np.cumsum(counts)])


def _quantile(counts: tuple[float, ...], share: float) -> float:
    below = np.concatenate([[0.0], np.cumsum(counts)])
    return float(np.interp(share * below[-1], below, _EDGES)) if below[-1] > 0 else 0.0
