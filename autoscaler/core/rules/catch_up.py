"""What it takes to read a backlog in time: the figures that a group is then sized by, and how that is said.

In time is before records are deleted, which nothing soft holds, or within the time that the operator gives a backlog.
"""

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.sizing.raised_load import raised
from autoscaler.core.sizing.size import measure_size
from autoscaler.model import Finding, Reason, TopicPartition
from autoscaler.model.findings import What


def reading_in_time(cycle: Cycle) -> Cycle:
    """Return the cycle with rates of what is at risk as high as they must be read to be through before records are deleted.

    Where the backlog in bytes is not known, the rate stays what arrives.
    """
    needed = {r.partition: r.needed_bytes_per_s for r in cycle.risks if r.needed_bytes_per_s is not None}
    return replace(_faster(cycle, needed), urgent=True)


def working_off(cycle: Cycle) -> Cycle:
    """Return the cycle with rates of what is behind as high as they must be read to be through in the operator's time."""
    return _faster(cycle, cycle.late)


def _faster(cycle: Cycle, needed: Mapping[TopicPartition, float]) -> Cycle:
    load, planner = raised(cycle.load, cycle.planner, needed, cycle.policy.usable_bytes_per_s)
    size = measure_size(load, cycle.present, cycle.policy, planner, placement=False)
    return replace(cycle, load=load, size=size, planner=planner)


def for_backlog(cycle: Cycle, step: Step) -> Step:
    """Return a step as one that works off a backlog in the operator's time, too; its reason where rates alone ask for none."""
    return step.saying(*backlog_findings(cycle)) if cycle.size.overloaded else as_backlog(cycle, step)


def as_backlog(cycle: Cycle, step: Step) -> Step:
    """Return a step whose reason is the backlog: it asks for what there is, or keeps it until the backlog is read."""
    return replace(
        step, reason=Reason.BACKLOG, findings=(*backlog_findings(cycle), *step.findings), hot=tuple(sorted(cycle.late))
    )


def backlog_findings(cycle: Cycle) -> tuple[Finding, ...]:
    """Return how much is to be worked off in which time."""
    if not cycle.late:
        return ()
    unread = sum(x.lag_bytes or 0.0 for x in cycle.observation.snapshot.loads if x.partition in cycle.late)
    return (
        Finding.of(
            What.CATCHING_UP, partitions=sorted(cycle.late), unread_bytes=unread, within_s=cycle.policy.catch_up_s,
            behind_s=cycle.policy.backlog_s, lag_s=cycle.load.lag_s,
        ),
    )  # fmt: skip


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
