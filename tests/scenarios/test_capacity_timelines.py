"""Timelines of groups whose capacity nobody has configured: what they are taken for, and how many consumers that makes."""

import pytest

from autoscaler.config.policy import Policy
from autoscaler.core.assignors.group_model import Assignor
from autoscaler.model import CapacitySource, Decision, Reason
from autoscaler.model.findings import What
from tests.builders import load, policy, rates, says, tp
from tests.scenarios.native_world import NativeWorld, Work, even
from tests.scenarios.world import World, moves, scalings

EVEN = rates(*[20.0] * 16)  # 320 bytes/s: exactly four consumers of which 80 are used
FINE = rates(*[5.0] * 64)  # the same in smaller parts


def measuring(prior: float, **changes: object) -> Policy:
    quick = {"shrink_stabilisation_s": 30, "shrink_cooldown_s": 20}
    return policy(**{"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": prior, **quick, **changes})


def group(prior: float, each: float = 100.0, **changes: object) -> World:
    """Return a group whose consumers do so many bytes/s, and are taken for others at first."""
    return World(policy=measuring(prior, **changes), traffic=lambda _: EVEN, downstream=lambda _: 1e9, each=lambda _: each)


def sources(decisions: list[Decision]) -> list[CapacitySource]:
    found = [d.capacity_source for d in decisions]
    return [s for i, s in enumerate(found) if i == 0 or found[i - 1] is not s]


@pytest.mark.parametrize(
    ("prior", "first", "why"),
    [
        (100.0, 4, "it is what they do"),
        (500.0, 1, "five times too high: it falls behind first"),
        (25.0, 16, "four times too low"),
    ],
)
def test_a_group_comes_to_what_its_consumers_do_whatever_was_assumed(prior: float, first: int, why: str) -> None:
    world = group(prior)
    begun = world.run(25)
    assert begun[-1].consumers == first, why
    assert (begun[-1].capacity_source, begun[-1].capacity_bytes_per_s) == (CapacitySource.PRIOR, prior), why
    late = world.run(415)
    assert sources([*begun, *late]) == [CapacitySource.PRIOR, CapacitySource.MEASURED]
    assert late[-1].capacity_bytes_per_s == pytest.approx(100, rel=0.1), why
    assert late[-1].reason is Reason.WITHIN_TARGET, why
    assert late[-1].consumers in {4, 5, 6}, why
    assert late[-1].capacity_samples >= 3
    assert late[-1].capacity_age_s is not None
    assert late[-1].capacity_age_s <= 30


def test_what_it_is_taken_for_is_said_with_where_that_comes_from() -> None:
    world = group(100.0)
    assert says(world.run(30)[-1], What.CAPACITY_ASSUMED, capacity_bytes_per_s=100)
    assert says(world.run(120)[-1], What.CAPACITY_MEASURED, capacity_bytes_per_s=100)
    world.policy = world.policy.model_copy(update={"capacity_bytes_per_s": 90.0})
    configured = world.run(1)[0]
    assert (configured.capacity_source, configured.capacity_bytes_per_s) == (CapacitySource.CONFIGURED, 90)
    assert not any(f.what.startswith("CAPACITY_") for f in configured.findings)
    bound = group(5000.0, capacity_bounds_ratio=10.0)
    last = bound.run(300)[-1]
    assert last.capacity_bytes_per_s == 500
    assert says(last, What.CAPACITY_BOUND, capacity_bytes_per_s=500, measured_bytes_per_s=100)


def test_a_spike_of_one_window_and_noise_move_nothing() -> None:
    world = group(100.0)
    world.run(200)
    world.each = lambda t: 100.0 * (0.94 if int(t / 7) % 2 else 1.06)
    noisy = world.run(300)
    world.each = lambda t: 1000.0 if 510 <= t < 530 else 100.0
    spiky = world.run(200)
    assert {d.capacity_bytes_per_s for d in (*noisy, *spiky)} == {noisy[0].capacity_bytes_per_s}
    assert scalings([*noisy, *spiky]) == []
    assert not moves([*noisy, *spiky])


def test_consumers_that_become_slower_are_more_and_faster_ones_are_fewer() -> None:
    world = group(100.0)
    world.run(200)
    world.each = lambda _: 60.0
    slower = world.run(400)
    assert slower[-1].capacity_bytes_per_s == pytest.approx(60, rel=0.1)
    assert slower[-1].consumers in {6, 7, 8}
    world.each = lambda _: 230.0
    faster = world.run(500)
    assert faster[-1].capacity_bytes_per_s == pytest.approx(230, rel=0.1)
    assert faster[-1].consumers == 2


def test_a_database_that_is_slow_makes_consumers_slow_and_growing_in_vain_ends() -> None:
    world = group(100.0)
    world.traffic = lambda _: FINE
    world.run(200)
    world.downstream = lambda t: 16.0 if t < 800 else 1e9  # 160 bytes/s in all, of 320 that arrive
    decisions = world.run(600)
    assert min(d.capacity_bytes_per_s for d in decisions) < 45, "four that share it do 40 each"
    assert [decisions[0].consumers, *scalings(decisions)] == [4, 5, 8, 11], "three steps, of 64 consumers that it could have"
    assert decisions[-1].limited_by is Reason.SCALING_DID_NOT_HELP
    assert says(decisions[-1], What.IN_VAIN, steps=3)
    recovered = world.run(700)
    assert recovered[-1].capacity_bytes_per_s == pytest.approx(100, rel=0.1)
    assert recovered[-1].consumers in {4, 5}


def test_an_outage_is_no_slow_consumer() -> None:
    world = group(100.0)
    world.run(200)
    before = world.decisions[-1].capacity_bytes_per_s
    world.away = lambda _: True
    decisions = world.run(300)
    assert {(d.capacity_bytes_per_s, d.capacity_source) for d in decisions} == {(before, CapacitySource.MEASURED)}
    assert decisions[-1].capacity_age_s is not None
    assert decisions[-1].capacity_age_s > 290


def test_workers_that_come_and_go_never_read_as_slow_ones() -> None:
    world = group(100.0)
    world.run(200)
    for _ in range(10):
        world.kill(min(world.live))
        world.run(13)
    assert {round(d.capacity_bytes_per_s / 100, 1) for d in world.decisions} == {1.0}


# --- native groups ---------------------------------------------------------------------------------------------------


def native(able: float, total: float, **changes: object) -> Work:
    """Return a native group whose capacity is not configured; 100 bytes/s are assumed."""
    settings = {"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 100.0, **changes}
    world = NativeWorld(assignor=Assignor.RANGE, changes=settings)
    return Work(world=world, rates=even(world, total), able=able)


def test_a_native_group_that_is_behind_shows_how_slow_its_consumers_are() -> None:
    work = native(40.0, 300)
    early, late = work.run(60), work.run(500)
    assert {d.capacity_source for d in early} == {CapacitySource.PRIOR}
    assert late[-1].capacity_source is CapacitySource.MEASURED
    assert late[-1].capacity_bytes_per_s == pytest.approx(40, rel=0.1)
    assert late[-1].consumers == 16, "20 bytes/s each of 32: eight get 40"
    assert not says(late[-1], What.CAPACITY_LOOKS_HIGH), "there is nothing to be doubted"


def test_a_native_group_that_is_not_behind_shows_only_that_its_consumers_are_faster() -> None:
    slower, faster = native(1000.0, 60), native(1000.0, 640)
    assert {d.capacity_source for d in slower.run(300)} == {CapacitySource.PRIOR}, "one that has little to do is not slow"
    faster.world.set(max_consumers=2)
    last = faster.run(300)[-1]
    assert (last.capacity_source, last.consumers) == (CapacitySource.MEASURED, 2)
    assert last.capacity_bytes_per_s == pytest.approx(320, rel=0.15)
    faster.rates = even(faster.world, 60)
    assert faster.run(300)[-1].capacity_bytes_per_s == last.capacity_bytes_per_s, "less to do is not slower"


def test_a_native_group_that_commits_too_rarely_tells_nothing() -> None:
    work = native(40.0, 300)
    work.commits_every_s = 22
    assert {d.capacity_source for d in work.run(400)} == {CapacitySource.PRIOR}


def test_a_group_that_is_not_measured_at_all_keeps_what_is_assumed() -> None:
    world = NativeWorld(changes={"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 77.0})
    decision = world.run([load(tp(0), None)], 5)
    assert (decision.capacity_source, decision.capacity_bytes_per_s) == (CapacitySource.PRIOR, 77)
