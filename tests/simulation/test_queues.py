"""The queues of a simulated group: worked cases, and a simulation of single records beside them."""

import math

import numpy as np
import pytest

from autoscaler.handover.records import AGE_BOUNDS_S
from autoscaler.simulation.queues import AGES, Floats, Ints, arrive_at_once, empty_queues, pass_step, waits_late

FREE = -math.inf


def in_time(
    rates: Floats,
    *,
    within_s: float,
    able: float,
    step_s: float = 0.01,
    at_once_each: int = 0,
    owner: Ints | None = None,
    free_at: Floats | None = None,
) -> float:
    """Return the share that is read in time when these bytes/s arrive: ``float64[steps, partitions]``."""  # fmt: skip
    steps, count = rates.shape
    queues = empty_queues(count, 0.0, 8 + 3 * math.ceil(within_s / step_s))
    held = np.zeros(count, np.int64) if owner is None else owner
    free = np.full(count, FREE) if free_at is None else free_at
    can = np.full(int(held.max()) + 1, able)
    for i in range(steps):
        burst = bool(at_once_each) and i % at_once_each == 0
        if burst:
            arrive_at_once(queues, rates[i] * at_once_each * step_s, i * step_s)
        pass_step(queues, np.zeros(count) if at_once_each else rates[i], held, free, can, i * step_s, step_s, within_s)
        assert (queues.read <= queues.arrived + 1e-9).all()
    waiting = waits_late(queues, steps * step_s, within_s)
    assert queues.arrived.sum() == pytest.approx(rates.sum() * step_s)
    return 1 - float(queues.late[0] + waiting) / float(queues.read.sum() + waiting)


def test_what_comes_at_once_is_read_as_fast_as_the_consumer_can() -> None:
    share = in_time(np.full((1000, 4), 25.0), within_s=0.25, able=200.0, at_once_each=100)
    assert share == pytest.approx(0.5, abs=0.02), "a hundred bytes each second, half of them after a quarter of a second"


@pytest.mark.parametrize("at_once_each", [0, 100])
def test_ages_are_counted_of_all_that_is_read_and_change_nothing_else(at_once_each: int) -> None:
    rates = np.full((1000, 4), 25.0)
    found = []
    for consumers in (0, 1):
        queues = empty_queues(4, 0.0, 400)._replace(ages=np.zeros((consumers, AGES)))
        for i in range(1000):
            if at_once_each and i % at_once_each == 0:
                arrive_at_once(queues, rates[i], i * 0.01)
            now = np.zeros(4) if at_once_each else rates[i]
            pass_step(queues, now, np.zeros(4, np.int64), np.full(4, FREE), np.full(1, 200.0), i * 0.01, 0.01, 0.25)
        found.append(queues)
    without, counted = found
    assert np.array_equal(counted.read, without.read)
    assert counted.late == pytest.approx(without.late)
    assert counted.ages.sum() == pytest.approx(counted.read.sum())
    late = float(counted.ages[0, np.searchsorted(AGE_BOUNDS_S, 0.25) + 1 :].sum() / counted.ages.sum())
    assert late == pytest.approx(0.5 if at_once_each else 0.0, abs=0.06), "the quarter of a second lies within a place"


def test_what_comes_evenly_below_capacity_is_never_late() -> None:
    assert in_time(np.full((500, 3), 33.0), within_s=0.05, able=100.0) == 1.0


def test_above_capacity_the_age_grows_and_what_waits_too_long_counts() -> None:
    share = in_time(np.full((1000, 1), 200.0), within_s=1.0, able=100.0)
    # a byte that came at t is read at 2 t: in time are those of the first second; 2,000 came in 10 s, those since 9 s are open
    assert share == pytest.approx(200 / 1800, abs=0.01)


def test_a_partition_that_changes_hands_waits_until_it_has() -> None:
    share = in_time(np.full((1000, 1), 10.0), within_s=1.0, able=1000.0, free_at=np.array([3.0]))
    assert share == pytest.approx(1 - 2 / 10, abs=0.01)


def test_a_partition_without_a_consumer_is_late_by_and_by() -> None:
    rates, owner = np.full((400, 2), 10.0), np.array([0, -1])
    assert in_time(rates, within_s=1.0, able=100.0, owner=owner) == pytest.approx(40 / 70, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("busy", [0.5, 0.8, 0.95])
def test_single_records_that_come_at_random_are_in_time_as_often(seed: int, busy: float) -> None:
    random = np.random.default_rng(seed)
    able, seconds, partitions, step_s, within_s = 100.0, 200.0, 4, 0.01, 0.2
    times = np.sort(random.uniform(0, seconds, random.poisson(busy * able * seconds)))
    where = random.integers(0, partitions, len(times))
    # one at a time, in the order of arrival
    done, late = 0.0, 0
    for at in times.tolist():
        done = max(done, at) + 1 / able
        late += done - at > within_s
    rates = np.zeros((int(seconds / step_s), partitions))
    np.add.at(rates, ((times / step_s).astype(int), where), 1 / step_s)
    assert in_time(rates, within_s=within_s, able=able) == pytest.approx(1 - late / len(times), abs=0.02)
