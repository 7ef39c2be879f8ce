"""Timelines: seconds of load, workers and faults, and what the group must have done about them."""

from collections.abc import Callable, Mapping
from random import Random

import pytest

from autoscaler.config.policy import Policy
from autoscaler.model import (
    AddWorkers,
    MovePartition,
    OutOfRange,
    ParkPartition,
    Reason,
    RemoveWorkers,
    ResetOffset,
    TopicPartition,
)
from autoscaler.model.findings import What
from tests.builders import T0, policy, rates, says, tp
from tests.scenarios.world import World, moves, reasons, scalings

EVEN = rates(*[20.0] * 16)  # 320 bytes/s: exactly four consumers of 80


def demo_policy(**changes: object) -> Policy:
    return policy(shrink_stabilisation_s=30, shrink_cooldown_s=20, **changes)


def ramp(hot: tuple[int, ...], start: float, end: float, rate: float) -> Callable[[float], Mapping[TopicPartition, float]]:
    """Return even traffic in which some partitions rise to a rate between two times."""

    def at(t: float) -> Mapping[TopicPartition, float]:
        share = min(1.0, max(0.0, (t - start) / (end - start)))
        return {p: r + (rate - r) * share if p.partition in hot else r for p, r in EVEN.items()}

    return at


def test_a_group_starts_asks_once_and_places_once() -> None:
    world = World(policy=demo_policy(), traffic=lambda _: EVEN)
    decisions = world.run(30)
    acted = [d for d in decisions if d.actions]
    assert [[type(a) for a in d.actions] for d in acted] == [[AddWorkers], [MovePartition] * 16]
    assert reasons(decisions) == [Reason.PARTITIONS_CHANGED, Reason.WITHIN_TARGET]
    assert world.loads() == {0: 80, 1: 80, 2: 80, 3: 80}


def test_two_partitions_become_hot_and_the_load_falls_again() -> None:
    hot = ramp((0, 1), 30, 60, 75)
    world = World(policy=demo_policy(), traffic=lambda t: hot(t) if t < 120 else dict.fromkeys(EVEN, 5.0))
    calm, rise, fall = world.run(30), world.run(90), world.run(80)
    assert scalings(calm) == []
    assert scalings(rise) == [5, 6]
    assert any(m.partition in {tp(0), tp(1)} for m in moves(rise)), "a hot partition leaves its consumer"
    assert {d.reason for d in rise if moves([d])} == {Reason.RATE_ABOVE_CAPACITY}
    assert {p for d in rise for p in d.hot} >= {tp(0), tp(1)}
    assert scalings([rise[-1], *fall]) == [2]
    down = next(d for d in fall if d.consumers == 2)
    assert (down.reason, down.at - T0) == (Reason.UNDERUSED, 150), "the window of 30 s had to pass"
    assert [a for d in fall for a in d.actions if isinstance(a, RemoveWorkers)] == [RemoveWorkers(slots=(0, 3, 4, 5))]
    assert world.live == {1, 2}


@pytest.mark.parametrize("by", [-3600.0, 900.0])
def test_a_wall_clock_that_is_set_at_any_time_changes_no_decision(by: float) -> None:
    """Set while a group starts, grows, waits for the new consumer, rests and shrinks; and set back once."""
    times = [3, 11, 33, 34, 35, 47, 80, 130, 149, 151]
    hot = ramp((0, 1), 30, 60, 75)

    def world(set_by: Callable[[float], float]) -> World:
        return World(
            policy=demo_policy(), traffic=lambda t: hot(t) if t < 120 else dict.fromkeys(EVEN, 5.0), start_s=4, set_by=set_by
        )

    plain, other = world(lambda _: 0.0).run(200), world(lambda t: by * sum(t >= at for at in times) % 7200).run(200)
    assert [(d.reason, d.limited_by, d.actions, d.requested) for d in other] == [
        (d.reason, d.limited_by, d.actions, d.requested) for d in plain
    ]


def test_growing_moves_nothing_before_the_new_consumer_is_there() -> None:
    world = World(policy=demo_policy(), traffic=ramp((0,), 20, 21, 79), start_s=8)
    decisions = world.run(60)
    asked = next(d for d in decisions if d.at > T0 + 15 and any(isinstance(a, AddWorkers) for a in d.actions))
    moved = next(d for d in decisions if moves([d]))
    assert moved.at - asked.at == 9, "eight seconds to start, seen one cycle later"
    waiting = [d for d in decisions if asked.at < d.at < moved.at]
    assert {(d.reason, d.limited_by) for d in waiting} == {(Reason.RATE_ABOVE_CAPACITY, Reason.NOT_READY)}


def test_a_consumer_that_never_starts_does_not_hold_the_others_for_ever() -> None:
    world = World(policy=demo_policy(worker_start_timeout_s=10), traffic=ramp((0, 1), 20, 21, 60), never={4})
    decisions = world.run(80)
    moved = next(d for d in decisions if moves([d]))
    asked = next(d for d in decisions if d.requested >= {4})
    assert 10 <= moved.at - asked.at <= 11
    assert max(world.loads().values()) < 20 * 2 + 60 * 2, "the load of the two hot ones is shared"
    assert len({d.at for d in decisions[-30:] if d.actions}) == 0, "and then rests"


@pytest.mark.parametrize("restart_s", [1.0, 600.0])
def test_a_lost_worker_is_replaced_at_once_by_those_who_live(restart_s: float) -> None:
    light = dict.fromkeys(EVEN, 10.0)
    world = World(policy=demo_policy(min_consumers=4), traffic=lambda _: light)
    world.run(20)
    held = {p for p, s in world.owner.items() if s == 2}
    world.start_s = restart_s
    world.kill(2)
    lost = world.step()
    assert (lost.reason, lost.limited_by) == (Reason.WORKER_LOST, None)
    assert {a.partition for a in lost.actions if isinstance(a, MovePartition)} == held
    assert moves([lost]) == [], "nothing else moves"
    assert set(world.owner) == set(light), "everybody has an owner in the cycle that saw the death"
    world.run(30)
    assert (2 in set(world.owner.values())) == (restart_s == 1.0), "once it is back, the minimum puts it to work"


def test_every_worker_lost_at_once() -> None:
    world = World(policy=demo_policy(), traffic=lambda _: EVEN)
    world.run(20)
    for slot in sorted(world.live):
        world.kill(slot)
    first = world.step()
    assert (first.reason, first.limited_by, first.actions) == (Reason.WORKER_LOST, Reason.NOT_READY, ())
    world.run(40)
    assert max(world.loads().values()) <= 88
    assert set(world.owner) == set(EVEN)


def test_a_broker_away_for_twenty_seconds_changes_nothing() -> None:
    world = World(policy=demo_policy(), traffic=lambda _: EVEN, away=lambda t: 40 <= t < 60)
    world.run(40)
    gone = world.run(20)
    back = world.run(60)
    assert [d.actions for d in [*gone, *back] if d.actions] == []
    assert reasons(gone) == [Reason.WITHIN_TARGET, Reason.STALE_INPUT], "ten seconds are bridged, then it is said"
    assert back[0].reason is Reason.WITHIN_TARGET


def dark(partition: int, start: float, end: float) -> Callable[[float], frozenset[TopicPartition]]:
    """Return a partition whose broker does not answer between two times."""
    return lambda t: frozenset({tp(partition)} if start <= t < end else ())


def test_a_partition_in_the_dark_keeps_nobody_from_growing_and_everybody_from_shrinking() -> None:
    """Partition 15 is measured no more from 40 to 200 s; 0 and 1 become hot at 60 s, all load falls at 120 s."""
    hot = ramp((0, 1), 60, 70, 75)
    world = World(policy=demo_policy(), traffic=lambda t: hot(t) if t < 120 else dict.fromkeys(EVEN, 5.0), dark=dark(15, 40, 200))
    assert {d.consumers for d in world.run(60)[-30:]} == {4}
    rise, fall, light = world.run(60), world.run(80), world.run(60)
    assert scalings(rise) == [5, 6]
    assert {d.reason for d in rise if moves([d])} == {Reason.RATE_ABOVE_CAPACITY}
    assert max(load for s, load in world.loads().items() if s in world.live) <= 88
    assert says(next(d for d in rise if moves([d])), What.STALE, partitions=(tp(15),), stale=1, listed=16)
    assert {d.consumers for d in fall} == {6}
    assert {d.reason for d in fall} == {Reason.STALE_INPUT}
    assert next(d for d in light if d.consumers < 6).at - T0 == 200 + 30, "a full window after it was measured again"


def test_a_partition_in_the_dark_is_packed_by_its_last_rate() -> None:
    """Were it taken for idle, two consumers would still do when the others rise."""
    traffic = lambda t: rates(40.0, 35.0, *[20.0 if t < 60 else 35.0] * 3)  # noqa: E731
    world = World(policy=demo_policy(), traffic=traffic, dark=dark(0, 40, 1000))
    before = world.run(60)
    assert scalings([*before[-30:], *world.run(30)]) == [3]
    assert max(world.loads().values()) <= 80


def test_nothing_moves_at_the_same_number_while_a_partition_is_in_the_dark() -> None:
    """At first no consumer can hold 0 and 1 together; at 60 s they must be, or one is overloaded: by old rates nothing moves."""
    traffic = lambda t: rates(45.0, 40.0, 30.0, 30.0) if t < 60 else rates(60.0, 15.0, 35.0, 35.0)  # noqa: E731
    bright = World(policy=demo_policy(min_consumers=2), traffic=traffic)
    bright.run(60)
    assert moves(bright.run(40)), "with everything measured it moves"
    assert scalings(bright.decisions[-40:]) == []
    world = World(policy=demo_policy(min_consumers=2), traffic=traffic, dark=dark(3, 40, 120))
    world.run(60)
    held = world.run(60)
    assert [d.actions for d in held if d.actions] == []
    assert held[-1].reason is Reason.STALE_INPUT
    assert moves(world.run(20)), "measured again, it moves"


def test_a_consumer_that_does_not_come_while_a_partition_is_in_the_dark_is_awaited_and_nothing_else_moves() -> None:
    world = World(policy=demo_policy(), traffic=ramp((0, 1), 60, 61, 75), dark=dark(15, 40, 1000), never={4, 5})
    world.run(60)
    waiting = world.run(80)
    assert {(d.reason, d.limited_by) for d in waiting[5:]} == {(Reason.RATE_ABOVE_CAPACITY, Reason.NOT_READY)}
    assert moves(waiting) == []


def test_load_that_falls_while_the_broker_is_away_shrinks_only_a_full_window_after_it_is_back() -> None:
    world = World(
        policy=demo_policy(), traffic=lambda t: EVEN if t < 45 else dict.fromkeys(EVEN, 1.0), away=lambda t: 40 <= t < 60
    )
    world.run(40)
    assert all(d.consumers == 4 for d in world.run(20))
    after = world.run(60)
    first = next(d for d in after if d.consumers < 4)
    assert first.at - T0 == 60 + 30


def test_a_worker_lost_while_the_broker_is_away_is_still_replaced() -> None:
    world = World(policy=demo_policy(), traffic=lambda _: EVEN, away=lambda t: t >= 40)
    world.run(60)
    world.kill(1)
    assert world.step().reason is Reason.WORKER_LOST
    assert set(world.owner) == set(EVEN)


def test_partitions_added_while_running_are_placed_and_nothing_else_moves() -> None:
    more = {**EVEN, **{tp(i): 0.0 for i in range(16, 32)}}
    world = World(policy=demo_policy(), traffic=lambda t: EVEN if t < 20 else more)
    world.run(20)
    before = dict(world.owner)
    added = world.step()
    assert added.reason is Reason.PARTITIONS_CHANGED
    assert moves([added]) == []
    assert set(world.owner) == set(more)
    assert {p: world.owner[p] for p in before} == before


def test_at_the_maximum_it_does_what_it_can_and_then_rests() -> None:
    world = World(policy=demo_policy(max_consumers=4), traffic=lambda t: {p: r * (1 if t < 20 else 3) for p, r in EVEN.items()})
    world.run(20)
    decisions = world.run(120)
    assert {d.consumers for d in decisions} == {4}
    assert {(d.reason, d.limited_by) for d in decisions[-30:]} == {(Reason.RATE_ABOVE_CAPACITY, Reason.AT_MAXIMUM)}
    assert [d.actions for d in decisions[-30:] if d.actions] == []
    assert max(world.loads().values()) == 240, "nobody carries more than its share"


def test_a_partition_above_one_consumer_ends_up_alone_and_says_so() -> None:
    world = World(policy=demo_policy(), traffic=ramp((5,), 20, 40, 300))
    decisions = world.run(120)
    alone = world.owner[tp(5)]
    assert [p for p, s in world.owner.items() if s == alone] == [tp(5)]
    last = decisions[-1]
    assert (last.reason, last.oversized, last.actions) == (Reason.PARTITION_EXCEEDS_CAPACITY, (tp(5),), ())
    assert max(load for s, load in world.loads().items() if s != alone) <= 88


def test_a_backlog_keeps_the_consumers_until_it_is_worked_off() -> None:
    world = World(
        policy=demo_policy(),
        traffic=lambda t: EVEN if t < 40 else dict.fromkeys(EVEN, 1.0),
        lag_s=lambda t: 60.0 if 40 <= t < 150 else 0.0,
    )
    world.run(40)
    held = world.run(110)
    assert {d.consumers for d in held} == {4}
    assert (held[-1].reason, held[-1].limited_by) == (Reason.UNDERUSED, Reason.BACKLOG)
    assert world.run(10)[0].consumers == 1


def test_a_restarted_controller_waits_for_a_full_window_before_it_shrinks() -> None:
    world = World(policy=demo_policy(), traffic=lambda t: EVEN if t < 40 else dict.fromkeys(EVEN, 1.0))
    world.run(60)
    world.restart_controller()
    decisions = world.run(60)
    assert next(d for d in decisions if d.consumers < 4).at - T0 == 60 + 30


def test_a_restarted_controller_goes_on_with_the_plan_it_finds() -> None:
    world = World(policy=demo_policy(), traffic=ramp((0, 1), 20, 21, 60), start_s=10)
    world.run(25)
    assert world.requested == frozenset(range(5))
    world.restart_controller()
    decisions = world.run(30)
    assert scalings(decisions) == []
    assert sum(1 for d in decisions if moves([d])) == 1


@pytest.mark.parametrize("seconds", [900, pytest.param(3600, marks=pytest.mark.slow)])
def test_an_hour_of_noise_gives_no_action(seconds: int) -> None:
    random = Random(7)
    world = World(policy=demo_policy(), traffic=lambda _: EVEN)
    world.run(60)
    world.traffic = lambda _: {p: r * random.uniform(0.9, 1.1) for p, r in EVEN.items()}
    assert [d.detail for d in world.run(seconds) if d.actions] == []


@pytest.mark.parametrize("partitions", [64])
def test_load_without_end_stops_at_one_consumer_per_partition(partitions: int) -> None:
    world = World(
        policy=demo_policy(max_consumers=1000), traffic=lambda t: rates(*[10.0 + 5 * t] * partitions), handover_s=0.0, start_s=1.0
    )
    decisions = world.run(100)
    assert max(d.consumers for d in decisions) == partitions
    assert decisions[-1].limited_by is Reason.AT_PARTITION_CEILING
    assert sorted(world.owner.values()) == list(range(partitions))


def test_a_partition_that_kills_every_consumer_stands_still_and_the_others_go_on() -> None:
    """Whoever takes partition 3 dies within a second; it is parked after three of them, and released at 60 s."""
    light = dict.fromkeys(EVEN, 10.0)
    world = World(policy=demo_policy(min_consumers=3), traffic=lambda _: light, deadly=lambda t: tp(3) if 20 <= t < 50 else None)
    world.run(20)
    shot = world.run(40)
    parks = [a for d in shot for a in d.actions if isinstance(a, ParkPartition)]
    assert parks == [ParkPartition(partition=tp(3), owners=3, offset=0)]
    assert Reason.STUCK_PARTITION in reasons(shot)
    parked_at = next(d.at for d in shot if d.parked)
    after = [d for d in shot if d.at >= parked_at]
    assert all(d.parked == (tp(3),) and says(d, What.PARKED, partitions=(tp(3),)) for d in after)
    assert set(world.owner) == set(light) - {tp(3)}
    world.release(tp(3))
    world.run(5)
    assert set(world.owner) == set(light)
    assert world.decisions[-1].parked == ()


def test_a_partition_out_of_range_is_reset_once_and_waits_for_a_measurement() -> None:
    """The log lost its end; its broker answers again at 30 s."""
    light = dict.fromkeys(EVEN, 10.0)
    world = World(policy=demo_policy(), traffic=lambda _: light, dark=dark(5, 20, 30))
    world.run(21)
    world.out_of_range[tp(5)] = OutOfRange(offset=150, start=None)
    assert [d.actions for d in world.run(9) if d.actions] == []
    assert says(world.decisions[-1], What.OFFSET_RESET, partitions=(tp(5),), offset=150)
    after = world.run(20)
    assert [d.actions for d in after if d.actions] == [(ResetOffset(partition=tp(5), offset=150, start=0),)]
    assert after[0].reason is Reason.OFFSET_OUT_OF_RANGE
    assert (world.out_of_range, after[-1].reason) == ({}, Reason.WITHIN_TARGET)


def stuck(*partitions: int, start: float, end: float) -> Callable[[float], frozenset[TopicPartition]]:
    """Return partitions whose offset does not advance between two times."""
    return lambda t: frozenset(map(tp, partitions) if start <= t < end else ())


def test_a_stuck_partition_is_named_and_neither_grows_the_group_nor_keeps_it_large() -> None:
    """Partition 0 stands still from 30 s on, and what is sent to it grows; the load of the others falls at 100 s."""

    def traffic(t: float) -> Mapping[TopicPartition, float]:
        others = dict.fromkeys(EVEN, 20.0 if t < 100 else 4.0)
        return others | {tp(0): 20.0 if t < 60 else 75.0}

    world = World(policy=demo_policy(stuck_after_s=20), traffic=traffic, stuck=stuck(0, start=30, end=260))
    calm, waits, falls = world.run(50), world.run(50), world.run(150)
    assert {d.consumers for d in calm[-20:]} == {4}
    assert scalings(waits) == [], "what it does not process needs no consumer"
    assert {d.reason for d in waits[5:]} == {Reason.STUCK_PARTITION}
    assert all(d.hot == (tp(0),) and says(d, What.STALLED, partitions=(tp(0),)) for d in waits[5:])
    assert falls[-1].consumers == 1, "its lag keeps nobody"
    back = world.run(60)
    assert back[-1].consumers == 2, "it goes on, and counts again: 135 bytes/s"
    assert back[-1].reason is Reason.WITHIN_TARGET


def test_a_group_that_stands_still_as_a_whole_is_neither_grown_nor_shrunk() -> None:
    """What all consumers write to is away: the load doubles meanwhile, and then nearly ends."""

    def traffic(t: float) -> Mapping[TopicPartition, float]:
        return dict.fromkeys(EVEN, 20.0 if t < 80 else 40.0 if t < 160 else 1.0)

    world = World(policy=demo_policy(stuck_after_s=20), traffic=traffic, stuck=stuck(*range(16), start=30, end=240))
    calm, still = world.run(60), world.run(180)
    assert {d.consumers for d in calm[-20:]} == {4}
    assert [d for d in still if d.actions] == []
    assert {d.reason for d in still} == {Reason.STUCK_PARTITION}
    assert says(still[0], What.APPLICATION_STILL)
    assert world.run(60)[-1].consumers == 1


def test_nor_is_one_of_which_a_partition_is_not_measured_any_more() -> None:
    """The application is away from 30 s on, one broker from 70 s on, and the load doubles at 75 s."""

    def traffic(t: float) -> Mapping[TopicPartition, float]:
        return dict.fromkeys(EVEN, 20.0 if t < 75 else 40.0)

    still = stuck(*range(16), start=30, end=1000)
    world = World(policy=demo_policy(stuck_after_s=20), traffic=traffic, stuck=still, dark=dark(5, 70, 1000))
    world.run(60)
    after = world.run(60)
    assert [d for d in after if d.actions] == []
    assert {d.reason for d in after} == {Reason.STUCK_PARTITION}


def test_a_stuck_partition_whose_consumer_dies_is_handed_on() -> None:
    world = World(policy=demo_policy(stuck_after_s=20), traffic=lambda _: EVEN, stuck=stuck(*range(16), start=30, end=1000))
    world.run(60)
    world.kill(world.owner[tp(0)])
    lost = world.step()
    assert lost.reason is Reason.WORKER_LOST
    assert set(world.owner) == set(EVEN)
