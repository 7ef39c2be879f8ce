"""Do as a published policy says: the baselines that the default is compared with, in the same loop and by the same steps.

``baselines/policies`` has them as printed. Here stands what the papers leave to their caller: what runs now, that an answer waits
for the one before it (``cooldown_s``), the bounds, and that nothing is decided on what is not known.
"""

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.config.policy import DOWN_RATIO, UP_RATIO, Policy
from autoscaler.core.baselines.policies import Action, Placement, auto_scale_cg, linear, tail_latency_1, tail_latency_2
from autoscaler.core.cycle.context import Cycle, Step, not_measured
from autoscaler.core.guards.table import most_consumers
from autoscaler.core.rules.scale_out import approach
from autoscaler.model import Finding, Reason, TopicPartition
from autoscaler.model.findings import What

WANTED_S = 5.0  # what the papers use where nothing else is said


def as_published(cycle: Cycle) -> Step | None:
    """Return the published policy's step, or that it waits; ``None`` where it has nothing to say."""
    if unknown := not_measured(cycle):
        return Step(reason=Reason.STALE_INPUT, findings=(unknown,))
    rates, lags = cycle.load.rates, _lags(cycle)
    slots = sorted(cycle.present.holders)  # who was asked for and is not there yet has nothing to do so far
    current = [sorted(p for p, c in cycle.present.owner.items() if c == slot) for slot in slots]
    action, placed = _answer(cycle.policy, current, rates, lags)
    if action is Action.NONE:
        return None
    finding = Finding.of(What.PUBLISHED, sizing=cycle.policy.sizing, action=action, wanted=len(placed), now=len(current))
    why = Step(reason=_reason(cycle, action, current, lags), findings=(finding,), spares=action is Action.DOWN)
    if (rest := _rests_s(cycle)) is not None:
        rests = Finding.of(What.PUBLISHED_RESTS, rested_s=rest, limit_s=cycle.policy.cooldown_s)
        return replace(why.saying(rests), limited_by=Reason.COOLING_DOWN)
    if (limit := _limit(cycle, len(placed))) is not None:
        by, bound = limit
        return replace(why.saying(Finding.of(What.PUBLISHED_LIMIT, bound=bound)), limited_by=by)
    return _towards(cycle, slots, placed, why)


def _answer(
    policy: Policy,
    current: Placement[TopicPartition],
    rates: Mapping[TopicPartition, float],
    lags: Mapping[TopicPartition, float],
) -> tuple[Action, Placement[TopicPartition]]:
    mu, wanted, up, down = (
        policy.able_bytes_per_s,
        _wanted_s(policy),
        policy.up_ratio or UP_RATIO,
        policy.down_ratio or DOWN_RATIO,
    )
    match policy.sizing:
        case "LINEAR":
            return linear(current, rates, mu=mu, up_ratio=up, down_ratio=down)
        case "AUTO_SCALE_CG":
            return auto_scale_cg(current, rates, lags, mu=mu, wanted_latency_s=wanted)
        case "TAIL_LATENCY_1":
            return tail_latency_1(current, rates, lags, mu=mu, wanted_latency_s=wanted, up_ratio=up, down_ratio=down)
        case _:
            return tail_latency_2(
                current, rates, lags, mu=mu, wanted_latency_s=wanted, rebalance_s=policy.rebalance_s or 0.0, up_ratio=up,
                down_ratio=down,
            )  # fmt: skip


def _wanted_s(policy: Policy) -> float:
    return WANTED_S if policy.wanted_latency_s is None else policy.wanted_latency_s


def _lags(cycle: Cycle) -> dict[TopicPartition, float]:
    """Return the backlog of every partition in bytes; what stands still, and so counts as no load, has none to be drained."""
    stuck = frozenset() if cycle.load.halted else frozenset(cycle.load.stalled)
    there = {x.partition: x.lag_bytes or 0.0 for x in cycle.observation.snapshot.loads}
    return {p: 0.0 if p in stuck else there[p] for p in cycle.load.rates}


def _reason(cycle: Cycle, action: Action, current: Placement[TopicPartition], lags: Mapping[TopicPartition, float]) -> Reason:
    if action is Action.DOWN:
        return Reason.UNDERUSED
    most = cycle.policy.able_bytes_per_s * _wanted_s(cycle.policy)
    late = any(sum(lags[p] for p in held) > most for held in current)
    return Reason.LATENCY_AT_RISK if late and cycle.policy.sizing != "LINEAR" else Reason.RATE_ABOVE_CAPACITY


def _rests_s(cycle: Cycle) -> float | None:
    """Return for how long the group has rested after its last step if it must rest longer, ``None`` if not."""
    history = cycle.history
    last = max((at for at in (history.last_scale_at, history.last_move_at) if at is not None), default=None)
    awaited = history.waiting_since is not None  # that step is not over: its consumers are still to come
    return cycle.now - last if last is not None and not awaited and cycle.now - last < cycle.policy.cooldown_s else None


def _limit(cycle: Cycle, count: int) -> tuple[Reason, int] | None:
    """Return the bound that an answer passes, and its reason; the hard ones only: no other guard is in the papers."""
    most = most_consumers(cycle, hard_only=True)
    if count > most.count:
        return most.guard.reason, most.count
    return (cycle.limits.at_least, cycle.floor) if count < cycle.floor else None


def _towards(cycle: Cycle, slots: list[int], placed: Placement[TopicPartition], why: Step) -> Step:
    """Give the contents to the consumers in their order, as published, whichever held them before."""
    free = (c for c in range(len(slots) + len(placed)) if c not in slots)
    to = [*slots, *(next(free) for _ in placed[len(slots) :])]
    owner = {p: to[i] for i, held in enumerate(placed) for p in held}
    if len(placed) >= len(slots):
        return approach(cycle, owner, why)
    if away := sorted(frozenset(owner.values()) - cycle.present.ready):
        return replace(why.saying(Finding.of(What.NOT_THERE, consumers=away)), limited_by=Reason.NOT_READY)
    return replace(why, target=owner, requested=frozenset(to[: len(placed)]))
