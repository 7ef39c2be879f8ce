"""The latency model of Landau et al. 2024, section VI-C: by hand, against every byte written out, and the published figures."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from autoscaler.evaluation.latency_model import Latencies, latencies, round_robin
from autoscaler.evaluation.planner_runs import Contender, owners
from autoscaler.evaluation.trace_reader import Recorded, read_stream
from autoscaler.evaluation.workloads import bounded_walk


def written_out(found: Latencies) -> NDArray[np.float64]:
    """Return every byte's latency, as the model has it."""
    lines = zip(found.starts, found.slopes, found.counts, strict=True)
    return np.concatenate([np.maximum(start + slope * np.arange(count), 0) for start, slope, count in lines])


def test_what_stays_on_a_consumer_that_keeps_up_is_never_late() -> None:
    found = latencies(np.zeros((3, 2), np.int64), np.full((3, 2), 40.0))
    assert (found.total, found.late) == (2 * 30 * 80, 0)
    assert found.percentile_of_late(90) is None
    assert found.percentile(99) == 0


def test_what_moves_waits_for_the_rebalance_and_then_catches_up() -> None:
    found = latencies(np.array([[0, 1], [0, 0]]), np.array([[33.0, 50.0], [33.0, 50.0]]))
    waiting = np.maximum((1 / 100 - 1 / 50) * np.arange(1500) + 5, 0)  # 133 - 33 are left for it
    assert written_out(found) == pytest.approx(np.concatenate([np.zeros(30 * 33), waiting]))
    assert found.late == 500
    assert found.percentile_of_late(100) == pytest.approx(5.0)


def test_a_consumer_that_cannot_keep_up_carries_its_latency_into_the_next_iteration() -> None:
    found = latencies(np.zeros((3, 1), np.int64), np.full((3, 1), 200.0))
    slope = 1 / 133 - 1 / 200
    assert found.starts == pytest.approx([0, slope * 5999])
    assert found.percentile(100) == pytest.approx(2 * slope * 5999)


def test_one_iteration_has_no_sample() -> None:
    found = latencies(np.zeros((1, 2), np.int64), np.ones((1, 2)))
    assert (found.total, found.percentile(99), found.percentile_of_late(99)) == (0, 0.0, None)


def test_what_would_never_be_served_is_refused() -> None:
    with pytest.raises(ValueError, match="iteration 1 adds to consumer 0, which keeps 140 of 133"):
        latencies(np.array([[0, 1], [0, 0]]), np.array([[140.0, 1.0], [140.0, 1.0]]))


@pytest.mark.parametrize("seed", range(4))
def test_the_lines_say_the_same_as_every_byte_written_out(seed: int) -> None:
    stream = bounded_walk(delta=25, seed=seed, partitions=12, measurements=12)
    held = np.random.default_rng(seed).integers(0, 9, stream.shape)
    held[1::2] = held[:-1:2]  # every other iteration moves nothing
    found = latencies(held, stream, true_capacity=700)
    every = written_out(found)
    late = every[every > 0]
    assert (found.total, found.late) == (len(every), len(late))
    for percent in (0, 1, 50, 90, 99, 100):
        assert found.percentile(percent) == pytest.approx(np.percentile(every, percent), abs=1e-9)
        assert found.percentile_of_late(percent) == pytest.approx(np.percentile(late, percent), abs=1e-9)
    for seconds in (0.0, 0.5, 4.9, 5.1):
        assert found.at_most(seconds) == np.sum(every <= seconds)


def test_round_robin_deals_in_order_and_never_changes() -> None:
    assert round_robin(5, 2, 3).tolist() == [[0, 1, 0, 1, 0]] * 3


@pytest.fixture(scope="module")
def recorded(data: Path) -> Recorded:
    """The authors' stream: 32 partitions of two topics, 100 iterations."""
    return read_stream(data / "landau_stream_delta5.csv")


@pytest.fixture(scope="module")
def stream(recorded: Recorded) -> NDArray[np.float64]:
    return recorded.rates


@pytest.fixture(scope="module")
def listed(recorded: Recorded) -> NDArray[np.float64]:
    """The stream with the partitions in the order in which it lists them first: that in which kd_n deals them."""
    return recorded.rates[:, recorded.listed[0]]


def planned(stream: NDArray[np.float64], algorithm: str) -> NDArray[np.int64]:
    return owners(Contender(name=algorithm, algorithm=algorithm, options={}), stream, 100)


@pytest.mark.parametrize(("consumers", "p90_of_late_s"), [(15, 217.3), (24, 2.696), (30, 1.114), (31, None), (32, None)], ids=str)
def test_the_published_static_placements(listed: NDArray[np.float64], consumers: int, p90_of_late_s: float | None) -> None:
    found = latencies(round_robin(listed.shape[1], consumers, len(listed)), listed).percentile_of_late(90)
    assert found == (None if p90_of_late_s is None else pytest.approx(p90_of_late_s, rel=5e-4))


def test_the_published_mwf(stream: NDArray[np.float64]) -> None:
    held = planned(stream, "MWF")
    found = latencies(held, stream)
    assert np.mean([len(np.unique(now)) for now in held]) == pytest.approx(15.01)
    assert found.percentile_of_late(90) == pytest.approx(4.516, abs=5e-4)
    assert found.percentile(99) == pytest.approx(2.58, abs=5e-3)
    assert found.late / found.total == pytest.approx(0.0206, abs=5e-5)


def test_over_all_bytes_the_algorithms_differ(listed: NDArray[np.float64], stream: NDArray[np.float64]) -> None:
    """The late bytes of any rebalancer have about the same p90; over all bytes moving much shows."""
    static = latencies(round_robin(listed.shape[1], 15, len(listed)), listed)
    assert static.percentile(90) == pytest.approx(32.7, rel=2e-3)
    assert static.percentile(99) == pytest.approx(365, rel=2e-3)
    found = latencies(planned(stream, "BFD"), stream)
    assert found.late / found.total == pytest.approx(0.107, abs=5e-4)
    assert found.percentile(99) == pytest.approx(4.54, abs=5e-3)
