"""Options: who takes which, what they mean together, and what is refused."""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from autoscaler.packing import ALGORITHMS, PRESETS, Given, assign, assign_arrays
from autoscaler.packing.problem.options import TAKES, Options, read_options
from tests.builders import named


def test_all_sixteen_are_there() -> None:
    assert " ".join(ALGORITHMS) == "NF FF WF BF NFD FFD WFD BFD MWF MBF MWFP MBFP MMR HFD GOALS PACE EXACT"


@dataclass(frozen=True)
class Estimate:
    sigma: float


@pytest.mark.parametrize(
    ("given", "expected", "why"),
    [
        ({}, (0.7, 1, 1), "balanced is the default"),
        ({"preset": "lean"}, (100, 0, 1), "a preset sets all three"),
        ({"preset": "even"}, (2, 1, 1), "as above"),
        ({"preset": "quiet"}, (0.35, 1, 1), "as above"),
        ({"preset": "quiet", "consumer_price": 3}, (3, 1, 1), "what is said beside a preset wins"),
        ({"drift_weight": 0.5, "horizon": 4}, (0.7, 0.5, 4), "the rest is balanced"),
    ],
)
def test_presets(given: Given, expected: tuple[float, float, float], why: str) -> None:
    options = read_options("PACE", given, 10)
    assert (options.consumer_price, options.drift_weight, options.horizon) == expected, why


def test_presets_are_the_documented_four() -> None:
    assert list(PRESETS) == ["lean", "even", "balanced", "quiet"]
    assert read_options("PACE", {"preset": "balanced"}, 10) == Options()


@pytest.mark.parametrize(("drift", "sigma"), [(3.0, 0.03), (0, 0.0), (Estimate(5.0), 0.05), (1e300, 1e9)])
def test_drift_is_in_the_unit_of_the_rates(drift: float | Estimate, sigma: float) -> None:
    assert read_options("PACE", {"drift": drift}, 100 if drift != 1e300 else 1e-300).sigma == pytest.approx(sigma)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_options_of_others_are_refused(algorithm: str) -> None:
    for option in set(Given.__annotations__) - TAKES.get(algorithm, frozenset()):
        with pytest.raises(ValueError, match=f"{algorithm} does not take {option}"):
            assign(named(a=1), 10, {}, algorithm, **cast("Given", {option: 1}))


def test_an_option_that_nobody_takes_is_refused_with_those_taken() -> None:
    with pytest.raises(ValueError, match="PACE does not take colour; it takes consumer_price, drift, drift_weight"):
        read_options("PACE", cast("Given", {"colour": 1}), 10)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"preset": "eager"}, "preset 'eager' is unknown; choose one of lean, even, balanced, quiet"),
        ({"preset": ["lean"]}, r"preset \['lean'\] is unknown; choose one of lean, even, balanced, quiet"),
        ({"consumer_price": math.nan}, r"consumer_price .* from 0 to 1e\+06, not nan"),
        ({"consumer_price": -1}, r"consumer_price .* from 0 to 1e\+06, not -1"),
        ({"drift_weight": math.inf}, "drift_weight .*inf"),
        ({"consumer_price": 1e308}, r"consumer_price .* from 0 to 1e\+06, not 1e\+308"),
        ({"horizon": 0}, r"horizon .* above 0 to 1e\+06, not 0"),
        ({"drift": -0.1}, "drift .*-0.1"),
        ({"drift": "much"}, "drift .*'much'"),
        ({"drift": Estimate(math.nan)}, "drift .*nan"),
        ({"paid_for": -2}, "paid_for .*-2"),
        ({"consumer_price": True}, "consumer_price .*True"),
        ({"consumer_price": 10**400}, r"consumer_price .* not 1000"),
        ({"drift": 1 + 2j}, r"drift .* not \(1\+2j\)"),
    ],
)
def test_values_without_meaning_are_refused_by_name(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_options("PACE", cast("Given", given), 10)


def test_a_ratio_above_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"fill_ratio must be a finite number above 0 to 1, not 1\.1"):
        read_options("MMR", {"fill_ratio": 1.1}, 10)


@pytest.mark.parametrize("algorithm", ["NF", "NFD"])
def test_opening_consumer_0_first_is_what_the_published_runs_did(algorithm: str) -> None:
    loads, previous = named(a=6, b=5), dict.fromkeys(named(a=0), 4)
    assert list(assign(loads, 10, previous, algorithm).owner.values()) == [4, 0]
    assert list(assign(loads, 10, previous, algorithm, open_first=True).owner.values()) == [0, 1], "a fits on the open one"


@pytest.mark.parametrize("algorithm", ["NF", "NFD"])
@pytest.mark.parametrize(("loads", "placed"), [([12.0, 5.0], [0, 7]), ([12.0, 0.0], [0, 7]), ([12.0], [0]), ([], [])])
def test_the_consumer_that_is_open_first_takes_the_first_partition_whatever_its_rate(
    algorithm: str, loads: list[float], placed: list[int]
) -> None:
    plan = assign(dict(enumerate(loads)), 10, dict.fromkeys(range(2), 7), algorithm, open_first=True)
    assert list(plan.owner.values()) == placed
    assert assign_arrays(np.array(loads), 10, np.full(len(loads), 7), algorithm, open_first=True).tolist() == placed


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_flags_are_true_or_false(value: object) -> None:
    with pytest.raises(ValueError, match="quantised must be true or false, not"):
        read_options("BFD", cast("Given", {"quantised": value}), 10)
