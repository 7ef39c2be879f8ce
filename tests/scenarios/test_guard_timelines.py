"""Timelines of what holds a group: each row of the guards' table, from the moment it objects to the one it lets go."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from autoscaler.config.policy import Policy
from autoscaler.model import Decision, MovePartition, Reason, RemoveWorkers, TopicPartition
from autoscaler.model.findings import What
from tests.builders import T0, owned, policy, rates, says, tp
from tests.scenarios.world import World, moves, reasons, scalings

EVEN = rates(*[20.0] * 16)  # 320 bytes/s: exactly four consumers of 80
LIGHT = dict.fromkeys(EVEN, 4.0)  # one consumer
FINE = rates(*[4.0] * 80)  # four consumers as well, of small partitions
WINDOW = {"cron": "15 22 * * *", "duration_min": 5}  # T0 is 22:13:20: open from 100 to 400 s
OPENS, CLOSES = 100, 400


def quick(**changes: object) -> Policy:
    return policy(**{"shrink_stabilisation_s": 30, "shrink_cooldown_s": 20, **changes})


def times(load: Mapping[TopicPartition, float], factor: float) -> dict[TopicPartition, float]:
    return {p: r * factor for p, r in load.items()}


def at_rest(rules: Policy, load: Mapping[TopicPartition, float] = EVEN, seconds: float = 60) -> World:
    world = World(policy=rules, traffic=lambda _: load)
    world.run(seconds)
    return world


def limits(decisions: list[Decision]) -> list[Reason | None]:
    found = [d.limited_by for d in decisions]
    return [r for i, r in enumerate(found) if i == 0 or found[i - 1] != r]


def acts(decisions: list[Decision]) -> list[float]:
    return [d.at - T0 for d in decisions if d.actions]


# --- pauses and windows ----------------------------------------------------------------------------------------------


def test_a_pause_holds_growing_moving_and_shrinking_and_says_so() -> None:
    world = at_rest(quick())
    world.policy = quick(paused="all")
    world.traffic = lambda t: times(EVEN, 2) if t < 100 else LIGHT
    busy, idle = world.run(40), world.run(100)
    assert acts([*busy, *idle]) == []
    assert {(d.reason, d.limited_by) for d in busy} == {(Reason.RATE_ABOVE_CAPACITY, Reason.PAUSED)}
    assert (idle[-1].reason, idle[-1].limited_by) == (Reason.UNDERUSED, Reason.PAUSED)
    assert says(idle[-1], What.PAUSED, paused="all")
    world.policy = quick()
    assert scalings([idle[-1], *world.run(30)]) == [1], "and nothing is forgotten: the window has passed"


def test_a_pause_keeps_nobodys_partitions_from_a_consumer() -> None:
    world = at_rest(quick(paused=None))
    world.policy = quick(paused="all")
    world.kill(2)
    lost = world.step()
    assert (lost.reason, lost.limited_by) == (Reason.WORKER_LOST, None)
    assert set(world.owner) == set(EVEN)
    more = {**EVEN, tp(16): 1.0}
    world.traffic = lambda _: more
    world.run(5)
    assert set(world.owner) == set(more)


def test_a_paused_group_is_not_started() -> None:
    world = World(policy=quick(paused="scale_up"), traffic=lambda _: EVEN)
    held = world.run(20)
    assert {(d.reason, d.limited_by) for d in held} == {(Reason.PARTITIONS_CHANGED, Reason.PAUSED)}
    assert acts(held) == []
    world.policy = quick()
    world.run(10)
    assert set(world.owner) == set(EVEN)


def test_growing_paused_shares_the_overload_among_those_who_are_there_and_shrinks() -> None:
    world = at_rest(quick())
    world.policy = quick(paused="scale_up")
    hot = {p for p, (slot, _) in world.plan.items() if slot == 0}
    world.traffic = lambda t: {p: (60.0 if p in hot else 20.0) if t < 120 else 4.0 for p in EVEN}
    busy, idle = world.run(60), world.run(60)
    assert scalings(busy) == []
    assert moves(busy), "what four consumers can share they share"
    assert set(limits(busy)) == {Reason.PAUSED, Reason.HANDOVER_IN_PROGRESS}
    assert busy[-1].limited_by is Reason.PAUSED
    assert says(busy[-1], What.TAKES_MORE, wanted=6, setting="holds.paused")
    assert scalings([busy[-1], *idle]) == [1]


def test_shrinking_paused_grows_at_once_and_keeps_what_it_has() -> None:
    world = at_rest(quick(paused="scale_down"))
    world.traffic = lambda t: times(EVEN, 2) if t < 100 else LIGHT
    grown, idle = world.run(40), world.run(100)
    assert scalings([world.decisions[59], *grown]) == [8]
    assert grown[0].consumers == 8
    assert scalings(idle) == []
    assert (idle[-1].reason, idle[-1].limited_by) == (Reason.UNDERUSED, Reason.PAUSED)


def test_a_lowered_maximum_waits_for_the_pause_and_keeps_nobody_from_being_relieved() -> None:
    world = at_rest(quick())
    world.policy = quick(paused="scale_down", max_consumers=2)
    held = world.run(5)
    assert {(d.reason, d.limited_by, d.actions) for d in held} == {(Reason.AT_MAXIMUM, Reason.PAUSED, ())}
    hot = [p for p, (slot, _) in world.plan.items() if slot == 0]
    world.traffic = lambda _: {p: 40.0 if p in hot[:3] else 10.0 for p in EVEN}
    assert moves(world.run(10)), "at the same number"
    assert max(world.loads().values()) <= 88
    assert len(world.live) == 4


def test_a_window_freezes_what_it_says_until_it_closes() -> None:
    rules = quick(windows=[{**WINDOW, "paused": "all"}])
    world = World(policy=rules, traffic=lambda t: EVEN if t < 150 else times(EVEN, 2))
    world.run(150)
    frozen, after = world.run(CLOSES - 150), world.run(20)
    assert acts(frozen) == []
    assert {(d.reason, d.limited_by) for d in frozen} == {(Reason.RATE_ABOVE_CAPACITY, Reason.FROZEN)}
    assert says(frozen[0], What.FROZEN, window="15 22 * * * for 5 min, UTC")
    assert after[0].consumers == 8, "in the cycle that sees it closed"


def test_a_window_that_freezes_growing_lets_shrink_and_the_other_way_round() -> None:
    rules = quick(windows=[{**WINDOW, "paused": "scale_up"}])
    world = World(policy=rules, traffic=lambda t: EVEN if t < 150 else LIGHT)
    world.run(150)
    assert scalings(world.run(100)) == [1]
    rules = quick(windows=[{**WINDOW, "paused": "scale_down"}])
    world = World(policy=rules, traffic=lambda t: LIGHT if t < 150 else times(EVEN, 2) if t < 200 else LIGHT)
    world.run(150)
    assert scalings([world.decisions[-1], *world.run(CLOSES - 150)]) == [8]
    assert scalings([world.decisions[-1], *world.run(20)]) == [1]


def test_two_windows_that_are_open_freeze_together() -> None:
    rules = quick(windows=[{**WINDOW, "paused": "scale_up"}, {**WINDOW, "duration_min": 3, "paused": "scale_down"}])
    world = World(policy=rules, traffic=lambda t: EVEN if t < 150 else LIGHT)
    world.run(150)
    assert acts(world.run(130)) == []
    assert world.run(1)[0].consumers == 1, "the second one has closed at 280 s"


def test_a_scheduled_minimum_is_asked_for_when_its_window_opens_and_given_back_after_it() -> None:
    rules = quick(windows=[{**WINDOW, "min_consumers": 4}])
    world = World(policy=rules, traffic=lambda _: LIGHT)
    before, inside, after = world.run(OPENS), world.run(CLOSES - OPENS), world.run(40)
    assert before[-1].consumers == 1
    assert (inside[0].reason, inside[0].consumers) == (Reason.AT_MINIMUM, 4)
    assert len(set(world.owner.values())) >= 1
    assert (inside[-1].reason, inside[-1].limited_by, inside[-1].consumers) == (Reason.UNDERUSED, Reason.AT_MINIMUM, 4)
    assert scalings([inside[-1], *after]) == [1]


def test_a_scheduled_maximum_holds_while_its_window_is_open() -> None:
    rules = quick(windows=[{**WINDOW, "max_consumers": 2}])
    world = World(policy=rules, traffic=lambda _: EVEN)
    before, inside, after = world.run(OPENS), world.run(CLOSES - OPENS), world.run(20)
    assert before[-1].consumers == 4
    assert (inside[0].reason, inside[0].consumers) == (Reason.AT_MAXIMUM, 2)
    assert (inside[-1].reason, inside[-1].limited_by) == (Reason.RATE_ABOVE_CAPACITY, Reason.AT_MAXIMUM)
    assert after[0].consumers == 4


def test_of_two_windows_the_last_one_sets_the_number() -> None:
    rules = quick(windows=[{**WINDOW, "min_consumers": 4}, {**WINDOW, "duration_min": 3, "min_consumers": 6}])
    world = World(policy=rules, traffic=lambda _: LIGHT)
    world.run(OPENS)
    assert world.run(180)[-1].consumers == 6
    assert world.run(60)[-1].consumers == 4


# --- a fixed number --------------------------------------------------------------------------------------------------


def test_a_pinned_number_stays_whatever_the_load_and_partitions_still_move() -> None:
    hot = ([0, 1, 2, 3], 60.0)
    world = World(policy=quick(pinned=4), traffic=lambda _: EVEN)
    world.run(60)
    world.traffic = lambda t: {p: (hot[1] if p.partition in hot[0] else 10.0) if t < 120 else 1.0 for p in EVEN}
    busy, idle = world.run(60), world.run(100)
    assert scalings([world.decisions[59], *busy, *idle]) == []
    assert moves(busy)
    assert Reason.PINNED in limits(busy), "four cannot hold that"
    assert (idle[-1].reason, idle[-1].limited_by) == (Reason.UNDERUSED, Reason.PINNED)
    assert says(idle[-1], What.KEEPS, setting="holds.pinned", least=4, present=4)


@pytest.mark.parametrize(("number", "load"), [(2, EVEN), (7, LIGHT), (7, EVEN)])
def test_another_pinned_number_is_gone_to_at_once(number: int, load: Mapping[TopicPartition, float]) -> None:
    world = at_rest(quick(pinned=4), load)
    world.policy = quick(pinned=number, grow_step=1, shrink_step=1, grow_stabilisation_s=100)
    first = world.step()
    assert (first.reason, first.consumers) == (Reason.PINNED, number)
    assert scalings([first, *world.run(100)]) == []
    assert len(set(world.owner.values())) == number


def test_what_a_pinned_group_lacks_is_said() -> None:
    world = at_rest(quick(pinned=2))
    last = world.decisions[-1]
    assert (last.reason, last.limited_by, last.consumers) == (Reason.RATE_ABOVE_CAPACITY, Reason.PINNED, 2)
    assert says(last, What.TAKES_MORE, wanted=4, setting="holds.pinned")


def test_a_group_is_never_pinned_above_its_partitions() -> None:
    world = at_rest(quick(pinned=8), rates(10, 10, 10))
    assert {d.consumers for d in world.decisions[2:]} == {3}
    world.traffic = lambda _: rates(500, 500, 500)
    assert {d.consumers for d in world.run(60)} == {3}


# --- how far at a time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "counts"), [("2", [6, 8, 10]), ("50%", [6, 9, 10]), (None, [10]), ("100", [10])])
def test_growing_takes_its_step_and_the_next_when_its_consumers_are_at_work(step: str | None, counts: list[int]) -> None:
    world = at_rest(quick(grow_step=step), FINE)
    world.traffic = lambda _: times(FINE, 2.5)
    grown = world.run(100)
    assert scalings([world.decisions[59], *grown]) == counts
    partly = [d for d in grown if d.consumers < 10]
    assert {(d.reason, d.limited_by) for d in partly if d.actions} <= {(Reason.RATE_ABOVE_CAPACITY, Reason.STEP_LIMIT)}
    asked = [d.at for a, d in pairwise([world.decisions[59], *grown]) if d.consumers > a.consumers]
    filled = sorted({d.at for d in grown if moves([d])})
    assert all(a < b < c for a, b, c in zip(asked, filled, asked[1:], strict=False)), "asked for, filled, and only then again"
    assert max(world.loads().values()) <= 88


def test_a_step_whose_consumers_do_not_come_is_not_followed_by_another() -> None:
    world = at_rest(quick(grow_step=2, worker_start_timeout_s=5))
    world.never = {4, 5, 6, 7}
    world.traffic = lambda _: times(EVEN, 3)
    assert {d.consumers for d in world.run(60)} == {6}


def test_the_first_plan_and_the_minimum_need_no_steps() -> None:
    world = World(policy=quick(grow_step=1, min_consumers=6), traffic=lambda _: EVEN)
    assert world.run(1)[0].consumers == 6


@pytest.mark.parametrize(("step", "counts"), [("2", [6, 4, 2, 1]), ("50%", [4, 2, 1]), (None, [1])])
def test_shrinking_takes_its_step_and_the_next_after_the_cool_down(step: str | None, counts: list[int]) -> None:
    world = at_rest(quick(shrink_step=step), times(FINE, 2))
    world.traffic = lambda _: times(FINE, 0.2)
    fallen = world.run(150)
    assert scalings([world.decisions[59], *fallen]) == counts
    downs = [b.at for a, b in pairwise([world.decisions[59], *fallen]) if b.consumers < a.consumers]
    assert all(b - a >= 20 for a, b in pairwise(downs))
    limited = [d for d in fallen if any(isinstance(a, MovePartition) for a in d.actions)]
    assert [d.limited_by for d in limited] == [Reason.STEP_LIMIT] * (len(counts) - 1) + [None]


# --- when ------------------------------------------------------------------------------------------------------------


def test_a_spike_shorter_than_the_window_grows_nothing_and_a_lasting_one_does() -> None:
    world = World(policy=quick(grow_stabilisation_s=10), traffic=lambda t: times(EVEN, 2) if 60 <= t < 69 or t >= 100 else EVEN)
    world.run(60)
    spike, after, lasting = world.run(9), world.run(31), world.run(15)
    assert acts([*spike, *after]) == []
    assert {(d.reason, d.limited_by) for d in spike} == {(Reason.RATE_ABOVE_CAPACITY, Reason.STABILISING)}
    assert next(d.at - T0 for d in lasting if d.consumers > 4) == 110
    assert says(lasting[9], What.OVERLOADED_FOR, lasted_s=9, limit_s=10)


def test_growth_that_has_been_asked_for_is_not_stabilised_again() -> None:
    world = at_rest(quick(grow_stabilisation_s=10))
    world.start_s = 20
    world.traffic = lambda _: times(EVEN, 2)
    world.run(60)
    assert max(world.loads().values()) <= 88


def wave(t: float) -> Mapping[TopicPartition, float]:
    return times(EVEN, 2) if int(t / 60) % 2 else LIGHT


def turns(decisions: list[Decision]) -> int:
    signs = [b.consumers > a.consumers for a, b in pairwise(decisions) if a.consumers != b.consumers]
    return sum(1 for a, b in pairwise(signs) if a != b)


def test_a_group_that_went_up_and_down_often_enough_stays_large_and_still_grows() -> None:
    """A wave of two minutes: a turn each minute without a budget; with one of four the fifth shrinking waits for the hour."""
    free = World(policy=quick(turns_per_hour=None), traffic=wave)
    free.run(900)
    assert turns(free.decisions) > 12
    world = World(policy=quick(turns_per_hour=4), traffic=wave)
    first = world.run(3000)
    assert turns(first) == 4
    held = [d for d in first if d.limited_by is Reason.FLAPPING]
    assert held
    assert {d.consumers for d in held} == {8}
    assert says(held[0], What.FLAPPING, turns=4)
    world.traffic = lambda _: times(EVEN, 3)
    assert world.run(10)[0].consumers == 16, "growing never waits for it"
    world.traffic = lambda _: LIGHT
    assert scalings(world.run(1200))[-1] == 1, "the hour has passed"


def test_moves_at_the_same_number_rest() -> None:
    """Which two of four are hot changes every six seconds: whoever shares a consumer is hot together in one of three."""
    hot = [(60.0, 60.0, 15.0, 15.0), (60.0, 15.0, 60.0, 15.0), (60.0, 15.0, 15.0, 60.0)]
    world = World(policy=quick(cooldown_s=30, pinned=2), traffic=lambda t: rates(*hot[int(t / 6) % 3]))
    world.run(300)
    moved = sorted({d.at for d in world.decisions if moves([d])})
    assert moved
    assert all(b - a >= 30 for a, b in pairwise(moved))
    assert Reason.COOLING_DOWN in limits(world.decisions)


# --- what moving costs -----------------------------------------------------------------------------------------------

HELD = owned([0, 1, 2], [3, 4])
SKEWED = rates(45, 30, 15, 30, 30)  # 90 of 80 usable, and 60: moving 15 relieves 10


def priced(pause_s: float, payback_s: float | None, load: Mapping[TopicPartition, float] = SKEWED) -> World:
    start = rates(30, 30, 15, 30, 30)
    rules = policy(move_pause_s=pause_s, move_payback_s=payback_s, min_consumers=2, max_consumers=2)
    world = World(policy=rules, traffic=lambda _: start)
    world.run(10)
    world.plan = {p: (slot, world.workers[slot].life) for p, slot in HELD.items()}
    for slot, worker in world.workers.items():
        worker.owned = {p for p, s in HELD.items() if s == slot}
    world.run(1)
    world.traffic = lambda _: load
    return world


@pytest.mark.parametrize(
    ("pause_s", "payback_s", "moves_it", "why"),
    [
        (1.0, 60.0, True, "15 B/s for a second are less than 10 B/s for a minute"),
        (39.0, 60.0, True, "585 bytes are still less than 600"),
        (41.0, 60.0, False, "615 are more"),
        (41.0, 120.0, True, "but less than what two minutes bring"),
        (1000.0, None, True, "without a price nothing is weighed"),
    ],
)
def test_moves_at_the_same_number_must_be_worth_their_pause(
    pause_s: float,
    payback_s: float | None,
    moves_it: bool,  # noqa: FBT001
    why: str,
) -> None:
    world = priced(pause_s, payback_s)
    decisions = world.run(30)
    assert bool(moves(decisions)) == moves_it, why
    if not moves_it:
        assert {(d.reason, d.limited_by) for d in decisions} == {(Reason.RATE_ABOVE_CAPACITY, Reason.NOT_WORTH_MOVING)}
        assert says(decisions[-1], What.NOT_WORTH_MOVING, partitions=(tp(2),), rate_bytes_per_s=15, pause_s=41)


def test_above_its_capacity_a_consumer_is_relieved_whatever_it_costs() -> None:
    world = priced(1000.0, 60.0, rates(50, 35, 20, 25, 25))
    assert moves(world.run(5))


def test_growing_is_not_priced() -> None:
    world = priced(1000.0, 60.0)
    world.policy = world.policy.model_copy(update={"max_consumers": 8})
    world.traffic = lambda _: times(SKEWED, 1.5)
    world.run(20)
    assert max(world.loads().values()) <= 88


# --- growth that does not help ---------------------------------------------------------------------------------------


def bound_at(records_per_s: float, until: float = 1e9, **changes: object) -> World:
    """Return a group whose database takes so many records per second until a time, and any number from then on."""
    world = World(
        policy=quick(give_up_after=2, grow_step=2, backlog_s=5, **changes), traffic=lambda _: EVEN,
        downstream=lambda t: records_per_s if t < until else 1e9,
    )  # fmt: skip
    world.run(120)
    assert world.decisions[-1].consumers == 4
    return world


def rising(t: float) -> Mapping[TopicPartition, float]:
    """Return a load that rises by half of what it began with every two minutes."""
    return times(EVEN, 1.5 + 0.5 * int((t - 120) / 120))


def test_growth_that_drains_no_more_stops_and_says_so() -> None:
    world = bound_at(33.0)
    world.traffic = rising
    decisions = world.run(900)
    given_up = [d for d in decisions if d.limited_by is Reason.SCALING_DID_NOT_HELP]
    assert given_up
    assert max(d.consumers for d in decisions) == 8, "two steps of two"
    assert decisions[-1].limited_by is Reason.SCALING_DID_NOT_HELP
    assert says(given_up[-1], What.IN_VAIN, steps=2)
    never = bound_at(33.0)
    never.policy = never.policy.model_copy(update={"give_up_after": None})
    never.traffic = rising
    assert max(d.consumers for d in never.run(900)) == 16


def test_growth_that_drains_more_goes_on() -> None:
    world = bound_at(1e9)
    world.traffic = rising
    decisions = world.run(900)
    assert Reason.SCALING_DID_NOT_HELP not in limits(decisions)
    assert decisions[-1].consumers == 16


def test_it_grows_again_once_the_bottleneck_is_gone() -> None:
    world = bound_at(33.0, until=1000)
    world.traffic = rising
    world.run(880)
    assert world.decisions[-1].limited_by is Reason.SCALING_DID_NOT_HELP
    after = world.run(120)
    assert max(d.consumers for d in after) > 8


def test_what_was_in_vain_is_given_back_where_that_is_asked_for() -> None:
    world = bound_at(33.0, until=1000, give_back=True)
    world.traffic = rising
    decisions = world.run(880)
    assert [decisions[0].consumers, *scalings(decisions)] == [6, 8, 4], "two steps up, both of them back, not asked for again"
    back = next(d for d in decisions if d.reason is Reason.SCALING_DID_NOT_HELP)
    assert says(back, What.IN_VAIN, steps=2)
    assert says(back, What.DRAINED_AS_MUCH, count=4)
    assert decisions[-1].limited_by is Reason.SCALING_DID_NOT_HELP
    assert max(d.consumers for d in world.run(240)) > 8, "the bottleneck is gone"


@pytest.mark.parametrize(
    "kept", [{"min_consumers": 7}, {"paused": "scale_down"}, {"turns_per_hour": 1}], ids=["minimum", "paused", "turns"]
)
def test_nothing_is_given_back_that_a_guard_keeps(kept: dict[str, object]) -> None:
    world = bound_at(33.0, give_back=True)
    world.traffic = rising
    grown = world.run(20)[-1]
    assert grown.consumers == 8
    world.policy = world.policy.model_copy(update=kept)
    world.history = replace(world.history, turns=(grown.at,))
    decisions = world.run(400)
    assert min(d.consumers for d in decisions) == kept.get("min_consumers", 8)
    assert decisions[-1].limited_by is Reason.SCALING_DID_NOT_HELP


def test_a_scheduled_minimum_is_filled_though_growth_did_not_help() -> None:
    world = bound_at(33.0)
    world.traffic = rising
    world.run(900)
    assert world.decisions[-1].limited_by is Reason.SCALING_DID_NOT_HELP
    world.policy = world.policy.model_copy(update={"min_consumers": 12})
    assert {d.consumers for d in world.run(20)} == {12}


# --- noise, a step, the ceiling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [600, pytest.param(3600, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("per_partition", "together", "why"),
    [
        (20.0, False, "four consumers just full, each partition by itself"),
        (20.0, True, "just full, all at once: up to the very edge of overload"),
        (18.0, False, "three would just not do: at the edge of what is calm"),
        (13.51, True, "just too much for three with the tolerance to spare"),
        (13.6, False, "the same, each by itself"),
        (0.5, True, "nearly nothing"),
    ],
)
def test_noise_gives_no_action(per_partition: float, together: bool, why: str, seconds: int) -> None:  # noqa: FBT001
    random = Random(11)
    base = rates(*[per_partition] * 16)
    world = at_rest(policy(), base, 400)
    common: list[float] = []

    def noisy(t: float) -> Mapping[TopicPartition, float]:
        while len(common) <= int(t):
            common.append(random.uniform(0.9, 1.1))
        return {p: r * (common[int(t)] if together else random.uniform(0.9, 1.1)) for p, r in base.items()}

    world.traffic = noisy
    assert [(d.at - T0, d.detail) for d in world.run(seconds) if d.actions] == [], why


@pytest.mark.parametrize("seconds", [900, pytest.param(3600, marks=pytest.mark.slow)])
def test_a_load_that_has_crept_to_the_edge_scales_once_in_an_hour_of_noise(seconds: int) -> None:
    """Nobody is above 88 yet, so nothing has happened; noise carries somebody over it, once."""
    random = Random(5)
    world = at_rest(policy(), EVEN, 400)
    world.traffic = lambda t: times(EVEN, 1 + 0.09 * min(1.0, (t - 400) / 200))
    assert acts(world.run(200)) == []
    world.traffic = lambda _: {p: 21.8 * random.uniform(0.9, 1.1) for p in EVEN}
    assert len(scalings([world.decisions[-1], *world.run(seconds)])) <= 1


def test_a_step_to_twice_the_load_is_one_change_and_one_round_of_moves() -> None:
    world = at_rest(policy(), EVEN, 400)
    world.traffic = lambda _: times(EVEN, 2)
    after = world.run(600)
    assert scalings([world.decisions[399], *after]) == [8]
    assert after[0].consumers == 8, "asked for in the cycle that sees it"
    assert len({d.at for d in after if moves([d])}) == 1
    assert reasons(after) == [Reason.RATE_ABOVE_CAPACITY, Reason.HANDOVER_IN_PROGRESS, Reason.WITHIN_TARGET]


@pytest.mark.parametrize("step", [None, "7", "30%"])
def test_sixty_four_partitions_reach_sixty_four_consumers_and_never_one_more(step: str | None) -> None:
    world = World(
        policy=quick(max_consumers=1000, grow_step=step),
        traffic=lambda t: rates(*[10.0 + 5 * t] * 64),
        start_s=1.0,
        handover_s=0.0,
    )
    decisions = world.run(200)
    assert max(d.consumers for d in decisions) == 64
    assert decisions[-1].limited_by is Reason.AT_PARTITION_CEILING
    assert sorted(world.owner.values()) == list(range(64))
    assert not [a for d in decisions for a in d.actions if isinstance(a, RemoveWorkers)]
