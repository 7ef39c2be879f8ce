"""What speaks for and against another number of consumers, worked out afterwards from what was recorded of a decision.

Beside the path: no cycle asks this. It judges a number by the recorded loads and the usable rate alone; what held the decision
then, such as a guard, stands in the decision's own findings. Where the record does not say enough, that is what is found.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.core.assignors.forecast import Roof, fits, forecast
from autoscaler.core.assignors.group_model import NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable
from autoscaler.core.group.history import moved
from autoscaler.model import Finding, TopicPartition
from autoscaler.model.findings import What
from autoscaler.packing import ALGORITHMS, PRESETS, Given, consumer_loads, fit_count, lower_bound

_ROUNDING = 1e-9
_TOO_SLOW = "EXACT"  # asks a solver for as long as a cycle may take
_INSTEAD = "PACE"  # places where the group's own algorithm is not asked; whether a number is enough does not depend on who places


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the record of a decision has of the load.

    Attributes:
        rates: Bytes/s of every partition that counted; empty where none were recorded.
        complete: They are all that the decision went by.
        owner: Who held each partition before, by index.
        usable_bytes_per_s: What one consumer could be given.
        calm_bytes_per_s: The same with the tolerance kept free, for which fewer must be enough; ``None``: that is not known.
        algorithm: What placed, as the audit names it.
        consumers: How many were asked for, or advised.
        by_assignor: One of Kafka's own assignors places, not this controller; ``None``: that is not known.
        group: The group as that assignor sees it, or why it cannot be followed; ``None``: that is not recorded.
    """

    rates: Mapping[TopicPartition, float]
    complete: bool
    owner: Mapping[TopicPartition, int] = field(default_factory=dict)
    usable_bytes_per_s: float
    calm_bytes_per_s: float | None = None
    algorithm: str
    consumers: int
    by_assignor: bool | None = False
    group: NativeGroup | Unpredictable | None = None


def judge_count(recorded: Recorded, count: int) -> tuple[Finding, ...]:
    """Return what another number of consumers, at least one, would have meant, the most telling first."""
    found = _unjudged(recorded) or _without_placing(recorded, count)
    return (found,) if found is not None else _placed(recorded, count)


def _unjudged(recorded: Recorded) -> Finding | None:
    """Return what the record lacks for judging any number; ``None`` if nothing."""
    if not recorded.rates:
        return Finding.of(What.LOADS_NOT_RECORDED)
    if not recorded.complete:
        return Finding.of(What.LOADS_LEFT_OUT)
    name = recorded.algorithm.partition(" ")[0]
    return None if name in ALGORITHMS else Finding.of(What.NOT_WORKED_OUT, algorithm=name)


def _without_placing(recorded: Recorded, count: int) -> Finding | None:
    """Return what is certain, whatever places; ``None`` where a placement has to be looked for."""
    usable, rates = recorded.usable_bytes_per_s, recorded.rates
    if count > len(rates):
        return Finding.of(What.MORE_THAN_PARTITIONS, count=count, idle=count - len(rates), listed=len(rates))
    total = math.fsum(rates.values())
    needed = lower_bound(rates.values(), usable)
    if needed > count:
        return Finding.of(
            What.CANNOT_HOLD, count=count, needed=needed, total_bytes_per_s=total, usable_bytes_per_s=usable,
            room_bytes_per_s=count * usable,
        )  # fmt: skip
    if recorded.by_assignor is False:
        return None
    if recorded.by_assignor and recorded.group is not None:
        return _dealt_out(recorded, recorded.group, count)
    what = What.ASSIGNOR_NOT_RECORDED if recorded.by_assignor else What.PLACED_BY_NOT_RECORDED
    return Finding.of(what, count=count, room_bytes_per_s=count * usable, total_bytes_per_s=total)


def _dealt_out(recorded: Recorded, group: NativeGroup | Unpredictable, count: int) -> Finding:
    """Return what the group's own assignor makes of the number."""
    if isinstance(group, Unpredictable):
        return group.why
    told = forecast(group, recorded.rates, count)
    if told is None:
        return Finding.of(What.ASSIGNOR_NOT_FOLLOWED, assignor=group.assignor, count=count)
    usable, fewer = recorded.usable_bytes_per_s, count < recorded.consumers
    calm = recorded.calm_bytes_per_s
    tolerance = 0.0 if calm is None else 1 - calm / usable
    limit = usable if calm is None or not fewer else calm
    enough = fits(group, recorded.rates, count, Roof(limit, usable, tolerance))
    here = fits(group, recorded.rates, recorded.consumers, Roof(usable, usable, tolerance))
    what = What.DEALT_OUT_ABOVE if not enough else What.DEALT_OUT_WITHIN if fewer or not here else What.DEALT_OUT_SPARE
    return Finding.of(
        what, count=count, assignor=group.assignor, high_bytes_per_s=told.high, limit_bytes_per_s=limit
    )  # fmt: skip


def _owner(recorded: Recorded, count: int) -> Mapping[TopicPartition, int]:
    """Return where the group's own algorithm places the partitions on so many consumers."""
    name, _, words = recorded.algorithm.partition(" ")
    placing = _INSTEAD if name == _TOO_SLOW else name
    preset = words.partition(" ")[0]
    options: Given = {"preset": preset} if placing == _INSTEAD and preset in PRESETS else {}
    usable = recorded.usable_bytes_per_s
    return fit_count(recorded.rates, usable, recorded.owner, placing, at_least=count, at_most=count, **options).plan.owner


def _hottest(recorded: Recorded, count: int) -> float:
    return max(consumer_loads(recorded.rates, _owner(recorded, count)).values())


def _placed(recorded: Recorded, count: int) -> tuple[Finding, ...]:
    """Return what the group's own algorithm makes of the number."""
    usable, rates, owner = recorded.usable_bytes_per_s, recorded.rates, _owner(recorded, count)
    most = usable * (1 + _ROUNDING)
    hottest = max(consumer_loads(rates, owner).values())
    figures = {"high_bytes_per_s": hottest, "usable_bytes_per_s": usable, "moved": len(moved(recorded.owner, owner))}
    alone = sorted((p for p, rate in rates.items() if rate > most), key=lambda p: (-rates[p], p))
    if alone:
        first = rates[alone[0]]
        return (Finding.of(What.ONE_PARTITION_ABOVE, count=count, partitions=alone, load_bytes_per_s=first, numbers=figures),)
    if hottest > most:
        return (Finding.of(What.NONE_FOUND_TO_HOLD, count=count, numbers=figures),)
    if count > recorded.consumers and _hottest(recorded, recorded.consumers) <= most:
        return (Finding.of(What.WOULD_LEAVE_ROOM, count=count, numbers=figures),)
    holds = Finding.of(What.WOULD_HOLD, count=count, numbers=figures)
    calm = recorded.calm_bytes_per_s
    if count < recorded.consumers and calm is not None and hottest > calm * (1 + _ROUNDING):
        return (holds, Finding.of(What.NOTHING_TO_SPARE, limit_bytes_per_s=calm, high_bytes_per_s=hottest))
    return (holds,)
