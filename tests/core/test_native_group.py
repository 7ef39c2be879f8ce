"""Timelines of a native group that acts: real decisions, a fake platform, and members that get what their assignor gives them."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from autoscaler.core.assignors.group_model import Assignor, NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable, read_group
from autoscaler.errors import TransientError
from autoscaler.model import AddWorkers, Finding, GroupMembers, LoadSnapshot, Reason, Retention
from autoscaler.model.findings import What
from tests.builders import TOPIC, load, members, rates, says, snapshot, state, tp
from tests.fakes import FakeRetention
from tests.scenarios.native_world import NativeWorld, even


@pytest.mark.parametrize("assignor", [a for a in Assignor if a is not Assignor.UNIFORM])  # a classic group has none of that name
def test_a_group_starts_grows_once_per_decision_and_shrinks_again(assignor: Assignor) -> None:
    world = NativeWorld(assignor=assignor)
    first = world.tick(even(world, 100))
    assert (first.reason, first.actions) == (Reason.PARTITIONS_CHANGED, (AddWorkers(slots=(0, 1)),))
    assert world.run(even(world, 100), 10).reason is Reason.WITHIN_TARGET
    grown = world.tick(even(world, 300))
    assert (grown.reason, grown.actions) == (Reason.RATE_ABOVE_CAPACITY, (AddWorkers(slots=(2, 3)),))
    before = world.rebalances
    assert world.run(even(world, 300), 10).reason is Reason.WITHIN_TARGET
    assert (world.rebalances - before, len(world.consumers)) == (1, 4)
    world.run(even(world, 100), 60)
    assert (len(world.consumers), world.decisions[-1].reason) == (2, Reason.WITHIN_TARGET)
    assert [n for _, n in world.scalings] == [2, 4, 2]


def test_noise_of_ten_percent_rebalances_nothing_in_an_hour() -> None:
    world, rnd = NativeWorld(), random.Random(1)
    world.run(even(world, 300), 10)
    started = world.rebalances
    for _ in range(1200):  # one hour in steps of three seconds
        world.tick({p: r * rnd.uniform(0.9, 1.1) for p, r in even(world, 300).items()}, 3.0)
    assert world.rebalances == started
    assert len(world.scalings) == 1


def test_64_partitions_reach_64_consumers_and_never_65() -> None:
    world = NativeWorld(partitions=64, assignor=Assignor.RANGE, changes={"max_consumers": 100})
    world.run(even(world, 64 * 79), 6)
    assert len(world.consumers) == 64
    held = world.run(even(world, 64 * 500), 3)
    assert (held.reason, held.consumers, held.actions) == (Reason.PARTITION_EXCEEDS_CAPACITY, 64, ())


def test_where_no_number_is_enough_the_best_is_taken_and_said_what_would_be() -> None:
    world = NativeWorld(assignor=Assignor.RANGE, partitions=6, changes={"max_consumers": 3})
    world.run(rates(*[1.0] * 6), 5)
    loads = rates(70, 70, 1, 1, 1, 1)  # neighbours: they stay together in ranges of two
    decision = world.tick(loads)
    assert (decision.reason, decision.limited_by, decision.consumers) == (Reason.RATE_ABOVE_CAPACITY, Reason.AT_MAXIMUM, 1)
    assert says(decision, What.NO_RELIEF, assignor="range")
    assert says(decision, What.REMEDY, count=6, assignor="range", setting="max_consumers")
    assert says(decision, What.REMEDY, count=2, assignor="roundrobin")
    assert [f.numbers for f in decision.findings if f.what is What.REMEDY and not f.texts] == [{"count": 2}]


def test_a_group_that_kafka_is_still_rebalancing_is_waited_for() -> None:
    world = NativeWorld()
    world.run(even(world, 100), 5)
    world.reader.groups["g"] = world.described("PREPARING_REBALANCING")
    decision = world.controller.cycle(99, snapshot(even(world, 900), at=world.clock.now()), {})
    assert (decision.reason, decision.actions, decision.consumers) == (Reason.NOT_READY, (), 2)
    assert says(decision, What.MEMBERS_DIFFER, requested=2, running=2, members=2, state="PREPARING_REBALANCING")


def test_consumers_that_never_join_are_a_reason_and_nothing_more_is_started() -> None:
    world = NativeWorld(joins=False)
    world.tick(even(world, 100))
    assert world.tick(even(world, 900)).reason is Reason.NOT_READY
    last = world.run(even(world, 900), 12)
    assert (last.reason, last.actions) == (Reason.GROUP_DIFFERS, ())
    assert says(last, What.MEMBERS_DIFFER, requested=2, running=2, members=0)
    assert len(world.pool.observe().running) == 2
    world.joins = True
    assert world.tick(even(world, 100)).reason is Reason.WITHIN_TARGET, "and over as soon as they match"


def test_members_that_nobody_here_has_started_are_a_reason_and_stop_everything() -> None:
    world = NativeWorld()
    world.run(even(world, 100), 5)
    world.strangers = 1
    last = world.run(even(world, 900), 14)
    assert (last.reason, last.actions) == (Reason.GROUP_DIFFERS, ())
    assert [n for _, n in world.scalings] == [2]


def test_an_existing_group_is_not_joined_by_consumers_of_ours() -> None:
    world = NativeWorld(strangers=3)
    last = world.run(even(world, 900), 3)
    assert (last.reason, last.actions) == (Reason.GROUP_DIFFERS, ())
    assert says(last, What.STRANGERS)
    assert world.pool.observe().running == {}


def test_a_consumer_that_dies_is_started_again_and_the_load_waits() -> None:
    world = NativeWorld()
    world.run(even(world, 100), 5)
    world.pool.die(1)
    assert world.tick(even(world, 100)).reason is Reason.NOT_READY
    assert world.run(even(world, 100), 5).reason is Reason.WITHIN_TARGET
    assert len(world.consumers) == 2
    assert [n for _, n in world.scalings] == [2]


def test_a_restarted_controller_goes_on_with_what_runs() -> None:
    world = NativeWorld()
    world.run(even(world, 300), 6)
    world.controller = world.new_controller()
    assert world.run(even(world, 300), 3).reason is Reason.WITHIN_TARGET
    assert [n for _, n in world.scalings] == [4]


def test_what_the_platform_refuses_is_tried_again_and_said() -> None:
    world = NativeWorld()
    world.run(even(world, 100), 5)
    world.pool.fails = TransientError("no more processes")
    assert says(world.tick(even(world, 300)), What.NOT_CARRIED_OUT, error="no more processes")
    world.run(even(world, 300), 6)
    assert len(world.consumers) == 4


def test_static_members_are_not_ended() -> None:
    world = NativeWorld(static=True)
    world.run(even(world, 300), 6)
    last = world.run(even(world, 100), 60)
    assert (last.reason, last.limited_by, len(world.consumers)) == (Reason.UNDERUSED, Reason.STATIC_MEMBERS, 4)


@pytest.mark.parametrize(
    ("topics", "what"),
    [
        (lambda n: frozenset({TOPIC, f"other-{n}"}), What.SUBSCRIPTIONS_DIFFER),
        (lambda _: None, What.SUBSCRIPTION_UNKNOWN),
        (lambda _: frozenset({TOPIC, "other"}), What.SUBSCRIBED_TO_MORE),
    ],
)
def test_members_that_cannot_be_predicted_stop_everything(topics: Callable[[int], frozenset[str] | None], what: What) -> None:
    world = NativeWorld(topics=topics)
    last = world.run(even(world, 100), 5)
    last = world.tick(even(world, 900))
    assert (last.reason, last.actions, last.consumers) == (Reason.ASSIGNOR_UNPREDICTABLE, (), 2)
    assert says(last, what)


@pytest.mark.parametrize(
    ("kind", "assignor", "what"),
    [
        ("SHARE", "", What.NOT_CONSUMERS),
        ("STREAMS", "", What.NOT_CONSUMERS),
        ("OTHER", "default", What.NOT_CONSUMERS),
        ("CLASSIC", "stream", What.NOT_CONSUMERS),
        ("CLASSIC", "", What.NO_ASSIGNOR),
        ("CLASSIC", "plan", What.UNKNOWN_ASSIGNOR),
    ],
)
def test_groups_that_are_none_of_consumers_with_a_known_assignor_are_refused(kind: str, assignor: str, what: What) -> None:
    world = NativeWorld()
    world.run(even(world, 100), 5)
    seen = world.described()
    world.reader.groups["g"] = GroupMembers(state="STABLE", kind=kind, assignor=assignor, members=seen.members, at=seen.at)
    decision = world.controller.cycle(99, snapshot(even(world, 900), at=world.clock.now()), {})
    assert (decision.reason, decision.actions) == (Reason.ASSIGNOR_UNPREDICTABLE, ())
    assert says(decision, what)


@pytest.mark.parametrize(
    ("kind", "assignor", "rack", "predicted"),
    [
        ("CLASSIC", Assignor.RANGE, "r1", False),
        ("CLASSIC", Assignor.STICKY, "r1", False),
        ("CLASSIC", Assignor.COOPERATIVE_STICKY, "r1", False),
        ("CLASSIC", Assignor.ROUND_ROBIN, "r1", True),  # looks at none
        ("CLASSIC", Assignor.RANGE, "", True),
        ("CONSUMER", Assignor.RANGE, "r1", True),  # nor does the coordinator
        ("CONSUMER", Assignor.UNIFORM, "r1", True),
    ],
)
def test_members_that_name_a_rack_are_not_predicted_where_the_assignor_goes_by_it(
    kind: str, assignor: Assignor, rack: str, *, predicted: bool
) -> None:
    seen = members((0, 1), (2, 3))
    racked = (*seen.members[:1], replace(seen.members[1], rack=rack))  # one is enough
    found = read_group(replace(seen, kind=kind, assignor=assignor, members=racked), [tp(n) for n in range(4)], {})
    assert isinstance(found, NativeGroup) == predicted
    if isinstance(found, Unpredictable):
        assert (found.why.what, found.why.numbers) == (What.RACKS, {"racks": 1})


def test_a_native_group_with_managed_workers_is_left_alone() -> None:
    world = NativeWorld()
    world.run(even(world, 100), 5)

    class Watched:
        def observe(self) -> object:
            return state({tp(0): 0})

        def close(self) -> None: ...

    world.controller.actuator.watch = Watched()  # type: ignore[assignment]
    decision = world.tick(even(world, 900))
    assert (decision.reason, decision.actions, decision.consumers) == (Reason.PAUSED, (), 2)
    assert says(decision, What.MANAGED_WORKERS, workers=1, epoch=7)
    assert len(world.pool.observe().running) == 2


def test_fewer_partitions_than_members_is_said_and_ends_those_that_hold_nothing() -> None:
    world = NativeWorld(partitions=2, changes={"min_consumers": 2})
    world.run(even(world, 150), 5)
    world.pool.apply(frozenset(range(4)), expected=frozenset({0, 1}), releasable=frozenset())
    world.controller = world.new_controller()
    world.run(even(world, 150), 4)
    assert says(world.tick(even(world, 150)), What.HOLD_NOTHING, count=2)
    world.run(even(world, 150), 60)
    assert len(world.consumers) == 2


@pytest.mark.parametrize(
    ("changes", "limit", "consumers"),
    [
        ({"paused": "all"}, Reason.PAUSED, 2),
        ({"paused": "scale_up"}, Reason.PAUSED, 2),
        ({"pinned": 2}, Reason.PINNED, 2),
        ({"max_consumers": 3}, Reason.AT_MAXIMUM, 3),
        ({"grow_step": 1}, Reason.STEP_LIMIT, 3),
    ],
)
def test_what_the_operator_holds_is_held_in_a_native_group_too(
    changes: Mapping[str, object], limit: Reason, consumers: int
) -> None:
    world = NativeWorld(changes={"min_consumers": 2})
    world.run(even(world, 100), 5)
    world.changes = {"min_consumers": 2, **changes}
    world.controller = world.new_controller()
    first = world.tick(even(world, 400))
    assert (first.reason, first.limited_by, first.consumers) == (Reason.RATE_ABOVE_CAPACITY, limit, consumers)


def test_a_pause_of_shrinking_keeps_what_runs() -> None:
    world = NativeWorld(changes={"paused": "scale_down"})
    world.run(even(world, 300), 6)
    last = world.run(even(world, 100), 60)
    assert (last.reason, last.limited_by, len(world.consumers)) == (Reason.UNDERUSED, Reason.PAUSED, 4)


# --- records that are about to be deleted ----------------------------------------------------------------------------


def late(world: NativeWorld, behind_s: float = 950.0) -> LoadSnapshot:
    """Return a measurement with one partition so far behind."""
    return snapshot(
        [
            load(p, r, lag_records=int(behind_s * r / 10), lag_bytes=behind_s * r, lag_s=behind_s) if p == tp(3) else load(p, r)
            for p, r in even(world, 100).items()
        ],
        at=world.clock.now(),
    )


@pytest.mark.parametrize("changes", [{}, {"grow_step": 1, "grow_stabilisation_s": 1000}])
def test_it_grows_at_once_when_records_are_about_to_be_deleted(changes: Mapping[str, object]) -> None:
    """A consumer has 8 partitions of 6.25; the one of which 80 must be read gets one of its own where 15 share 16 in ranges."""
    world = NativeWorld(assignor=Assignor.RANGE, changes=changes)
    world.controller.retention = FakeRetention({TOPIC: Retention(seconds=1000.0, bytes=math.inf)})
    assert world.run(even(world, 100), 10).consumers == 2
    grown = world.measured(late(world))
    assert (grown.reason, grown.consumers) == (Reason.RETENTION_AT_RISK, 15)
    assert says(grown, What.RETENTION_RISK, partitions=(tp(3),), loss_s=50)
    for _ in range(60):
        held = world.measured(late(world))
    assert (held.reason, held.limited_by, len(world.consumers)) == (Reason.UNDERUSED, Reason.RETENTION_AT_RISK, 15)
    world.run(even(world, 100), 60)
    assert world.decisions[-1].consumers == 2, "and comes down when that is over"


def test_it_grows_by_what_works_a_backlog_off_in_the_operators_time_and_comes_down_after_it() -> None:
    """Of 100 bytes/s in 16 ranges of 6.25 the late one has to be read with 6.25 * (1 + 950 / 100), too much beside others."""
    world = NativeWorld(assignor=Assignor.RANGE, changes={"catch_up_s": 100.0, "grow_step": None})
    assert world.run(even(world, 100), 10).consumers == 2
    grown = world.measured(late(world))
    assert grown.reason is Reason.BACKLOG
    assert says(grown, What.CATCHING_UP, partitions=(tp(3),), within_s=100)
    assert grown.consumers > 2
    for _ in range(60):
        held = world.measured(late(world))
    assert (held.reason, held.limited_by, len(world.consumers)) == (Reason.BACKLOG, None, grown.consumers)
    world.run(even(world, 100), 60)
    assert world.decisions[-1].consumers == 2, "and comes down when that is over"


def test_it_never_grows_beyond_its_maximum_for_that() -> None:
    world = NativeWorld(assignor=Assignor.RANGE, changes={"max_consumers": 3})
    world.controller.retention = FakeRetention({TOPIC: Retention(seconds=1000.0, bytes=math.inf)})
    world.run(even(world, 100), 10)
    for _ in range(10):
        held = world.measured(late(world))
    assert len(world.consumers) <= 3
    assert held.reason is Reason.RETENTION_AT_RISK
    assert held.limited_by in {Reason.AT_MAXIMUM, Reason.ASSIGNOR_LIMIT}


@pytest.mark.parametrize(
    ("kind", "assignor", "foretold"),
    [
        ("CLASSIC", "sticky", False), ("CLASSIC", "cooperative-sticky", False), ("CONSUMER", "uniform", False),
        ("CLASSIC", "range", True), ("CLASSIC", "roundrobin", True), ("CONSUMER", "range", True),
    ],
)  # fmt: skip
def test_two_holders_of_a_partition_are_no_matter_where_nobody_looks_at_who_holds_it(
    kind: str,
    assignor: str,
    foretold: bool,  # noqa: FBT001  (a case)
) -> None:
    seen = replace(members([0, 1], [1, 2]), kind=kind, assignor=assignor)
    found = read_group(seen, [tp(n) for n in range(3)], {})
    assert isinstance(found, NativeGroup) is foretold
    if isinstance(found, Unpredictable):
        assert found.why == Finding.of(What.HELD_TWICE, partitions=(tp(1),), holders=2)
