"""When a worker counts as slower or faster than its peers, and when it does not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.capacity.busy_throughput import Busy, Sample
from autoscaler.core.capacity.capacity import in_use
from autoscaler.core.capacity.worker_speed import believed, ratio, with_less, within_bounds
from autoscaler.core.load.consumption import Consumption
from autoscaler.model import WorkerView
from tests.builders import T0, load, moment, policy, snapshot, tp, worker


@pytest.mark.parametrize(
    ("kept", "shown", "found", "why"),
    [
        (1.0, [0.5, 0.5], 1.0, "two windows are too few"),
        (1.0, [0.5, 0.5, 0.5], 0.5, "plainly slower"),
        (1.0, [2.0, 0.1, 2.0, 2.0], 2.0, "plainly faster, whatever one window says"),
        (1.0, [0.5, 1.0, 1.0, 0.5, 1.0], 1.0, "most windows say that it is like the others"),
        (1.0, [0.81, 0.81, 0.81], 1.0, "not plainly"),
        (1.0, [1.24, 1.24, 1.24], 1.0, "not plainly, the other way"),
        (0.5, [], 0.5, "nothing new"),
        (0.5, [0.54, 0.54, 0.54], 0.5, "noise"),
        (0.5, [0.4, 0.4, 0.4], 0.4, "more than noise"),
        (0.7, [0.88, 0.88, 0.88], 0.88, "nearer, and not near enough"),
        (0.7, [0.91, 0.91, 0.91], 1.0, "one of them again"),
        (1.5, [1.1, 1.1, 1.1], 1.0, "one of them again, the other way"),
    ],
)
def test_what_a_worker_is_taken_for(kept: float, shown: list[float], found: float, why: str) -> None:
    assert believed(kept, shown) == found, why


@given(st.lists(st.lists(st.floats(0.9, 1.1), min_size=3, max_size=6), min_size=1, max_size=20), st.floats(0.9, 1.1))
def test_equal_workers_with_windows_off_by_a_tenth_never_differ(windows: list[list[float]], group: float) -> None:
    kept = 1.0
    for each in windows:
        kept = believed(kept, [rate / group for rate in each])
        assert kept == 1.0


@given(st.floats(0.1, 0.6), st.lists(st.floats(0.95, 1.05), min_size=6, max_size=60))
def test_a_slow_worker_with_little_noise_is_taken_for_one_value(truth: float, noise: list[float]) -> None:
    kept, changes = 1.0, 0
    for end in range(3, len(noise) + 1):
        found = believed(kept, [truth * n for n in noise[max(0, end - 6) : end]])
        changes += found != kept
        kept = found
    assert changes == 1
    assert kept == pytest.approx(truth, rel=0.1)


def test_a_worker_without_peers_is_neither_slow_nor_fast() -> None:
    assert ratio(5.0, []) is None
    assert ratio(5.0, [10.0]) == pytest.approx(2 / 3)
    assert ratio(5.0, [10.0, 10.0, 1.0]) == pytest.approx(5 / 7.5)


@pytest.mark.parametrize(
    ("rates", "lag_s", "less"),
    [
        ([60.0, 60.0, 60.0], 0.0, set()),
        ([60.0, 55.0, 30.0], 0.0, {2}),
        ([60.0, 55.0, 30.0], 6.0, set()),
        ([60.0, 55.0, None], 0.0, {2}),
    ],
)
def test_who_has_less_to_do_than_its_peers(rates: list[float | None], lag_s: float, less: set[int]) -> None:
    seen = snapshot([load(tp(n), rate, lag_s=lag_s if n == 2 else 0.0) for n, rate in enumerate(rates)])
    workers = [worker(n, [tp(n)]) for n in range(len(rates))]
    assert with_less(seen, workers) == {workers[n].uuid for n in less}
    assert with_less(seen, []) == frozenset()


def test_ones_own_capacity_has_the_bounds_of_the_groups() -> None:
    assert within_bounds({1: 0.1, 2: 3.0, 3: 0.5}, 100.0, 20.0, 250.0) == {1: 0.2, 2: 2.5, 3: 0.5}
    assert within_bounds({1: 0.1}, 100.0, 100.0, 100.0) == {}


class Fleet:
    """Workers with a partition each, in which so much arrives, that take a time for their records and for each batch."""

    def __init__(self, *able: float, arrives: float = 50.0) -> None:
        self.able, self.arrives = list(able), [arrives] * len(able)
        self.batch_s = 0.0
        self.t, self.busy = 0, Busy()
        self.lives = [1] * len(able)
        self.read, self.busy_s = [0.0] * len(able), [0.0] * len(able)
        self.consumption = Consumption()

    def run(self, seconds: int) -> "Fleet":
        for _ in range(seconds):
            self.t += 1
            for n, able in enumerate(self.able):
                done = min(self.arrives[n], able * (1 - self.batch_s))
                self.read[n] += done / 10
                self.busy_s[n] += done / able + self.batch_s
            loads = [load(tp(n), self.arrives[n], committed=int(r)) for n, r in enumerate(self.read)]
            seen = snapshot(loads, at=T0 + self.t)
            self.consumption = self.consumption.measured(seen, moment(T0 + self.t))
            self.busy = self.busy.measured(seen, self.consumption, [self.view(n) for n in range(len(self.able))])
        return self

    def view(self, n: int) -> WorkerView:
        return replace(worker(n, [tp(n)]), uuid=f"{n}.{self.lives[n]}", records=int(self.read[n]), busy_s=self.busy_s[n])


def test_a_worker_at_half_speed_is_found_in_three_windows_of_its_own() -> None:
    fleet = Fleet(100.0, 100.0, 100.0, 50.0)
    assert fleet.run(90).busy.speeds == {}
    assert fleet.run(3).busy.speeds == {"3.1": pytest.approx(0.5, rel=0.05)}
    assert fleet.busy.shown is not None
    assert fleet.busy.shown.bytes_per_s == pytest.approx(100, rel=0.03)


def test_of_two_workers_each_differs_and_the_group_is_between() -> None:
    fleet = Fleet(100.0, 50.0).run(300)
    assert fleet.busy.speeds == {"0.1": pytest.approx(4 / 3, rel=0.05), "1.1": pytest.approx(2 / 3, rel=0.05)}
    assert fleet.busy.shown is not None
    assert fleet.busy.shown.bytes_per_s == pytest.approx(75, rel=0.03)


def test_what_makes_everybody_slower_makes_nobody_differ() -> None:
    fleet = Fleet(400.0, 400.0, 400.0)
    fleet.run(10).lives[1] = 2  # its windows end at other times than the others'
    for able in (400.0, 100.0, 200.0, 60.0):
        fleet.able = [able] * 3
        for _ in range(30):
            assert fleet.run(10).busy.speeds == {}


def test_who_starts_anew_is_not_known_yet_and_who_is_idle_stays_known() -> None:
    fleet = Fleet(100.0, 100.0, 100.0, 50.0).run(120)
    fleet.arrives = [50.0, 50.0, 50.0, 0.0]
    assert set(fleet.run(600).busy.speeds) == {"3.1"}
    fleet.lives[3], fleet.read[3], fleet.busy_s[3] = 2, 0.0, 0.0
    assert set(fleet.run(200).busy.speeds) <= {"3.1"}
    fleet.arrives[3] = 50.0
    assert set(fleet.run(200).busy.speeds) == {"3.2"}


def test_who_has_less_to_do_and_pays_for_each_batch_is_not_slow() -> None:
    """Per record it takes twice as long as its peers, only because its batches are small."""
    fleet = Fleet(100.0, 100.0, 100.0, 100.0)
    fleet.batch_s, fleet.arrives = 0.2, [60.0, 60.0, 60.0, 15.0]
    shown = [s.bytes_per_s for s in fleet.run(300).busy.samples if s.uuid == "3.1"]
    assert max(shown) < 0.6 * 75
    assert fleet.busy.speeds == {}


def test_a_summand_of_the_group_counts_as_what_it_says_of_the_group() -> None:
    samples = tuple(
        Sample(T0 + i, 50.0 if i % 2 else 100.0, "slow" if i % 2 else "other", 0.5 if i % 2 else 1.0) for i in range(8)
    )
    busy = Busy(samples=samples, speeds={"slow": 0.5})
    assert busy.shown is not None
    assert in_use(policy(capacity_bytes_per_s=None), None, busy.shown).bytes_per_s == 10_000, "the prior's bound"
    assert busy.shown.bytes_per_s == 100
