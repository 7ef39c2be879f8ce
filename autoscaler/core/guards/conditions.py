"""What each guard says: questions about one kind of change, each answered with a finding against it, or ``None``.

Part of *guard*; ``table.py`` says in which order they are asked and what they hold.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, auto

from autoscaler.core.cycle.context import Cycle, not_measured
from autoscaler.core.group.history import moved
from autoscaler.core.group.limits import Steps
from autoscaler.model import Finding, TopicPartition
from autoscaler.model.findings import What

_ROUNDING = 1e-9  # of a load: one that equals the capacity is not above it


class Cause(Flag):
    """What asks for a change."""

    LOAD = auto()
    LIMIT = auto()  # the operator's limits, partitions without an owner, or records that are about to be deleted
    FALLBACK = auto()  # the number for when nothing is measured
    UNDOING = auto()  # steps up that were in vain


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One kind of change that a step would make.

    Attributes:
        kind: One of the kinds.
        consumers: Consumers that would be requested or hold something.
        target: Where the partitions would be; ``None``: where they are.
        cause: What asks for it.
    """

    kind: Steps
    consumers: int
    target: Mapping[TopicPartition, int] | None
    cause: Cause = Cause.LOAD


def paused(cycle: Cycle, change: Change) -> Finding | None:
    """Object while the group's own setting holds such steps."""
    return Finding.of(What.PAUSED, paused=cycle.policy.paused) if change.kind in cycle.limits.paused else None


def frozen(cycle: Cycle, change: Change) -> Finding | None:
    """Object while an open window holds such steps."""
    return Finding.of(What.FROZEN, window=cycle.limits.window) if change.kind in cycle.limits.frozen else None


def above(most: int, setting: str, cycle: Cycle, change: Change) -> Finding | None:
    """Object to more consumers than a bound, where it is not passed already."""
    if change.kind is not Steps.GROW or change.consumers <= max(most, len(cycle.present.slots)):
        return None
    return Finding.of(What.ALLOWS, setting=setting, count=most)


def minimum(cycle: Cycle, change: Change) -> Finding | None:
    """Object to fewer than stay in any case."""
    present = len(cycle.present.slots)
    if change.kind is not Steps.SHRINK or min(change.consumers, present - 1) >= cycle.floor:
        return None
    return Finding.of(What.KEEPS, setting=cycle.limits.least_setting, least=cycle.limits.least, present=present)


def measured(cycle: Cycle, change: Change) -> Finding | None:
    """Object to shrinking by what is not known."""
    return not_measured(cycle) if change.cause is Cause.LOAD else None


def settled(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to shrinking around a consumer that is about to end by itself."""
    away = sorted(cycle.present.holders - cycle.present.ready)
    return Finding.of(What.ENDING, consumers=away[:1]) if away else None


def static_members(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to ending a member whose partitions would stand still until its session is over."""
    static = cycle.kind.counted and any(m.instance is not None for m in cycle.kind.listed)
    return Finding.of(What.STATIC_MEMBERS) if static else None


def at_risk(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to shrinking while records may be deleted before they are read."""
    return Finding.of(What.MAY_LOSE, partitions=[r.partition for r in cycle.risks]) if cycle.risks else None


def backlog(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to shrinking while there is something to catch up with."""
    load, most = cycle.load, cycle.policy.backlog_s
    if aged := load.behind_since_unknown:
        return Finding.of(What.BEHIND_UNKNOWN, partitions=aged)
    if load.lag_s is None or load.furthest_behind is None or load.lag_s <= most:
        return None
    return Finding.of(What.BEHIND, partitions=(load.furthest_behind,), lag_s=load.lag_s, limit_s=most)


def stabilised(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to shrinking until fewer have done for the whole window: its highest recommendation counts."""
    history, window = cycle.history, cycle.policy.shrink_stabilisation_s
    if not history.window_full(cycle.now, window):
        since = cycle.now - history.recommendations[0][0] if history.recommendations else 0.0
        return Finding.of(What.FEWER_FOR, lasted_s=since, limit_s=window)
    if history.peak() >= len(cycle.present.slots):
        return Finding.of(What.NEEDED_LATELY, needed=history.peak(), window_s=window)
    return None


def cooled_down(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to shrinking soon after the number changed."""
    last, rest = cycle.history.last_scale_at, cycle.policy.shrink_cooldown_s
    if last is None or cycle.now - last >= rest:
        return None
    return Finding.of(What.COOLING_DOWN, ago_s=cycle.now - last, limit_s=rest)


def flapping(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to shrinking a group that has grown, once its number went up and down often enough this hour."""
    budget, turns = cycle.policy.turns_per_hour, cycle.history.turns_in_the_hour(cycle.now)
    if budget is None or cycle.history.direction <= 0 or turns < budget:
        return None
    return Finding.of(What.FLAPPING, turns=turns, limit=budget)


def gave_up(cycle: Cycle) -> bool:
    """Say whether so many steps up drained no more that another one would not either."""
    most = cycle.policy.give_up_after
    return most is not None and cycle.history.drained.in_vain >= most


def steps_in_vain(cycle: Cycle) -> Finding:
    """Return what the steps up have not brought."""
    drained = cycle.history.drained
    return Finding.of(What.IN_VAIN, steps=drained.in_vain, level_records_per_s=drained.level)


def in_vain(cycle: Cycle, change: Change) -> Finding | None:
    """Object to growing that would not help, beyond what the operator asks for."""
    if not gave_up(cycle) or change.consumers <= cycle.floor:
        return None
    return steps_in_vain(cycle)


def grow_stabilised(cycle: Cycle, change: Change) -> Finding | None:
    """Object to growing until a consumer has been overloaded for the whole of a window, beyond what the operator asks for."""
    if change.consumers <= cycle.floor:
        return None
    since, window = cycle.history.overloaded_since, cycle.policy.grow_stabilisation_s
    lasted = 0.0 if since is None else cycle.now - since
    return Finding.of(What.OVERLOADED_FOR, lasted_s=lasted, limit_s=window) if lasted < window else None


def resting(cycle: Cycle, _change: Change) -> Finding | None:
    """Object to moves at the same number soon after other moves."""
    rest = cycle.history.resting_s(cycle.now, cycle.policy.cooldown_s)
    return None if rest is None else Finding.of(What.MOVES_REST, ago_s=rest, limit_s=cycle.policy.cooldown_s)


def worth_moving(cycle: Cycle, change: Change) -> Finding | None:
    """Object to moves at the same number that delay more bytes than they relieve within ``move_payback_s``.

    Moving costs the moved rate for as long as a partition stands still. It brings that so much less is above the usable rate.
    While a consumer is above its capacity, which no waiting makes good again, every move is worth it.
    """
    payback, rates = cycle.policy.move_payback_s, cycle.load.rates
    if payback is None or change.target is None:
        return None
    owner = cycle.present.owner
    gauge = cycle.planner.gauge
    before, after = gauge.levels(rates, owner), gauge.levels(rates, change.target)
    capacity = cycle.policy.able_bytes_per_s
    if any(cycle.size.loads[c] > capacity * (1 + _ROUNDING) for c in cycle.size.overloaded):
        return None
    usable = cycle.policy.usable_bytes_per_s
    relieved = _above(before, usable) - _above(after, usable)
    goes = moved(owner, change.target)
    rate, pause = math.fsum(rates.get(p, 0.0) for p in goes), cycle.history.pause_s(cycle.policy.move_pause_s)
    if rate * pause <= relieved * payback:
        return None
    return Finding.of(
        What.NOT_WORTH_MOVING,
        partitions=goes,
        rate_bytes_per_s=rate,
        pause_s=pause,
        relieved_bytes_per_s=max(0.0, relieved),
        payback_s=payback,
    )


def _above(loads: Mapping[int, float], usable: float) -> float:
    return math.fsum(max(0.0, load - usable) for load in loads.values())
