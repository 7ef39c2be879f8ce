"""What the settings name that a cluster does not have."""

import pytest
from pydantic import ValidationError

from autoscaler.balancing import settings_of, unmatched_names
from autoscaler.brokers.view import View
from autoscaler.config.balance import Balance
from autoscaler.core.messages import in_words
from autoscaler.goals import GOALS
from tests.brokers.fake_cluster import FakeCluster, holders, tp
from tests.brokers.test_balancing import QUICK, Case


def view() -> View:
    return FakeCluster({tp(0, "orders"): holders(1, 2), tp(0, "payments"): holders(2, 9)}).observe(())


def said(**wanted: object) -> list[str]:
    return [in_words(f) for f in unmatched_names(Balance.model_validate(wanted), view())]


def test_brokers_and_topics_that_are_not_there_are_named() -> None:
    assert said(leaving=[1, 7], limits={"bytes_in": {"3": 5, "8": 5}}, excluded=["orders", "paymnts", "^old-", "^pay"]) == [
        "leaving names what the cluster does not have: 7",
        "limits names what the cluster does not have: 8",
        "excluded names what the cluster does not have: paymnts, ^old-",
    ]
    assert said(leaving=[9], limits={"bytes_in": {"1": 5}}, excluded=["orders"]) == [], "9 is down, and still holds replicas"


def test_they_are_said_by_the_loop_once() -> None:
    case = Case(balance=QUICK.model_copy(update={"leaving": (7,), "excluded": ("nothing",)}))
    case.looks(case.job(), 3)
    found = [in_words(f) for r in case.rows for f in r.findings]
    assert found.count("leaving names what the cluster does not have: 7") >= 1


def test_goals_that_are_named_are_in_order_of_priority_and_weigh_alike_where_none_is() -> None:
    goals = settings_of(Balance(goals=("storage", "bytes_in")), view()).goals
    assert [(g.name, g.weight) for g in goals] == [("storage", 1.0), ("bytes_in", 0.25)]
    assert settings_of(Balance(), view()).goals == GOALS


def test_excluded_takes_patterns_as_topics_of_groups_do() -> None:
    settings = settings_of(Balance(excluded=("^pay", "!payments")), view())
    assert settings.excluded == frozenset()
    assert settings_of(Balance(excluded=("^pay",)), view()).excluded == {1}


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ({"leaving": [-1]}, "leaving"),
        ({"limits": {"bytes_in": {"-3": 5}}}, "limits"),
        ({"limits": {"bytes_in": {"3": -5}}}, "limits"),
        ({"excluded": ["pay*"]}, "no topic's name"),
        ({"excluded": ["^pay("]}, "no regular expression"),
    ],
)
def test_what_no_cluster_can_have_is_refused(wanted: dict[str, object], where: str) -> None:
    with pytest.raises(ValidationError, match=where):
        Balance.model_validate(wanted)
    Balance(excluded=("__consumer_offsets",))
