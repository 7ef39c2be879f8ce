"""Why replicas stay where they should not be, in words that name what to do."""

from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core.messages import in_words
from autoscaler.goals import Goal, Memory, MoveLeadership, Name, Settings, Snapshot, balance, decide, explained
from autoscaler.model import TopicPartition
from tests.goals.clusters import MIB, flags, of_replicas

AT_ONCE = Settings(rounds=1, smoothing_s=0.0)
NO_ROOM = {"storage": np.array([1.0, 1.0, np.inf]) * MIB}


def said(snapshot: Snapshot, settings: Settings = AT_ONCE) -> list[str]:
    cycle = decide(snapshot, Memory(), settings, 0.0)
    return [in_words(f) for f in explained(cycle, lambda n: TopicPartition(topic="orders", partition=n))]


@pytest.mark.parametrize(
    ("snapshot", "settings", "why"),
    [
        (
            of_replicas([[0, 1, 2]] * 3, leaving=[2]),
            AT_ONCE,
            "every broker that stays holds a replica of them: add a broker, or lower their replication factor",
        ),
        (
            of_replicas([[0, 2], [1, 2]], leaving=[1, 2]),
            AT_ONCE,
            "every broker that stays holds a replica of them: add a broker, or lower their replication factor",
        ),
        (
            of_replicas([[0], [1], [2]], leaving=[2]),
            replace(AT_ONCE, excluded=frozenset({0})),
            "their topics are excluded, or they have moved a short time ago (stays)",
        ),
        (
            of_replicas([[0], [1], [2]], size=[1.0, 1.0, 5.0], capacity=NO_ROOM, leaving=[2]),
            AT_ONCE,
            "the other brokers have no room for them within disk_ratio and limits: add a broker, or raise these",
        ),
        (
            replace(of_replicas([[0], [1], [2]], leaving=[2]), age_s=np.array([99.0, 99.0, 0.0])),
            AT_ONCE,
            "the brokers that could hold them take no part now",
        ),
        (
            replace(of_replicas([[n] for n in range(11)], leaving=[2]), offline=flags(11, [2])),
            AT_ONCE,
            "the broker is offline, and what it holds cannot be copied: start it",
        ),
    ],
)
def test_what_cannot_leave_a_broker_is_said_with_its_cause(snapshot: Snapshot, settings: Settings, why: str) -> None:
    found = [s for s in said(snapshot, settings) if "is not emptied" in s]
    assert found
    assert all(s.endswith(why) for s in found), found
    assert not [s for s in said(snapshot, settings) if s.endswith("brokers ")]


def test_leaving_that_names_every_broker_is_said_as_such() -> None:
    assert said(of_replicas([[0, 1], [1, 2]], leaving=[0, 1, 2]))[:1] == [
        "leaving names every broker, so none is left to move anything to: name those only that shall be emptied"
    ]
    assert not [s for s in said(of_replicas([[0, 1], [1, 2]], leaving=[0, 1, 2])) if "not emptied" in s]


def test_replicas_on_every_broker_are_named_as_what_keeps_them_from_moving() -> None:
    found = said(of_replicas([[0, 1, 2], [0, 1, 2]], bytes_out=[9.0, 1.0]))
    assert "every broker holds a replica of every partition: only leaderships can move until a broker is added" in found
    elsewhere = said(of_replicas([[0, 1, 2], [0, 1, 2]], bytes_out=[9.0, 1.0], brokers=4))
    assert not [s for s in elsewhere if "only leaderships" in s]


def test_a_rack_that_is_emptied_is_named_with_the_partitions_that_it_crowds() -> None:
    held = [[0, 1, 2], [3, 4, 5], [0, 4]]
    warning = "leaving empties a whole rack (brokers 2, 5): replicas share one of the others then, of 2 partitions"
    found = said(of_replicas(held, racks=[0, 1, 2, 0, 1, 2], leaving=[2, 5]))
    assert [s for s in found if s.startswith(warning)], found
    for racks, leaving in (([0, 1, 2, 0, 1, 2], [2]), ([0, 1, 2, 3, 4, 2], [2, 5])):
        assert not [s for s in said(of_replicas(held, racks=racks, leaving=leaving)) if "whole rack" in s]


def test_replicas_that_must_stay_in_one_rack_are_named() -> None:
    idle = replace(AT_ONCE, goals=(Goal(name=Name.BYTES_IN, idle=10 * MIB),))
    found = said(replace(of_replicas([[0, 1], [2, 0]], racks=[0, 0, 1]), slow=flags(3, [2])), idle)
    assert found == [
        "replicas should move, and none of them can",
        "brokers 2 have answered slowly for some looks (slow_after): they may give, and get nothing",
        "replicas of 1 partition (orders-0) share a rack although there are others, and none can be moved to another one",
    ]


def test_what_cannot_leave_a_broker_is_led_by_others_from_then_on() -> None:
    snapshot = of_replicas([[2, 0, 1], [2, 1, 0], [2, 0, 1], [2, 1, 0], [0, 1, 2]], leaving=[2])
    plan = balance(snapshot, Settings())
    assert {type(a) for a in plan.actions} == {MoveLeadership}
    led = plan.after.broker[plan.after.leader].tolist()
    assert 2 not in led
    assert sorted([led.count(0), led.count(1)]) == [2, 3]
    assert "broker 0 leads in place of broker 2, because broker 2 is in leaving" in " ".join(said(snapshot))
    assert balance(snapshot, Settings(excluded=frozenset({0}))).actions == ()


def test_a_plan_that_is_refused_because_replicas_would_share_a_rack_is_told_without_partitions_that_do() -> None:
    full = {"storage": np.array([np.inf, np.inf, 1.0, np.inf]) * MIB}
    snapshot = of_replicas([[0, 3], [3, 0]], racks=[0, 0, 1, 2], leaving=[3], capacity=full)
    found = said(replace(snapshot, slow=flags(4, [2])))
    assert found[0] == "the plan is not carried out, because it would make worse: crowded_racks"
    assert not [s for s in found if "share a rack" in s]
