"""A recorded load under policies: what must hold of any simulation, and which policy costs what."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autoscaler.simulation.group import simulate
from autoscaler.simulation.outcome import Outcome
from autoscaler.simulation.world import Load, World
from tests import builders as b

WORLD = World(consumer_bytes_per_s=100.0, usable_bytes_per_s=80.0, start_s=5.0, pause_s=1.0)


def waves(seconds: int, partitions: int = 12, every: float = 1.0) -> Load:
    """Return a load that rises and falls twice between 24 and 480 bytes/s, on one consumer."""
    times = np.arange(0.0, seconds, every) + b.T0
    total = 252 - 228 * np.cos(4 * math.pi * (times - b.T0) / seconds)
    share = np.linspace(0.5, 1.5, partitions) / partitions
    return Load(
        times=times,
        partitions=tuple(b.tp(p) for p in range(partitions)),
        rates=total[:, None] * share[None, :],
        record_bytes=np.full(partitions, 10.0),
        owner=np.zeros(partitions, np.int64),
    )


def outcome(load: Load, **changes: object) -> Outcome:
    return simulate(load, b.policy(**({"shrink_stabilisation_s": 60, "shrink_cooldown_s": 30} | changes)), WORLD)


def test_a_group_follows_its_load_up_and_down() -> None:
    found = outcome(waves(1200))
    assert found.hours == pytest.approx(1199 / 3600)
    assert found.most in {6, 7}
    assert found.consumer_hours < 0.8 * found.most * found.hours
    assert found.consumer_hours > 252 / 100 * found.hours, "fewer than carry the mean cannot have done"
    assert found.scalings > 8
    assert found.moves > 12
    assert found.r_score > 1


def test_a_constant_number_costs_its_hours_and_falls_behind_if_it_is_too_small() -> None:
    few, many = (outcome(waves(600), pinned=n) for n in (3, 7))
    assert many.consumer_hours == pytest.approx(7 * many.hours, rel=0.02)
    assert (many.worst_backlog_bytes, few.most) < (few.worst_backlog_bytes, 7)
    assert few.worst_behind_s > 20
    assert many.worst_behind_s < 10
    assert few.above_s > 100 > many.above_s


def test_a_lower_utilisation_takes_more_consumer_hours_and_is_less_behind() -> None:
    full, half = (outcome(waves(900), target_utilisation=u) for u in (0.95, 0.5))
    assert half.consumer_hours > 1.4 * full.consumer_hours
    assert half.mean_behind_s < full.mean_behind_s


def test_the_same_load_and_policy_give_the_same() -> None:
    assert outcome(waves(300)) == outcome(waves(300))


def test_measured_every_five_seconds_it_costs_about_the_same() -> None:
    fine, coarse = outcome(waves(1200)), outcome(waves(1200, every=5.0))
    assert coarse.consumer_hours == pytest.approx(fine.consumer_hours, rel=0.1)


def test_a_capacity_that_is_measured_comes_near_what_consumers_do() -> None:
    told = outcome(waves(1200))
    learned = outcome(waves(1200), capacity_bytes_per_s=None, capacity_prior_bytes_per_s=60.0)
    assert learned.most <= 2 * told.most
    assert learned.consumer_hours < 1.6 * told.consumer_hours


def test_a_group_of_which_only_is_advised_or_without_consumers_is_simulated_as_one_that_acts() -> None:
    load = waves(300)
    empty = Load(
        times=load.times,
        partitions=load.partitions,
        rates=load.rates,
        record_bytes=load.record_bytes,
        owner=np.full(len(load.partitions), -1),
    )
    found = outcome(empty, mode="advise", assignment="native")
    assert found.most > 3


def spiky(seconds: int, at_rest: float = 60.0, rises_at: int | None = None) -> Load:
    """Return a load of 12 equal partitions each second of which comes at once: so many bytes, and three times as many later."""
    total = np.full(seconds, at_rest)
    if rises_at is not None:
        total[rises_at:] *= 3
    return Load(
        times=np.arange(float(seconds)) + b.T0 + 0.95,
        partitions=tuple(b.tp(p) for p in range(12)),
        rates=np.repeat(total[:, None] / 12, 12, axis=1),
        record_bytes=np.full(12, 1.0),
        owner=np.zeros(12, np.int64),
    )


PROMISED = replace(WORLD, start_s=1.0, pause_s=0.1, window_s=1.0, at_once=True, decide_s=1.0, within_s=0.5, tick_s=0.05)


def test_a_promise_fills_consumers_as_far_as_bursts_let_them() -> None:
    """A second's 60 bytes take a consumer of 100 bytes/s .6 s: .5 s is kept by two, and by one for five of six records only."""
    policy = {"capacity_bytes_per_s": 100.0}
    kept = simulate(spiky(900), b.policy(promise_within_s=0.5, **policy), PROMISED)
    full, idle = (simulate(spiky(900), b.policy(target_utilisation=u, **policy), PROMISED) for u in (0.9, 0.2))
    assert kept.in_time is not None
    assert full.in_time is not None
    assert kept.in_time > 0.99
    assert full.in_time < 0.9
    assert kept.consumer_hours < 1.02 * 2 * kept.hours
    assert kept.consumer_hours < 0.6 * idle.consumer_hours


def test_a_promise_is_kept_through_a_sudden_rise() -> None:
    load = spiky(1200, at_rest=120.0, rises_at=600)
    kept = simulate(load, b.policy(capacity_bytes_per_s=100.0, promise_within_s=5.0), replace(PROMISED, within_s=5.0))
    assert kept.in_time is not None
    assert kept.in_time > 0.99
    assert kept.consumer_hours < 3.8 * kept.hours, "1.2 and 3.6 are what it takes, and 2.4 on average"
