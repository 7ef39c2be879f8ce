"""What follows from a group's settings."""

from typing import get_args

import pytest
from pydantic import ValidationError

from autoscaler.config.policy import PRICED, Algorithm, Policy, Preset, step_of
from autoscaler.packing import ALGORITHMS, PRESETS, TAKES
from tests.builders import policy


@pytest.mark.parametrize(
    ("utilisation", "tolerance", "carried", "why"),
    [
        (0.8, 0.1, (80, 88, 72), "a tenth either side of what is planned"),
        (0.95, 0.1, (95, 100, 85.5), "overload is never above the capacity itself"),
        (1.0, 0.0, (100, 100, 100), "no tolerance: noise at the edge is the user's choice"),
    ],
)
def test_what_a_consumer_may_carry(utilisation: float, tolerance: float, carried: tuple[float, float, float], why: str) -> None:
    rules = policy(target_utilisation=utilisation, tolerance_ratio=tolerance)
    assert (rules.usable_bytes_per_s, rules.overload_bytes_per_s, rules.calm_bytes_per_s) == pytest.approx(carried), why


def test_the_fingerprint_follows_every_setting() -> None:
    assert policy().fingerprint == policy().fingerprint
    changed = {
        policy(**{name: value}).fingerprint for name, value in (("cooldown_s", 11), ("max_consumers", 3), ("mode", "advise"))
    }
    assert len({policy().fingerprint, *changed}) == 4


def test_every_algorithm_and_preset_of_the_planner_can_be_chosen() -> None:
    assert get_args(Algorithm) == ALGORITHMS
    assert set(get_args(Preset)) == set(PRESETS)
    assert set(PRICED) == {a for a, takes in TAKES.items() if "consumer_price" in takes}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "PACE balanced"),
        ({"preset": "lean"}, "PACE lean"),
        ({"preset": "even", "consumer_price": 1.5}, "PACE even at 1.5 per consumer"),
        ({"algorithm": "MWF"}, "MWF"),
    ],
)
def test_what_places_is_named_with_what_it_weighs(changes: dict[str, object], shown: str) -> None:
    assert policy(**changes).planner == shown


@pytest.mark.parametrize(
    ("size", "consumers", "step"),
    [(2, 10, 2), ("2", 1, 2), ("50%", 4, 2), ("50%", 5, 3), ("10%", 1, 1), ("1%", 0, 1), ("200%", 3, 6)],
)
def test_a_step_is_a_number_or_a_share(size: object, consumers: int, step: int) -> None:
    asked = policy(grow_step=size).grow_step
    assert asked is not None
    assert step_of(asked, consumers) == step


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        policy().max_consumers = 3  # type: ignore[misc]
    assert isinstance(policy(), Policy)
