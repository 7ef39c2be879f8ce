"""*fallback*: how many consumers there should be once the load could not be measured for so long that waiting is no answer.

Off unless ``fallback`` is set. It knows no load, so it goes by what the operator says, within everything hard. It takes away
no consumer that the last rates need, and not while a guard objects that asks for more than fresh measurements. Measurements that
come and go keep it from acting at all: it waits anew for ``fallback_after_s`` each time.
"""

from collections.abc import Callable
from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.group.limits import Steps
from autoscaler.core.group.observed_group import numbered
from autoscaler.core.guards.conditions import Cause, Change
from autoscaler.core.guards.table import first_objection, least_consumers
from autoscaler.core.load.group_load import assumed_rates
from autoscaler.core.rules.scaling import fill_minimum, keep_maximum
from autoscaler.model import Finding, Reason
from autoscaler.model.findings import What


def or_fallback(rule: Callable[[Cycle], Step | None]) -> Callable[[Cycle], Step | None]:
    """Return a rule that waits for measurements as one that does so for ``fallback_after_s`` at most."""

    def answer(cycle: Cycle) -> Step | None:
        step = rule(cycle)
        return _instead(cycle, step) if step is not None and step.unmeasured else step

    return answer


def _instead(cycle: Cycle, waits: Step) -> Step:
    policy, since = cycle.policy, cycle.history.unusable_since
    if policy.fallback == "hold" or policy.fallback_consumers is None or since is None:
        return waits
    if cycle.now - since < policy.fallback_after_s:
        return waits
    wanted, now = _wanted(cycle, policy.fallback_consumers), _now(cycle)
    asks = Finding.of(What.FALLBACK, fallback=policy.fallback, lasted_s=cycle.now - since, wanted=wanted, now=now)
    idle = replace(
        waits, reason=Reason.FALLBACK, findings=(asks, *waits.findings), limited_by=None, unmeasured=False, ordered=True
    )
    if wanted < now:
        wanted, held = _shrinking(cycle, wanted, now)
        if held is not None:
            idle = replace(idle.saying(held), limited_by=held.limit)
    if cycle.present.pending and not cycle.advised:
        return replace(idle, limited_by=Reason.HANDOVER_IN_PROGRESS)
    step = _counted(cycle, idle, wanted, now) if cycle.kind.counted else _placed(cycle, idle, wanted)
    return idle if step is None else step


def _now(cycle: Cycle) -> int:
    return len(cycle.kind.listed) if cycle.kind.counted else len(cycle.present.slots)


def _wanted(cycle: Cycle, count: int) -> int:
    """Return the number that is asked for, within the operator's other limits."""
    now, limits = _now(cycle), cycle.limits
    if cycle.policy.fallback == "current_if_higher":
        count = max(now, count)
    elif cycle.policy.fallback == "current_if_lower":
        count = min(now, count)
    return max(cycle.floor, min(count, limits.most, max(now, len(cycle.load.partitions))))


def _shrinking(cycle: Cycle, wanted: int, now: int) -> tuple[int, Finding | None]:
    """Return how far the number may come down, and what keeps it from coming down all the way."""
    change = Change(kind=Steps.SHRINK, consumers=wanted, target=None, cause=Cause.FALLBACK)
    if objection := first_objection(cycle, change):
        return now, objection[1]
    if (needed := min(now, cycle.size.calm or 0)) > wanted:
        return needed, replace(Finding.of(What.LAST_RATES_TAKE, needed=needed), limit=Reason.STALE_INPUT)
    bound = least_consumers(cycle)
    if bound.count > wanted:
        return min(now, bound.count), bound.finding
    return wanted, None


def _counted(cycle: Cycle, idle: Step, wanted: int, now: int) -> Step | None:
    return replace(idle, requested=numbered(cycle.kind.started, wanted), counted=True) if wanted != now else None


def _placed(cycle: Cycle, idle: Step, wanted: int) -> Step | None:
    """Return the step to that number, as to one that is pinned; partitions without any rate count alike."""
    rates = cycle.load.rates or assumed_rates(cycle.load.partitions, cycle.policy.usable_bytes_per_s, wanted)
    fixed = replace(
        cycle, load=replace(cycle.load, rates=rates), limits=replace(cycle.limits, least=wanted, most=wanted, fallback=True)
    )
    step = keep_maximum(fixed) or fill_minimum(fixed)
    if step is None:
        return None
    return replace(step, findings=(*idle.findings, *step.findings), limited_by=step.limited_by or idle.limited_by)
