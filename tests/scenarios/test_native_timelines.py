"""Timelines of what holds a native group: partitions at a standstill, growth in vain, turns, what makes no sense."""

from collections.abc import Callable, Mapping

import pytest

from autoscaler.controller.actuator import Actuator
from autoscaler.core.assignors.group_model import Assignor
from autoscaler.errors import TransientError
from autoscaler.model import AddWorkers, Decision, Reason, RemoveWorkers
from autoscaler.model.findings import What
from tests.builders import TOPIC, rates, says, state, tp
from tests.scenarios.native_world import NativeWorld, Work, even


def ranged(partitions: int = 16, **changes: object) -> NativeWorld:
    return NativeWorld(assignor=Assignor.RANGE, partitions=partitions, changes=changes)


def acts(decisions: list[Decision]) -> list[Decision]:
    return [d for d in decisions if d.actions]


# --- what stands still -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1200, 20], ids=["growing", "shrinking"])
def test_a_group_whose_application_stands_still_is_neither_grown_nor_shrunk(total: float) -> None:
    world = ranged(stuck_after_s=10)
    work = Work(world=world, rates=even(world, 300))
    work.run(30)
    assert len(world.consumers) == 4
    work.stuck = set(work.rates)
    work.run(15)
    work.rates = even(world, total)
    held = work.run(90)
    assert acts(held) == []
    assert {d.reason for d in held} == {Reason.STUCK_PARTITION}
    assert says(held[-1], What.APPLICATION_STILL, partitions=tuple(tp(n) for n in range(5)))
    assert held[-1].hot == (tp(0), tp(1), tp(2), tp(3), tp(4))
    work.stuck = ()
    assert acts(work.run(60)), "and it follows the load as soon as it gets on"


def test_nor_does_a_lowered_maximum_shrink_it_meanwhile() -> None:
    world = ranged(stuck_after_s=10)
    work = Work(world=world, rates=even(world, 300))
    work.run(30)
    work.stuck = set(work.rates)
    work.run(15)
    world.set(max_consumers=2)
    assert acts(work.run(20)) == []
    work.stuck = ()
    assert acts(work.run(5))[0].actions == (RemoveWorkers(slots=(2, 3)),)


def test_a_single_partition_at_a_standstill_counts_as_no_load_until_it_gets_on() -> None:
    world = ranged(stuck_after_s=10)
    work = Work(world=world, rates=even(world, 300))
    work.run(30)
    work.stuck = {tp(0)}
    work.run(15)
    work.rates = {**work.rates, tp(0): 200.0}  # what is retried, or written by whoever is blocked
    held = work.run(20)
    assert acts(held) == []
    assert {(d.reason, d.hot) for d in held} == {(Reason.STUCK_PARTITION, (tp(0),))}
    assert says(held[-1], What.STALLED, partitions=(tp(0),))
    work.stuck, work.rates = (), {**work.rates, tp(0): 70.0}
    grown = acts(work.run(10))
    assert (grown[0].reason, grown[0].consumers > 4) == (Reason.RATE_ABOVE_CAPACITY, True)


# --- growth in vain --------------------------------------------------------------------------------------------------


def bound_at(records_per_s: float, **changes: object) -> Work:
    """Return a group of four whose database takes so many records per second, and no more."""
    world = ranged(32, give_up_after=2, **changes)
    work = Work(world=world, rates=even(world, 320), downstream=records_per_s)
    work.run(60)
    assert len(world.consumers) == 4
    return work


def rise(work: Work, total: float, seconds: int = 60) -> Decision:
    """Let more arrive for long enough to tell whether growing helps, and return the last decision."""
    work.rates = even(work.world, total)
    return work.run(seconds)[-1]


def test_growth_that_drains_no_more_stops_and_says_so() -> None:
    work = bound_at(33.0)
    assert [rise(work, total).consumers for total in (480, 600)] == [7, 8], "two steps"
    work.rates = even(work.world, 720)
    held = work.run(60)
    assert {d.consumers for d in held} == {8}
    assert {(d.reason, d.limited_by) for d in held} == {(Reason.RATE_ABOVE_CAPACITY, Reason.SCALING_DID_NOT_HELP)}
    assert says(held[-1], What.IN_VAIN, steps=2)
    assert not says(held[-1], What.NO_RELIEF), "under this assignor they would"
    work.downstream = 1e9
    assert max(d.consumers for d in work.run(60)) == 11, "the bottleneck is gone"


def test_what_was_in_vain_is_given_back_where_that_is_asked_for() -> None:
    work = bound_at(33.0, give_back=True)
    assert rise(work, 480).consumers == 7
    work.rates = even(work.world, 600)
    decisions = work.run(120)
    counts = [d.consumers for d in decisions]
    assert (max(counts), counts[-1]) == (8, 4), "two steps up, and both of them back"
    back = next(d for d in decisions if d.reason is Reason.SCALING_DID_NOT_HELP)
    assert says(back, What.IN_VAIN, steps=2)
    assert says(back, What.DRAINED_AS_MUCH, count=4)
    assert {d.consumers for d in work.run(60)} == {4}, "not asked for again"
    work.downstream = 1e9
    assert max(d.consumers for d in work.run(60)) >= 8, "the bottleneck is gone"


def test_growth_that_drains_more_goes_on() -> None:
    work = bound_at(1e9)
    assert [rise(work, total).consumers for total in (480, 600, 720)] == [7, 8, 11]


def test_who_commits_too_rarely_to_tell_is_not_judged() -> None:
    """Nothing was committed in one window and twice as much in the next: that says nothing of the consumers."""
    world = ranged(32, give_up_after=1)
    work = Work(world=world, rates=even(world, 320), commits_every_s=90)
    work.run(60)
    assert [rise(work, total, 36).consumers for total in (480, 600, 720)] == [7, 8, 11]
    assert Reason.SCALING_DID_NOT_HELP not in {d.limited_by for d in world.decisions}


def test_steps_that_the_platform_refused_were_none() -> None:
    work = bound_at(33.0)
    work.rates = even(work.world, 480)
    for _ in range(3):
        work.world.pool.fails = TransientError("no more processes")
        assert says(work.run(1)[0], What.NOT_CARRIED_OUT)
    assert [rise(work, total).consumers for total in (480, 600)] == [7, 8], "one step in vain: there may be a second one"


# --- what a consumer is able to do -----------------------------------------------------------------------------------


def slow(able: float, total: float = 300, **changes: object) -> Work:
    """Return the work of a group of four, each of which does so many bytes/s although 100 are configured."""
    work = Work(world=ranged(max_consumers=4, min_consumers=4), rates=even(ranged(), total), able=able)
    for setting, value in changes.items():
        setattr(work, setting, value)
    return work


@pytest.mark.parametrize("mode", ["act", "advise"])
def test_consumers_that_are_behind_and_drain_less_than_half_of_their_capacity_are_said(mode: str) -> None:
    work = slow(40.0)
    work.run(10)
    work.world.set(mode=mode)
    early, late = work.run(110), work.run(60)[-1]
    assert not [d for d in early if says(d, What.CAPACITY_LOOKS_HIGH)], "two half minutes may be bad ones"
    assert says(late, What.CAPACITY_LOOKS_HIGH, capacity_bytes_per_s=100, drained_bytes_per_s=40, times=4)
    work.able = 90.0
    assert not says(work.run(40)[-1], What.CAPACITY_LOOKS_HIGH), "who can do it once can do it"


def test_a_wall_clock_that_is_set_changes_nothing_of_what_was_seen() -> None:
    work = slow(40.0)
    work.run(110)
    work.world.clock.wall += 7200
    assert says(work.run(70)[-1], What.CAPACITY_LOOKS_HIGH, drained_bytes_per_s=40, times=4)


def test_consumers_that_drain_far_more_than_their_capacity_are_said() -> None:
    last = slow(200.0, 640).run(130)[-1]
    assert says(last, What.CAPACITY_LOOKS_LOW, capacity_bytes_per_s=100, times=4)


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (slow(60.0), "more than half of it"),
        (slow(140.0, 520), "less than half above it"),
        (slow(40.0, 100), "nobody is behind: nothing shows what they could do"),
        (slow(100.0, 150, stuck={tp(0), tp(4), tp(8), tp(12)}), "each has a partition at a standstill"),
        (slow(40.0, commits_every_s=20), "commits are too rare to tell"),
        (slow(120.0, 440, commits_every_s=22), "and one that comes late is no speed"),
    ],
)
def test_nothing_is_said_against_a_capacity_that_nothing_speaks_against(work: Work, why: str) -> None:
    decisions = work.run(320)
    assert len(work.world.consumers) == 4
    assert not [d for d in decisions if says(d, What.CAPACITY_LOOKS_HIGH) or says(d, What.CAPACITY_LOOKS_LOW)], why


# --- turns -----------------------------------------------------------------------------------------------------------


def waves(world: NativeWorld, count: int) -> list[Decision]:
    """Return the decisions of so many waves of 70 s, high and then low."""
    before = len(world.decisions)
    for _ in range(count):
        world.run(even(world, 300), 20)
        world.run(even(world, 100), 50)
    return world.decisions[before:]


def test_a_group_that_went_up_and_down_often_enough_stays_large_and_still_grows() -> None:
    free = ranged(turns_per_hour=None)
    waves(free, 4)
    assert [n for _, n in free.scalings] == [4, 2, 4, 2, 4, 2, 4, 2]
    world = ranged(turns_per_hour=2)
    last = waves(world, 4)[-1]
    assert [n for _, n in world.scalings] == [4, 2, 4]
    assert (last.reason, last.limited_by) == (Reason.UNDERUSED, Reason.FLAPPING)
    assert says(last, What.FLAPPING, turns=2, limit=2)
    assert world.tick(even(world, 600)).consumers == 8, "growing never waits for it"


def test_a_restarted_controller_has_forgotten_the_turns_and_waits_a_whole_window_first() -> None:
    world = ranged(turns_per_hour=2)
    waves(world, 3)
    assert len(world.consumers) == 4
    world.controller = world.new_controller()
    world.run(even(world, 100), 20)
    assert len(world.consumers) == 4
    world.run(even(world, 100), 5)
    assert len(world.consumers) == 2


# --- what makes no sense ---------------------------------------------------------------------------------------------


class _Managed:
    """A control log with a living worker of a plan."""

    def observe(self) -> object:
        return state({tp(0): 0})

    def close(self) -> None: ...


def _managed(world: NativeWorld, here: bool) -> None:  # noqa: FBT001  it begins, and ends
    world.controller.actuator.watch = _Managed() if here else None  # type: ignore[assignment]


def _subscribed(world: NativeWorld, here: bool) -> None:  # noqa: FBT001
    world.topics = (lambda n: frozenset({TOPIC, f"other-{n}"})) if here else (lambda _: frozenset({TOPIC}))


def _says(**said: object) -> Callable[[NativeWorld, bool], None]:
    return lambda world, here: setattr(world, "says", said if here else {})


BAD: Mapping[str, tuple[Callable[[NativeWorld, bool], None], Reason, What]] = {
    "a member too many": (
        lambda w, here: setattr(w, "strangers", int(here)), Reason.GROUP_DIFFERS,
        What.DIFFER_TOO_LONG,
    ),
    "no members": (
        lambda w, here: setattr(w, "joins", not here), Reason.GROUP_DIFFERS,
        What.DIFFER_TOO_LONG,
    ),
    "never stable, classic": (
        _says(state="PREPARING_REBALANCING"), Reason.GROUP_DIFFERS, What.DIFFER_TOO_LONG,
    ),
    "never stable, KIP-848": (_says(state="RECONCILING"), Reason.GROUP_DIFFERS, What.DIFFER_TOO_LONG),
    "members cannot be read": (
        lambda w, here: setattr(w, "hidden", here), Reason.NOT_READY, What.MEMBERS_NOT_READ,
    ),
    "a managed plan too": (_managed, Reason.PAUSED, What.MANAGED_WORKERS),
    "different subscriptions": (_subscribed, Reason.ASSIGNOR_UNPREDICTABLE, What.SUBSCRIPTIONS_DIFFER),
    "different assignors": (_says(assignor=""), Reason.ASSIGNOR_UNPREDICTABLE, What.NO_ASSIGNOR),
}  # fmt: skip


@pytest.mark.parametrize("total", [1200, 20], ids=["growing", "shrinking"])
@pytest.mark.parametrize("name", BAD)
def test_nothing_is_done_while_what_kafka_says_makes_no_sense(name: str, total: float) -> None:
    begin, reason, what = BAD[name]
    world = ranged()
    world.run(even(world, 300), 30)
    assert len(world.consumers) == 4
    begin(world, True)
    before = len(world.decisions)
    last = world.run(even(world, total), 60)
    assert acts(world.decisions[before:]) == []
    assert set(world.pool.observe().running) == {0, 1, 2, 3}
    assert last.reason is reason
    assert says(last, what)
    begin(world, False)
    world.run(even(world, total), 60)
    assert (len(world.consumers) > 4) == (total > 300), "and then it follows the load"
    assert len(world.consumers) != 4


@pytest.mark.parametrize("fault", ["members cannot be read", "never stable, classic", "different assignors"])
def test_time_in_which_nobody_could_tell_what_fewer_would_get_does_not_count_for_shrinking(fault: str) -> None:
    """Placed by load two would have done all the time; by ranges, four neighbours on one consumer, only in the end."""
    world = ranged()
    world.run(even(world, 300), 30)
    begin, _, _ = BAD[fault]
    begin(world, True)
    uneven = {p: 24.0 if p.partition < 4 else 1.0 for p in even(world, 1)}
    world.run(uneven, 40)
    begin(world, False)
    before = len(world.decisions)
    world.run(even(world, 100), 20)
    assert acts(world.decisions[before:]) == [], "the window begins anew"
    world.run(even(world, 100), 2)
    assert [d.consumers for d in acts(world.decisions[before:])] == [2]


def test_more_members_than_partitions_become_no_more_and_those_with_nothing_end() -> None:
    world = ranged(partitions=2, min_consumers=2)
    world.run(even(world, 100), 5)
    world.pool.apply(frozenset(range(4)), expected=frozenset({0, 1}), releasable=frozenset())
    world.controller = world.new_controller()
    world.run(even(world, 900), 75)
    assert len(world.consumers) == 2
    assert acts(world.decisions[5:])[0].reason is Reason.UNDERUSED
    assert not [a for d in world.decisions[5:] for a in d.actions if isinstance(a, AddWorkers)]


def test_an_advised_group_of_either_protocol_that_rebalances_is_waited_for() -> None:
    for said in ("PREPARING_REBALANCING", "COMPLETING_REBALANCING", "ASSIGNING", "RECONCILING"):
        world = ranged()
        world.run(even(world, 300), 10)
        world.set(mode="advise")
        world.controller.actuator = Actuator(native=True)
        world.says = {"state": said}
        last = world.tick(even(world, 1200))
        assert (last.reason, last.actions) == (Reason.NOT_READY, ()), said
        assert says(last, What.REBALANCING, state=said)


def test_static_members_are_not_ended_for_a_lower_maximum_either() -> None:
    world = NativeWorld(static=True)
    world.run(even(world, 300), 30)
    there = len(world.consumers)
    world.set(max_consumers=2)
    last = world.run(even(world, 300), 5)
    assert len(world.consumers) == there
    assert (last.reason, last.limited_by) == (Reason.AT_MAXIMUM, Reason.STATIC_MEMBERS)
    assert not any(isinstance(a, RemoveWorkers) for d in world.decisions for a in d.actions)


# --- numbers of consumers with gaps, and partitions that nobody can hold ----------------------------------------------


def test_a_step_down_starts_nobody() -> None:
    world = NativeWorld(assignor=Assignor.COOPERATIVE_STICKY)
    world.run(even(world, 280), 60)
    world.pool.die(0)
    world.pool._not_before.clear()  # noted as ended, and the job was restarted before it was started again
    world.controller = world.new_controller()
    world.run(even(world, 40), 90)
    steps = [d for d in world.decisions[1:] if d.actions]
    assert len(world.consumers) == 1
    assert not any(isinstance(a, AddWorkers) for d in steps for a in d.actions), steps[0].actions


def test_a_step_up_ends_nobody() -> None:
    world = NativeWorld(assignor=Assignor.COOPERATIVE_STICKY)
    world.pool.apply(frozenset({1, 5}), expected=frozenset(), releasable=frozenset())  # as a group that was placed leaves them
    world.run(even(world, 100), 20)
    world.run(even(world, 230), 30)
    steps = [d for d in world.decisions if d.actions]
    assert {1, 5} < set(world.pool.observe().running)
    assert not any(isinstance(a, RemoveWorkers) for d in steps for a in d.actions), steps[0].actions


@pytest.mark.parametrize("assignor", [Assignor.RANGE, Assignor.ROUND_ROBIN, Assignor.COOPERATIVE_STICKY])
def test_one_partition_above_the_limit_does_not_keep_overloaded_consumers_from_help(assignor: Assignor) -> None:
    world = NativeWorld(assignor=assignor, partitions=15)
    world.run(even(world, 390), 30)
    assert len(world.consumers) == 5
    last = sorted(world.consumers["g-4"].owned)
    loads = dict.fromkeys(rates(*[0.0] * 15), 40.0) | dict.fromkeys(last, 0.0) | {last[0]: 150.0}  # the only one of its consumer
    decision = world.run(loads, 60)
    hottest = max(sum(loads[p] for p in c.owned) for c in world.consumers.values() if last[0] not in c.owned)
    assert hottest <= 100, f"they fall behind for ever; {decision.reason}: {decision.detail}"
    assert decision.reason is Reason.PARTITION_EXCEEDS_CAPACITY


@pytest.mark.parametrize("hot", [75.0, 150.0])
def test_one_busy_partition_does_not_keep_idle_consumers_for_ever(hot: float) -> None:
    world = NativeWorld(assignor=Assignor.RANGE)
    world.run(even(world, 16 * 70), 30)
    assert len(world.consumers) == 16
    loads = dict.fromkeys(even(world, 0.0), 0.5)
    loads[next(iter(loads))] = hot  # 75: one consumer of 100 can do all of it; 150: no number of consumers helps that one
    decision = world.run(loads, 600)
    assert len(world.consumers) <= 2, f"{sum(loads.values())} bytes/s; {decision.reason}: {decision.detail}"
    assert not [d for d in world.decisions[-300:] if d.actions], "and that is where it stays"


def test_partitions_that_nobody_holds_are_said() -> None:
    world = NativeWorld()
    world.run(even(world, 300), 30)
    grown = rates(*[300 / 16] * 16, *[60.0] * 4)  # the topic has four more, which the leader's metadata does not show yet
    decision = world.run(grown, 120)
    assert decision.reason is Reason.PARTITIONS_CHANGED
    assert says(decision, What.UNHELD, partitions=tuple(tp(n) for n in range(16, 20)), rate_bytes_per_s=240)


def test_a_step_of_several_under_uniform_is_called_what_it_is() -> None:
    world = NativeWorld(assignor=Assignor.UNIFORM, says={"kind": "CONSUMER", "assignor": "uniform"})
    world.run(even(world, 150), 20)
    (step,) = (d for d in [world.tick(even(world, 600)) for _ in range(10)] if d.actions)
    assert step.consumers - 2 > 1
    assert says(step, What.NOT_FORETOLD)
