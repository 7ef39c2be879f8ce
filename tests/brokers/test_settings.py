"""Each setting of ``balance`` in the loop: what moves with it, and what without."""

import math
from dataclasses import replace

import pytest

from autoscaler.brokers.measured import Rate
from autoscaler.brokers.view import Broker, Holders
from autoscaler.goals import Name
from autoscaler.model import TopicPartition, What
from tests.brokers.fake_cluster import FakeCluster, holders, tp
from tests.brokers.test_balancing import QUICK, Case

ONE_LOAD = QUICK.model_copy(update={"goals": ("bytes_in",)})


def on(case: Case, broker: int) -> int:
    return sum(broker in h.replicas for h in case.cluster.partitions.values())


def alone(*brokers: int, topic: str = "t") -> dict[TopicPartition, Holders]:
    """Return partitions of one replica, by the broker of each."""
    return {tp(n, topic): holders(b) for n, b in enumerate(brokers)}


def case_of(partitions: dict[TopicPartition, Holders], **wanted: object) -> Case:
    cluster = FakeCluster(partitions, {1: Broker(), 2: Broker()})
    return Case(balance=ONE_LOAD.model_copy(update=wanted), cluster=cluster, mib_per_s=(4.0,) * len(partitions))


def ran(case: Case, looks: int = 40) -> Case:
    case.looks(case.job(), looks)
    return case


@pytest.mark.parametrize("limits", [{"bytes_in": {4: 9e6}}, {"replicas": {4: 2}}, {"storage": {4: 2e6}}])
def test_limits_bind_whether_they_are_of_goals_or_not(limits: dict[str, dict[int, float]]) -> None:
    assert on(ran(Case()), 4) == 6
    bound = ran(Case(balance=QUICK.model_copy(update={"limits": limits})))
    assert on(bound, 4) <= 2 < on(bound, 3)


def test_disks_are_filled_to_their_ratio_by_a_plan_that_storage_is_no_goal_of() -> None:
    small = {1: Broker(), 2: Broker(), 3: Broker(), 4: Broker(disk_bytes=10e6, free_bytes=10e6)}
    for ratio, most in ((1.0, 6), (0.2, 2)):
        case = Case(balance=QUICK.model_copy(update={"disk_ratio": ratio}))
        case.cluster.brokers = small
        assert on(ran(case), 4) == most


def test_reads_are_what_bytes_out_is_judged_by() -> None:
    for reads, moves in ((0.0, False), (1.0, True)):
        case = ran(case_of(alone(1, 1, 1, 1), goals=("bytes_out",), reads=reads))
        assert bool(case.cluster.commands) == moves


def test_excluded_topics_count_and_stay() -> None:
    def both() -> dict[TopicPartition, Holders]:
        return alone(1, 1, topic="first") | alone(1, 1, topic="second")

    case = ran(case_of(both(), excluded=("first",)))
    assert {p.topic for p, h in case.cluster.partitions.items() if 2 in h.replicas} == {"second"}
    assert on(case, 2) == 2, "what stays counts"
    assert ran(case_of(both(), excluded=("^.*",))).cluster.commands == []


def test_a_broker_must_be_outside_its_band_for_so_many_looks() -> None:
    case = case_of(alone(1, 1, 1, 1), rounds=4)
    job = case.job()
    case.looks(job, 3)
    assert case.cluster.commands == []
    case.looks(job, 1)
    assert case.cluster.commands != []


def test_loads_are_smoothed_over_the_time_that_is_configured() -> None:
    for smoothing_s, moves in ((600.0, False), (0.0, True)):
        case = case_of(alone(1, 1, 1, 2, 2, 2), smoothing_s=smoothing_s)
        job = case.job()
        case.looks(job, 1)
        case.mib_per_s = (6.0,) * 3 + (4.0,) * 3
        case.looks(job, 1)
        assert bool(case.cluster.commands) == moves


def test_a_partition_that_has_moved_stays_for_the_time_that_is_configured() -> None:
    for stays_s, moves in ((900.0, False), (0.0, True)):
        case = case_of(alone(1, 1, 1, 1), stays_s=stays_s)
        job = case.job()
        case.looks(job, 6)
        assert on(case, 2) == 2
        begun = len(case.cluster.commands)
        case.change(hot=[p.partition for p, h in case.cluster.partitions.items() if 2 in h.replicas])
        case.looks(job, 3)
        assert (len(case.cluster.commands) > begun) == moves
        case.clock.advance(900.0)
        case.looks(job, 3)
        assert len(case.cluster.commands) > begun


def test_goals_that_are_not_named_are_not_balanced() -> None:
    case = ran(case_of(alone(1, 1, 1, 1), goals=("leaders",)))
    assert on(case, 2) == 2
    case = case_of(alone(1, 1, 2, 2), goals=("leaders",))
    case.mib_per_s = (40.0, 40.0, 1.0, 1.0)
    assert ran(case).cluster.commands == []
    case = case_of(alone(1, 1, 2, 2), goals=(str(Name.BYTES_IN),))
    case.mib_per_s = (40.0, 40.0, 1.0, 1.0)
    assert ran(case).cluster.commands != []


def test_a_broker_that_answers_slowly_for_some_looks_gets_nothing_and_may_give_and_that_is_said() -> None:
    def slow(answered_s: float, looks: int, rounds: int = 1) -> Case:
        case = case_of(alone(1, 1, 1, 1), rounds=rounds, slow_after_s=1.0)
        case.cluster.brokers = {1: Broker(), 2: Broker(answered_s=answered_s), 3: Broker()}
        return ran(case, looks)

    quick, late = slow(0.5, 40), slow(1.5, 40)
    assert [on(quick, b) > 0 for b in (2, 3)] == [True, True]
    assert [on(late, b) > 0 for b in (2, 3)] == [False, True]
    assert [What.BROKERS_SLOW in c.said() for c in (quick, late, slow(1.5, 8, 9), slow(1.5, 9, 9))] == [False, True, False, True]
    case = case_of(alone(2, 2, 2, 2))
    case.cluster.brokers = {1: Broker(), 2: Broker(answered_s=1.5)}
    assert on(ran(case), 1) == 2, "it may give"


def test_lag_moves_leaderships_where_it_is_a_goal_and_is_unknown_where_a_group_cannot_be_read() -> None:
    def lagging(goals: tuple[str, ...], lag: float | None) -> Case:
        case = case_of({tp(n): holders(1, 2) for n in range(4)}, goals=goals)
        rate = Rate(0.0, 0.0, lag)
        job = case.job()
        job.world = replace(job.world, rates=lambda: dict.fromkeys(case.cluster.partitions, rate))
        case.looks(job)
        return case

    assert lagging(("lag",), 1e9).leaders()[:2] == [2, 2]
    assert lagging(("bytes_in",), 1e9).leaders()[:2] == [4, 0]
    assert lagging(("lag",), 1e6).leaders()[:2] == [4, 0], "so little is nothing"
    assert What.BROKERS_NOT_MEASURED in lagging(("lag",), math.nan).said()
    assert What.GOAL_LEFT_OUT in lagging(("lag",), None).said()
