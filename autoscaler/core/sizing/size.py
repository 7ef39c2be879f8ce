"""*size*: how loaded the present consumers are, and how many would do."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from autoscaler.config.policy import Policy
from autoscaler.core.group.observed_group import Present
from autoscaler.core.load.group_load import GroupLoad
from autoscaler.core.sizing.planner import Planner
from autoscaler.model import TopicPartition
from autoscaler.packing import Assignment, Gauge

_ROUNDING = 1e-9  # of the limit: a load that equals it is not above it
_NO_GAUGE = Gauge()


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The figures of one cycle.

    Attributes:
        loads: Bytes per second of every present consumer, by measured and carried rates; its level where there is a gauge.
        overloaded: Consumers above the limit with more than one partition with traffic, by decreasing load.
        hot: Partitions with the largest rates on the overloaded consumers.
        planned: What the algorithm places when nothing bounds it, where it is to be told; ``None`` otherwise.
        wanted: Consumers that the load takes when nothing bounds them; 0 without a measurement.
        calm: How few would do when a tolerance is kept free on each; ``None`` without a measurement.
        lower_bound: No placement uses fewer.
        demand: Consumers like the group's that the total rate would fill if partitions could be split.
        oversized: Partitions above one consumer's usable capacity.
        imbalance: Hottest consumer's load over the mean; ``None`` without load.
    """

    loads: Mapping[int, float]
    overloaded: tuple[int, ...]
    hot: tuple[TopicPartition, ...]
    planned: Assignment | None
    wanted: int
    calm: int | None
    lower_bound: int
    demand: int
    oversized: tuple[TopicPartition, ...]
    imbalance: float | None

    @property
    def hottest(self) -> tuple[int, float]:
        """Return the consumer with the highest load, and that load; consumer -1 without consumers."""
        return max(((c, load) for c, load in self.loads.items()), key=lambda x: (x[1], -x[0]), default=(-1, 0.0))


def measure_size(load: GroupLoad, present: Present, policy: Policy, planner: Planner, *, placement: bool) -> Size:
    """Return the figures of a cycle; those of a ``placement`` only if it is to be shown, because most cycles need none."""
    usable = policy.usable_bytes_per_s
    gauge = planner.gauge
    loads = gauge.levels(load.measured, present.owner, present.live)
    above = overloaded(load.measured, present.owner, policy.overload_bytes_per_s, gauge)
    sizes = gauge.sizes(load.rates) if gauge else load.rates
    order = sorted(above, key=lambda c: (-loads[c], c))
    hot = sorted((p for p, c in present.owner.items() if c in above), key=lambda p: (-load.measured.get(p, 0.0), p))
    planned = planner.best(load.rates, usable, present.owner) if load.rates and placement else None
    wanted = planner.fewest(load.rates, usable, present.owner) if load.rates and planned is None else 0
    calm = planner.fewest(load.rates, policy.calm_bytes_per_s, present.owner) if load.rates else None
    return Size(
        loads=loads,
        overloaded=tuple(order),
        hot=tuple(hot),
        planned=planned,
        wanted=planned.consumers if planned else wanted,
        calm=calm,
        lower_bound=planner.lower_bound(load.rates, usable, present.owner),
        demand=math.ceil(max(load.total_bytes_per_s, math.fsum(gauge.counts.values())) / usable * (1 - _ROUNDING)),
        oversized=tuple(p for p in load.partitions if load.rates and sizes[p] > usable * (1 + _ROUNDING)),
        imbalance=imbalance(loads),
    )


def overloaded(
    rates: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], limit: float, gauge: Gauge = _NO_GAUGE
) -> frozenset[int]:
    """Return the consumers above a limit that more than one partition with traffic put there: moving one would help.

    Of those that are slower than the group's, moving the only one helps too.
    """
    return frozenset(c for c, load in _helped(rates, owner, gauge).items() if load > limit * (1 + _ROUNDING))


def peak_of_shared(rates: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], gauge: Gauge = _NO_GAUGE) -> float:
    """Return the highest load of a consumer that moving a partition would help; 0 if there is none."""
    return max(_helped(rates, owner, gauge).values(), default=0.0)


def _helped(rates: Mapping[TopicPartition, float], owner: Mapping[TopicPartition, int], gauge: Gauge) -> dict[int, float]:
    """Return the loads of the consumers with more than one partition with traffic, or with one and slower than others."""
    busy: dict[int, list[TopicPartition]] = {}
    for p, c in owner.items():
        if rates.get(p, 0.0) > 0:
            busy.setdefault(c, []).append(p)
    helped = {p: c for c, held in busy.items() for p in held if len(held) > 1 or gauge.speed(c) < 1.0}
    return gauge.levels(rates, helped)


def imbalance(loads: Mapping[int, float]) -> float | None:
    """Return the hottest consumer's load over the mean of all; ``None`` without load."""
    total = math.fsum(loads.values())
    return max(loads.values()) * len(loads) / total if total > 0 else None


def relabel(
    owner: Mapping[TopicPartition, int], holders: Collection[int], preferred: Collection[int]
) -> dict[TopicPartition, int]:
    """Return the placement with newly opened consumers renamed, so that those who are there already are used first.

    Args:
        owner: A placement whose consumers that held something before keep their index.
        holders: Consumers that held something before.
        preferred: Consumers that are welcome, best first; after them the lowest indices that are free.
    """
    used = set(owner.values())
    opened, taken = sorted(used - set(holders)), used & set(holders)
    names: dict[int, int] = {}
    free = iter([*preferred, *range(len(taken) + len(opened) + len(preferred))])
    for consumer in opened:
        names[consumer] = next(c for c in free if c not in taken)
        taken.add(names[consumer])
    return {p: names.get(c, c) for p, c in owner.items()}
