"""What is left of a plan, by what is measured when its next batch is about to begin."""

from dataclasses import replace

import numpy as np

from autoscaler.core.messages import in_words
from autoscaler.goals import (
    Action,
    MoveLeadership,
    MoveReplica,
    Settings,
    Snapshot,
    applied,
    balance,
    fitting,
    obstacles,
    problem_of,
    statistics,
    worse,
)
from tests.goals.clusters import BYTES_IN, flags, of_rates, of_replicas

UNEVEN = of_rates([30, 30, 30, 30], [], [])
REST = balance(UNEVEN, BYTES_IN).actions


def said(snapshot: Snapshot, settings: Settings = BYTES_IN, *, forced: bool = False) -> list[str]:
    return [in_words(f) for f in obstacles(problem_of(snapshot, settings), REST[:1], REST, forced=forced)]


def test_a_plan_of_which_nothing_has_changed_goes_on() -> None:
    assert len(REST) == 2
    assert said(UNEVEN) == []


def test_brokers_that_were_to_get_something_and_take_no_part_any_more_end_a_plan() -> None:
    away = "the rest of the plan is planned anew: brokers 1, which were to get something, take no part now"
    assert [a.target for a in REST] == [1, 2]
    for change in (
        {"offline": flags(3, [1])},
        {"leaving": flags(3, [1])},
        {"slow": flags(3, [1])},
        {"brokers": np.array([0, 7, 8])},
    ):
        assert said(replace(UNEVEN, **change))[0].replace("1, 2", "1") == away, change
    stale = replace(of_rates([30, 30, 30, 30], [0], [0]), age_s=np.array([0.0, 0, 0, 0, 99, 0]))
    assert said(stale) == [away]


def test_a_limit_that_a_batch_would_go_beyond_by_loads_of_now_ends_a_plan() -> None:
    now = replace(UNEVEN, size_bytes=np.full(4, 50.0), capacity={"storage": np.array([np.inf, 40.0, 10.0])})
    only = "the rest of the plan is planned anew: broker 1 would have 50 B of storage, above the 40 B that are left to it"
    assert said(now) == [only], "broker 2 is of the next batch"
    assert said(replace(now, capacity={"storage": np.array([0.0, 50.0, 50.0])})) == [], "what is full already may give"


def test_a_plan_that_would_make_a_goal_worse_by_loads_of_now_ends_unless_it_was_asked_for() -> None:
    grown = replace(of_rates([5, 5, 1, 1], [40], [40]), partitions=np.arange(6))
    worse = ["the rest of the plan is planned anew: by what is measured now it would make worse: bytes_in"]
    assert said(grown) == worse
    assert said(grown, forced=True) == []


def test_a_plan_goes_on_though_more_brokers_are_a_little_outside_after_it() -> None:
    rest = (MoveReplica(partition=0, source=0, target=1, leads=True, size_bytes=1.0),)
    snapshot = of_rates([30, 120], [105], [85], [80])
    problem = problem_of(snapshot, BYTES_IN)
    assert worse(*(statistics(problem, s) for s in (snapshot.state, applied(snapshot, snapshot.state, rest)))) == ("bytes_in",)
    assert obstacles(problem, rest, rest, forced=False) == ()


def test_actions_that_fit_no_more_are_left_out_and_the_others_lead_where_they_did() -> None:
    snapshot = of_replicas([[0, 1], [0, 1], [0, 1], [0, 2]], brokers=4)
    lead = MoveLeadership(partition=0, source=0, target=1)
    copies = [MoveReplica(partition=p, source=0, target=3, leads=True, size_bytes=1.0) for p in (1, 3)]
    wrong: list[Action] = [
        MoveLeadership(partition=2, source=1, target=0),
        MoveReplica(partition=2, source=2, target=3, leads=False, size_bytes=1.0),
        MoveReplica(partition=2, source=0, target=1, leads=True, size_bytes=1.0),
        MoveReplica(partition=9, source=0, target=1, leads=True, size_bytes=1.0),
        MoveReplica(partition=2, source=0, target=8, leads=True, size_bytes=1.0),
    ]
    state, fits = fitting(snapshot, snapshot.state, [wrong[0], lead, *wrong[1:3], *copies, *wrong[3:]])
    assert fits == (lead, *copies)
    assert state.broker.tolist() == [0, 1, 3, 1, 0, 1, 3, 2]
    assert state.broker[state.leader].tolist() == [1, 3, 0, 3]


def test_what_of_a_plan_does_not_fit_is_no_obstacle_to_the_rest() -> None:
    moved = replace(UNEVEN, state=replace(UNEVEN.state, broker=np.array([1, 0, 0, 0])))
    assert REST[0].partition == 0
    assert said(moved) == []
