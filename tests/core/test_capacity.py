"""What one consumer is taken for: what counts as measured, and what configuration and bounds make of it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.busy_throughput import Busy, Sample
from autoscaler.core.capacity.capacity import Capacity, Shown, in_use
from autoscaler.core.capacity.drain_throughput import Drains
from autoscaler.core.load.consumption import Consumption, Work
from autoscaler.model import CapacitySource, TopicPartition, WorkerPhase, WorkerView
from tests.builders import T0, load, moment, policy, snapshot, tp, worker

RATES = st.floats(1e-6, 1e15)


def measuring(**changes: object) -> Policy:
    return policy(**{"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 100.0, "capacity_bounds_ratio": 10.0, **changes})


def measured(bytes_per_s: float, *, at: float = T0) -> Capacity:
    return Capacity(bytes_per_s=bytes_per_s, source=CapacitySource.MEASURED, samples=3, at=at)


# --- which one is in use ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configured", "kept", "shown", "used", "source", "why"),
    [
        (70.0, None, None, 70.0, CapacitySource.CONFIGURED, "what is configured"),
        (70.0, 50.0, 300.0, 70.0, CapacitySource.CONFIGURED, "wins over everything"),
        (None, None, None, 100.0, CapacitySource.PRIOR, "nothing was measured yet"),
        (None, None, 104.0, 104.0, CapacitySource.MEASURED, "what is measured first counts, however near the prior"),
        (None, 50.0, None, 50.0, CapacitySource.MEASURED, "what was measured stays while nothing is shown"),
        (None, 100.0, 109.0, 100.0, CapacitySource.MEASURED, "noise"),
        (None, 100.0, 91.0, 100.0, CapacitySource.MEASURED, "noise, the other way"),
        (None, 100.0, 111.0, 111.0, CapacitySource.MEASURED, "more than noise"),
        (None, 100.0, 89.0, 89.0, CapacitySource.MEASURED, "more than noise, the other way"),
        (None, None, 5.0, 10.0, CapacitySource.MEASURED, "below the bound"),
        (None, None, 5e6, 1000.0, CapacitySource.MEASURED, "above the bound"),
        (None, 5.0, None, 10.0, CapacitySource.MEASURED, "the bounds are others than when it was measured"),
    ],
)
def test_which_capacity_is_in_use(  # noqa: PLR0917  a row
    configured: float | None, kept: float | None, shown: float | None, used: float, source: CapacitySource, why: str
) -> None:
    found = in_use(
        measuring(capacity_bytes_per_s=configured),
        None if kept is None else measured(kept),
        None if shown is None else Shown(shown, 7, T0 + 5),
    )
    assert (found.bytes_per_s, found.source) == (used, source), why
    if shown is not None and configured is None:
        assert (found.samples, found.at) == (7, T0 + 5)


@given(RATES, st.floats(1, 1e6), st.lists(RATES, min_size=1, max_size=30))
def test_the_bounds_always_hold_and_noise_moves_nothing(prior: float, ratio: float, shown: list[float]) -> None:
    rules, kept = measuring(capacity_prior_bytes_per_s=prior, capacity_bounds_ratio=ratio), None
    for value in shown:
        found = in_use(rules, kept, Shown(value, 3, T0))
        assert prior / ratio <= found.bytes_per_s <= prior * ratio
        assert kept is None or found.bytes_per_s == kept.bytes_per_s or abs(found.bytes_per_s / kept.bytes_per_s - 1) > 0.0999
        kept = found


def test_the_policy_of_a_cycle_goes_by_it_and_its_fingerprint_does_not() -> None:
    rules = measuring()
    assert (rules.able_bytes_per_s, rules.usable_bytes_per_s) == (100, 80)
    cycle = rules.with_capacity(50.0)
    assert (cycle.able_bytes_per_s, cycle.usable_bytes_per_s, cycle.overload_bytes_per_s) == pytest.approx((50, 40, 44))
    assert cycle.fingerprint == rules.fingerprint
    assert rules.able_bytes_per_s == 100
    assert policy().with_capacity(50.0).able_bytes_per_s == 100, "what is configured wins"


# --- what consumers commit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "before", "found", "why"),
    [
        ({"committed": 30}, 10, Work(20, 200.0), "ten bytes are a record"),
        ({"committed": 10, "bytes_per_s": 0.0, "records_per_s": 0.0}, 10, Work(), "nothing was committed"),
        ({"committed": 30, "bytes_per_s": 0.0, "records_per_s": 0.0, "lag_records": 5, "lag_bytes": 100.0}, 10, Work(20, 400.0),
         "nothing arrives: a record is as large as what is unread"),
        ({"committed": 30, "bytes_per_s": 0.0, "records_per_s": 0.0}, 10, None, "nobody knows how large a record is"),
        ({"committed": 5}, 10, None, "set back"),
        ({"committed": 5}, -1, None, "the first commit: of what, nobody knows"),
        ({"committed": 30, "known": False}, 10, None, "not measured"),
        ({"committed": None}, 10, None, "not read"),
        ({"committed": 30, "lag_records": None}, 10, None, "the lag is not known"),
        ({"committed": 30}, None, None, "nothing is remembered"),
    ],
)  # fmt: skip
def test_what_was_committed(changes: Mapping[str, object], before: int | None, found: Work | None, why: str) -> None:
    first = {} if before is None else {tp(0): before}
    then = snapshot([load(p, 100.0, committed=c) for p, c in (first | {tp(1): 40}).items()])
    so_far = Consumption().measured(then, moment(T0))
    loads = [load(tp(0), **{"bytes_per_s": 100.0, **changes}), load(tp(1), 100.0, committed=50)]  # type: ignore[arg-type]
    seen = so_far.measured(snapshot(loads, T0 + 1), moment(T0 + 1))
    assert committed_between(so_far, seen, tp(0)) == found, why
    assert committed_between(so_far, seen, tp(1)) == Work(10, 100.0), "whatever the other one does"


def committed_between(before: Consumption, after: Consumption, partition: TopicPartition) -> Work | None:
    if before.at is None or not before.read({partition}) or not after.followed({partition}, before.at):
        return None
    return after.work({partition}).since(before.work({partition}))


def test_a_partition_that_the_measurement_does_not_list_is_not_nothing() -> None:
    seen = Consumption().measured(snapshot([]), moment())
    assert not seen.read({tp(0)})
    assert not seen.followed({tp(0)}, T0)


def test_what_was_not_measured_for_a_while_is_counted_from_when_it_is_again() -> None:
    times = [(T0, 100, True), (T0 + 1, 100, False), (T0 + 2, 130, True), (T0 + 3, 150, True)]
    seen = [Consumption()]
    for at, committed, known in times:
        seen.append(seen[-1].measured(snapshot([load(tp(0), 100.0, committed=committed, known=known)], at), moment(at)))
    _, first, blind, again, last = seen
    assert (blind.read({tp(0)}), again.read({tp(0)})) == (False, True)
    assert committed_between(first, last, tp(0)) is None
    assert committed_between(again, last, tp(0)) == Work(20, 200.0)


# --- what workers show -----------------------------------------------------------------------------------------------


class Fleet:
    """Workers with a partition each, second by second; ten bytes are a record."""

    def __init__(self, *speeds: float) -> None:
        self.speeds, self.busy = list(speeds), Busy()
        self.t, self.ratio, self.commits = 0, 1.0, 1.0
        self.records, self.busy_s, self.committed = [0.0] * len(speeds), [0.0] * len(speeds), [1000.0] * len(speeds)
        self.lives = ["1"] * len(speeds)
        self.gone: set[TopicPartition] = set()
        self.consumption = Consumption()

    def run(self, seconds: int, share: float = 1.0, speeds: Mapping[int, float] | None = None) -> "Fleet":
        """Let workers be busy for a share of some seconds; they know as many records more as they commit."""
        for _ in range(seconds):
            self.t += 1
            for n, speed in enumerate(self.speeds):
                done = share * (speeds or {}).get(n, speed) / 10
                self.records[n] += done
                self.busy_s[n] += share
                self.committed[n] += done * self.ratio * self.commits
            rates = {"bytes_per_s": 100.0 / self.ratio, "records_per_s": 10.0}
            loads = [load(tp(n), committed=int(c), known=tp(n) not in self.gone, **rates) for n, c in enumerate(self.committed)]
            seen = snapshot(loads, at=T0 + self.t)
            self.consumption = self.consumption.measured(seen, moment(T0 + self.t))
            self.busy = self.busy.measured(seen, self.consumption, [self.view(n) for n in range(len(self.speeds))])
        return self

    def view(self, n: int) -> WorkerView:
        return replace(worker(n, [tp(n)]), uuid=f"{n}.{self.lives[n]}", records=int(self.records[n]), busy_s=self.busy_s[n])

    @property
    def rate(self) -> float | None:
        return None if self.busy.shown is None else self.busy.shown.bytes_per_s


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_what_is_processed_while_busy_is_told_however_busy_workers_are(share: float) -> None:
    fleet = Fleet(400.0)
    assert fleet.run(90, share).rate is None, "two windows are too few"
    assert fleet.run(1, share).rate == pytest.approx(400, rel=0.03)
    assert fleet.busy.shown is not None
    assert (fleet.busy.shown.samples, fleet.busy.shown.at) == (3, T0 + 91)


def test_three_workers_tell_in_half_a_minute() -> None:
    assert Fleet(400.0, 500.0, 450.0).run(31).rate == pytest.approx(450, rel=0.03)


@pytest.mark.parametrize("spike", [0.01, 100.0])
def test_one_window_changes_nothing(spike: float) -> None:
    fleet = Fleet(400.0).run(100)
    fleet.run(30, speeds={0: 400.0 * spike}).run(30)
    assert fleet.rate == pytest.approx(400, rel=0.03)


def test_a_worker_that_becomes_slower_is_slower_within_two_and_a_half_minutes() -> None:
    fleet = Fleet(400.0).run(200)
    fleet.speeds = [100.0]
    assert fleet.run(60).rate == pytest.approx(400, rel=0.03)
    assert fleet.run(90).rate == pytest.approx(100, rel=0.03)


def test_what_was_shown_stays_while_nobody_is_busy() -> None:
    fleet = Fleet(400.0).run(91)
    shown = fleet.busy.shown
    assert fleet.run(3600, share=0.0).busy.shown == shown
    assert fleet.run(31).rate is None, "the first window after that is alone: what is in use stays"


def unknown(fleet: Fleet) -> None:
    fleet.gone = {tp(0)}


def known(fleet: Fleet) -> None:
    fleet.gone = set()


def restart(fleet: Fleet) -> None:
    fleet.lives[0], fleet.records[0], fleet.busy_s[0] = "2", 0.0, 0.0


def rewind(fleet: Fleet) -> None:
    fleet.committed[0] -= 500


@pytest.mark.parametrize("disturb", [restart, rewind, unknown])
def test_what_cannot_be_followed_gives_up_the_window_of_that_worker_only(disturb: object) -> None:
    fleet = Fleet(400.0, 500.0).run(20)
    disturb(fleet)  # type: ignore[operator]
    fleet.run(1)
    known(fleet)
    fleet.run(10)
    assert [s.bytes_per_s for s in fleet.busy.samples] == pytest.approx([500], rel=0.03)
    fleet.run(21)  # what was not measured is in no window: it begins a second later
    assert [s.bytes_per_s for s in fleet.busy.samples] == pytest.approx([500, 400], rel=0.03)


def test_an_unknown_measurement_is_never_a_slow_worker() -> None:
    fleet = Fleet(400.0).run(10)
    unknown(fleet)
    assert fleet.run(600).busy.samples == ()


def test_a_move_begins_a_new_window() -> None:
    fleet = Fleet(400.0).run(20)
    seen = snapshot([load(tp(n), 100.0, committed=2000) for n in range(2)], at=T0 + 40)
    consumption = fleet.consumption.measured(seen, moment(T0 + 40))
    moved = fleet.busy.measured(seen, consumption, [replace(fleet.view(0), owned=frozenset({tp(0), tp(1)}))])
    assert (moved.samples, moved.windows["0.1"].since) == ((), T0 + 40)


@pytest.mark.parametrize("commits", [0.0, 0.5])
def test_a_window_without_commits_does_not_count(commits: float) -> None:
    fleet = Fleet(400.0)
    fleet.commits = commits
    assert fleet.run(100).busy.samples == ()


def test_a_worker_that_hardly_works_tells_nothing() -> None:
    assert Fleet(400.0).run(200, share=0.005).busy.samples == ()


def test_offsets_without_a_record_are_no_records() -> None:
    """Each record of a transaction of its own has a marker beside it: twice as many offsets, of half the bytes."""
    fleet = Fleet(400.0)
    fleet.ratio = 2.0
    assert fleet.run(91).rate == pytest.approx(400, rel=0.03)


def test_the_same_measurement_twice_and_an_idle_or_ending_worker_change_nothing() -> None:
    fleet = Fleet(400.0).run(40)
    seen = snapshot([load(tp(0), 100.0, committed=9000)], at=T0 + 40)
    again = fleet.consumption.measured(seen, moment(T0 + 41))
    assert again is fleet.consumption
    assert fleet.busy.measured(seen, again, [fleet.view(0)]) == fleet.busy
    ending = replace(fleet.view(0), phase=WorkerPhase.DRAINING)
    later = replace(seen, sample_ts=T0 + 41)
    then = fleet.consumption.measured(later, moment(T0 + 41))
    assert fleet.busy.measured(later, then, [ending, worker(3)]).windows == {}


@pytest.mark.parametrize(
    ("waiting", "fastest", "shown", "why"),
    [
        ((), (50, 50), None, "two windows are too few"),
        ((), (50, 50, 50), None, "nobody was behind: that they do so much does not say that they can do no more"),
        ((), (150, 150, 150), 150, "what was drained can be drained"),
        ((50, 50), (50, 50, 50), None, "two windows behind are too few"),
        ((50, 52, 51), (50, 52, 51), 50, "each of three windows has reached it"),
        ((50, 52, 51), (50, 900, 52, 51, 800), 52, "two that are far off change little"),
        ((50, 52, 51), (50, 52, 51, 70, 70, 70), 70, "who has drained more since can"),
    ],
)
def test_what_consumers_that_report_nothing_show(
    waiting: tuple[float, ...], fastest: tuple[float, ...], shown: float | None, why: str
) -> None:
    drains = Drains(waiting=tuple((T0, r) for r in waiting), fastest=tuple((T0 + 5, r) for r in fastest))
    found = drains.shown(100.0)
    assert (None if found is None else found.bytes_per_s) == shown, why


@given(st.lists(st.floats(0.9, 1.1), min_size=3, max_size=12), st.floats(10, 1e6), st.integers(0, 11), st.floats(0.001, 1000))
def test_three_windows_are_near_the_truth_and_one_spike_is_nothing(
    noise: list[float], truth: float, where: int, spike: float
) -> None:
    kept: Capacity | None = None
    rules = measuring(capacity_prior_bytes_per_s=truth * 3)
    values = [truth * n for n in noise]
    values[where % len(values)] = truth * spike
    for count in range(3, len(values) + 1):
        fleet = Busy(samples=tuple(Sample(T0 + 30 * i, v) for i, v in enumerate(values[:count])))
        assert fleet.shown is not None
        kept = in_use(rules, kept, fleet.shown)
        assert 0.9 * truth * (1 - 1e-9) <= kept.bytes_per_s <= 1.1 * truth * (1 + 1e-9)
