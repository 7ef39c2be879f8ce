"""Where partitions go on whose committed offset is out of range (rule 5): by the group's reset policy, said and never silent."""

from collections.abc import Mapping

from autoscaler.core.cycle.context import Cycle
from autoscaler.model import Astray, PartitionLoad, ResetOffset, TopicPartition


def resets(cycle: Cycle) -> tuple[ResetOffset, ...]:
    """Return what the next plan is to reset: nothing that it says already, and nothing while the log's ends are not known."""
    loads = {x.partition: x for x in cycle.observation.snapshot.loads}
    found = []
    for partition, astray in sorted(cycle.present.astray.items()):
        start = _start(loads.get(partition), astray, cycle.policy.reset_policy)
        if start is not None and start != astray.start:
            found.append(ResetOffset(partition=partition, offset=astray.offset, start=start))
    return tuple(found)


def _start(load: PartitionLoad | None, astray: Astray, policy: str) -> int | None:
    """An offset that the log holds by now is kept: nothing is skipped that need not be."""
    if load is None or not load.known or load.log_start is None or load.log_end is None:
        return None
    if load.log_start <= astray.offset <= load.log_end:
        return astray.offset
    return load.log_start if policy == "earliest" else load.log_end


def said(astray: Mapping[TopicPartition, Astray], found: tuple[ResetOffset, ...], policy: str) -> str:
    """Return in words which partitions stand still and where they go on; empty if none does."""
    new = {r.partition: r.start for r in found}
    parts = []
    for partition, x in sorted(astray.items())[:4]:
        start = new.get(partition, x.start)
        then = "waits for a measurement" if start is None else f"goes on at {start} ({policy})"
        what = f"is out of range at {x.offset}" if x.offset >= 0 else "has no committed offset any more"
        parts.append(f"{partition} {what} and {then}")
    more = f" and {len(astray) - 4} more" if len(astray) > 4 else ""  # noqa: PLR2004  as many as one reads
    return ", ".join(parts) + more
