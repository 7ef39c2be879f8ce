"""Timelines of groups whose load cannot be measured for long: what ``fallback`` makes of it, and that nothing flaps."""

from collections.abc import Mapping

import pytest

from autoscaler.config.policy import Policy
from autoscaler.model import Decision, Reason, TopicPartition
from autoscaler.model.findings import What
from tests.builders import CAPACITY, load, policy, rates, says
from tests.scenarios.native_world import NativeWorld, even
from tests.scenarios.world import World, scalings

EVEN = rates(*[20.0] * 16)  # 320 bytes/s: exactly four consumers of 80
LIGHT = dict.fromkeys(EVEN, 4.0)  # one consumer
AFTER_S, GONE = 30.0, 60.0


def rules(fallback: str, consumers: int | None, **changes: object) -> Policy:
    asked = {"fallback": fallback, "fallback_consumers": consumers, "fallback_after_s": AFTER_S}
    return policy(**{"shrink_stabilisation_s": 30, "shrink_cooldown_s": 20, **asked, **changes})


def blind(asked: Policy, before: Mapping[TopicPartition, float], seconds: int = 120) -> tuple[World, list[Decision]]:
    """Let a group of four lose sight of its load, which was ``before`` in the last seconds."""
    world = World(policy=asked, traffic=lambda t: EVEN if t < GONE - 5 else before, away=lambda t: t >= GONE)
    assert world.run(GONE)[-1].consumers == 4
    return world, world.run(seconds)


@pytest.mark.parametrize(
    ("fallback", "count", "before", "becomes", "why"),
    [
        ("hold", None, LIGHT, [], "nothing is what has always been done"),
        ("static", 6, EVEN, [6], "asked for"),
        ("static", 2, LIGHT, [2], "asked for, and the last rates need no more"),
        ("static", 2, EVEN, [], "the last rates need four"),
        ("static", 4, EVEN, [], "so many are there"),
        ("current_if_higher", 6, EVEN, [6], "more than there are"),
        ("current_if_higher", 2, LIGHT, [], "there are more"),
        ("current_if_lower", 6, EVEN, [], "there are fewer"),
        ("current_if_lower", 2, LIGHT, [2], "there are more, and nobody needs them"),
    ],
)
def test_the_number_is_set_once_and_only_after_the_time(
    fallback: str, count: int | None, before: Mapping[TopicPartition, float], becomes: list[int], why: str
) -> None:
    asked = rules(fallback, count)
    world, seen = blind(asked, before)
    began = GONE + asked.stale_after_s + AFTER_S
    early = [d for i, d in enumerate(seen) if GONE + i < began]
    assert scalings(early) == [], why
    assert {d.reason for d in early[12:]} == {Reason.STALE_INPUT}
    assert scalings(seen) == becomes, why
    last = world.decisions[-1]
    assert last.reason is (Reason.STALE_INPUT if fallback == "hold" else Reason.FALLBACK), why
    assert not any(d.actions for d in seen[-20:]), "and rests"
    assert len(set(world.owner.values())) == (becomes or [4])[-1], "everybody has something"


def test_what_keeps_it_is_named() -> None:
    _, seen = blind(rules("static", 2), EVEN)
    assert (seen[-1].reason, seen[-1].limited_by) == (Reason.FALLBACK, Reason.STALE_INPUT)
    assert says(seen[-1], What.FALLBACK, fallback="static", wanted=2, now=4)
    assert says(seen[-1], What.LAST_RATES_TAKE, needed=4)


@pytest.mark.parametrize(("changes", "limit"), [({"paused": "all"}, Reason.PAUSED), ({"paused": "scale_up"}, Reason.PAUSED)])
def test_what_is_hard_holds_it(changes: Mapping[str, object], limit: Reason) -> None:
    world, _ = blind(rules("static", 6), EVEN, 5)
    world.policy = rules("static", 6, **changes)
    seen = world.run(100)
    assert not any(d.actions for d in seen)
    assert (seen[-1].reason, seen[-1].limited_by) == (Reason.FALLBACK, limit)


@pytest.mark.parametrize("seconds", [None, pytest.param(900, marks=pytest.mark.slow)], ids=["a few times", "long"])
@pytest.mark.parametrize("seen_s", [1, 8, 25])
@pytest.mark.parametrize("gone_s", [5, pytest.param(15, marks=pytest.mark.slow), 45, 100])
@pytest.mark.parametrize(("fallback", "count"), [("static", 6), ("static", 2), ("current_if_lower", 2)])
@pytest.mark.parametrize("before", [EVEN, LIGHT], ids=["even", "light"])
def test_measurements_that_come_and_go_make_nothing_flap(  # noqa: PLR0917  a row
    seconds: int | None, seen_s: int, gone_s: int, fallback: str, count: int, before: Mapping[TopicPartition, float]
) -> None:
    """Over four of these cycles, and longer than the fallback, the stabilisation and the cooldown take together."""
    world = World(
        policy=rules(fallback, count, shrink_stabilisation_s=60), traffic=lambda t: EVEN if t < GONE else before,
        away=lambda t: t >= GONE and (t - GONE) % (seen_s + gone_s) >= seen_s,
    )  # fmt: skip
    world.run(GONE)
    counts = scalings(world.run(seconds or max(200, 4 * (seen_s + gone_s))))
    assert len(counts) <= 2
    assert counts in (sorted(counts), sorted(counts, reverse=True)), "one way only"


def test_afterwards_the_group_goes_by_its_load_and_shrinks_as_ever() -> None:
    world, seen = blind(rules("static", 6), EVEN, 100)
    assert seen[-1].consumers == 6
    back = GONE + 100
    world.away = lambda t: GONE <= t < back
    world.traffic = lambda t: EVEN if t < back else LIGHT
    after = world.run(90)
    assert Reason.FALLBACK not in {d.reason for d in after}
    assert next(i for i, d in enumerate(after) if d.consumers < 6) >= 30, "not before fewer have done for the whole window"
    assert after[-1].consumers < 6
    assert max(world.loads().values()) <= CAPACITY


def test_a_group_that_never_was_measured_begins_with_the_fallback() -> None:
    world = World(policy=rules("static", 3), traffic=lambda _: EVEN, away=lambda _: True)
    early = world.run(AFTER_S - 1)
    assert {d.reason for d in early} == {Reason.NOT_READY}
    world.run(30)
    assert sorted(list(world.owner.values()).count(s) for s in range(3)) == [5, 5, 6]
    assert world.decisions[-1].reason is Reason.FALLBACK


@pytest.mark.parametrize(
    ("fallback", "count", "level", "becomes"), [("static", 6, 20.0, 6), ("static", 2, 4.0, 2), ("hold", None, 4.0, 4)]
)
def test_a_native_group_gets_the_same_number(fallback: str, count: int | None, level: float, becomes: int) -> None:
    world = NativeWorld(
        changes={"fallback": fallback, "fallback_consumers": count, "fallback_after_s": AFTER_S, "shrink_stabilisation_s": 60}
    )
    world.run(even(world, 16 * 20.0), 40)
    world.run(even(world, 16 * level), 5)
    assert world.decisions[-1].consumers == 4
    stale = {"known": False, "age_s": 15.0, "error": "broker 1 does not answer"}
    world.run([load(p, r, **stale) for p, r in even(world, 16 * level).items()], 100)
    assert world.decisions[-1].consumers == becomes
    assert world.decisions[-1].reason is (Reason.FALLBACK if count else Reason.STALE_INPUT)
    assert len(set(world.scalings[-1:])) <= 1
