"""No hard guard is ever passed, no soft one holds what must not wait, and what guards shrinking never delays growing."""

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import Decision, GroupState, MovePartition, Observation, Reason
from tests.builders import T0, moment, policy, tp
from tests.scenarios.world import World
from tests.strategies import examples, histories, observations, policies, rate_values

OPEN_AT_T0 = "0 22 * * *"
LAX = {"shrink_cooldown_s": 0.0, "shrink_stabilisation_s": 0.0, "turns_per_hour": None, "shrink_step": None, "backlog_s": 3e7}
STRICT = {"shrink_cooldown_s": 1e6, "shrink_stabilisation_s": 1e6, "turns_per_hour": 1, "shrink_step": "1", "backlog_s": 0.001}
SOFT = {
    "grow_step": "1", "shrink_step": "1", "grow_stabilisation_s": 1e6, "turns_per_hour": 1, "move_payback_s": 1e-6,
    "give_up_after": 1, "cooldown_s": 1e6,
}  # fmt: skip


def held(rules: Policy) -> set[str]:
    """Return what a policy pauses at T0, by what it says."""
    said = {rules.paused, *(w.paused for w in rules.windows if w.cron == OPEN_AT_T0)} - {None}
    return {"scale_up", "scale_down", "moving"} if "all" in said else {str(s) for s in said}


def most(rules: Policy) -> int:
    if rules.pinned is not None:
        return rules.pinned
    opened = [w.max_consumers for w in rules.windows if w.cron == OPEN_AT_T0 and w.max_consumers is not None]
    return opened[-1] if opened else rules.max_consumers


def with_(rules: Policy, changes: Mapping[str, object]) -> Policy:
    return rules.model_copy(update=dict(changes))


def running(state: GroupState) -> frozenset[int]:
    """Return the consumers that run, or should, whether what they hold is listed or not."""
    return (state.requested or frozenset()) | frozenset(state.owner.values())


@st.composite
def managed(draw: st.DrawFn) -> tuple[Observation, GroupState]:
    seen = draw(observations(managed=True))
    assert seen.state is not None
    return seen, seen.state


def decided(seen: Observation, history: History, rules: Policy) -> Decision:
    return decide(seen, history, rules, moment(T0))[0]


def a_pause_holds_what_it_names(seen: Observation, state: GroupState, history: History, rules: Policy) -> None:
    decision, paused = decided(seen, history, rules), held(rules)
    if decision.reason is Reason.WORKER_LOST:
        return  # whoever lost its consumer gets another
    if "scale_up" in paused:
        assert decision.requested <= running(state), decision.detail
    if "scale_down" in paused:
        assert decision.requested >= (state.requested or frozenset()), decision.detail
    if "moving" in paused:
        assert [a for a in decision.actions if isinstance(a, MovePartition) and a.source is not None] == [], decision.detail


def the_number_never_leaves_its_bounds(seen: Observation, state: GroupState, history: History, rules: Policy) -> None:
    """Growing ends at the maximum, a pinned number or one per partition, and shrinking at the minimum."""
    decision = decided(seen, history, rules)
    if decision.reason is Reason.WORKER_LOST:
        return
    partitions, before = len(seen.snapshot.loads), running(state)
    assert decision.consumers <= max(min(most(rules), partitions), len(before)), decision.detail
    if (state.requested or frozenset()) - decision.requested:
        least = rules.min_consumers if rules.pinned is None else rules.pinned
        assert decision.consumers >= max(1, min(least, most(rules), partitions)), decision.detail


def what_guards_shrinking_never_delays_growing(seen: Observation, state: GroupState, history: History, rules: Policy) -> None:
    free = decided(seen, history, with_(rules, LAX))
    if free.requested - running(state):
        bound = decided(seen, history, with_(rules, STRICT))
        assert (bound.requested, bound.actions, bound.reason) == (free.requested, free.actions, free.reason)


def nothing_soft_holds_partitions_that_nobody_has(seen: Observation, _: GroupState, history: History, rules: Policy) -> None:
    bound = decided(seen, history, with_(rules, SOFT))
    if bound.reason not in {Reason.WORKER_LOST, Reason.PARTITIONS_CHANGED}:
        return
    free = decided(seen, history, with_(rules, {**SOFT, "grow_step": None, "grow_stabilisation_s": 0.0, "give_up_after": None,
                                               "move_payback_s": None, "cooldown_s": rules.cooldown_s}))  # fmt: skip
    assert (bound.requested, bound.target, bound.actions) == (free.requested, free.target, free.actions)


def lost_partitions_are_placed_whatever_is_paused(seen: Observation, state: GroupState, history: History, rules: Policy) -> None:
    if not state.orphans or (seen.members is not None and seen.members.members):
        return
    free = decided(seen, history, with_(rules, {"paused": None, "windows": (), "pinned": None}))
    if free.reason is Reason.WORKER_LOST:
        paused = decided(seen, history, with_(rules, {**SOFT, "paused": "all"}))
        assert (paused.requested, paused.target, paused.actions) == (free.requested, free.target, free.actions)


@examples(400)
@given(managed(), histories(), policies())
def test_every_promise_of_the_guards_holds(group: tuple[Observation, GroupState], history: History, rules: Policy) -> None:
    """All are asked of each example: to draw one takes longer than to decide."""
    for promise in (
        a_pause_holds_what_it_names,
        the_number_never_leaves_its_bounds,
        what_guards_shrinking_never_delays_growing,
        nothing_soft_holds_partitions_that_nobody_has,
        lost_partitions_are_placed_whatever_is_paused,
    ):
        promise(*group, history, rules)


@examples(20)
@given(
    st.lists(rate_values.map(lambda r: min(r, 300.0)), min_size=1, max_size=10),
    st.lists(st.floats(0.2, 4.0), min_size=3, max_size=6),
    policies().filter(lambda p: p.mode == "act" and not p.windows),
)
def test_in_a_world_no_bound_is_passed_in_any_cycle(values: list[float], factors: list[float], rules: Policy) -> None:
    """Loads that jump every half minute, under any settings: the number goes no further in a cycle than they allow."""
    world = World(policy=rules, traffic=lambda t: {tp(i): v * factors[int(t / 30) % len(factors)] for i, v in enumerate(values)})
    world.run(30 * len(factors))
    counts = [0, *(d.consumers for d in world.decisions)]
    ups = [(a, b, d) for (a, b), d in zip(pairwise(counts), world.decisions, strict=True) if b > a]
    downs = [(a, b, d) for (a, b), d in zip(pairwise(counts), world.decisions, strict=True) if b < a]
    bound = min(rules.pinned or rules.max_consumers, len(values))
    assert all(b <= bound for _, b, _ in ups)
    assert all(b >= min(rules.min_consumers, bound) for _, b, _ in downs)
    assert not (ups and rules.paused in {"all", "scale_up"})
    assert not (downs and rules.paused in {"all", "scale_down"})
    if rules.grow_step == "1":
        assert all(b - a <= 1 for a, b, d in ups if d.reason is Reason.RATE_ABOVE_CAPACITY)


def test_the_strict_settings_are_settings() -> None:
    """They are put into policies unchecked above."""
    assert policy(**STRICT)
    assert policy(**SOFT)
    assert policy(**LAX)
