"""HFD on groups small enough to be checked by hand."""

import numpy as np
import pytest

from autoscaler.packing.kernels.bins import Bins, empty_bins
from autoscaler.packing.pace.home_fit import fit_home
from autoscaler.packing.registry import assign_arrays


def fitted(shares: list[float], home: list[int], look_ahead: float = 1.0) -> list[int]:
    """Return owners before homing; shares must decrease."""
    bins: Bins = empty_bins(np.array(shares), np.array(shares), np.array(home))
    fit_home(bins, look_ahead)
    owner: list[int] = bins.owner.tolist()
    return owner


@pytest.mark.parametrize(
    ("shares", "home", "expected", "why"),
    [
        ([0.7, 0.6, 0.3], [0, 1, 1], [0, 1, 1], "home, though the other one would be filled to the brim"),
        ([0.7, 0.6, 0.5, 0.3], [0, 1, 1, 0], [0, 1, 2, 0], "what does not fit at home opens the lowest that is free"),
        ([0.6, 0.5, 0.4], [1, -1, 1], [1, 0, 1], "what is new keeps out of a home that is wanted"),
        ([0.6, 0.55, 0.45, 0.35], [0, 1, -1, 0], [0, 1, 1, 0], "of two that have room, it takes the one nobody waits for"),
    ],
)
def test_worked_placements(shares: list[float], home: list[int], expected: list[int], why: str) -> None:
    assert fitted(shares, home) == expected, why


def test_plain_best_fit_takes_what_others_want() -> None:
    assert fitted([0.65, 0.55, 0.35, 0.3], [0, 1, -1, 0], 0.0) == [0, 1, 0, 1]
    assert fitted([0.65, 0.55, 0.35, 0.3], [0, 1, -1, 0]) == [0, 1, 1, 0]


def test_the_present_placement_stays_unless_fewer_consumers_do() -> None:
    spread = np.array([6.0, 5.0, 4.0, 3.0])
    assert assign_arrays(spread, 10.0, np.array([0, 1, 1, 0]), "HFD").tolist() == [0, 1, 1, 0]
    assert len(set(assign_arrays(spread, 10.0, np.array([0, 1, 2, 2]), "HFD").tolist())) == 2
