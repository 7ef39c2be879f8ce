"""Partitions as queues of bytes that consumers share the reading of. Part of *simulation*; compiled by ``packing/kernels/jit``.

Bytes are a fluid: they arrive evenly within a step, or many in one instant before it; a consumer divides what it can process
among its partitions by what waits in them, and a queue is read in the order of arrival, so that it is known how old a byte is as
it is read. A step is as exact as it is short.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.handover.records import AGE_BOUNDS_S
from autoscaler.packing.kernels.jit import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


_PARTS = 4  # of what is read in a step, each of which has an age of its own
AGES = len(AGE_BOUNDS_S) + 1
_FIRST_S, _PER_DECADE = AGE_BOUNDS_S[0], 20.0  # of ``AGE_BOUNDS_S``


class Queues(NamedTuple):
    """What has arrived and been read so far; everything is changed in place.

    Attributes:
        arrived: Bytes, ``float64[partitions]``.
        read: Bytes, ``float64[partitions]``.
        late: Of these, bytes that were older than wanted as they were read: ``float64[1]``.
        seen_at: Times of the points of the curve of arrivals that are kept, a ring: ``float64[points]``.
        seen: What had arrived then: ``float64[points, partitions]``.
        place: First and last of the kept points, counted from the beginning: ``int64[2]``.
        ages: Bytes that each consumer has read, by age as in ``AGE_BOUNDS_S``: ``float64[consumers, bounds + 1]``; no rows: not
            asked.
        read_at: Of each partition, the kept point before which all has been read: ``int64[partitions]``.
    """

    arrived: Floats
    read: Floats
    late: Floats
    seen_at: Floats
    seen: Floats
    place: Ints
    ages: Floats
    read_at: Ints


def empty_queues(partitions: int, at: float, points: int) -> Queues:
    """Return queues in which nothing waits, with room for some points of the curve of arrivals."""
    return Queues(
        arrived=np.zeros(partitions),
        read=np.zeros(partitions),
        late=np.zeros(1),
        seen_at=np.full(points, at),
        seen=np.zeros((points, partitions)),
        place=np.zeros(2, np.int64),
        ages=np.zeros((0, AGES)),
        read_at=np.zeros(partitions, np.int64),
    )


@compiled
def arrive_at_once(queues: Queues, arriving: Floats, at: float) -> None:
    """Let bytes arrive in one instant: ``float64[partitions]``."""
    _keep(queues, at)
    queues.arrived[:] += arriving
    _keep(queues, at)


@compiled
def pass_step(  # noqa: PLR0917  compiled code knows no keywords
    queues: Queues, rates: Floats, owner: Ints, free_at: Floats, able: Floats, at: float, step_s: float, within_s: float
) -> None:
    """Let bytes arrive evenly and be read for one step.

    Args:
        queues: Changed in place.
        rates: Bytes/s that arrive in each partition: ``float64[partitions]``.
        owner: Consumer that holds it, -1: none: ``int64[partitions]``.
        free_at: Before which it stands still, because it changes hands: ``float64[partitions]``.
        able: Bytes/s that each consumer can process, 0 before it is there: ``float64[consumers]``.
        at: When the step begins.
        step_s: How long it is.
        within_s: Age above which a byte is late as it is read; 0: that is not asked.
    """
    end = at + step_s
    for p in range(len(rates)):
        queues.arrived[p] += rates[p] * step_s
    _keep(queues, end)
    waits = np.zeros(len(rates))
    total = np.zeros(len(able))
    for p in range(len(rates)):
        c = owner[p]
        if c >= 0 and able[c] > 0 and free_at[p] < end:
            waits[p] = (queues.arrived[p] - queues.read[p]) * min(1.0, (end - free_at[p]) / step_s)
            total[c] += waits[p]
    before, part = _point(queues, end - step_s / 2 - within_s) if within_s > 0 else (0, 0.0)
    for p in range(len(rates)):
        if waits[p] <= 0:
            continue
        can = able[owner[p]] * step_s
        done = waits[p] * min(1.0, can / total[owner[p]])
        if within_s > 0:
            old = queues.seen[before % len(queues.seen_at), p]
            old += part * (queues.seen[(before + 1) % len(queues.seen_at), p] - old)
            queues.late[0] += min(max(old - queues.read[p], 0.0), done)
        if len(queues.ages):
            busy_s = step_s * min(1.0, total[owner[p]] / can)  # what waits is read one after the other from the beginning on
            for i in range(_PARTS):
                read_at = at + busy_s * (i + 0.5) / _PARTS
                _count_ages(queues, p, queues.read[p] + done * i / _PARTS, done / _PARTS, read_at, queues.ages[owner[p]])
        queues.read[p] += done


@compiled
def waits_late(queues: Queues, at: float, within_s: float) -> float:
    """Return the unread bytes that are late already, by the same measure as those that were read."""
    before, part = _point(queues, at - within_s)
    late = 0.0
    for p in range(len(queues.read)):
        old = queues.seen[before % len(queues.seen_at), p]
        old += part * (queues.seen[(before + 1) % len(queues.seen_at), p] - old)
        late += max(old - queues.read[p], 0.0)
    return late


@compiled
def _count_ages(  # noqa: PLR0917  compiled code knows no keywords
    queues: Queues, p: int, begin: float, done: float, at: float, ages: Floats
) -> None:
    """Add bytes of a partition that are read at a time, those from ``begin`` on, to the counts by age."""
    points, end = len(queues.seen_at), begin + done
    i = max(queues.read_at[p], queues.place[1] - points + 1)
    while begin < end - 1e-9:
        while i + 1 < queues.place[1] and queues.seen[(i + 1) % points, p] <= begin:
            i += 1
        had, has = queues.seen[i % points, p], queues.seen[(i + 1) % points, p]
        until = min(end, has) if i + 1 < queues.place[1] else end
        first, last = queues.seen_at[i % points], queues.seen_at[(i + 1) % points]
        part = ((begin + until) / 2 - had) / (has - had) if has > had else 0.0
        ages[_bucket(at - first - min(max(part, 0.0), 1.0) * (last - first), ages.shape[0])] += until - begin
        begin = until
    queues.read_at[p] = i


@compiled
def _bucket(age_s: float, buckets: int) -> int:
    """Return where an age is counted."""
    if age_s <= _FIRST_S:
        return 0
    return min(math.ceil(_PER_DECADE * math.log10(age_s / _FIRST_S) - 1e-9), buckets - 1)


@compiled
def _keep(queues: Queues, at: float) -> None:
    """Add a point to the curve of arrivals, in place of the oldest where there is no room."""
    queues.place[1] += 1
    queues.place[0] = max(queues.place[0], queues.place[1] - len(queues.seen_at) + 1)
    queues.seen_at[queues.place[1] % len(queues.seen_at)] = at
    queues.seen[queues.place[1] % len(queues.seen_at)] = queues.arrived


@compiled
def _point(queues: Queues, at: float) -> tuple[int, float]:
    """Return the kept point before a time, and the share of the way to the next at which the time lies."""
    points = len(queues.seen_at)
    i = queues.place[0]
    while i + 1 < queues.place[1] and queues.seen_at[(i + 1) % points] <= at:
        i += 1
    queues.place[0] = i  # times only go on: what is older is not asked for again
    first, last = queues.seen_at[i % points], queues.seen_at[(i + 1) % points]
    if i == queues.place[1] or last <= first:
        return i, 0.0
    return i, min(max((at - first) / (last - first), 0.0), 1.0)
