"""Timelines of a native group whose members take their partitions from a placement: by load, one rebalance per decision."""

from collections.abc import Callable, Mapping

import pytest

from autoscaler.assignor import CooperativePlanAssignor, PlanAssignor
from autoscaler.controller.actuator import Actuator
from autoscaler.core.assignors.group_model import PLAN_ASSIGNORS
from autoscaler.errors import FencedError, TransientError
from autoscaler.model import AddWorkers, MovePartition, Reason, RemoveWorkers
from autoscaler.model.findings import What
from tests.builders import TOPIC, load, rates, says, tp
from tests.scenarios.native_world import even
from tests.scenarios.placed_world import PlacedWorld

CALM, HOT = rates(*[10.0] * 6), rates(70.0, 20, 20, 10, 10, 10)  # 80 bytes/s to a consumer
MOVED = rates(10.0, 10, 10, 10, 70, 10)


def placed(**changes: object) -> PlacedWorld:
    return PlacedWorld(partitions=6, changes=changes)


def two(**changes: object) -> PlacedWorld:
    """Return a group of two, placed by load, that has rested; then these settings hold."""
    world = placed()
    world.run(CALM, 8)
    world.run(HOT, 20)
    assert world.held() == {"g-0": [0, 5], "g-1": [1, 2, 3, 4]}
    world.set(**changes)
    return world


def test_the_names_are_those_of_the_assignors() -> None:
    assert {PlanAssignor.name, CooperativePlanAssignor.name} == PLAN_ASSIGNORS


def test_a_group_is_grown_placed_and_shrunk_by_load_with_one_rebalance_for_each_step() -> None:
    world = placed()
    world.run(CALM, 8)
    assert world.placements.owners == {tp(n): "g-0" for n in range(6)}, "as they hold them: the leader has something to go by"
    before = world.rebalances
    world.run(HOT, 10)
    assert [(type(a), len(d.actions)) for d in world.decisions[8:] for a in d.actions[:1]] == [
        (AddWorkers, 1),
        (MovePartition, 4),
    ]
    assert world.held() == {"g-0": [0, 5], "g-1": [1, 2, 3, 4]}
    assert world.rebalances - before == 2, "one that joins and gets nothing yet, and the placement"
    world.run(MOVED, 8)
    assert world.held()["g-1"] == [4], "the hot one alone"
    assert world.rebalances - before == 3
    world.run(rates(*[2.0] * 6), 30)
    assert world.held() == {"g-0": [0, 1, 2, 3, 4, 5]}
    *_, gives_up, ends = (d for d in world.decisions if d.actions)
    assert (gives_up.reason, gives_up.actions) == (Reason.UNDERUSED, (MovePartition(partition=tp(4), source=1, target=0),))
    assert (ends.reason, ends.actions) == (Reason.UNDERUSED, (RemoveWorkers(slots=(1,)),)), "when it holds nothing any more"
    assert world.rebalances - before == 5
    assert world.decisions[-1].reason is Reason.WITHIN_TARGET


def test_nothing_else_is_told_before_members_hold_what_they_were_told() -> None:
    world = placed()
    world.run(CALM, 8)
    world.run(HOT, 4)
    assert world.moves
    waiting = world.tick(MOVED)
    assert (waiting.reason, waiting.actions) == (Reason.HANDOVER_IN_PROGRESS, ())
    assert says(waiting, What.PLACEMENT_PENDING, partitions=(tp(1), tp(2), tp(3), tp(4)))
    assert world.placements.published[-1][tp(4)] == "g-1"


def test_nobody_ends_that_may_hold_something_yet_while_the_group_rebalances() -> None:
    world = two(shrink_stabilisation_s=2)
    world.run(HOT, 1)
    while not any(isinstance(a, MovePartition) for a in world.tick(rates(*[2.0] * 6)).actions):
        assert len(world.decisions) < 100
    world.says = {"state": "PREPARING_REBALANCING", "assignor": ""}
    world.run(CALM, 5)
    assert set(world.pool.observe().running) == {0, 1}
    world.says = {}
    world.run(rates(*[2.0] * 6), 8)
    assert len(world.pool.observe().running) == 1
    assert [d.actions for d in world.decisions if d.actions][-1] == (RemoveWorkers(slots=(0,)),)


def test_it_is_written_once_more_in_every_cycle_whatever_is_decided() -> None:
    world = two()
    calls, published = world.placements.calls, len(world.placements.published)
    world.says = {"state": "PREPARING_REBALANCING"}
    world.run(HOT, 5)
    world.says = {}
    world.strangers = 1
    world.run(HOT, 20)
    assert world.placements.calls == calls + 25
    assert len(world.placements.published) == published


def test_in_mode_advise_nothing_is_written_and_the_advice_is_by_load() -> None:
    world = placed()
    world.run(CALM, 8)
    world.set(mode="advise")
    world.controller.actuator = Actuator(native=True)
    calls = world.placements.calls
    advised = world.run(HOT, 5)
    assert (advised.reason, advised.limited_by, advised.consumers) == (Reason.RATE_ABOVE_CAPACITY, Reason.ADVISORY, 2)
    assert says(advised, What.PLACED_BY_LOAD, planned=2, usable_bytes_per_s=80)
    assert (world.placements.calls, set(world.pool.observe().running)) == (calls, {0})


# --- members that come and go -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_s", [0.0, 6.0], ids=["noticed", "by its session"])
def test_one_that_is_killed_comes_back_to_what_it_held(session_s: float) -> None:
    world = two()
    world.session_s = session_s
    published = len(world.placements.published)
    world.kill(1)
    world.run(HOT, 12)
    assert world.held() == {"g-0": [0, 5], "g-1": [1, 2, 3, 4]}
    assert len(world.placements.published) == published
    assert not [d for d in world.decisions[-12:] if d.actions]
    assert world.decisions[-1].reason is Reason.WITHIN_TARGET


def test_one_that_does_not_come_back_is_awaited_and_then_the_others_go_on_without_it() -> None:
    world = two(min_consumers=2, worker_start_timeout_s=5)
    world.pool.backoff_s = 40.0
    world.kill(1)
    waiting = world.run(HOT, 4)
    assert (waiting.reason, waiting.actions) == (Reason.NOT_READY, ())
    assert says(waiting, What.MEMBERS_DIFFER, requested=2, running=1, members=1, state="STABLE", lasted_s=3)
    assert says(waiting, What.UNTIL_RETURN, consumers=(1,))
    gone_on = world.run(HOT, 12)
    (taken,) = (d for d in world.decisions[-12:] if d.actions)
    assert taken.reason is Reason.WORKER_LOST
    assert says(taken, What.TAKEN_OVER, consumers=(0,))
    assert set(world.placements.owners.values()) == {"g-0"}
    assert says(gone_on, What.NOT_STARTED)
    world.run(HOT, 45)
    assert world.held() == {"g-0": [0, 5], "g-1": [1, 2, 3, 4]}, "a member that is here again is placed anew"


def test_members_fewer_than_wanted_are_placed_among_those_who_are_here() -> None:
    world = two(worker_start_timeout_s=5)
    before = len(world.decisions)
    world.pool.backoff_s = 1e6
    more = rates(70.0, 60, 60, 10, 10, 10)
    asked = world.tick(more)
    assert asked.actions == (AddWorkers(slots=(2,)),)
    world.pool.die(2)
    world.run(more, 12)
    late = [d for d in world.decisions[before:] if any(isinstance(a, MovePartition) for a in d.actions)]
    assert [d.requested for d in late] == [frozenset({0, 1, 2})]
    assert sorted(map(len, world.held().values())) == [2, 4], "the two of 60 on one, the rest on the other"


# --- partitions that come -----------------------------------------------------------------------------------------------


def test_new_partitions_are_placed_by_load_and_nothing_else_moves() -> None:
    world = two()
    world.partitions = 8
    added = world.tick({**HOT, tp(6): 5.0, tp(7): 5.0})
    assert (added.reason, {a.partition for a in added.actions if isinstance(a, MovePartition)}) == (
        Reason.PARTITIONS_CHANGED, {tp(6), tp(7)},
    )  # fmt: skip
    before = world.held()
    world.run({**HOT, tp(6): 5.0, tp(7): 5.0}, 5)
    assert {n: set(ps) - {6, 7} for n, ps in world.held().items()} == {n: set(ps) for n, ps in before.items()}
    assert sorted(p for ps in world.held().values() for p in ps) == list(range(8))
    assert world.decisions[-1].reason is not Reason.HANDOVER_IN_PROGRESS


def test_a_topic_that_is_gone_keeps_nobody_waiting() -> None:
    world = two()
    gone = {**rates(*[2.0] * 4)}  # the other two partitions are not listed any more, and stay in the placement
    world.run(gone, 40)
    world.partitions = 4
    world.rebalance({m: s.name for m, s in world.seats.items()})
    last = world.run(gone, 60)
    assert (len(world.seats), last.reason) == (1, Reason.WITHIN_TARGET)
    assert Reason.NOT_READY not in {d.reason for d in world.decisions[-40:]}


# --- what makes no sense --------------------------------------------------------------------------------------------------


BAD: Mapping[str, tuple[Callable[[PlacedWorld, bool], None], Reason, What]] = {
    "a leader that does not listen": (
        lambda w, here: setattr(w, "listens", not here), Reason.GROUP_DIFFERS, What.PLACEMENT_IGNORED,
    ),
    "a member too many": (
        lambda w, here: setattr(w, "strangers", int(here)), Reason.GROUP_DIFFERS,
        What.DIFFER_TOO_LONG,
    ),
    "never stable": (
        lambda w, here: setattr(w, "says", {"state": "PREPARING_REBALANCING"} if here else {}), Reason.GROUP_DIFFERS,
        What.DIFFER_TOO_LONG,
    ),
    "different subscriptions": (
        lambda w, here: setattr(w, "topics", lambda n: frozenset({TOPIC, f"other-{n}"} if here else {TOPIC})),
        Reason.ASSIGNOR_UNPREDICTABLE, What.SUBSCRIPTIONS_DIFFER,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_nothing_is_moved_grown_or_shrunk_while_what_kafka_says_makes_no_sense(name: str) -> None:
    begin, reason, what = BAD[name]
    world = two()
    begin(world, True)
    if name == "a leader that does not listen":
        world.run(MOVED, 2)
    before = len(world.decisions)
    last = world.run(even(world, 600), 30)
    assert not [d for d in world.decisions[before:] if d.actions]
    assert last.reason is reason
    assert says(last, what)
    begin(world, False)
    world.run(even(world, 600), 30)
    assert len(world.held()) == 6, "and then it follows the load"


@pytest.mark.parametrize(
    ("names", "what", "told"),
    [
        ({0: "", 1: ""}, What.NAMELESS, {"nameless": 2, "members": 2}),
        ({0: "left", 1: "right"}, What.NAME_UNKNOWN, {"name": "'left'"}),
        ({0: "\ud800"}, What.NAME_UNKNOWN, {"name": "'\\ud800'"}),
    ],
)
def test_members_that_cannot_be_told_by_their_names_are_left_alone(
    names: Mapping[int, str], what: What, told: Mapping[str, object]
) -> None:
    world = placed()
    world.names = names
    last = world.run(HOT, 20)
    assert (last.reason, last.actions) == (Reason.ASSIGNOR_UNPREDICTABLE, ())
    assert says(last, what, **told)
    assert world.placements.calls == 0


def test_two_of_one_name_are_left_alone() -> None:
    world = placed(min_consumers=2)
    world.names = {1: "g-0"}
    last = world.run(HOT, 20)
    assert (last.reason, world.placements.calls) == (Reason.ASSIGNOR_UNPREDICTABLE, 0)
    assert says(last, What.NAME_SHARED, name="'g-0'")


# --- what fails -------------------------------------------------------------------------------------------------------------


def test_a_placement_that_was_not_written_is_no_step() -> None:
    world = two(cooldown_s=15)
    world.placements.fails = TransientError("the log does not answer")
    failed = world.tick(MOVED)
    assert says(failed, What.NOT_CARRIED_OUT, error="the log does not answer")
    again = world.tick(MOVED)
    assert (again.reason, again.limited_by, len(world.moves)) == (Reason.RATE_ABOVE_CAPACITY, None, 3), "nothing rests"
    world.run(MOVED, 5)
    assert world.held()["g-1"] == [4]


def test_consumers_that_ended_are_started_again_though_nothing_can_be_written() -> None:
    world = two()
    world.kill(1)
    world.clock.advance(1.0)
    world.placements.fails = TransientError("the log does not answer")
    assert says(world.tick(HOT), What.NOT_CARRIED_OUT, error="the log does not answer")
    assert set(world.pool.observe().running) == {0, 1}


def test_a_controller_that_has_been_replaced_ends() -> None:
    world = two()
    world.placements.fails = FencedError("another controller writes placements of group g")
    with pytest.raises(FencedError):
        world.tick(HOT)
    assert world.audit.entries[-1].outcomes[-1].status == "fenced"


def test_a_restarted_controller_takes_over_what_members_hold() -> None:
    world = two()
    world.controller = world.new_controller()
    before = world.rebalances
    world.run(HOT, 10)
    assert world.held() == {"g-0": [0, 5], "g-1": [1, 2, 3, 4]}
    assert (world.rebalances, len(world.moves)) == (before, 1)


def test_members_that_turn_to_another_assignor_are_told_nothing_any_more() -> None:
    world = two()
    calls = world.placements.calls
    world.says = {"assignor": "range"}
    world.run(HOT, 5)
    assert world.placements.calls == calls


# --- what holds it ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ({"cooldown_s": 1e6}, Reason.COOLING_DOWN),
        ({"move_payback_s": 1e-6}, Reason.NOT_WORTH_MOVING),
        ({"paused": "all"}, Reason.PAUSED),
    ],
)
def test_guards_hold_moves_as_in_a_managed_group(held: Mapping[str, object], reason: Reason) -> None:
    world = two()
    world.run(HOT, 20)
    world.set(**held)
    hot = rates(10.0, 5, 5, 30, 60, 1)  # 95 to the second one, its capacity is 100
    last = world.run(hot, 5)
    assert (last.reason, last.limited_by, last.actions) == (Reason.RATE_ABOVE_CAPACITY, reason, ())
    world.set(cooldown_s=1, move_payback_s=None, paused=None)
    assert world.tick(hot).actions


def test_the_audit_names_consumers_by_the_numbers_that_moves_have() -> None:
    world = two()
    assert world.audit.entries[-1].owner == {tp(n): 0 if n in {0, 5} else 1 for n in range(6)}


@pytest.mark.parametrize(("count", "becomes"), [(3, 3), (1, 1), (None, 2)])
def test_a_load_that_is_not_seen_for_long_is_answered_by_the_fallback(count: int | None, becomes: int) -> None:
    fallback = {"fallback": "static", "fallback_consumers": count, "fallback_after_s": 30.0} if count is not None else {}
    world = two(**fallback)
    world.run(CALM, 10)
    stale = {"known": False, "age_s": 15.0, "error": "broker 1 does not answer"}
    world.run([load(p, r, **stale) for p, r in CALM.items()], 120)
    assert world.decisions[-1].reason is (Reason.FALLBACK if count is not None else Reason.STALE_INPUT)
    assert len(world.held()) == becomes
    assert all(world.held().values()), "each has something"
    assert not any(d.actions for d in world.decisions[-20:]), "and rests"
