"""The next plan (rules 2, 5, 9 and 12): says everything by itself, so that a reader needs no earlier one.

Follows ``controller_state``, which says what is; ``adapters.control_log`` publishes the result in the fenced transaction. Pure,
standard library only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autoscaler.handover.controller_state import ControllerState, named_by
from autoscaler.handover.records import Epoch, Grant, Incarnation, Loss, Plan, Reset, Tp, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """What the next plan is to say, slots already bound to incarnations."""

    owners: Mapping[Tp, Incarnation]  # wanted owner of a partition; a partition that is missing here keeps its grant
    topics: Mapping[str, str]  # name of every topic id that exists now; grants of other topics are dropped
    partitions: frozenset[Tp]  # every partition to be consumed, with an owner or not (for the waits of a first plan)
    starts: Mapping[Tp, int]  # numeric start of each partition without a committed offset
    requested: tuple[int, ...]
    summary: str
    at: float  # controller's wall clock, for people
    losses: Mapping[Tp, Loss] = field(default_factory=dict)  # losses that the latest plan does not count yet
    # Partitions that no worker gets until an operator releases them; those parked already stay so
    parked: frozenset[Tp] = frozenset()
    # For partitions whose committed offset is out of range: that offset, and where to go on
    resets: Mapping[Tp, tuple[int, int]] = field(default_factory=dict)
    recommit_s: float | None = None  # as in ``Plan``
    epochs_before: int = 0  # the highest epoch under which anything was committed: tokens must not begin again below it


def next_plan(state: ControllerState, intended: Intended) -> Plan:
    """Return the plan that carries an intent out, as far as it may be carried out now.

    A partition keeps its grant, and with it its fencing token, unless its owner changes. One that has not been released yet is
    not moved again unless its new owner is gone: the intent comes again with the next cycle.
    """
    number = max(state.plan.epoch.number if state.plan else 0, state.heard_epoch, intended.epochs_before) + 1
    before = state.plan.grants if state.plan else {}
    parked = _parked(state, intended, number)
    grants = {tp: g for tp, g in before.items() if tp.topic_id in intended.topics and tp not in parked}
    for tp, owner in intended.owners.items():
        there = tp.topic_id in intended.topics and tp not in parked
        if there and owner not in state.over and _movable(state, tp, before.get(tp), owner):
            grants[tp] = Grant(owner=owner, epoch=number)
    plan = Plan(
        group=state.group,
        epoch=Epoch(state.control_id, number),
        topics={**_unseen(state, intended, parked), **intended.topics},
        grants=dict(sorted(grants.items())),
        waits=_waits(state, intended, before, grants, number),
        starts=_starts(state, intended),
        leases_s={},
        requested=intended.requested,
        summary=intended.summary,
        at=intended.at,
        losses=_losses(state, intended),
        parked=parked,
        resets=_resets(state, intended, number),
        recommit_s=intended.recommit_s,
    )
    known = state.named()
    named = named_by(plan)
    plan.leases_s.update({w: known.get(w, state.lease_s) for w in sorted(named)})
    return replace(plan, exactly_once=frozenset(w for w in named if state.exactly_once(w)))


def _movable(state: ControllerState, tp: Tp, present: Grant | None, owner: Incarnation) -> bool:
    if present is None:
        return True
    return present.owner != owner and (present.owner in state.over or not state.unreleased(tp))


def _waits(
    state: ControllerState, intended: Intended, before: Mapping[Tp, Grant], grants: Mapping[Tp, Grant], number: int
) -> dict[Tp, tuple[Wait, ...]]:
    """Carry forward what is unsatisfied, add the previous planned owner, never name the planned owner itself.

    The first plan of a control topic cannot know which worker was told what before: every worker in the heartbeat log that is
    not over is waited for, for every partition (rule 12). Nor can the next plan of one that has lost its end, where workers
    have read more than there is. A partition that no worker gets now, as while its topic is not seen, is waited for all the
    same.
    """
    behind = state.plan is None or state.plan.epoch.number < state.heard_epoch
    suspects = [w for w in state.beats if w not in state.over] if behind else []
    carried = state.plan.waits if state.plan else {}
    out = {}
    for tp in sorted({*intended.partitions, *grants, *carried, *before}):
        epochs = {w.worker: w.epoch for w in state.unreleased(tp)} | dict.fromkeys(suspects, number)
        grant, previous = grants.get(tp), before.get(tp)
        moved = previous is not None and (grant is None or grant.owner != previous.owner)
        if previous is not None and moved and previous.owner not in state.over:
            epochs[previous.owner] = number
        if grant is not None:
            epochs.pop(grant.owner, None)
        if epochs:
            out[tp] = tuple(Wait(worker=w, epoch=e) for w, e in sorted(epochs.items()))
    return out


def _parked(state: ControllerState, intended: Intended, number: int) -> dict[Tp, int]:
    """What is parked keeps the epoch that parked it, or an operator's release of it would not count for the next plan."""
    old = state.parked()
    wanted = {*old, *intended.parked} - state.unparked()
    return {tp: old.get(tp, number) for tp in sorted(wanted) if _stays(state, intended, tp)}


def _stays(state: ControllerState, intended: Intended, tp: Tp) -> bool:
    """Say whether what is known of a partition stays: its topic is there, or not seen right now. One made anew is another one."""
    if tp.topic_id in intended.topics:
        return True
    name = state.plan.topics.get(tp.topic_id) if state.plan else None
    return name is not None and name not in intended.topics.values()


def _unseen(state: ControllerState, intended: Intended, parked: Mapping[Tp, int]) -> dict[str, str]:
    """Return the names of topics that are not seen right now and have a parked partition: while the name is known it stays."""
    kept = {tp.topic_id for tp in (*parked, *_losses(state, intended))} - intended.topics.keys()
    return {t: state.plan.topics[t] for t in sorted(kept)} if state.plan else {}


def _losses(state: ControllerState, intended: Intended) -> dict[Tp, Loss]:
    """A partition that an operator has released begins at nothing."""
    carried = state.plan.losses if state.plan else {}
    losses = {**{tp: x for tp, x in carried.items() if tp not in state.unparked()}, **intended.losses}
    return {tp: x for tp, x in sorted(losses.items()) if _stays(state, intended, tp)}


def _resets(state: ControllerState, intended: Intended, number: int) -> dict[Tp, Reset]:
    """A reset stays until its partition's owner has read it and stands still no more; an old one must not meet a new offset."""
    out_of_range = state.out_of_range()
    old = {
        tp: r for tp, r in (state.plan.resets if state.plan else {}).items() if tp in out_of_range or not _followed(state, tp, r)
    }
    new = {tp: Reset(offset=offset, start=start, epoch=number) for tp, (offset, start) in intended.resets.items()}
    return {tp: r for tp, r in sorted({**old, **new}.items()) if tp.topic_id in intended.topics}


def _followed(state: ControllerState, tp: Tp, reset: Reset) -> bool:
    grant = state.plan.grants.get(tp) if state.plan else None
    beat = state.beats.get(grant.owner) if grant else None
    return beat is not None and beat.heartbeat.epoch >= reset.epoch and tp in beat.heartbeat.owned


def _starts(state: ControllerState, intended: Intended) -> dict[Tp, int]:
    """A start once published stays the same number until something is committed, or two owners could begin apart."""
    published = state.plan.starts if state.plan else {}
    return {tp: published.get(tp, start) for tp, start in sorted(intended.starts.items()) if tp.topic_id in intended.topics}
