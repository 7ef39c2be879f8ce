"""Timelines of groups whose workers are not alike, or that a limit of records/s holds for: who gets how much, and what moves."""

from collections.abc import Mapping

import pytest

from autoscaler.config.policy import Policy
from autoscaler.model import Decision, Reason, TopicPartition
from autoscaler.model.findings import What
from tests.builders import policy, rates, says, tp
from tests.scenarios.unequal_world import UnequalWorld
from tests.scenarios.world import moves, scalings

FINE = rates(*[4.0] * 64)  # 256 bytes/s; three consumers at 80 and half of one have room for 280
SLOW = 0  # the slot whose worker is slow


def measuring(**changes: object) -> Policy:
    quick = {"shrink_stabilisation_s": 30, "shrink_cooldown_s": 20, "min_consumers": 4}
    return policy(**{"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 100.0, **quick, **changes})


def half(_t: float, slot: int) -> float:
    return 50.0 if slot == SLOW else 100.0


def group(traffic: Mapping[TopicPartition, float] = FINE, **changes: object) -> UnequalWorld:
    """Return four workers of which one does half of what the others do."""
    return UnequalWorld(policy=measuring(**changes), traffic=lambda _: traffic, able=half)


def settled() -> UnequalWorld:
    world = group()
    world.run(300)
    return world


def figures(decisions: list[Decision]) -> tuple[int, list[int]]:
    return len(moves(decisions)), scalings(decisions)


def test_a_worker_at_half_speed_gets_half_once_it_is_known() -> None:
    world = group()
    early, late = world.run(90), world.run(210)
    assert world.used()[SLOW] <= 0.88
    assert moves(early) == []
    acted = [d for d in late if moves([d])]
    assert [d.reason for d in acted] == [Reason.RATE_ABOVE_CAPACITY]
    assert [m.source for m in moves(late)].count(SLOW) == 11, "of the 20 that it held"
    assert len(moves(late)) == 13, "two more of those that the group's measured capacity makes a little too full"
    assert max(world.used().values()) <= 0.81
    assert world.loads()[SLOW] == pytest.approx(40, abs=4.1), "half of what the others may have"
    assert scalings(late) == []
    assert says(acted[0], What.OVERLOADED, consumers=(0,), load_bytes_per_s=80)
    assert says(acted[0], What.OWN_CAPACITY, consumers=(0,))
    last = late[-1]
    assert (last.reason, last.algorithm) == (Reason.WITHIN_TARGET, "UNEVEN")
    assert last.own_bytes_per_s == {SLOW: pytest.approx(50, rel=0.05)}
    assert last.capacity_bytes_per_s == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("seconds", [600, pytest.param(3600, marks=pytest.mark.slow)])
def test_noise_moves_nothing_more(seconds: int) -> None:
    world = settled()
    world.able = lambda t, slot: half(t, slot) * (0.9 + 0.2 * ((int(t / 30) * 7919 + slot * 104_729) % 17) / 16)
    decisions = world.run(seconds)
    assert figures(decisions) == (0, [])
    assert {tuple(d.own_bytes_per_s) for d in decisions} == {(SLOW,)}


def test_equal_workers_with_noise_are_equal_and_placed_as_ever() -> None:
    world = group()
    world.able = lambda t, slot: 100.0 * (0.9 + 0.2 * ((int(t / 30) * 7919 + slot * 104_729) % 17) / 16)
    decisions = world.run(900)
    assert {d.algorithm for d in decisions} == {"PACE balanced"}
    assert all(not d.own_bytes_per_s for d in decisions)
    assert moves(decisions) == []


def test_a_worker_that_is_fast_again_takes_its_share_of_what_comes_again() -> None:
    world = settled()
    world.able = lambda _t, _slot: 100.0
    calm = world.run(240)
    assert figures(calm) == (0, []), "nobody is overloaded: nothing need move"
    assert (calm[-1].own_bytes_per_s, calm[-1].algorithm) == ({}, "PACE balanced")
    more = rates(*[4.8] * 64)  # 307 of 320
    world.traffic = lambda _: more
    risen = world.run(240)
    assert scalings(risen) == [], "four that are equal are enough"
    assert 0 < len(moves(risen)) <= 13
    assert world.loads()[SLOW] > 60
    assert max(world.used().values()) <= 0.88


def test_a_group_that_a_slow_worker_makes_too_small_grows_by_one() -> None:
    world = group(rates(*[4.7] * 64))  # 301 bytes/s: four at 80 have room for it, three and a half have not
    decisions = world.run(500)
    assert decisions[60].consumers == 4
    assert scalings(decisions) == [5]
    assert max(world.used().values()) <= 0.88
    assert len(moves(decisions)) <= 20


def test_a_slow_worker_is_relieved_by_those_that_are_there_when_no_other_comes() -> None:
    world = group(rates(*[4.7] * 64))
    world.never = {4}
    world.run(90)
    assert world.used()[SLOW] > 1.2
    world.run(200)
    assert max(world.used().values()) < 0.92, "above what is usable, but shared"


def test_a_worker_that_is_too_slow_for_its_only_partition_is_replaced() -> None:
    world = group(rates(70.0, 70.0, 70.0, 70.0, 1.0, 1.0))
    decisions = world.run(600)
    assert scalings(decisions) == [5, 4]
    assert SLOW not in world.live
    assert max(world.used().values()) <= 0.8
    full = group(rates(70.0, 70.0, 70.0, 70.0))
    last = full.run(300)[-1]
    assert (last.reason, last.limited_by) == (Reason.RATE_ABOVE_CAPACITY, Reason.AT_PARTITION_CEILING)
    assert says(last, What.OVERLOADED, consumers=(0,), load_bytes_per_s=70, limit_bytes_per_s=44)
    assert says(last, What.NO_BETTER)


def test_a_configured_capacity_wins_and_all_are_equal() -> None:
    world = group(capacity_bytes_per_s=100.0)
    decisions = world.run(400)
    assert {d.algorithm for d in decisions} == {"PACE balanced"}
    assert all(not d.own_bytes_per_s for d in decisions)
    assert moves(decisions) == []
    assert world.used()[SLOW] > 1


def test_a_worker_that_restarts_is_taken_for_one_of_the_group_until_it_is_known() -> None:
    world = settled()
    world.kill(SLOW)
    decisions = world.run(400)
    assert decisions[20].own_bytes_per_s == {}
    assert max(world.used().values()) <= 0.9
    assert len(moves(decisions)) <= 26, "at most there and back"
    assert len(moves(world.run(600))) == 0


@pytest.mark.parametrize("seconds", [600, pytest.param(1800, marks=pytest.mark.slow)])
@pytest.mark.parametrize("slots", [{SLOW}, {0, 1, 2, 3, 4, 5, 6}])
def test_a_cost_per_batch_ends_in_a_placement_that_stays(slots: set[int], seconds: int) -> None:
    """Who is given less has smaller batches and looks slower: it must not be given less and less for that."""
    world = group()
    world.able, world.batch_s = lambda _t, _slot: 100.0, lambda slot: 0.25 if slot in slots else 0.0
    world.run(900)
    held = dict(world.owner)
    late = world.run(seconds)
    assert figures(late) == (0, [])
    assert world.owner == held
    assert world.loads()[SLOW] > 40, "what it does when it has to"
    assert max(world.used().values()) <= 0.88


@pytest.mark.parametrize("seconds", [600, pytest.param(3600, marks=pytest.mark.slow)])
def test_a_worker_that_seems_always_busy_does_not_lose_everything(seconds: int) -> None:
    """One that waits for records inside its application: whatever it is given is all that it can do, as it seems."""
    world = group(rates(*[4.75] * 64))
    world.able, world.always_busy = lambda _t, _slot: 100.0, frozenset({SLOW})
    world.run(900)
    held = world.loads()[SLOW]
    assert held > 30, "it was believed as long as it had as much to do as the others"
    assert figures(world.run(seconds)) == (0, [])
    assert world.loads()[SLOW] == held


def test_partitions_of_little_load_show_no_slow_workers() -> None:
    """Loads from 10 to 76 on workers that are equal and pay for each batch: the one with least looks half as fast."""
    world = group(rates(76.0, 60.0, 30.0, 10.0), min_consumers=4)
    world.able, world.batch_s = lambda _t, _slot: 120.0, lambda _: 0.2
    decisions = world.run(800)
    assert {tuple(d.own_bytes_per_s) for d in decisions[600:]} <= {(), (world.owner[tp(0)],)}, "the fullest may look faster"
    assert moves(decisions[300:]) == []


# --- records/s -------------------------------------------------------------------------------------------------------

SMALL = rates(*[10.0] * 16)  # 160 bytes/s: two consumers of 80


def records(limit: float, traffic: Mapping[TopicPartition, float] = SMALL, **changes: object) -> UnequalWorld:
    """Return a group with records of a byte in half of its partitions and of ten bytes in the others."""
    settings = policy(**{"capacity_records_per_s": limit, "shrink_stabilisation_s": 30, "shrink_cooldown_s": 20, **changes})
    return UnequalWorld(
        policy=settings,
        traffic=lambda _: traffic,
        able=lambda _t, _slot: 1000.0,
        record_bytes=lambda p: 1.0 if p.partition % 2 else 10.0,
    )


def per_consumer(world: UnequalWorld) -> dict[int, float]:
    """Return records/s of each consumer."""
    rate = {p: r / world.record_bytes(p) for p, r in world.traffic(world.t).items()}
    return {c: sum(rate[p] for p, o in world.owner.items() if o == c) for c in set(world.owner.values())}


def test_small_records_fill_a_consumer_before_their_bytes_do() -> None:
    world = records(40.0)  # 32 usable; 88 records/s in all: three consumers, where the bytes take two
    world.run(30)
    assert len(world.live) == 3
    assert max(per_consumer(world).values()) <= 32
    assert max(world.loads().values()) <= 80
    more = {p: rate * (1.5 if p.partition % 2 else 1) for p, rate in SMALL.items()}  # 200 bytes/s, 128 records/s
    world.traffic = lambda _: more
    grown = world.run(60)
    assert len(world.live) in {4, 5}, "four would do, five move less"
    assert max(per_consumer(world).values()) <= 32 + 1e-9
    first = next(d for d in grown if d.reason is Reason.RATE_ABOVE_CAPACITY)
    assert says(first, What.OVERLOADED, limit_records_per_s=35.2, total_records_per_s=128)
    assert says(first, What.OVERLOADED, usable_records_per_s=32)
    world.traffic = lambda _: SMALL
    assert world.run(120)[-1].consumers <= 4
    assert max(per_consumer(world).values()) <= 32 + 1e-9


def test_a_limit_of_records_that_nobody_reaches_changes_nothing() -> None:
    with_limit, without = records(1000.0), records(1000.0)
    without.policy = policy(shrink_stabilisation_s=30, shrink_cooldown_s=20)
    a, b = with_limit.run(60), without.run(60)
    assert [(d.actions, d.target, d.algorithm, d.recommended) for d in a] == [
        (d.actions, d.target, d.algorithm, d.recommended) for d in b
    ]
    assert a[-1].capacity_records_per_s == 1000


def test_a_partition_with_too_many_records_is_said_to_have_them() -> None:
    world = records(5.0, {tp(0): 10.0, tp(1): 10.0}, max_consumers=4)
    last = world.run(60)[-1]
    assert last.reason is Reason.PARTITION_EXCEEDS_CAPACITY
    assert last.oversized == (tp(1),)
    assert says(last, What.OVERSIZED, partitions=(tp(1),), limit_records_per_s=4, load_records_per_s=10)


def test_both_limits_and_a_slow_worker_hold_together() -> None:
    world = group(capacity_records_per_s=40.0, min_consumers=4)
    world.record_bytes = lambda p: 1.0 if p.partition < 16 else 10.0
    world.run(600)
    assert max(world.used().values()) <= 0.88
    assert max(per_consumer(world).values()) <= 35.2


@pytest.mark.parametrize("lasts_s", [20, 100])
def test_consumers_are_no_faster_for_a_time_in_which_nobody_could_measure(lasts_s: int) -> None:
    """What was committed in all of that time is not what they do in the window that begins after it."""
    world = group(min_consumers=1)
    world.able = lambda _t, _slot: 100.0
    calm = world.run(300)[-1]
    assert calm.consumers == 4
    assert calm.capacity_bytes_per_s == pytest.approx(100)
    world.away = lambda t: 300 <= t < 300 + lasts_s
    after = world.run(300)
    assert max(d.capacity_bytes_per_s for d in after) == pytest.approx(100, rel=0.1)
    assert scalings([calm, *after]) == []
