"""Consumers in several sizes at different prices."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.strategies  # noqa: F401  the profile without deadlines
from autoscaler.packing.vector.fill import Demand
from tests.bench.sizes import Size, choose_sizes

SMALL = Size(capacity=1, lag_capacity=1, price=1)
MIDDLE = Size(capacity=2, lag_capacity=2, price=1.9)
LARGE = Size(capacity=4, lag_capacity=4, price=3.6)


def demand(*pairs: tuple[float, float]) -> Demand:
    return Demand(np.array([r for r, _ in pairs], np.float64), np.array([b for _, b in pairs], np.float64))


@pytest.mark.parametrize(
    ("needs", "sizes", "price", "why"),
    [
        ([(1, 0)] * 4, [0], 3.6, "the large one is cheapest by capacity"),
        ([(1, 0)] * 5, [0, 1], 4.6, "the fifth needs no large one"),
        ([(1, 0)] * 6, [0, 2], 5.5, "nor do the fifth and the sixth: downsized"),
        ([(0.5, 0)], [1], 1, "a small one will do"),
        ([(0.1, 3)], [0], 3.6, "backlog counts as well"),
        ([(9, 0), (0.5, 0)], [0, 1], 4.6, "above every size: alone on the largest"),
        ([], [], 0, "nothing"),
    ],
)
def test_the_cheapest_that_holds_everything(needs: list[tuple[float, float]], sizes: list[int], price: float, why: str) -> None:
    fleet = choose_sizes(demand(*needs), [LARGE, SMALL, MIDDLE])
    assert fleet.price == pytest.approx(price), why
    assert sorted(fleet.sizes) == sizes
    assert len(fleet.contents) == len(sizes)
    assert fleet.lower_bound <= fleet.price + 1e-9


def test_what_fits_the_large_size_only_gets_company() -> None:
    needs = demand((1.5, 0), (0.5, 0), (0.5, 0), (0.5, 0))
    fleet = choose_sizes(needs, [Size(capacity=1, lag_capacity=1, price=1), Size(capacity=2, lag_capacity=2, price=5)])
    assert fleet.price == 6
    assert sorted(fleet.sizes) == [0, 1]
    assert sorted(p for ps in fleet.contents for p in ps) == [0, 1, 2, 3]


def cheapest(needs: Sequence[tuple[float, float]], sizes: Sequence[Size]) -> float:
    """Return the least price over all partitions into contents."""
    best = float("inf")
    for owner in product(range(len(needs)), repeat=len(needs)):
        price = 0.0
        for c in set(owner):
            rate, lag = (sum(n[d] for n, o in zip(needs, owner, strict=True) if o == c) for d in (0, 1))
            price += min(
                (s.price for s in sizes if rate <= s.capacity + 1e-9 and lag <= s.lag_capacity + 1e-9), default=float("inf")
            )
        best = min(best, price)
    return best


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 4), st.floats(0, 4)), min_size=1, max_size=5), st.permutations([SMALL, MIDDLE, LARGE]))
def test_the_price_is_between_the_bound_and_not_far_from_the_least(needs: list[tuple[float, float]], sizes: list[Size]) -> None:
    fleet = choose_sizes(demand(*needs), sizes, tries=50)
    least = cheapest(needs, sizes)
    assert fleet.lower_bound - 1e-6 <= least <= fleet.price + 1e-6
    assert fleet.price <= 1.6 * least + 1e-6
    for content, k in zip(fleet.contents, fleet.sizes, strict=True):
        assert sum(needs[p][0] for p in content) <= sizes[k].capacity * (1 + 1e-6)
        assert sum(needs[p][1] for p in content) <= sizes[k].lag_capacity * (1 + 1e-6)
    assert sorted(p for ps in fleet.contents for p in ps) == list(range(len(needs)))


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match=r"price of a size must be a positive number, not 0"):
        Size(capacity=1, lag_capacity=1, price=0)
    with pytest.raises(ValueError, match=r"one size of consumer at least must be on offer"):
        choose_sizes(demand((1, 1)), [])
