"""What is left to do when the number and the placement of consumers stay: end idle ones, and say how the group is."""

from dataclasses import replace

from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.cycle.utilisation import carries, of_partition
from autoscaler.core.rules.beside import not_advancing
from autoscaler.core.rules.catch_up import as_backlog, as_urgent
from autoscaler.core.rules.offset_reset import found, resets
from autoscaler.model import Finding, Reason
from autoscaler.model.findings import What

_ROUNDING = 1e-9


def end_idle(cycle: Cycle) -> Step | None:
    """End consumers that hold nothing and that no plan asks for."""
    idle = sorted(removable(cycle) - (cycle.present.requested or frozenset()))
    if not idle:
        return None
    return Step(reason=Reason.UNDERUSED, findings=(Finding.of(What.END_IDLE, consumers=idle),))


def removable(cycle: Cycle) -> frozenset[int]:
    """Return live consumers that hold nothing and are owed nothing; none while anything is still changing hands."""
    if not cycle.kind.places or cycle.present.pending:
        return frozenset()
    return cycle.present.live - cycle.present.occupied


def rest(cycle: Cycle) -> Step:
    """Change nothing, and say what an operator may want to act on."""
    step, present = _settled(cycle), cycle.present
    if cycle.risks:
        return as_urgent(cycle, step)
    if stuck := (*sorted(present.parked), *cycle.load.stalled):
        findings = (*not_advancing(cycle), *step.findings)
        return replace(step, reason=Reason.STUCK_PARTITION, findings=findings, hot=stuck)
    if cycle.late and step.reason is Reason.WITHIN_TARGET:
        step = as_backlog(cycle, step)
    if not present.out_of_range:
        return step
    findings = (*found(present.out_of_range, resets(cycle), cycle.policy.reset_policy), *step.findings)
    return replace(step, reason=Reason.OFFSET_OUT_OF_RANGE, findings=findings, hot=tuple(sorted(present.out_of_range)))


def rest_counted(cycle: Cycle) -> Step:
    """The same for a group of which only the number of consumers is set, with the partitions that no member has."""
    step = replace(rest(cycle), counted=True)
    unheld = tuple(p for p in cycle.present.unplaced if cycle.load.rates.get(p, 0.0) > 0)
    if not unheld or cycle.risks:
        return step
    finding = Finding.of(What.UNHELD, partitions=unheld, rate_bytes_per_s=sum(cycle.load.rates[p] for p in unheld))
    return replace(step, reason=Reason.PARTITIONS_CHANGED, findings=(finding, *step.findings), hot=unheld)


def unless_oversized(cycle: Cycle, step: Step) -> Step:
    """Report a partition above capacity rather than a shrinking that is held: it is what the operator can act on."""
    return rest(cycle) if step.spares and step.idle and cycle.size.oversized else step


def _settled(cycle: Cycle) -> Step:
    size, usable = cycle.size, cycle.policy.usable_bytes_per_s
    if size.oversized:
        first = size.oversized[0]
        ceiling = len(cycle.present.holders) == len(cycle.load.partitions)
        limit = Reason.AT_PARTITION_CEILING if ceiling else None
        finding = Finding.of(What.OVERSIZED, partitions=size.oversized, numbers=of_partition(cycle, first, usable))
        return Step(reason=Reason.PARTITION_EXCEEDS_CAPACITY, limited_by=limit, findings=(finding,), hot=size.oversized)
    hottest, load = size.hottest
    finding = Finding.of(
        What.WITHIN_TARGET,
        total_bytes_per_s=cycle.load.total_bytes_per_s,
        live=len(cycle.present.live),
        hottest=hottest,
        member=cycle.kind.called(hottest),
        numbers=carries(cycle, hottest, "load", load)
        | carries(cycle, hottest, "usable", usable)
        | (carries(cycle, hottest, "limit", cycle.policy.overload_bytes_per_s) if load > usable * (1 + _ROUNDING) else {}),
    )
    return Step(reason=Reason.WITHIN_TARGET, findings=(finding,))
