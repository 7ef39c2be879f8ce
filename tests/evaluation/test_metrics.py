"""Cardinal bin score and E(Rscore), by hand."""

import numpy as np
import pytest

from tests.evaluation.metrics import cardinal_bin_scores, fewest, mean_r_score


def test_the_best_differs_from_time_to_time() -> None:
    consumers = {"a": np.array([10, 12]), "b": np.array([12, 10])}
    assert fewest(consumers).tolist() == [10, 10]
    assert cardinal_bin_scores(consumers) == pytest.approx({"a": 0.1, "b": 0.1})


def test_the_best_at_every_time_scores_zero() -> None:
    assert cardinal_bin_scores({"a": np.array([10, 10]), "b": np.array([15, 11])}) == pytest.approx({"a": 0.0, "b": 0.3})


@pytest.mark.parametrize(
    ("consumers", "says"),
    [
        ({}, "one length"),
        ({"a": np.array([1]), "b": np.array([1, 2])}, "one length"),
        ({"a": np.array([0])}, "no consumer at all"),
    ],
    ids=["nothing", "two lengths", "no partitions"],
)
def test_what_cannot_be_compared_is_refused(consumers: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cardinal_bin_scores(consumers)


def test_the_first_measurement_counts_as_zero_and_is_counted() -> None:
    assert mean_r_score(np.array([7.0, 1.0, 2.0])) == pytest.approx(1.0)
    assert mean_r_score(np.array([])) == 0.0
