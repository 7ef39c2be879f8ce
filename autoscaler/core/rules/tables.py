"""Which rules hold for which kind of group, in their order: the first that answers decides, as far as the guards let it."""

from collections.abc import Callable

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.group.kinds import Conflicting, Managed, Native, Placed, Unmanaged, Unread
from autoscaler.core.rules import native, placed
from autoscaler.core.rules.fallback import or_fallback
from autoscaler.core.rules.readiness import (
    need_fresh,
    need_fresh_count,
    need_joined,
    need_members,
    need_partitions,
    need_rates,
    need_stable,
    refuse_foreign,
    wait_for_application,
    wait_for_application_counted,
)
from autoscaler.core.rules.rest import end_idle, rest, rest_counted
from autoscaler.core.rules.scaling import fill_minimum, give_back, keep_maximum, relieve, shrink, wait_for_handover
from autoscaler.core.rules.unassigned import place_added, place_first, replace_lost

Rule = Callable[[Cycle], Step | None]

_PLACING: tuple[Rule, ...] = (
    replace_lost,
    or_fallback(place_first),
    place_added,
    or_fallback(need_rates),
    wait_for_application,
    or_fallback(need_fresh),
)
_SIZING: tuple[Rule, ...] = (keep_maximum, give_back, relieve, fill_minimum, shrink)

MANAGED: tuple[Rule, ...] = (refuse_foreign, need_partitions, *_PLACING, wait_for_handover, *_SIZING, end_idle, rest)

UNMANAGED: tuple[Rule, ...] = (need_partitions, need_joined, *_PLACING, wait_for_handover, *_SIZING, end_idle, rest)

PLACED: tuple[Rule, ...] = (
    need_partitions,
    placed.settle_members,
    native.refuse_unpredictable,
    placed.follow,
    *_PLACING,
    *_SIZING,
    end_idle,
    rest,
)

NATIVE: tuple[Rule, ...] = (
    need_partitions,
    native.settle,
    need_stable,
    native.start_first,
    native.refuse_unpredictable,
    or_fallback(need_rates),
    wait_for_application_counted,
    native.keep_bounds,
    or_fallback(need_fresh_count),
    native.give_back,
    native.grow,
    native.shrink,
    rest_counted,
)

UNREAD: tuple[Rule, ...] = (need_partitions, need_members)

CONFLICTING: tuple[Rule, ...] = (native.refuse_managed,)

_LEFT_TO_POLICY = {give_back, relieve, fill_minimum, shrink}  # where a published policy sizes the group


def rules_of(cycle: Cycle) -> tuple[Rule, ...]:
    """Return the rules that hold for a group, in their order; the last one always answers."""
    match cycle.kind:
        case Conflicting():
            return CONFLICTING
        case Managed():
            return _sized(cycle, MANAGED)
        case Unmanaged():
            return _sized(cycle, UNMANAGED)
        case Unread():
            return UNREAD
        case Placed():
            return PLACED
        case Native():
            return NATIVE


def _sized(cycle: Cycle, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules with a published policy's in place of those that size, where the configuration names one."""
    if cycle.policy.sizing == "rates":
        return rules
    kept = [r for r in rules if r not in _LEFT_TO_POLICY]
    return (*kept[:-2], _as_published, *kept[-2:])


def _as_published(cycle: Cycle) -> Step | None:
    """Do as a published policy says; its module is loaded only where the configuration names one."""
    from autoscaler.core.rules.published import as_published  # noqa: PLC0415

    return as_published(cycle)
