"""What it takes to read records before they are deleted: the figures that a group is then sized by, and how that is said."""

import math
from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.sizing.size import measure_size
from autoscaler.model import Finding, Reason
from autoscaler.model.findings import What


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
    size = measure_size(raised, cycle.present, cycle.policy, planner, placement=False)
    return replace(cycle, load=raised, size=size, planner=planner, urgent=True)


def as_urgent(cycle: Cycle, step: Step) -> Step:
    """Return a step as one that is taken because records may be deleted before they are read."""
    return replace(
        step,
        reason=Reason.RETENTION_AT_RISK,
        findings=(*risk_findings(cycle), *step.findings),
        hot=tuple(r.partition for r in cycle.risks),
        ordered=True,
    )


def risk_findings(cycle: Cycle) -> tuple[Finding, ...]:
    """Return which partition loses records first and when, when it is worked off, and those that consumers do not help."""
    if not cycle.risks:
        return ()
    first, usable = cycle.risks[0], cycle.policy.usable_bytes_per_s
    risk = Finding.of(
        What.RETENTION_RISK, partitions=[r.partition for r in cycle.risks], loss_s=first.loss_s, close_s=first.close_s
    )
    too_much = [r.partition for r in cycle.risks if r.needed_bytes_per_s is not None and r.needed_bytes_per_s > usable]
    return (risk, Finding.of(What.BEYOND_ONE_CONSUMER, partitions=too_much, usable_bytes_per_s=usable)) if too_much else (risk,)
