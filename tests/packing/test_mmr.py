"""MMR on groups small enough to be checked by hand."""

import numpy as np
import pytest

from autoscaler.packing.registry import assign_arrays


def mmr(rates: list[float], previous: list[int], fill_ratio: float = 1.0, drain_limit: float = 1.0) -> list[int]:
    placed: list[int] = assign_arrays(
        np.array(rates, np.float64), 10.0, np.array(previous), "MMR", fill_ratio=fill_ratio, drain_limit=drain_limit
    ).tolist()
    return placed


@pytest.mark.parametrize(
    ("rates", "previous", "expected", "why"),
    [
        ([7, 4, 5, 4, 6], [0, 0, 1, 1, 2], [0, 2, 1, 1, 2], "the cheaper of two leaves, and the tightest that has room takes it"),
        ([6, 3, 2, 9, 8], [0, 0, 0, 1, 2], [0, 0, 2, 1, 2], "of three, the smallest that is enough leaves"),
        ([5, 5, 9], [0, 0, 1], [0, 0, 1], "full is not too full"),
        ([3, 4, 6], [0, 1, 2], [2, 1, 2], "the lightest is emptied, to where it leaves least room"),
        ([3, 3, 9, 9], [4, 6, 7, 8], [4, 4, 7, 8], "what both held is together, under the lower of the two names"),
        ([6, 5, 9], [0, 1, 2], [0, 1, 2], "nothing of the lightest fits elsewhere"),
        ([4, 4, 4], [-1, -1, -1], [0, 0, 1], "new ones by best fit"),
        ([12, 11, 1], [0, 0, 0], [0, 1, 2], "above the capacity each is alone"),
    ],
)
def test_worked_examples(rates: list[float], previous: list[int], expected: list[int], why: str) -> None:
    assert mmr(rates, previous) == expected, why


@pytest.mark.parametrize(
    ("rates", "expected", "why"),
    [
        ([6, 4 + 9e-9, 0.5], [0, 0, 1], "what the smallest leaves behind fits, but for rounding, and is not too much"),
        ([6, 4 + 11e-9, 0.5], [0, 1, 0], "that would not fit: the next larger leaves instead"),
        ([6, 4 + 15e-9], [0, 0], "what is there is too much only where no rounding explains it"),
        ([6, 4 + 25e-9], [0, 1], "this is too much"),
    ],
)
def test_rounding_is_forgiven_alike_before_and_after(rates: list[float], expected: list[int], why: str) -> None:
    owner = mmr(rates, [0] * len(rates))
    assert owner == expected, why
    assert mmr(rates, owner) == owner


def test_of_many_partitions_the_smallest_that_is_enough_leaves() -> None:
    assert mmr([0.5] * 13 + [4], [0] * 14) == [0] * 12 + [1, 0]


def test_what_moves_fills_a_consumer_only_up_to_the_ratio() -> None:
    assert mmr([7, 4, 6, 6], [0, 0, 1, 2]) == [0, 1, 1, 2]
    assert mmr([7, 4, 6, 6], [0, 0, 1, 2], fill_ratio=0.95) == [0, 3, 1, 2]


def test_no_consumer_is_emptied_at_more_than_the_limit() -> None:
    assert mmr([3, 4, 6], [0, 1, 2], drain_limit=0.2) == [0, 1, 2]
