"""*diff*: ordered steps from what is observed to what is wanted. Steps that are already taken do not come again."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from autoscaler.model import Action, AddWorkers, MovePartition, Parked, ParkPartition, RemoveWorkers, ResetOffset, TopicPartition


def count_steps(*, requested: Collection[int], wanted: Collection[int]) -> tuple[Action, ...]:
    """Return the steps where only the number of consumers is set: add, then remove."""
    added, removed = tuple(sorted(set(wanted) - set(requested))), tuple(sorted(set(requested) - set(wanted)))
    add: tuple[Action, ...] = (AddWorkers(slots=added),) if added else ()
    remove: tuple[Action, ...] = (RemoveWorkers(slots=removed),) if removed else ()
    return (*add, *remove)


def steps(
    owner: Mapping[TopicPartition, int],
    target: Mapping[TopicPartition, int],
    *,
    requested: Collection[int],
    wanted: Collection[int],
    removable: Collection[int],
    parked: Mapping[TopicPartition, Parked] = MappingProxyType({}),
    resets: Collection[ResetOffset] = (),
) -> tuple[Action, ...]:
    """Return parkings and resets by partition, add, then moves by partition, then remove.

    Args:
        owner: Observed owner of every partition that has a live one.
        target: Wanted owner.
        requested: Consumers asked for so far.
        wanted: Consumers that should run from now on.
        removable: Live consumers that hold nothing and are owed nothing.
        parked: Partitions that no consumer gets.
        resets: Partitions that are to go on elsewhere.
    """
    parkings = tuple(
        ParkPartition(partition=p, owners=x.owners, offset=x.offset) for p, x in sorted(parked.items()) if not x.planned
    )
    added = tuple(sorted(set(wanted) - set(requested)))
    moves = tuple(
        MovePartition(partition=p, source=owner.get(p), target=target[p]) for p in sorted(target) if owner.get(p) != target[p]
    )
    removed = tuple(sorted(set(removable) - set(wanted) - set(target.values())))
    add: tuple[Action, ...] = (AddWorkers(slots=added),) if added else ()
    remove: tuple[Action, ...] = (RemoveWorkers(slots=removed),) if removed else ()
    return (*parkings, *sorted(resets, key=lambda r: r.partition), *add, *moves, *remove)
