"""A promise, from ages to what follows: how full consumers may be, and how soon they are given back."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autoscaler.core.load.record_ages import EMPTIEST, Ages
from autoscaler.handover.records import AGE_BOUNDS_S
from autoscaler.model import WorkerView
from tests import builders as b

Floats = NDArray[np.float64]
SHARE = 0.99
SERVED = 200.0  # records/s that one consumer processes


def told(ages: Floats, busy_s: float) -> WorkerView:
    """Return a worker that has processed records of these ages since the look before."""
    places, counts = np.unique(np.searchsorted(AGE_BOUNDS_S, ages), return_counts=True)
    return replace(b.worker(0), ages=tuple(zip(places.tolist(), counts.tolist(), strict=True)), busy_s=busy_s)


def looks(ages_of: Callable[[float], Floats], load: float, *, seconds: int = 600, within_s: float = 1.0) -> Ages:
    """Return what one worker shows that is so full: the ages of each second's records by ``ages_of``."""
    found = Ages()
    for second in range(seconds):
        found = look(found, ages_of(float(second)), load, within_s=within_s)
    return found


def look(ages: Ages, seen: Floats, load: float, *, busy: float | None = None, within_s: float = 1.0) -> Ages:
    """Return them after one more second, in which it was busy for a part of the time: as full as it is, where none is given."""
    before = ages.workers.get("g-0-1")
    total = (0.0 if before is None else before.busy_s) + (load if busy is None else busy)
    return ages.seen([told(seen, total)], {0: load}, within_s, ages.at + 1.0)


def filled(ages_of: Callable[[float, float], Floats], load: float, within_s: float) -> float:
    """Return how full a worker is in the end that is filled anew each minute, as is foretold, for a quarter of an hour."""
    found = Ages()
    for second in range(900):
        found = look(found, ages_of(load, float(second)), load, within_s=within_s)
        if second % 60 == 59:
            load = found.fullest(within_s, SHARE) or load
    return load


def bursts(load: float, every_s: float = 1.0) -> Callable[[float], Floats]:
    """Return the ages of records that come at once: the last one waits for all others."""
    return lambda _: np.linspace(0, load * every_s, 1000)


@given(load=st.floats(0.1, 0.9), within_s=st.sampled_from((0.3, 0.5, 0.7)))
@settings(max_examples=5)
def test_bursts_may_fill_a_consumer_as_far_as_the_last_record_is_in_time(load: float, within_s: float) -> None:
    """A second's records at once: what may be late, the last ones, moves the end of an even spread a little."""
    assert within_s * 0.93 <= filled(lambda full, at: bursts(full)(at), load, within_s) <= within_s * 1.1


def arrivals(kind: str, rate: float, random: np.random.Generator) -> Floats:
    """Return when records arrive in a minute: at random, or five times as fast in a tenth of the tenths of a second."""
    if kind == "poisson":
        return np.sort(60 * random.random(random.poisson(60 * rate)))
    counts = random.poisson(np.where(random.random(600) < 0.1, 5 * rate, 5 / 9 * rate) / 10)
    return np.sort((np.repeat(np.arange(600), counts) + random.random(counts.sum())) / 10)


@pytest.mark.parametrize(("kind", "within_s", "least"), [
    ("poisson", 0.2, 0.8), ("poisson", 0.5, 0.9), ("mmpp", 0.5, 0.35), ("mmpp", 1.0, 0.5),
])  # fmt: skip
def test_a_consumer_that_is_as_full_as_is_foretold_keeps_the_promise(kind: str, within_s: float, least: float) -> None:
    """One that processes records one after the other, each for a random time, and is filled anew each minute for an hour.

    Within two points of the promise, and not for want of load.
    """
    random, found, load = np.random.default_rng(1), Ages(), 0.5
    free_at, ages, loads = 0.0, list[Floats](), list[float]()
    for minute in range(60):
        at = arrivals(kind, load * SERVED, random) + 60 * minute
        service = random.exponential(1 / SERVED, len(at))
        worked = np.cumsum(service)
        done = worked + np.maximum.accumulate(np.maximum(at - (worked - service), free_at))
        free_at = float(done[-1])
        for second in range(60 * minute, 60 * minute + 60):
            mine = np.floor(np.minimum(done, 60 * minute + 59)) == second  # what a minute leaves is told in its last second
            found = look(found, (done - at)[mine], load, busy=float(service[mine].sum()), within_s=within_s)
        load = found.fullest(within_s, SHARE) or load
        ages.append(done - at)
        loads.append(load)
    assert np.concatenate(ages[10:]).size > 10_000
    assert (np.concatenate(ages[10:]) <= within_s).mean() >= SHARE - 0.02
    assert np.mean(loads[10:]) >= least


def test_a_backlog_does_not_make_consumers_look_fuller() -> None:
    found = ahead = looks(bursts(0.4), 0.4, within_s=0.5)
    for _ in range(10):  # what it processes has all waited for five to six seconds, and it never rests
        found = look(found, np.linspace(5, 6, 200), 0.4, busy=1.0, within_s=0.5)
    before, after = ahead.fullest(0.5, SHARE), found.fullest(0.5, SHARE)
    assert before is not None
    assert after is not None
    assert after > 0.9 * before
    assert found.late_share > ahead.late_share


def test_consumers_are_given_back_later_where_backlogs_have_cost_much() -> None:
    def worked_off(part: float) -> Ages:
        found = Ages()
        for second in range(600):
            late = second % 100 >= 100 - 100 * part
            seen = np.linspace(3, 4, 100) if late else np.linspace(0, 0.3, 100)
            found = look(found, seen, 0.3, busy=1.0 if late else 0.3)
        return found

    stays = [worked_off(part).stay_s(SHARE, start_s=2.0) for part in (0.0, 0.01, 0.02, 0.05)]
    assert stays[0] == 6.0, "three times as long as one takes to come again"
    assert stays == sorted(stays)
    assert stays[-1] > 100


def test_bursts_that_are_late_do_not_keep_consumers() -> None:
    found = looks(bursts(0.8), 0.8, within_s=0.5)
    assert found.late_share > 0.3
    assert found.stay_s(SHARE, start_s=1.0) == 3.0


def test_what_is_not_used_of_the_budget_may_be_used_and_what_was_overdrawn_is_saved() -> None:
    idle, full = (looks(bursts(load), load, within_s=0.5, seconds=1800) for load in (0.3, 0.6))
    spare, short = idle.fullest(0.5, SHARE), full.fullest(0.5, SHARE)
    assert spare is not None
    assert short is not None
    assert spare > 0.53
    assert short < 0.51


def test_before_enough_was_told_nothing_is_known() -> None:
    assert Ages().fullest(1.0, SHARE) is None
    assert Ages().burst_s(SHARE) == 0.0
    assert Ages().late_share == 0.0
    once = Ages().seen([told(np.ones(50), 0.0)], {0: 0.5}, 1.0, 1.0)
    assert once.fullest(1.0, SHARE) is None
    assert once.seen([told(np.ones(5000), 0.0)], {0: 0.5}, 1.0, 1.0) is once, "the same look"


@pytest.mark.parametrize("load", [0.05, 0.5])
def test_records_that_are_old_however_idle_the_consumer_is_end_at_a_bound(load: float) -> None:
    """An application that keeps most records for nine seconds: no filling keeps one second."""
    held = np.concatenate([np.full(10, 0.005), np.full(90, 9.0)])
    assert filled(lambda *_: held, load, 1.0) == EMPTIEST
