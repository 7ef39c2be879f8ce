"""What another policy would have done with a recorded load, by simulation, beside what happened.

A partition that was not measured goes on at its last rate. Pure: no clock, no I/O.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from autoscaler.model import PartitionLoad, TopicPartition
from autoscaler.simulation.outcome import Outcome, Tally
from autoscaler.simulation.queues import Ints
from autoscaler.simulation.world import Load, World, steps_s

_RECORD_BYTES = 100.0  # of a partition whose records were never counted


def as_it_was(
    load: Load, consumers: Sequence[int], held: Sequence[Ints], behind: Sequence[tuple[float, float]], world: World
) -> Outcome:
    """Return the same figures of what was recorded; what moved is told by who held what at one measurement and the next.

    Args:
        load: What was measured.
        consumers: How many were asked for, at each measurement.
        held: Who held each partition then, by number, -1 for none.
        behind: Age of the oldest unread record and unread bytes then.
        world: What one consumer can do.
    """
    tally = Tally()
    for i, seconds in enumerate(steps_s(load.times)):
        there, rates, (age_s, unread) = held[i] >= 0, load.rates[i], behind[i]
        above = bool((np.bincount(held[i][there], rates[there], 1) > world.consumer_bytes_per_s).any())
        tally.add(seconds, consumers=consumers[i], above=above, behind_s=age_s, backlog=unread)
        moved = there & (held[i + 1] >= 0) & (held[i + 1] != held[i])
        tally.moves += int(moved.sum())
        tally.r_score += float(rates[moved].sum()) / world.usable_bytes_per_s
        tally.scalings += consumers[i + 1] != consumers[i]
    return tally.outcome()


def load_of(times: Sequence[float], measured: Sequence[Sequence[PartitionLoad]], owners: Mapping[TopicPartition, str]) -> Load:
    """Return recorded measurements as arrays; a rate that was not measured is the last that was, 0 before the first.

    Args:
        times: When each was made, ascending.
        measured: What it found.
        owners: Who held what at the beginning, by any name.
    """
    partitions = tuple(sorted({x.partition for loads in measured for x in loads}))
    place = {p: i for i, p in enumerate(partitions)}
    rates, records = np.zeros((len(times), len(partitions))), np.zeros((len(times), len(partitions)))
    for i, loads in enumerate(measured):
        if i:
            rates[i], records[i] = rates[i - 1], records[i - 1]
        for x in loads:
            if x.bytes_per_s is not None and x.records_per_s is not None:
                rates[i, place[x.partition]], records[i, place[x.partition]] = x.bytes_per_s, x.records_per_s
    total, counted = rates.sum(axis=0), records.sum(axis=0)
    sizes = np.where((counted > 0) & (total > 0), total / np.where(counted > 0, counted, 1.0), _RECORD_BYTES)
    number = {name: i for i, name in enumerate(sorted(set(owners.values())))}
    held = np.array([number[owners[p]] if p in owners else -1 for p in partitions], np.int64)
    return Load(times=np.array(times, float), partitions=partitions, rates=rates, record_bytes=sizes, owner=held)
