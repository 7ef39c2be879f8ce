"""Whatever a cycle sees after a long time without a measurement, a fallback passes nothing hard and nothing that is needed."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import AddWorkers, GroupState, MovePartition, Observation, Reason, RemoveWorkers
from tests.builders import T0, moment
from tests.properties.test_guard_properties import held, managed, most, running, with_
from tests.strategies import examples, histories, observations, policies

often = examples(60)
ORDER = [AddWorkers, MovePartition, RemoveWorkers]


@st.composite
def falling_back(draw: st.DrawFn) -> Policy:
    rules = draw(policies())
    return with_(rules, {
        "fallback": draw(st.sampled_from(["static", "current_if_higher", "current_if_lower"])),
        "fallback_consumers": draw(st.integers(rules.min_consumers, rules.max_consumers)), "fallback_after_s": 300.0,
    })  # fmt: skip


blind = histories().map(lambda h: replace(h, unusable_since=T0 - 1000))


@often
@given(observations(), blind, falling_back())
def test_it_is_a_decision_like_any_other(seen: Observation, history: History, rules: Policy) -> None:
    decision, _ = decide(seen, history, rules, moment(T0))
    kinds = [ORDER.index(type(a)) for a in decision.actions]
    assert kinds == sorted(kinds)
    listed = {x.partition for x in seen.snapshot.loads}
    for action in decision.actions:
        if isinstance(action, MovePartition):
            assert action.partition in listed
            assert action.target in decision.requested
    if any(isinstance(a, MovePartition) for a in decision.actions):
        assert set(decision.target) == listed
    assert decide(seen, history, rules, moment(T0))[0] == decision


def without_load(group: tuple[Observation, GroupState]) -> tuple[Observation, GroupState]:
    """Return the same with no load known for long, and every partition owned where a worker lives: others fall back seldom."""
    seen, state = group
    loads = tuple(replace(x, known=False, age_s=1000.0) for x in seen.snapshot.loads)
    some = [w.slot for w in state.workers if w.slot is not None]
    owner = {x.partition: state.owner.get(x.partition, some[0]) for x in loads} if some else state.owner
    owned = replace(state, owner=owner, orphans=frozenset(state.orphans) - frozenset(owner))
    return replace(seen, snapshot=replace(seen.snapshot, loads=loads, known=False), state=owned), owned


@often
@given(managed().map(without_load), blind, falling_back())
def test_nothing_hard_is_passed(group: tuple[Observation, GroupState], history: History, rules: Policy) -> None:
    seen, state = group
    decision, _ = decide(seen, history, rules, moment(T0))
    assume(decision.reason is Reason.FALLBACK)
    before, paused = running(state), held(rules)
    if "scale_up" in paused:
        assert decision.requested <= before
    if "scale_down" in paused:
        assert decision.requested >= (state.requested or frozenset())
    partitions = len(seen.snapshot.loads)
    assert decision.consumers <= max(min(most(rules), partitions), len(before))
    if (state.requested or frozenset()) - decision.requested:
        least = rules.min_consumers if rules.pinned is None else rules.pinned
        assert decision.consumers >= max(1, min(least, most(rules), partitions))
        assert rules.fallback != "current_if_higher" or len(before) > most(rules)


@often
@given(observations(), histories(), falling_back())
def test_until_its_time_has_come_it_is_as_if_there_were_none(seen: Observation, history: History, rules: Policy) -> None:
    early = replace(history, unusable_since=T0 - 299)
    decision, after = decide(seen, early, rules, moment(T0))
    without, then = decide(seen, early, with_(rules, {"fallback": "hold", "fallback_consumers": None}), moment(T0))
    assert (replace(decision, policy_fingerprint=""), after) == (replace(without, policy_fingerprint=""), then)
