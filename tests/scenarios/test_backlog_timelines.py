"""Timelines of a backlog that the operator gives a time: consumers are added for it, kept until it is read, and given back."""

from collections.abc import Mapping

import pytest

from autoscaler.config.policy import Policy
from autoscaler.model import Decision, Reason
from autoscaler.model.findings import What
from tests.builders import rates, says, tp
from tests.scenarios.test_retention_timelines import Reading, quick
from tests.scenarios.world import scalings

EVEN = rates(*[17.0] * 16)  # bytes/s: four consumers of 80 take four partitions each, with a tolerance of ten per cent
LATE = dict.fromkeys(map(tp, range(4)), 120.0)  # seconds behind
WITHIN_S = 50.0  # so that each of the four has to be read with 17 + 2040 / 50 bytes/s, and a bit


def at_rest(rules: Policy, **changes: object) -> Reading:
    """Return a group that has read everything for a minute."""
    world = Reading(policy=rules, traffic=lambda _: EVEN, **changes)  # type: ignore[arg-type]
    world.run(60)
    assert not [d for d in world.decisions[20:] if d.actions]
    return world


def late(rules: Policy, **changes: object) -> Reading:
    """Return such a group four of whose partitions fall behind."""
    world = at_rest(quick(), **changes)
    world.policy = rules
    world.fall_behind(LATE)
    return world


def since(world: Reading, ticks: int) -> list[Decision]:
    before = len(world.decisions)
    world.run(ticks)
    return world.decisions[before:]


def test_without_a_time_a_backlog_adds_no_consumer() -> None:
    assert not scalings(since(late(quick()), 60))


def test_it_grows_in_one_step_by_what_reads_the_backlog_in_time_and_gives_that_back_in_one() -> None:
    world = late(quick(catch_up_s=WITHIN_S, preset="lean"))
    first = world.step()
    assert (first.reason, first.consumers) == (Reason.BACKLOG, 6), "four times 58 and twelve times 17 of 80 each"
    assert set(first.hot) == set(LATE)
    assert says(first, What.CATCHING_UP, partitions=tuple(LATE), within_s=WITHIN_S)
    assert first.findings[0].numbers["unread_bytes"] == pytest.approx(4 * 2040, rel=0.01)
    after = since(world, int(WITHIN_S))
    assert all(world.unread[p] < 17 * 5 for p in LATE), "it is read in time"
    after += since(world, 120)
    assert scalings(after) == [4], "in one decision, and nothing between"
    assert world.decisions[-1].reason is Reason.WITHIN_TARGET


def test_a_backlog_is_the_reason_until_it_is_read() -> None:
    """Six are needed for it and four by rates alone: that fewer would do is not so while it is worked off."""
    world = late(quick(catch_up_s=WITHIN_S, preset="lean"))
    since(world, 6)  # until the consumers that were asked for hold what they are to read
    seen = []
    for _ in range(120):
        behind = any(world.unread[p] > 17 * 7 for p in LATE)
        seen.append((world.step(), behind))
    read = [d for d, behind in seen if behind]
    assert len(read) > 10
    assert {(d.reason, d.limited_by) for d in read} == {(Reason.BACKLOG, None)}
    assert all(says(d, What.CATCHING_UP, partitions=d.hot, within_s=WITHIN_S) for d in read)
    assert seen[-1][0].reason is Reason.WITHIN_TARGET


def test_a_backlog_that_the_consumers_that_are_there_read_in_time_is_said_too() -> None:
    world = late(quick(catch_up_s=1_000.0, preset="lean"))
    assert not scalings(found := since(world, 10))
    assert {d.reason for d in found} == {Reason.BACKLOG}


def test_nothing_shrinks_while_it_is_worked_off_even_if_it_takes_longer() -> None:
    world = late(quick(catch_up_s=WITHIN_S, preset="lean"), able=85.0)  # consumers do less than is thought
    after = [world.step(), *since(world, 40)]
    assert all(d.consumers >= 6 for d in after)
    assert any(world.unread[p] > 17 * 5 for p in LATE)


@pytest.mark.parametrize(
    ("changes", "limits", "most"),
    [
        ({"grow_stabilisation_s": 1000}, {Reason.STABILISING}, 4), ({"grow_step": 1}, {Reason.STEP_LIMIT}, 5),
        ({"max_consumers": 5}, {Reason.AT_MAXIMUM}, 5), ({"paused": "scale_up"}, {Reason.PAUSED, Reason.NOT_WORTH_MOVING}, 4),
        ({"pinned": 4}, {Reason.PINNED, Reason.NOT_WORTH_MOVING}, 4),
    ],
)  # fmt: skip
def test_every_guard_that_holds_growth_holds_it(changes: Mapping[str, object], limits: set[Reason], most: int) -> None:
    world = late(quick(catch_up_s=WITHIN_S, preset="lean", cooldown_s=1000, **changes))
    first = world.step()
    assert first.reason is Reason.BACKLOG
    assert first.limited_by in limits
    assert first.consumers == most


def test_a_partition_that_would_need_more_than_one_consumer_gets_one_of_its_own() -> None:
    world = at_rest(quick(catch_up_s=1.0))
    world.fall_behind(LATE)
    assert world.step().consumers == 4 + 3, "four alone, and twelve times 17 of 80 each"


def test_who_is_hardly_behind_needs_none() -> None:
    world = at_rest(quick(catch_up_s=1.0))
    world.fall_behind(dict.fromkeys(LATE, 4.0))
    assert not [d for d in since(world, 30) if d.actions]


def test_the_number_that_others_follow_rises_with_the_backlog_and_falls_only_when_it_is_read() -> None:
    world = late(quick(catch_up_s=WITHIN_S, preset="lean"))
    advised = []
    for _ in range(60):
        world.step()
        assert world.history.advice is not None
        advised.append((world.history.advice.consumers, any(world.unread[p] > 17 * 6 for p in LATE)))
    assert {count for count, behind in advised if behind} == {6}
    assert advised[-1] == (4, False)


def test_a_group_that_is_overloaded_by_what_arrives_says_so_and_the_backlog_beside_it() -> None:
    much = rates(*[30.0] * 16)
    world = Reading(policy=quick(preset="lean"), traffic=lambda t: EVEN if t < 60 else much)
    world.run(60)
    world.policy = quick(catch_up_s=WITHIN_S, preset="lean")
    world.fall_behind(LATE)
    first = world.step()
    assert first.reason is Reason.RATE_ABOVE_CAPACITY
    assert says(first, What.CATCHING_UP, partitions=tuple(LATE))
    assert first.consumers > 6, "as many as both take"
