"""*guard*: may this step be taken now? One ordered table; a new guard is a new row.

A row holds some kinds of steps (grow, fill, move, shrink) for as long as it objects, or bounds how far they may lead. The first
row that objects is what the decision reports as ``limited_by``. Hard rows hold whatever a rule proposes; soft ones only what
the load suggests, not what the operator's limits ask for, nor what it takes to read records before they are deleted. Partitions
that lost their consumer are placed whatever stands here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from autoscaler.config.policy import step_of
from autoscaler.config.setting_paths import path_of
from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.group.history import moved
from autoscaler.core.group.limits import EVERY_STEP, Steps
from autoscaler.core.guards import conditions as says
from autoscaler.core.guards.conditions import Cause, Change
from autoscaler.model import Finding, Reason
from autoscaler.model.findings import What

_KINDS = tuple(Steps)
_NOTHING = Steps(0)
_NO_CAUSE = Cause(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One row.

    Attributes:
        name: The setting that it comes from, or what it looks at.
        reason: Reported as ``limited_by``.
        hard: It must hold for the step to be right; a soft one only prefers another time.
        holds: Kinds of steps that it is asked about.
        also: What besides load it holds, if it is soft.
        objection: Answers with what it finds if such a change must wait, or ``None``.
        most: Consumers that growing may lead to at most; ``None``: it does not say.
        least: Consumers that shrinking may lead to at least; ``None``: it does not say.
    """

    name: str
    reason: Reason
    hard: bool
    holds: Steps
    also: Cause = _NO_CAUSE
    objection: Callable[[Cycle, Change], Finding | None] = lambda _cycle, _change: None
    most: Callable[[Cycle], int | None] = lambda _: None
    least: Callable[[Cycle], int | None] = lambda _: None

    @property
    def setting(self) -> str:
        """Return ``name`` as the configuration file has it."""
        return path_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How far a step may lead, the row that says so, and what it has found; ``None``: its name says it."""

    count: int
    guard: Guard
    found: Finding | None = None

    @property
    def finding(self) -> Finding:
        """Return what bounds the step."""
        found = self.found or Finding.of(What.ALLOWS, setting=self.guard.setting, count=self.count)
        return replace(found, limit=self.guard.reason)


def _stays(kinds: Callable[[Cycle], Steps]) -> Callable[[Cycle], int | None]:
    return lambda cycle: len(cycle.present.slots) if Steps.GROW in kinds(cycle) else None


def _grown(cycle: Cycle) -> int | None:
    """Count from those who hold something: who is asked for, or has yet to take what it was given, is part of the step."""
    if cycle.policy.grow_step is None:
        return None
    pending = set(cycle.present.pending)
    at_work = len({c for p, c in cycle.present.owner.items() if p not in pending})
    return at_work + step_of(cycle.policy.grow_step, at_work)


def _shrunk(cycle: Cycle) -> int | None:
    step, there = cycle.policy.shrink_step, len(cycle.present.slots)
    return None if step is None else max(1, there - step_of(step, there))


def _in_vain(cycle: Cycle) -> int | None:
    return len(cycle.present.slots) if says.gave_up(cycle) else None


_GROW, _MOVE, _SHRINK = Steps.GROW, Steps.MOVE, Steps.SHRINK
GUARDS: tuple[Guard, ...] = (
    Guard(
        name="paused", reason=Reason.PAUSED, hard=True, holds=EVERY_STEP, objection=says.paused,
        most=_stays(lambda c: c.limits.paused),
    ),
    Guard(
        name="windows", reason=Reason.FROZEN, hard=True, holds=EVERY_STEP, objection=says.frozen,
        most=_stays(lambda c: c.limits.frozen),
    ),
    Guard(
        name="pinned", reason=Reason.PINNED, hard=True, holds=_GROW | _SHRINK,
        objection=lambda c, x: says.minimum(c, x) if c.limits.pinned else None,
        most=lambda c: c.limits.most if c.limits.pinned else None, least=lambda c: c.floor if c.limits.pinned else None,
    ),
    Guard(name="max_consumers", reason=Reason.AT_MAXIMUM, hard=True, holds=_GROW, most=lambda c: c.limits.most),
    Guard(
        name="partitions", reason=Reason.AT_PARTITION_CEILING, hard=True, holds=_GROW,
        most=lambda c: len(c.load.partitions) or None,
    ),
    Guard(
        name="min_consumers", reason=Reason.AT_MINIMUM, hard=True, holds=_SHRINK, objection=says.minimum,
        least=lambda c: c.floor,
    ),
    Guard(
        name="static_members", reason=Reason.STATIC_MEMBERS, hard=True, holds=_SHRINK, objection=says.static_members,
    ),
    Guard(name="measured", reason=Reason.STALE_INPUT, hard=True, holds=_SHRINK, objection=says.measured),
    Guard(name="settled", reason=Reason.NOT_READY, hard=True, holds=_SHRINK, objection=says.settled),
    Guard(
        name="give_up_after", reason=Reason.SCALING_DID_NOT_HELP, hard=False, holds=_GROW, objection=says.in_vain,
        most=_in_vain,
    ),
    Guard(name="grow_step", reason=Reason.STEP_LIMIT, hard=False, holds=_GROW, most=_grown),
    Guard(name="grow_stabilisation_s", reason=Reason.STABILISING, hard=False, holds=_GROW, objection=says.grow_stabilised),
    Guard(
        name="retention_risk_s", reason=Reason.RETENTION_AT_RISK, hard=False, holds=_SHRINK, also=Cause.FALLBACK,
        objection=says.at_risk,
    ),
    Guard(name="backlog_s", reason=Reason.BACKLOG, hard=False, holds=_SHRINK, also=Cause.FALLBACK, objection=says.backlog),
    Guard(name="shrink_stabilisation_s", reason=Reason.STABILISING, hard=False, holds=_SHRINK, objection=says.stabilised),
    Guard(
        name="shrink_cooldown_s", reason=Reason.COOLING_DOWN, hard=False, holds=_SHRINK, also=Cause.FALLBACK,
        objection=says.cooled_down,
    ),
    Guard(
        name="turns_per_hour", reason=Reason.FLAPPING, hard=False, holds=_SHRINK, also=Cause.FALLBACK | Cause.UNDOING,
        objection=says.flapping,
    ),
    Guard(name="shrink_step", reason=Reason.STEP_LIMIT, hard=False, holds=_SHRINK, least=_shrunk),
    Guard(name="cooldown_s", reason=Reason.COOLING_DOWN, hard=False, holds=_MOVE, objection=says.resting),
    Guard(name="move_payback_s", reason=Reason.NOT_WORTH_MOVING, hard=False, holds=_MOVE, objection=says.worth_moving),
)  # fmt: skip


def most_consumers(cycle: Cycle, *, hard_only: bool = False) -> Bound:
    """Return how many consumers growing may lead to, by the first row that allows the fewest; never fewer than one."""
    hard_only = hard_only or cycle.urgent
    bounds = [(count, g) for g in GUARDS if (g.hard or not hard_only) and (count := _most(cycle, g)) is not None]
    count, guard = min(bounds, key=lambda b: b[0])
    more = Change(kind=Steps.GROW, consumers=len(cycle.load.partitions) + 1, target=None)
    return Bound(count=max(1, count), guard=guard, found=guard.objection(cycle, more))


def _most(cycle: Cycle, guard: Guard) -> int | None:
    """Return what a row allows; no soft one allows fewer than the operator asks for."""
    count = guard.most(cycle)
    return count if count is None or guard.hard else max(count, cycle.floor)


def least_consumers(cycle: Cycle) -> Bound:
    """Return how many consumers shrinking may lead to, by the first row that keeps the most."""
    bounds = [(count, g) for g in GUARDS if (count := g.least(cycle)) is not None]
    count, guard = max(bounds, key=lambda b: b[0])
    return Bound(count=count, guard=guard)


def first_objection(cycle: Cycle, change: Change) -> tuple[Guard, Finding] | None:
    """Return the first row that objects to a change and what it has found, or ``None`` if it may be made."""
    soft = Cause.LOAD if cycle.policy.sizing == "rates" else _NO_CAUSE  # a published policy has no other guards than the papers
    for guard in GUARDS:
        if change.kind not in guard.holds or not (guard.hard or change.cause in guard.also | soft):
            continue
        most = _most(cycle, guard)
        found = guard.objection(cycle, change) or (None if most is None else says.above(most, guard.setting, cycle, change))
        if found:
            return guard, replace(found, limit=guard.reason)
    return None


def to_give_back(cycle: Cycle) -> int | None:
    """Return how many consumers drain as much, where steps in vain are to be undone; ``None`` where they are not, or not now."""
    load, before = cycle.load, cycle.history.drained.consumers
    if (
        not (cycle.policy.give_back and says.gave_up(cycle) and before)
        or load.unknown
        or load.absent
        or load.halted
        or cycle.risks
    ):
        return None
    count = max(cycle.floor, before)
    change = Change(kind=Steps.SHRINK, consumers=count, target=None, cause=Cause.UNDOING)
    return count if count < len(cycle.present.slots) and first_objection(cycle, change) is None else None


def kinds_of(cycle: Cycle, step: Step) -> Steps:
    """Return what a step would do."""
    before = cycle.present.slots
    after = before if step.requested is None else _after(step)
    kinds = (_GROW if after - before else _NOTHING) | (_SHRINK if before - after else _NOTHING)
    if step.target is None or _SHRINK in kinds or not moved(cycle.present.owner, step.target):
        return kinds
    more = len(set(step.target.values())) > len(cycle.present.holders)
    return kinds | (Steps.FILL if more else _MOVE)


def guarded(cycle: Cycle, step: Step) -> Step:
    """Return what is left of a step when every kind of change that some row objects to is taken out of it."""
    if step.mandatory or step.inert:
        return step
    kinds = kinds_of(cycle, step)
    held = {kind: objection for kind in _KINDS if kind in kinds and (objection := _objection(cycle, step, kind))}
    if not held:
        return step
    guard, found = min(held.values(), key=lambda x: GUARDS.index(x[0]))
    step = step.saying(found)
    if Steps.SHRINK in held or (Steps.GROW in held and not _only_uses(step, cycle.present.slots)):
        step = replace(step, target=None, requested=None, waiting=_awaits(cycle))
    elif Steps.GROW in held:
        step = replace(step, requested=None, waiting=_awaits(cycle))
    if Steps.FILL in held or Steps.MOVE in held:
        step = replace(step, target=None)
    acts = step.target is not None or (step.requested is not None and bool(step.requested - cycle.present.slots))
    return replace(step, limited_by=(step.limited_by if acts else None) or guard.reason)


def _objection(cycle: Cycle, step: Step, kind: Steps) -> tuple[Guard, Finding] | None:
    after = len(cycle.present.slots if step.requested is None else _after(step))
    cause = Cause.LIMIT if step.ordered else Cause.LOAD
    return first_objection(cycle, Change(kind=kind, consumers=after, target=step.target, cause=cause))


def _after(step: Step) -> frozenset[int]:
    return (step.requested or frozenset()) | frozenset((step.target or {}).values())


def _only_uses(step: Step, consumers: frozenset[int]) -> bool:
    return step.target is not None and set(step.target.values()) <= consumers


def _awaits(cycle: Cycle) -> bool:
    """Say whether consumers that were asked for before are still awaited."""
    present = cycle.present
    return cycle.history.waiting_since is not None and bool((present.requested or frozenset()) - present.ready)
