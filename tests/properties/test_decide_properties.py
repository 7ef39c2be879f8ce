"""What holds for every decision, whatever a cycle sees."""

from dataclasses import replace
from itertools import pairwise
from random import Random

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from autoscaler.config.policy import PRICED, Policy
from autoscaler.core.decide import History, decide, hold
from autoscaler.model import AddWorkers, Finding, GroupState, MovePartition, Observation, Reason, RemoveWorkers, WorkerPhase
from autoscaler.model.findings import What
from tests.builders import T0, moment, policy, tp
from tests.scenarios.unequal_world import UnequalWorld
from tests.scenarios.world import World, moves, scalings
from tests.strategies import examples, histories, observations, policies, rate_values, selectable

RECEIVING = (WorkerPhase.JOINING, WorkerPhase.ACTIVE)
ORDER = [AddWorkers, MovePartition, RemoveWorkers]


def it_makes_sense(seen: Observation, history: History, rules: Policy) -> None:
    decision, after = decide(seen, history, rules, moment(T0))
    kinds = [ORDER.index(type(a)) for a in decision.actions]
    assert kinds == sorted(kinds), "add, then move, then remove"
    assert decision.detail
    assert decision.consumers == len(decision.requested)
    assert isinstance(after, History)
    listed = {x.partition for x in seen.snapshot.loads}
    for action in decision.actions:
        if isinstance(action, MovePartition):
            assert action.partition in listed
            assert decision.target[action.partition] == action.target != action.source
            assert action.target in decision.requested
        if isinstance(action, AddWorkers):
            assert set(action.slots) <= decision.requested
        if isinstance(action, RemoveWorkers):
            kept = set() if rules.assignment == "native" else set(decision.target.values())  # Kafka hands over what those hold
            assert not set(action.slots) & (decision.requested | kept)


def moving_gives_every_listed_partition_exactly_one_owner(seen: Observation, history: History, rules: Policy) -> None:
    decision, _ = decide(seen, history, rules, moment(T0))
    if any(isinstance(a, MovePartition) for a in decision.actions):
        assert set(decision.target) == {x.partition for x in seen.snapshot.loads}


def equal_input_gives_equal_output_in_any_order(seen: Observation, history: History, rules: Policy) -> None:
    mixed = seen
    if seen.state is not None:
        turned = dict(reversed(list(seen.state.owner.items())))
        mixed = replace(seen, state=replace(seen.state, owner=turned, workers=tuple(reversed(seen.state.workers))))
    if mixed.members is not None:
        mixed = replace(mixed, members=replace(mixed.members, members=tuple(reversed(mixed.members.members))))
    mixed = replace(mixed, snapshot=replace(mixed.snapshot, loads=tuple(reversed(mixed.snapshot.loads))))
    assert decide(mixed, history, rules, moment(T0)) == decide(seen, history, rules, moment(T0))


def an_unknown_measurement_never_shrinks(seen: Observation, history: History, rules: Policy) -> None:
    if seen.state is None or all(x.known for x in seen.snapshot.loads):
        return
    decision, _ = decide(seen, history, rules, moment(T0))
    if decision.reason is not Reason.AT_MAXIMUM:  # a lowered maximum is the user's word, not a measurement
        assert decision.requested >= (seen.state.requested or frozenset())


def the_maximum_is_never_passed(seen: Observation, history: History, rules: Policy) -> None:
    """Except by workers that live unasked while none of those asked for does: better they than nobody."""
    decision, _ = decide(seen, history, rules, moment(T0))
    there = len(seen.members.members) if seen.members and not seen.state else 0
    ready = {w.slot for w in seen.state.workers if w.phase in RECEIVING} if seen.state else set()
    paid_for = (seen.state.requested or frozenset()) | set(seen.state.owner.values()) if seen.state else frozenset()
    if not ready or ready & paid_for:
        assert decision.consumers <= max(rules.max_consumers, len(paid_for), there)


def asking_again_for_what_was_asked_changes_nothing(seen: Observation, history: History, rules: Policy) -> None:
    """Applied twice equals once: with the requested set observed, no consumer is asked for a second time."""
    if seen.state is None or rules.mode != "act":
        return
    first, after = decide(seen, history, rules, moment(T0))
    if any(isinstance(a, AddWorkers) for a in first.actions):
        state: GroupState = replace(seen.state, requested=first.requested)
        second, _ = decide(replace(seen, state=state), after, rules, moment(T0))
        assert not any(isinstance(a, AddWorkers) for a in second.actions)


def holding_never_acts(seen: Observation, _: History, rules: Policy) -> None:
    decision = hold(
        seen, History(), rules, moment(T0), Reason.NOT_READY, Finding.of(What.FAILED, error="the control log cannot be read")
    )
    assert (decision.reason, decision.actions) == (Reason.NOT_READY, ())


@examples(300)
@given(observations(), histories(), policies())
def test_every_promise_of_a_decision_holds(seen: Observation, history: History, rules: Policy) -> None:
    """All are asked of each example: to draw one takes longer than to decide."""
    for promise in (
        it_makes_sense,
        moving_gives_every_listed_partition_exactly_one_owner,
        equal_input_gives_equal_output_in_any_order,
        an_unknown_measurement_never_shrinks,
        the_maximum_is_never_passed,
        asking_again_for_what_was_asked_changes_nothing,
        holding_never_acts,
    ):
        promise(seen, history, rules)


# --- in a world that carries decisions out ---------------------------------------------------------------------------

quick = policy(cooldown_s=3, shrink_cooldown_s=5, shrink_stabilisation_s=10)
traffic = st.lists(rate_values.map(lambda r: min(r, 1e6)), min_size=1, max_size=12)


@examples(16)
@given(traffic, selectable, st.integers(1, 4), st.integers(0, 8))
def test_constant_load_comes_to_rest(values: list[float], algorithm: str, least: int, more: int) -> None:
    rates = {tp(i): v for i, v in enumerate(values)}
    rules = quick.model_copy(update={"algorithm": algorithm, "min_consumers": least, "max_consumers": least + more})
    world = World(policy=rules, traffic=lambda _: rates)
    world.run(120)
    late = world.run(40)
    assert [d.actions for d in late if d.actions] == []
    assert set(late[-1].target) == set(rates)


@examples(5)
@given(
    st.lists(st.floats(1, 60), min_size=4, max_size=16),
    st.lists(st.sampled_from([40.0, 60.0, 100.0, 100.0, 100.0, 160.0]), min_size=8, max_size=8),
    st.sampled_from([None, 12.0]),
    st.lists(st.sampled_from([5.0, 10.0, 20.0]), min_size=16, max_size=16),
)
def test_unequal_workers_come_to_rest(values: list[float], able: list[float], records: float | None, each: list[float]) -> None:
    rates = {tp(i): v for i, v in enumerate(values)}
    rules = quick.model_copy(
        update={"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 100.0, "capacity_records_per_s": records}
    )
    world = UnequalWorld(
        policy=rules,
        traffic=lambda _: rates,
        able=lambda _, slot: able[slot % len(able)],
        record_bytes=lambda p: each[p.partition],
    )
    world.run(500)
    assert [(d.reason, d.detail) for d in world.run(120) if d.actions] == []


@settings(examples(4), phases=(Phase.explicit, Phase.generate))
@given(st.lists(st.floats(1, 60), min_size=2, max_size=10), selectable, st.integers(0, 2**32))
def test_noise_gives_no_action(values: list[float], algorithm: str, seed: int) -> None:
    """Noise of a tenth either way, around the load that the group has come to rest with."""
    random = Random(seed)
    rates = {tp(i): v for i, v in enumerate(values)}
    world = World(policy=policy(algorithm=algorithm), traffic=lambda _: rates)
    world.run(600)
    assert all(d.actions == () for d in world.run(30))
    world.traffic = lambda _: {p: r * random.uniform(0.9, 1.1) for p, r in rates.items()}
    assert [d.detail for d in world.run(600) if d.actions] == []


@examples(8)
@given(st.lists(st.floats(10, 40), min_size=4, max_size=12), selectable)
def test_a_step_to_twice_the_load_scales_once(values: list[float], algorithm: str) -> None:
    rates = {tp(i): v for i, v in enumerate(values)}
    world = World(policy=policy(algorithm=algorithm), traffic=lambda _: rates)
    world.run(400)
    world.traffic = lambda _: {p: 2 * r for p, r in rates.items()}
    after = world.run(300)
    assert len(scalings([world.decisions[399], *after])) <= 1
    assert not any(load > 88.001 for load in world.loads().values()), "nobody is overloaded"
    assert len({d.at for d in after if moves([d])}) <= 1, "and partitions move once"


@examples(6)
@given(traffic, selectable, st.sampled_from(["lean", "even", "balanced", "quiet"]))
def test_constant_load_does_not_take_turns_growing_and_shrinking(values: list[float], algorithm: str, preset: str) -> None:
    """Growing weighs consumers against moves, shrinking does not: neither may undo the other, over thirty windows."""
    asked = {"algorithm": algorithm} if algorithm not in PRICED else {"algorithm": algorithm, "preset": preset}
    started = {tp(i): v / 3 for i, v in enumerate(values)}
    world = World(policy=quick.model_copy(update=asked), traffic=lambda _: started)
    world.run(60)
    world.traffic = lambda _: {p: 3 * r for p, r in started.items()}
    after = world.run(360)
    counts = [world.decisions[59].consumers, *(d.consumers for d in after)]
    turns = [b - a for a, b in pairwise(counts) if a != b]
    assert all(b < 0 for b in turns[1:]), "after it has grown it may only become smaller"
    assert [d.actions for d in after[60:] if d.actions] == []


@examples(5)
@given(st.lists(st.floats(2, 30), min_size=4, max_size=16), selectable)
def test_load_that_rises_and_falls_grows_and_shrinks_once_each_time(values: list[float], algorithm: str) -> None:
    """Half the time at twice the load; each phase is several windows long."""
    rates = {tp(i): v for i, v in enumerate(values)}
    world = World(
        policy=policy(algorithm=algorithm, cooldown_s=3, shrink_cooldown_s=5, shrink_stabilisation_s=10),
        traffic=lambda t: {p: r * (2 if int(t / 60) % 2 else 1) for p, r in rates.items()},
    )
    world.run(120)
    for _ in range(4):
        assert len(scalings([world.decisions[-1], *world.run(60)])) <= 1


@examples(8)
@given(traffic, traffic, selectable)
def test_any_change_of_load_comes_to_rest_within_capacity(before: list[float], after: list[float], algorithm: str) -> None:
    count = min(len(before), len(after))
    world = World(
        policy=quick.model_copy(update={"algorithm": algorithm}), traffic=lambda _: {tp(i): before[i] for i in range(count)}
    )
    world.run(60)
    world.traffic = lambda _: {tp(i): after[i] for i in range(count)}
    world.run(120)
    late = world.run(40)
    assert [d.actions for d in late if d.actions] == []
    crowded = [s for s, load in world.loads().items() if load > 88.001 and sum(o == s for o in world.owner.values()) > 1]
    rates = world.traffic(0)
    assert all(sum(1 for p, o in world.owner.items() if o == s and rates[p] > 0) == 1 for s in crowded)
