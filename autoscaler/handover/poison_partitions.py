"""Poison (rule 9): which partitions owner after owner is lost by, and when no other worker gets them.

A loss counts when there was something to process and the committed offset is the one at which the owner before was lost; an
offset that has advanced starts the count anew. Follows ``controller_state``, which says who lost what; ``planning`` carries the
counts from plan to plan, so that a restarted controller goes on counting. Pure, standard library only.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.records import Loss, Tp


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far a partition's consumers have come: ``committed`` (-1: nothing) of the log's ``end``."""

    committed: int
    end: int


def counted(state: ControllerState, reached: Mapping[Tp, Reached]) -> dict[Tp, Loss]:
    """Return the losses that the latest plan does not count yet, of those partitions of which ``reached`` could be read."""
    before, starts = (state.plan.losses, state.plan.starts) if state.plan else ({}, {})
    out = {}
    for tp, grant in state.lost().items():
        known, at = before.get(tp), reached.get(tp)
        if at is None or (known is not None and known.epoch == grant.epoch):
            continue
        if (at.committed if at.committed >= 0 else starts.get(tp, 0)) >= at.end:
            continue  # there was nothing to process
        again = known is not None and known.offset == at.committed
        out[tp] = Loss(owners=known.owners + 1 if known and again else 1, offset=at.committed, epoch=grant.epoch)
    return out


def uncounted(state: ControllerState) -> frozenset[Tp]:
    """Return the lost partitions whose loss the latest plan does not count: those whose offsets are to be read."""
    before = state.plan.losses if state.plan else {}
    return frozenset(tp for tp, g in state.lost().items() if tp not in before or before[tp].epoch != g.epoch)


def poisonous(losses: Mapping[Tp, Loss], park_after: int | None) -> frozenset[Tp]:
    """Return the partitions to park; none where ``park_after`` is ``None``."""
    return frozenset(tp for tp, x in losses.items() if park_after is not None and x.owners >= park_after)
