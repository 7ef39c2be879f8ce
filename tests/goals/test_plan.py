"""Plans on clusters that can be checked by hand, and what every plan keeps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autoscaler.goals import (
    GOALS,
    Goal,
    MoveLeadership,
    MoveReplica,
    Name,
    Plan,
    Settings,
    Snapshot,
    Strategy,
    applied,
    balance,
    estimate,
    loads_of,
    problem_of,
    provision,
    ranked,
    statistics,
    worse,
)
from autoscaler.goals.snapshot import Ints
from tests.goals.clusters import BYTES_IN, MIB, drawn, flags, of_rates, of_replicas

STUCK = ([50, 40, 30, 20, 10], [30, 30], [20, 10])
STORAGE = Settings(goals=(Goal(name=Name.STORAGE),))


def loads(plan: Plan) -> list[float]:
    return [round(x, 6) for x in (loads_of(plan.problem, plan.after)[:, 0] / MIB).tolist()]


def test_best_fit_gets_where_greedy_gets_stuck() -> None:
    assert loads(balance(of_rates(*STUCK), BYTES_IN)) == [80, 80, 80]
    assert loads(balance(of_rates(*STUCK), replace(BYTES_IN, strategy=Strategy.GREEDY))) == [70, 90, 80]


def test_two_that_change_places_go_where_no_single_one_can() -> None:
    plan = balance(of_rates([60, 60], [40, 40]), BYTES_IN)
    assert loads(plan) == [100, 100]
    assert [(a.source, a.target) for a in plan.actions] == [(0, 1), (1, 0)]


def test_sixty_at_random_are_balanced_in_one_round_with_few_moves() -> None:
    plans = [balance(of_rates(*np.random.default_rng(s).uniform(1, 10, (10, 6))), BYTES_IN) for s in range(40)]
    assert all(p.becomes.balanced for p in plans)
    assert np.mean([len(p.actions) for p in plans]) <= 3.8


def test_greedy_undoes_what_is_hardly_worth_it_and_keeps_internal_topics_for_last() -> None:
    greedy = replace(BYTES_IN, strategy=Strategy.GREEDY)
    assert balance(of_rates([100, 4], [88, 4], [88, 4]), greedy).actions == ()
    snapshot = of_rates([60, 61, 1], [30])
    assert [a.partition for a in balance(snapshot, greedy).actions] == [1]
    snapshot = replace(snapshot, topics=np.array([0, 1, 0, 0]))
    assert [a.partition for a in balance(snapshot, replace(greedy, internal=frozenset({1}))).actions] == [0]


def test_leaderships_move_before_anything_is_copied() -> None:
    snapshot = of_replicas([[0, 1], [0, 2], [0, 1], [1, 2], [2, 0], [0, 2]], bytes_out=[9.0] * 6)
    plan = balance(snapshot, Settings(goals=(Goal(name=Name.LEADERS), Goal(name=Name.BYTES_OUT))))
    assert plan.becomes.balanced
    assert all(isinstance(a, MoveLeadership) for a in plan.actions)
    assert estimate(plan.actions).copied_bytes == 0


def test_what_costs_less_to_copy_is_moved() -> None:
    snapshot = of_replicas([[0], [0], [0], [1]], bytes_in=[10, 10, 10, 10], size=[900, 5, 900, 900], brokers=2)
    plan = balance(snapshot, BYTES_IN)
    assert [(a.partition, a.target) for a in plan.actions] == [(1, 1)]


def test_a_broker_that_shall_go_is_emptied_and_what_it_takes_is_estimated() -> None:
    snapshot = of_replicas([[0, 1], [1, 2], [2, 0], [3, 0], [3, 1]], size=[1, 1, 1, 7, 9], leaving=[3])
    plan = balance(snapshot, Settings())
    assert 3 not in plan.after.broker
    taken = estimate(plan.actions, throttle_bytes_per_s=MIB)
    assert taken.copied_bytes >= 16 * MIB
    assert taken.seconds == 16.0


def test_what_cannot_leave_a_broker_is_named() -> None:
    capacity = {"storage": np.array([12.0, 12.0, np.inf]) * MIB}
    snapshot = of_replicas([[0], [1], [2], [2]], size=[10, 10, 5, 1], leaving=[2], capacity=capacity)
    plan = balance(snapshot, STORAGE)
    assert plan.cannot_leave == {(2, "full"): (2,)}
    assert [a.partition for a in plan.actions] == [3]


def test_a_new_broker_is_filled() -> None:
    snapshot = of_replicas([[n % 3] for n in range(24)], brokers=4)
    assert np.bincount(balance(snapshot, Settings()).after.broker).tolist() == [6, 6, 6, 6]


def test_replicas_that_share_a_rack_are_spread_where_there_are_racks_enough() -> None:
    snapshot = of_replicas([[0, 1], [1, 2], [2, 3]], racks=[0, 0, 1, 2])
    plan = balance(snapshot, Settings())
    assert plan.was.crowded_racks == 1
    assert plan.becomes.crowded_racks == 0
    assert balance(replace(snapshot, racks=np.zeros(4, np.int64)), Settings()).was.crowded_racks == 0


def test_capacity_is_never_exceeded_and_what_is_above_it_is_relieved() -> None:
    capacity = {"storage": np.array([30.0, 10.0, np.inf]) * MIB}
    snapshot = of_replicas([[0]] * 6 + [[1]] * 3 + [[2]], size=[5.0] * 10, capacity=capacity)
    plan = balance(snapshot, STORAGE)
    assert plan.was.over_capacity == pytest.approx(0.5)
    assert plan.becomes.over_capacity == 0


def test_brokers_whose_disks_leave_no_room_are_relieved_and_get_nothing() -> None:
    capacity = {"storage": np.array([0.0, 20.0, 0.0]) * MIB}
    snapshot = of_replicas([[0]] * 4 + [[1]] + [[2]] * 3, size=[5.0] * 8, capacity=capacity)
    plan = balance(snapshot, STORAGE)
    assert np.bincount(plan.after.broker, minlength=3)[1] == 4, "as many as it may be given"
    assert 0 < plan.becomes.over_capacity < plan.was.over_capacity
    full = balance(replace(snapshot, capacity={"storage": np.zeros(3)}), STORAGE)
    assert full.was == full.becomes
    assert np.isfinite(full.was.over_capacity)


def test_a_full_broker_gets_no_empty_replica_and_leads_all_the_same() -> None:
    capacity = {"storage": np.array([np.inf, 0.0, 0.0]) * MIB}
    snapshot = of_replicas([[0, 1]] * 6, size=[0.0] * 6, bytes_in=[10.0] * 6, brokers=3, capacity=capacity)
    plan = balance(snapshot, Settings(goals=(Goal(name=Name.LEADERS), Goal(name=Name.BYTES_IN), Goal(name=Name.STORAGE))))
    assert {type(a) for a in plan.actions} == {MoveLeadership}


def test_slow_brokers_give_and_never_receive_offline_and_stale_ones_do_neither() -> None:
    snapshot = of_rates([10] * 9, [10] * 3, [10] * 3, [10])
    slow = balance(replace(snapshot, slow=flags(4, [3])), BYTES_IN)
    assert {a.target for a in slow.actions} <= {1, 2}
    assert slow.actions
    stale = balance(replace(snapshot, age_s=np.where(snapshot.state.broker == 3, 61.0, 60.0)), BYTES_IN)
    assert stale.problem.counted.tolist() == [True, True, True, False]
    assert {a.target for a in stale.actions} == {1, 2}
    offline = balance(replace(snapshot, offline=flags(4, [0])), BYTES_IN)
    assert 0 not in {a.source for a in offline.actions}
    gone = balance(replace(snapshot, bytes_in=np.where(snapshot.state.broker == 1, np.nan, 10.0)), BYTES_IN)
    assert not gone.problem.counted[1]


def test_excluded_topics_count_and_do_not_move() -> None:
    snapshot = replace(of_rates([40, 40, 40], [60]), topics=np.array([7, 7, 7, 8]))
    assert balance(snapshot, replace(BYTES_IN, excluded=frozenset({7, 8}))).actions == ()
    plan = balance(replace(snapshot, topics=np.array([7, 7, 8, 8])), replace(BYTES_IN, excluded=frozenset({7})))
    assert {a.partition for a in plan.actions} <= {2, 3}


def test_a_goal_without_its_data_is_left_out_and_said() -> None:
    plan = balance(of_rates([3], [1]), Settings())
    assert set(plan.problem.left_out) == {(Name.BYTES_OUT, ("bytes_out",)), (Name.STORAGE, ("size_bytes",))}


def test_a_plan_that_makes_something_worse_is_found_out() -> None:
    snapshot = of_replicas([[0, 2], [1, 3]], racks=[0, 1, 1, 2])
    problem = problem_of(snapshot, Settings())
    before = statistics(problem, snapshot.state)
    packed = replace(snapshot.state, broker=np.array([0, 1, 1, 2]))
    assert "replicas" in worse(before, statistics(problem, packed))
    crowded = replace(snapshot.state, broker=np.array([0, 2, 1, 2]))
    assert "crowded_racks" in worse(before, statistics(problem, crowded))


def test_how_many_brokers_are_missing_or_to_spare() -> None:
    def with_capacity(each: float) -> Snapshot:
        return of_replicas([[n % 4] for n in range(8)], size=[10.0] * 8, capacity={"storage": np.full(4, each) * MIB})

    found = [provision(problem_of(with_capacity(each), STORAGE), 0.5) for each in (20.0, 40.0, 80.0)]
    assert [(f.missing, f.spare) for f in found] == [(4, 0), (0, 0), (0, 2)]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([Strategy.BEST_FIT, Strategy.GREEDY]))
def test_no_plan_makes_a_goal_worse_or_puts_two_replicas_together(seed: int, strategy: Strategy) -> None:
    snapshot = drawn(seed, brokers=6, partitions=40, replication=2, racks=3)
    plan = balance(snapshot, Settings(strategy=strategy))
    assert _same_places(snapshot, plan)
    pairs = plan.after.broker.reshape(-1, 2)
    assert np.all(snapshot.racks[pairs[:, 0]] != snapshot.racks[pairs[:, 1]])
    if strategy is Strategy.BEST_FIT:
        assert not worse(plan.was, plan.becomes)
        assert not plan.refused_for
    assert plan.becomes == statistics(plan.problem, plan.after) or plan.refused_for
    copied = sum(a.size_bytes for a in plan.actions if isinstance(a, MoveReplica))
    assert estimate(plan.actions).copied_bytes == copied


def _same_places(snapshot: Snapshot, plan: Plan) -> bool:
    """Say whether the actions lead to the same brokers and leaders, replicas of a partition being alike."""
    done = applied(snapshot, plan.before, plan.actions)

    def places(broker: Ints) -> Ints:
        return np.sort(broker.reshape(len(snapshot.partitions), -1), axis=1)

    leads = np.array_equal(done.broker[done.leader], plan.after.broker[plan.after.leader])
    return leads and np.array_equal(places(done.broker), places(plan.after.broker))


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_a_plan_made_again_from_its_own_result_moves_nothing_if_it_was_balanced(seed: int) -> None:
    snapshot = drawn(seed, brokers=5, partitions=60, replication=2, racks=5, spread=0.5)
    plan = balance(snapshot, Settings())
    assume(plan.becomes.balanced)
    assert balance(replace(snapshot, state=plan.after), Settings()).actions == ()


def test_a_cluster_of_some_size_is_balanced_by_all_goals() -> None:
    plan = balance(drawn(3, brokers=12, partitions=2000, skew=0.25, spread=0.7), Settings())
    assert plan.was.balancedness < 60
    assert plan.becomes.balanced
    assert {type(a) for a in plan.actions} == {MoveLeadership, MoveReplica}


def test_goals_that_are_named_count_in_their_order_where_not_all_can_be_had() -> None:
    names = [g.name for g in GOALS]
    assert [(g.name, g.weight, g.idle) for g in ranked(names[:2])] == [
        (g.name, w, g.idle) for g, w in zip(GOALS, (1, 0.25), strict=False)
    ]
    snapshots = [drawn(seed, brokers=8, partitions=100, skew=0.4) for seed in range(6)]
    left = {True: 0.0, False: 0.0}
    for first in names:
        order = ranked([first, *(n for n in names if n != first)])
        for in_order in left:
            goals = order if in_order else tuple(replace(g, weight=1.0) for g in order)
            left[in_order] += sum(balance(s, Settings(goals=goals)).becomes.spreads[first].excess for s in snapshots)
    assert left[True] < 0.97 * left[False]


def test_settings_and_goals_that_make_no_sense_are_refused() -> None:
    for bad in ({"inner": 0.0}, {"rounds": 0}, {"goals": (*GOALS, GOALS[0])}, {"goals": ()}, {"hard": {Name.LAG}}):
        with pytest.raises(ValueError, match=r"must|hard"):
            Settings(**bad)
    with pytest.raises(ValueError, match="no load"):
        Goal(name=Name.RACKS)
    with pytest.raises(ValueError, match="above 0"):
        Goal(name=Name.LAG, weight=0.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bytes_in": np.ones(3)}, "bytes_in must have one value for each partition"),
        ({"racks": np.zeros(1, np.int64)}, "racks must have one value for each broker"),
        ({"brokers": np.array([1, 0])}, "ascending"),
        ({"bytes_in": np.array([-1.0, 1.0])}, "negative"),
        ({"partition": np.array([0, 0])}, "every partition needs a replica"),
    ],
)
def test_a_snapshot_that_does_not_belong_together_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(of_rates([1], [1]), **wrong)  # type: ignore[arg-type]
