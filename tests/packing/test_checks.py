"""What callers may give: numbers of any make mean the same, and what is none is refused by name."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from autoscaler.packing import (
    ALGORITHMS,
    Assignment,
    DriftEstimator,
    assign,
    assign_2d,
    assign_arrays,
    drain,
    fit_count,
    place_unowned,
)

NO_NUMBERS = [
    None,
    "10",
    b"1",
    True,
    np.bool_(1),
    10**400,
    -(10**400),
    1 + 2j,
    float("nan"),
    np.float32("inf"),
    [3.0],
    np.ones(2),
]
NO_AMOUNTS = [*NO_NUMBERS, -1, np.int8(-1), -1e-300]
NO_INDICES = [None, "1", True, np.bool_(1), -1, 2.0, 2**63, np.uint64(2**63), 10**400]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "make", [np.float32, np.float16, np.uint8, np.uint64, np.int8, int, Fraction], ids=lambda make: str(make.__name__)
)
def test_a_number_of_any_make_is_that_number(algorithm: str, make: Callable[[int], Any]) -> None:
    rates, held = {p: 3 * i % 40 for i, p in enumerate("abcdefgh")}, {"a": 2, "b": 2, "c": 0, "h": 5}
    index: Callable[[int], Any] = make if isinstance(make(1), np.integer) else int
    plan = assign({p: make(r) for p, r in rates.items()}, make(30), {p: index(c) for p, c in held.items()}, algorithm)
    assert plan == assign({p: float(r) for p, r in rates.items()}, 30.0, held, algorithm)
    assert {type(x) for x in (*plan.owner.values(), plan.consumers, plan.lower_bound)} == {int}
    assert type(plan.r_score) is float


def test_sums_are_those_of_python_and_not_of_small_numbers() -> None:
    """In the arithmetic of float32 another millionth of the capacity would fit, again and again."""
    loads: dict[int, Any] = {0: np.float32(1.0), **{p: np.float32(3e-8) for p in range(1, 40)}}
    assert assign(loads, 1.0, {}, "BFD").consumers == 2
    silent: dict[int, Any] = {0: np.uint8(0), 1: np.uint8(200), 2: np.uint8(100)}
    assert assign(silent, 300, {}, "FFD").owner == {0: 0, 1: 0, 2: 0}


LOADS: dict[Any, Any] = {"a": 1.0, "b": 2.0}
HELD: dict[Any, int] = {"a": 0, "b": 1}
TAKE_LOADS: dict[str, Callable[[Any, Any], object]] = {
    "assign": lambda loads, capacity: assign(loads, capacity, {}, "BFD"),
    "PACE": lambda loads, capacity: assign(loads, capacity, {}, "PACE"),
    "place_unowned": lambda loads, capacity: place_unowned(loads, capacity, {}),
    "drain": lambda loads, capacity: drain(loads, capacity, HELD, [0, 1], 1),
    "fit_count": lambda loads, capacity: fit_count(loads, capacity, {}, "PACE", at_least=1, at_most=1),
    "assign_2d": lambda loads, capacity: assign_2d(loads, LOADS, capacity, 10, {}),
}


@pytest.mark.parametrize("name", [*TAKE_LOADS, "drift"])
@pytest.mark.parametrize("amount", NO_AMOUNTS, ids=lambda x: repr(x)[:12])
def test_a_rate_that_is_none_is_refused_with_its_partition(name: str, amount: object) -> None:
    ask = TAKE_LOADS.get(name, lambda loads, _: DriftEstimator().update(loads))
    with pytest.raises(ValueError, match=r"^rate of partition b must be a finite number that is not negative, not ") as caught:
        ask({"a": 1.0, "b": amount}, 10)
    assert len(str(caught.value)) < 130


@pytest.mark.parametrize("name", [*TAKE_LOADS, "arrays"])
@pytest.mark.parametrize("capacity", [*NO_AMOUNTS, 0, np.uint8(0)], ids=lambda x: repr(x)[:12])
def test_a_capacity_that_is_none_is_refused(name: str, capacity: object) -> None:
    if name == "assign_2d" and isinstance(capacity, list | np.ndarray):
        return  # one for each consumer
    ask = TAKE_LOADS.get(name, lambda _, c: assign_arrays(np.ones(2), c, np.zeros(2, np.int64), "BFD"))
    with pytest.raises(ValueError, match=r"^capacity must be a positive number") as caught:
        ask(LOADS, capacity)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("index", NO_INDICES, ids=lambda x: repr(x)[:12])
def test_an_owner_that_is_none_is_refused_with_its_partition(index: Any) -> None:  # noqa: ANN401  anything
    held: dict[Any, Any] = {"b": index}
    asked: list[Callable[[], Assignment[Any]]] = [
        lambda: assign(LOADS, 10, held, "BFD"),
        lambda: fit_count(LOADS, 10, held, "MWF", at_least=1, at_most=2).plan,
        lambda: assign_2d(LOADS, LOADS, 10, 10, held),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match=r"^previous owner of partition b must be an index from 0, not "):
            ask()


@pytest.mark.parametrize("rates", [["10", "1"], [None, 1], [10**400, 1], [True, False], [1 + 2j, 1]])
def test_arrays_hold_numbers(rates: Any) -> None:  # noqa: ANN401  anything
    with pytest.raises(ValueError, match=r"^rates must hold numbers, not "):
        assign_arrays(rates, 10, np.zeros(2, np.int64), "BFD")


@pytest.mark.parametrize(
    "bounds", [{"at_least": 1.5}, {"at_least": "1"}, {"at_least": True}, {"at_most": float("nan")}, {"at_least": -1}]
)
@pytest.mark.parametrize("algorithm", ["MWF", "PACE"])
def test_bounds_are_whole_numbers_of_consumers(algorithm: str, bounds: dict[str, Any]) -> None:
    [name] = bounds
    with pytest.raises(ValueError, match=f"{name} must be a whole number of consumers, not "):
        fit_count(LOADS, 10, {}, algorithm, **{"at_least": 1, "at_most": 2, **bounds})
