"""Where partitions go on whose committed offset is out of range (rule 5): by the group's reset policy, said and never silent."""

from collections.abc import Mapping

from autoscaler.core.cycle.context import Cycle
from autoscaler.model import Finding, OutOfRange, PartitionLoad, ResetOffset, TopicPartition, few
from autoscaler.model.findings import What


def resets(cycle: Cycle) -> tuple[ResetOffset, ...]:
    """Return what the next plan is to reset: nothing that it says already, and nothing while the log's ends are not known."""
    loads = {x.partition: x for x in cycle.observation.snapshot.loads}
    found = []
    for partition, out_of_range in sorted(cycle.present.out_of_range.items()):
        start = _start(loads.get(partition), out_of_range, cycle.policy.reset_policy)
        if start is not None and start != out_of_range.start:
            found.append(ResetOffset(partition=partition, offset=out_of_range.offset, start=start))
    return tuple(found)


def _start(load: PartitionLoad | None, out_of_range: OutOfRange, policy: str) -> int | None:
    """An offset that the log holds by now is kept: nothing is skipped that need not be."""
    if load is None or not load.known or load.log_start is None or load.log_end is None:
        return None
    if load.log_start <= out_of_range.offset <= load.log_end:
        return out_of_range.offset
    return load.log_start if policy == "earliest" else load.log_end


def found(out_of_range: Mapping[TopicPartition, OutOfRange], new: tuple[ResetOffset, ...], policy: str) -> list[Finding]:
    """Return which partitions stand still and where they go on: a finding for each of the first few."""
    starts = {r.partition: r.start for r in new}
    each = [
        Finding.of(
            What.OFFSET_RESET,
            partitions=(p,),
            offset=x.offset if x.offset >= 0 else None,
            start=starts.get(p, x.start),
            policy=policy,
        )
        for p, x in few(sorted(out_of_range.items()))
    ]
    more = len(out_of_range) - len(each)
    return [*each, Finding.of(What.MORE_OFFSETS_RESET, count=more)] if more else each
