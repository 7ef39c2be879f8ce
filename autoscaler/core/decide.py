"""*decide*: one cycle's answer for one group, as a pure function of what was observed, what is remembered, and the policy.

The rules stand in ordered tables, one for each kind of group; the first that has something to say is the decision, as far as the
guards (a table too) let it pass. Equal input gives equal output: no clock, randomness, logging or I/O, and the order of mappings
does not matter.
"""

from collections.abc import Mapping
from dataclasses import replace

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.busy_throughput import Busy
from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.cycle.evaluate import read_cycle
from autoscaler.core.cycle.utilisation import own_capacities
from autoscaler.core.diff import count_steps, steps
from autoscaler.core.group.history import History, Intent, moved
from autoscaler.core.guards.table import guarded
from autoscaler.core.messages import text_of
from autoscaler.core.rules.beside import beside
from autoscaler.core.rules.offset_reset import resets
from autoscaler.core.rules.rest import removable, unless_oversized
from autoscaler.core.rules.tables import rules_of
from autoscaler.model import Action, Decision, Finding, Moment, Observation, Reason, TopicPartition, few
from autoscaler.packing import UNEVEN, r_score

__all__ = ["History", "decide", "hold"]


def decide(observation: Observation, history: History, policy: Policy, moment: Moment) -> tuple[Decision, History]:
    """Return what to do now and what to remember.

    Args:
        observation: What the measurement, the control log and the group's membership say.
        history: What the previous call returned; ``History()`` or ``History.from_plan`` at the start.
        policy: What the user asks of this group.
        moment: When that is, not before the previous call's.
    """
    cycle = read_cycle(observation, history, policy, moment)
    step = _choose(cycle)
    decision = _answer(cycle, step)
    return decision, _remember(cycle, step, decision)


def _choose(cycle: Cycle) -> Step:
    """Return the first answer. One to a limit of the operator's that is held keeps no later rule from acting."""
    held = None
    for step in (s for rule in rules_of(cycle) if (s := rule(cycle)) is not None):
        left = guarded(cycle, step)
        if left is not step and left.idle and step.to_limit:
            held = held or left
        else:
            return held if held is not None and left.idle else left
    msg = "the last rule always answers"
    raise AssertionError(msg)


def hold(  # noqa: PLR0917  what ``decide`` takes, and why it is not called
    observation: Observation, history: History, policy: Policy, moment: Moment, reason: Reason, found: Finding
) -> Decision:
    """Return a decision that does nothing, with the figures of the cycle, for when something outside failed."""
    known = History(capacity=history.capacity, busy=Busy(speeds=history.busy.speeds), advice=history.advice)
    return _answer(read_cycle(observation, known, policy, moment), Step(reason=reason, findings=(found,), inert=True))


def _answer(cycle: Cycle, step: Step) -> Decision:
    observation, load, present, size, policy = cycle.observation, cycle.load, cycle.present, cycle.size, cycle.policy
    step = unless_oversized(cycle, step)
    limited_by = Reason.ADVISORY if policy.mode == "advise" else step.limited_by
    findings = (
        replace(step.findings[0], reason=step.reason, limit=limited_by),
        *step.findings[1:],
        *(f for f in beside(cycle, resets(cycle), {f.what for f in step.findings}) if f not in step.findings),
    )
    target = dict(sorted((present.planned if step.target is None else step.target).items()))
    wanted = step.requested if step.requested is not None else _requested(cycle)
    if not step.inert and not step.counted and (observation.consumers_known or step.target is not None):
        wanted |= set(target.values())
    advice = cycle.history.advice
    return Decision(
        decision_id=f"{observation.group}/{int(observation.snapshot.sample_ts * 1000)}",
        group=observation.group,
        at=cycle.at,
        mode=policy.mode,
        reason=step.reason,
        limited_by=limited_by,
        actions=() if step.inert else _actions(cycle, step, target, wanted),
        target=target,
        requested=wanted,
        consumers_now=len(present.live) if observation.consumers_known else None,
        consumers=len(wanted),
        recommended=None if advice is None else advice.consumers,
        recommended_age_s=None if advice is None else max(0.0, cycle.now - advice.at),
        lower_bound=size.lower_bound if load.rates else None,
        r_score=r_score(load.rates, policy.usable_bytes_per_s, present.owner, target),
        imbalance=size.imbalance,
        oversized=size.oversized,
        usable_bytes_per_s=policy.usable_bytes_per_s,
        capacity_bytes_per_s=policy.able_bytes_per_s,
        total_bytes_per_s=load.total_bytes_per_s if load.measured else None,
        total_lag_records=load.lag_records,
        algorithm=UNEVEN if cycle.planner.gauge else policy.planner,
        policy_fingerprint=policy.fingerprint,
        epoch=present.epoch,
        detail=text_of(findings),
        hot=few(step.hot),
        parked=tuple(sorted(present.parked)),
        capacity_source=cycle.capacity.source,
        capacity_samples=cycle.capacity.samples,
        capacity_age_s=None if cycle.capacity.at is None else max(0.0, cycle.now - cycle.capacity.at),
        capacity_records_per_s=policy.capacity_records_per_s,
        own_bytes_per_s=own_capacities(cycle),
        findings=findings,
    )


def _actions(cycle: Cycle, step: Step, target: Mapping[TopicPartition, int], wanted: frozenset[int]) -> tuple[Action, ...]:
    requested, present = _requested(cycle), cycle.present
    if step.counted:
        return count_steps(requested=requested, wanted=wanted)
    first_moves = cycle.kind.follows and bool(moved(present.owner, target))  # a member that ends is a rebalance more
    return steps(
        present.planned if step.target is None else present.owner,
        target,
        requested=requested,
        wanted=wanted,
        removable=frozenset() if first_moves else removable(cycle),
        parked=present.parked,
        resets=resets(cycle),
    )


def _requested(cycle: Cycle) -> frozenset[int]:
    """Return the consumers asked for so far: those that run, where this controller starts none; none where they are not known."""
    if cycle.kind.started is not None:
        return cycle.kind.started.requested or frozenset()
    return (cycle.present.requested or frozenset()) if cycle.observation.consumers_known else frozenset()


def _remember(cycle: Cycle, step: Step, decision: Decision) -> History:
    history = cycle.history
    since = (cycle.now if history.waiting_since is None else history.waiting_since) if step.waiting else None
    requested = _requested(cycle)
    scales = decision.requested != requested
    moves = bool(moved(cycle.present.owner, decision.target))
    if not decision.actions or cycle.advised or not (scales or moves):
        if history.intent is None and history.waiting_since == since:
            return history
        return replace(history, waiting_since=since, intent=None)
    intent = Intent(
        epoch=cycle.present.epoch, scales=scales, moves=moves, consumers=len(requested),
        by=len(decision.requested) - len(requested), at=cycle.now,
    )  # fmt: skip
    if cycle.kind.by_plan:
        return replace(history, waiting_since=since, intent=intent)
    intent = replace(intent, requested=decision.requested, placement=decision.target if moves else None)
    return replace(history, waiting_since=cycle.now if scales else since, intent=intent)
