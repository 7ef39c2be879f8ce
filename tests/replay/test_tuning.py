"""What is tried to find cheaper settings, and which of them are suggested."""

from dataclasses import asdict, replace

import pytest

from autoscaler.config.policy import Policy
from autoscaler.replay.tuning import candidates, judged
from autoscaler.simulation.outcome import Outcome
from tests import builders as b

HELD = Outcome(
    hours=1.0, consumer_hours=10.0, most=12, scalings=4, moves=20, r_score=3.0, above_s=0.0, worst_behind_s=2.0,
    mean_behind_s=0.05, worst_backlog_bytes=1000.0, in_time=0.99,
)  # fmt: skip


def test_every_preset_is_tried_with_every_utilisation_and_what_holds_first() -> None:
    found = candidates(b.policy(preset="quiet", target_utilisation=0.75))
    assert len(found) == 1 + 4 * 5
    assert next(iter(found)) == "PACE quiet, 0.75"
    assert {(p.preset, p.target_utilisation) for p in found.values()} >= {("lean", 0.9), ("even", 0.5), ("quiet", 0.75)}


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "MWF"},  # knows no price of a consumer
        {"assignment": "native"},  # its partitions are not placed from here
    ],
)
def test_no_preset_is_tried_where_none_makes_a_difference(changes: dict[str, object]) -> None:
    found = candidates(b.policy(**changes))
    assert {p.preset for p in found.values()} == {Policy.model_fields["preset"].default}
    assert sorted(p.target_utilisation for p in found.values()) == [0.5, 0.6, 0.7, 0.8, 0.9]
    for p in found.values():
        Policy.model_validate(p.model_dump(exclude_unset=True))


def test_a_price_of_the_operators_own_is_left_out_where_a_preset_is_tried() -> None:
    found = candidates(b.policy(consumer_price=3.0))
    assert next(iter(found.values())).consumer_price == 3.0
    assert {p.consumer_price for p in list(found.values())[1:]} == {None}
    assert len(found) == 1 + 4 * 5


def test_what_an_operator_holds_a_group_by_is_left_out() -> None:
    found = candidates(b.policy(paused="all", pinned=3))
    assert {(p.paused, p.pinned) for p in found.values()} == {(None, None)}


@pytest.mark.parametrize(
    ("changes", "worse"),
    [
        ({}, ()),
        ({"worst_backlog_bytes": 1090.0}, ()),  # a tenth, and what one consumer reads in a second, are noise
        ({"worst_backlog_bytes": 1200.0}, ("backlog",)),
        ({"worst_behind_s": 2.9}, ()),
        ({"worst_behind_s": 3.1}, ("behind at most",)),
        ({"mean_behind_s": 0.2}, ("behind on average",)),
        ({"in_time": 0.98}, ("read in time",)),
        ({"worst_behind_s": 9.0, "worst_backlog_bytes": 9e9}, ("backlog", "behind at most")),
    ],
)
def test_a_cheaper_one_is_suggested_at_the_same_backlog_only(changes: dict[str, float], worse: tuple[str, ...]) -> None:
    cheaper = Outcome(**asdict(HELD) | {"consumer_hours": 8.0} | changes)
    found = judged({"held": HELD, "cheaper": cheaper}, HELD, consumer_bytes_per_s=100.0)
    assert found.worse == {"held": (), "cheaper": worse}
    assert found.best == (None if worse else "cheaper")


def test_of_two_that_cost_the_same_the_one_that_moves_less_is_suggested_and_small_change_is_not() -> None:
    a, calm = replace(HELD, consumer_hours=8.0, r_score=9.0), replace(HELD, consumer_hours=8.0, r_score=1.0)
    assert judged({"held": HELD, "a": a, "calm": calm}, HELD, 100.0).best == "calm"
    assert judged({"held": HELD, "a": replace(HELD, consumer_hours=9.95)}, HELD, 100.0).best is None
