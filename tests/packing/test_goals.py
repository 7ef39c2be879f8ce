"""GOALS on groups small enough to be checked by hand."""

import numpy as np

from autoscaler.packing import assign_arrays


def placed(rates: list[float], previous: list[int]) -> list[int]:
    return [int(c) for c in assign_arrays(np.array(rates, np.float64), 10.0, np.array(previous), "GOALS")]


def test_loads_are_evened_out_without_a_consumer_more_or_less() -> None:
    owner = placed([5, 4, 3, 2, 1, 3, 3, 2, 1], [0, 0, 0, 0, 0, 1, 1, 2, 2])
    assert np.bincount(owner, [5, 4, 3, 2, 1, 3, 3, 2, 1]).tolist() == [8, 8, 8]
    assert placed([5, 4, 3, 2, 1, 3, 3, 2, 1], owner) == owner


def test_what_waits_goes_to_the_emptiest() -> None:
    assert placed([6, 4, 2], [0, 1, -1]) == [0, 1, 1]


def test_a_consumer_that_all_can_do_without_is_emptied_and_one_more_is_opened_above_the_capacity() -> None:
    assert len(set(placed([3, 2, 1], [0, 1, 2]))) == 1
    assert len(set(placed([4, 3, 3], [0, 1, 2]))) == 2, "nine tenths of one would not do"
    assert len(set(placed([6, 6], [0, 0]))) == 2
