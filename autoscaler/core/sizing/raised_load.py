"""*size*: the load of a group in which some partitions must be read faster than records arrive."""

import math
from collections.abc import Mapping
from dataclasses import replace

from autoscaler.core.load.group_load import GroupLoad
from autoscaler.core.sizing.planner import Planner
from autoscaler.model import TopicPartition


def raised(load: GroupLoad, planner: Planner, needed: Mapping[TopicPartition, float], usable: float) -> tuple[GroupLoad, Planner]:
    """Return load and planner with the rates of some partitions as high as they must be read.

    They end at what one consumer is given at most: a partition that takes more than that cannot be helped by more consumers, and
    gets one of its own. No rate becomes lower than what arrives.

    Args:
        load: What arrives.
        planner: Its gauge becomes fuller by as much.
        needed: Bytes per second at which partitions must be read; of those that are not in the load nothing is known.
        usable: Bytes per second that one consumer is given at most.
    """
    higher = faster(load.rates, needed, usable)
    measured = {**load.measured, **higher}
    times = {p: rate / load.rates[p] for p, rate in higher.items() if load.rates[p] > 0}
    more = replace(load, rates={**load.rates, **higher}, measured=measured, total_bytes_per_s=math.fsum(measured.values()))
    return more, planner.judging(planner.gauge.scaled(times), planner.there)


def faster(
    rates: Mapping[TopicPartition, float], needed: Mapping[TopicPartition, float], usable: float
) -> Mapping[TopicPartition, float]:
    """Return the rates of the partitions that must be read faster than records arrive, as ``raised`` counts them."""
    return {p: max(rates[p], min(usable, rate)) for p, rate in needed.items() if p in rates}
