"""What it takes to read records before they are deleted: the figures that a group is then sized by, and how that is said."""

import math
from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step, names, rate_text, time_text
from autoscaler.core.load.retention_risk import Risk
from autoscaler.core.sizing.size import measure_size
from autoscaler.model import Reason

_HOT = 5  # partitions named in a decision


def catching_up(cycle: Cycle) -> Cycle:
    """Return the cycle with rates of what is at risk as high as they must be read to be through before records are deleted.

    They end at what one consumer is given at most: a partition that takes more than that cannot be helped by more consumers, and
    gets one of its own. Where the backlog in bytes is not known, the rate stays what arrives.
    """
    usable, load = cycle.policy.usable_bytes_per_s, cycle.load
    needed = {
        r.partition: max(load.rates[r.partition], min(usable, r.needed_bytes_per_s))
        for r in cycle.risks
        if r.needed_bytes_per_s is not None and r.partition in load.rates
    }
    raised = replace(
        load,
        rates={**load.rates, **needed},
        measured={**load.measured, **needed},
        total_bytes_per_s=math.fsum({**load.measured, **needed}.values()),
    )
    faster = {p: rate / load.rates[p] for p, rate in needed.items() if load.rates[p] > 0}
    planner = cycle.planner.judging(cycle.planner.gauge.scaled(faster), cycle.planner.there)
    size = measure_size(raised, cycle.present, cycle.policy, planner, advised=False)
    return replace(cycle, load=raised, size=size, planner=planner, urgent=True)


def as_urgent(cycle: Cycle, step: Step) -> Step:
    """Return a step as one that is taken because records may be deleted before they are read."""
    return replace(
        step,
        reason=Reason.RETENTION_AT_RISK,
        detail=f"{risk_text(cycle)}; {step.detail}",
        hot=tuple(r.partition for r in cycle.risks[:_HOT]),
    )


def risk_text(cycle: Cycle) -> str:
    """Say which partition loses records first and when, when it is worked off, and what would help where consumers do not."""
    first, usable = cycle.risks[0], cycle.policy.usable_bytes_per_s
    more = f" (and {len(cycle.risks) - 1} more)" if len(cycle.risks) > 1 else ""
    said = f"{first.partition}{more} may lose its first unread record in {time_text(first.loss_s)} and {_closing(first)}"
    too_much = [r for r in cycle.risks if r.needed_bytes_per_s is not None and r.needed_bytes_per_s > usable]
    if not too_much:
        return said
    return (
        f"{said}; to be through by then {names(tuple(r.partition for r in too_much))} would take more than the "
        f"{rate_text(usable)} of one consumer: lengthen the topic's retention until it is read, or make a consumer faster"
    )


def _closing(risk: Risk) -> str:
    if risk.close_s is None:
        return "nobody knows yet when it is worked off"
    return "is not gained on" if risk.close_s == math.inf else f"is worked off in {time_text(risk.close_s)}"
