"""The guards' table by itself: what the page says of it, what is left of a step, and what growing is found to have drained."""

import re
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.config.grouping import in_file
from autoscaler.config.policy import Policy, Window
from autoscaler.config.setting_paths import path_of
from autoscaler.core.capacity.scaling_effectiveness import Drained, Trial
from autoscaler.core.cycle.context import Cycle, Step
from autoscaler.core.cycle.evaluate import read_cycle
from autoscaler.core.group.history import History, Intent
from autoscaler.core.group.limits import Steps, read_limits
from autoscaler.core.guards.table import GUARDS, guarded, kinds_of, least_consumers, most_consumers
from autoscaler.core.load.consumption import WINDOW_S, Consumption, Sample
from autoscaler.model import Finding, GroupState, HandoverDone, LoadSnapshot, Reason, TopicPartition
from autoscaler.model.findings import What
from tests.builders import T0, load, moment, observation, owned, policy, rates, snapshot, state, tp

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "concepts" / "guards.md").read_text(encoding="utf-8")
HOLDING = (DOCS / "tasks" / "hold.md").read_text(encoding="utf-8")
LOOKS_AT = {"partitions", "static_members", "measured", "settled"}  # rows that no setting is behind
FOUND = Finding.of(What.OVERLOADED, consumers=(0,), load_bytes_per_s=100, limit_bytes_per_s=88)
OPEN = {"cron": "0 22 * * *", "duration_min": 60}  # at T0
CLOSED = {"cron": "0 10 * * *", "duration_min": 60}


def cycle(rules: Policy, group: GroupState | None = None, history: History | None = None) -> Cycle:
    held = group or state(owned([0, 1], [2, 3]))
    loads = rates(*[50.0] * 2, *[20.0] * 2)
    return read_cycle(observation(loads, held), history or History(last_move_at=T0 - 1), rules, moment(T0))


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_table_as_it_is() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `([A-Z_]+)` \| (yes|no) \|", PAGE, re.MULTILINE)
    assert rows == [(path_of(g.name), g.reason.value, "yes" if g.hard else "no") for g in GUARDS]


def test_the_pages_name_every_setting_of_a_window_and_of_the_guards() -> None:
    settings = {*(path_of(g.name) for g in GUARDS), "moves.pause"} - LOOKS_AT
    assert [name for name in sorted(settings) if not re.search(rf"\b{re.escape(name)}\b", PAGE)] == []
    assert [name for name in sorted(in_file(Window)) if not re.search(rf"\b{re.escape(name)}\b", HOLDING)] == []


def test_rows_are_named_for_the_settings_behind_them() -> None:
    assert {g.name for g in GUARDS} - LOOKS_AT <= set(Policy.model_fields)
    assert len({g.name for g in GUARDS}) == len(GUARDS)


def test_what_must_hold_is_reported_before_what_only_prefers_to_wait() -> None:
    assert [g.hard for g in GUARDS] == sorted((g.hard for g in GUARDS), reverse=True)


def test_no_soft_row_holds_what_was_paid_for() -> None:
    assert [g.name for g in GUARDS if Steps.FILL in g.holds and not g.hard] == []


# --- what holds now --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "least", "most", "paused", "frozen", "why"),
    [
        ({"min_consumers": 2, "max_consumers": 9}, 2, 9, Steps(0), Steps(0), "the group's own"),
        ({"windows": [{**OPEN, "min_consumers": 4}]}, 4, 64, Steps(0), Steps(0), "the window's minimum"),
        ({"windows": [{**CLOSED, "min_consumers": 4}]}, 1, 64, Steps(0), Steps(0), "a closed one says nothing"),
        (
            {"windows": [{**OPEN, "min_consumers": 4}, {**OPEN, "min_consumers": 3, "max_consumers": 5}]},
            3, 5, Steps(0), Steps(0), "the last one sets it",
        ),
        (
            {"windows": [{**OPEN, "min_consumers": 8}, {**OPEN, "max_consumers": 5}]},
            5, 5, Steps(0), Steps(0), "a maximum is never passed for a minimum",
        ),
        ({"pinned": 6, "windows": [{**OPEN, "min_consumers": 8}]}, 6, 6, Steps(0), Steps(0), "a fixed number wins"),
        ({"paused": "scale_up"}, 1, 64, Steps.GROW, Steps(0), "a pause"),
        (
            {"paused": "scale_up", "windows": [{**OPEN, "paused": "scale_down"}]},
            1, 64, Steps.GROW, Steps.SHRINK, "both hold, each with its reason",
        ),
    ],
)  # fmt: skip
def test_limits_at_a_moment(  # noqa: PLR0917  a row
    changes: dict[str, object], least: int, most: int, paused: Steps, frozen: Steps, why: str
) -> None:
    limits = read_limits(policy(**changes), T0)
    assert (limits.least, limits.most, limits.paused, limits.frozen) == (least, most, paused, frozen), why


@pytest.mark.parametrize(
    ("changes", "count", "reason", "why"),
    [
        ({}, 4, Reason.AT_PARTITION_CEILING, "one for each partition"),
        ({"max_consumers": 4}, 4, Reason.AT_MAXIMUM, "of equals the first row is named"),
        ({"max_consumers": 3}, 3, Reason.AT_MAXIMUM, "the fewest"),
        ({"pinned": 3}, 3, Reason.PINNED, "and by its own name"),
        ({"paused": "scale_up"}, 2, Reason.PAUSED, "who is there"),
        ({"paused": "scale_down"}, 4, Reason.AT_PARTITION_CEILING, "growing is not meant"),
        ({"grow_step": 1}, 3, Reason.STEP_LIMIT, "one more"),
        ({"grow_step": 1, "min_consumers": 4}, 4, Reason.AT_PARTITION_CEILING, "no soft row allows less than is asked for"),
    ],
)
def test_how_far_growing_may_lead(changes: dict[str, object], count: int, reason: Reason, why: str) -> None:
    bound = most_consumers(cycle(policy(**changes)))
    assert (bound.count, bound.guard.reason) == (count, reason), why


@pytest.mark.parametrize(
    ("changes", "count", "reason"),
    [({}, 1, Reason.AT_MINIMUM), ({"pinned": 2}, 2, Reason.PINNED), ({"shrink_step": 1}, 3, Reason.STEP_LIMIT),
     ({"shrink_step": "75%"}, 1, Reason.AT_MINIMUM), ({"min_consumers": 3, "shrink_step": 1}, 3, Reason.AT_MINIMUM)],
)  # fmt: skip
def test_how_far_shrinking_may_lead(changes: dict[str, object], count: int, reason: Reason) -> None:
    bound = least_consumers(cycle(policy(**changes), state(owned([0], [1], [2], [3]))))
    assert (bound.count, bound.guard.reason) == (count, reason)


# --- what is left of a step ------------------------------------------------------------------------------------------

OVERLOAD = Reason.RATE_ABOVE_CAPACITY
SWAPPED = owned([0, 2], [1, 3])


def test_kinds_of_steps() -> None:
    now = cycle(policy(), state(owned([0, 1], [2, 3]), live=[0, 1, 2], requested=[0, 1, 2]))
    asked = frozenset(range(4))
    rows: dict[str, tuple[dict[TopicPartition, int] | None, frozenset[int] | None, Steps]] = {
        "nothing": (None, None, Steps(0)),
        "as it is": (owned([0, 1], [2, 3]), frozenset({0, 1, 2}), Steps(0)),
        "one more": (None, asked, Steps.GROW),
        "one more and filled": (owned([0], [2, 3], [], [1]), asked, Steps.GROW | Steps.FILL),
        "the idle one used": (owned([0], [2, 3], [1]), None, Steps.FILL),
        "another one used instead": (owned([0, 1], [], [2, 3]), None, Steps.MOVE),
        "changed places": (SWAPPED, None, Steps.MOVE),
        "one less": (None, frozenset({0, 1}), Steps.SHRINK),
        "one less and emptied": (owned([0, 1, 2, 3]), frozenset({0, 2}), Steps.SHRINK),
        "one for another": (None, frozenset({0, 1, 3}), Steps.GROW | Steps.SHRINK),
    }
    found = {
        what: kinds_of(now, Step(reason=OVERLOAD, findings=(FOUND,), target=t, requested=r)) for what, (t, r, _) in rows.items()
    }
    assert found == {what: kinds for what, (_, _, kinds) in rows.items()}


def test_moves_that_are_held_keep_nobody_from_asking_for_consumers() -> None:
    step = Step(reason=OVERLOAD, findings=(FOUND,), target=SWAPPED, requested=frozenset({0, 1, 2}))
    left = guarded(cycle(policy()), step)
    assert (left.target, left.requested, left.limited_by) == (None, step.requested, Reason.COOLING_DOWN)
    assert [(f.what, f.limit) for f in left.findings[1:]] == [(What.MOVES_REST, Reason.COOLING_DOWN)]


def test_growing_that_is_held_keeps_nobody_from_moving_among_those_who_are_there() -> None:
    step = Step(reason=OVERLOAD, findings=(FOUND,), target=SWAPPED, requested=frozenset({0, 1, 2}))
    left = guarded(cycle(policy(paused="scale_up"), history=History()), step)
    assert (left.target, left.requested, left.limited_by) == (SWAPPED, None, Reason.PAUSED)
    onto_new = replace(step, target=owned([0], [2, 3], [1]))
    left = guarded(cycle(policy(paused="scale_up"), history=History()), onto_new)
    assert (left.target, left.requested, left.limited_by) == (None, None, Reason.PAUSED)


def test_what_follows_from_limits_or_partitions_passes_everything_soft() -> None:
    rules, rests = policy(grow_stabilisation_s=99, grow_step=1), History(last_move_at=T0)
    step = Step(reason=OVERLOAD, findings=(FOUND,), target=SWAPPED, requested=frozenset(range(4)), ordered=True)
    assert guarded(cycle(rules, history=rests), step) is step
    suggested = guarded(cycle(rules, history=rests), replace(step, ordered=False))
    assert (suggested.target, suggested.requested, suggested.limited_by) == (None, None, Reason.STEP_LIMIT)


def test_nothing_holds_what_a_lost_consumer_left() -> None:
    step = Step(reason=Reason.WORKER_LOST, findings=(FOUND,), requested=frozenset(range(9)), mandatory=True)
    assert guarded(cycle(policy(paused="all", pinned=1)), step) is step


def test_a_published_policy_is_held_by_the_hard_rows_only() -> None:
    published = {"sizing": "LINEAR", "grow_step": 1, "grow_stabilisation_s": 99}
    step = Step(reason=OVERLOAD, findings=(FOUND,), requested=frozenset(range(4)))
    assert guarded(cycle(policy(**published)), step) is step
    assert guarded(cycle(policy(**published, paused="scale_up")), step).limited_by is Reason.PAUSED


def test_who_is_awaited_stays_awaited_when_more_are_held() -> None:
    group = state(owned([0, 1], [2, 3]), requested=[0, 1, 2])
    waiting = History(waiting_since=T0 - 5)
    step = Step(reason=OVERLOAD, findings=(FOUND,), requested=frozenset(range(4)), waiting=True)
    assert guarded(cycle(policy(paused="scale_up"), group, waiting), step).waiting
    assert not guarded(cycle(policy(paused="scale_up"), history=waiting), step).waiting


# --- turns, pauses ---------------------------------------------------------------------------------------------------


def test_a_turn_is_a_change_of_direction_that_was_published() -> None:
    history = History()
    for epoch, by in enumerate([3, 1, -2, -1, 0, 2, -1]):
        history = replace(history, intent=Intent(epoch=epoch, scales=True, moves=False, by=by))
        assert history.confirmed(epoch, T0 + epoch).turns == history.turns, "not published, not done"
        history = history.confirmed(epoch + 1, T0 + epoch)
    assert [t - T0 for t in history.turns] == [2, 5, 6]
    assert history.turns_in_the_hour(T0 + 3602.5) == 2


def done(pause_s: float | None) -> HandoverDone:
    return HandoverDone(
        partition=tp(0), topic_id="x", from_worker="a", from_uuid="a1", to_worker="b", to_uuid="b1", epoch=1, offset=0,
        pause_s=pause_s, at=T0,
    )  # fmt: skip


def test_what_moving_costs_is_learned_from_handovers() -> None:
    history = History()
    assert history.pause_s(1.0) == 1.0, "assumed until one was seen"
    history = history.handed_over([done(None), done(float("nan")), done(-1.0)])
    assert history.pause_s(1.0) == 1.0, "a first owner paused nobody"
    history = history.handed_over([done(0.2), done(9.0), done(0.4)])
    assert history.pause_s(1.0) == 0.4, "the median: one slow batch is not the rule"
    for _ in range(100):
        history = history.handed_over([done(2.0)])
    assert (history.pause_s(1.0), len(history.pauses)) == (2.0, 32)


# --- does growing help -----------------------------------------------------------------------------------------------


def at(second: float, *committed: int | None, known: bool = True) -> LoadSnapshot:
    loads = [load(tp(i), 10.0, committed=c, known=known) for i, c in enumerate(committed)]
    return snapshot(loads, at=T0 + second)


def follow(consumption: Consumption, *snapshots: LoadSnapshot) -> Consumption:
    for seen in snapshots:
        consumption = consumption.measured(seen, moment(max(seen.sample_ts, consumption.at or 0.0)))
    return consumption


def drained_by(start: float, end: float, records: int) -> Consumption:
    """Return a group that has drained so many records between two measurements."""
    samples = (Sample(start, 0, array("q")), Sample(end, records, array("q")))
    return Consumption(at=end, sample_ts=end, samples=samples, whole_since=start)


def test_what_is_drained_is_counted_over_the_window() -> None:
    seen = follow(Consumption(), *(at(s, 10 * s, 5 * s) for s in range(30)))
    assert seen.records_per_s is None, "29 seconds are not the window"
    seen = follow(seen, at(30, 300, 150))
    assert seen.records_per_s == 15.0
    seen = follow(seen, *(at(s, 300, 150) for s in range(31, 61)))
    assert seen.records_per_s == 0.0
    assert len(seen.samples) == 31, "and no more is kept"


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (at(31, 300), "a partition is gone"),
        (at(31, 300, 150, 1_000_000), "one has come, with all that was ever committed there"),
        (at(31, 10, 150), "an offset was set back"),
    ],
)
def test_sums_that_cannot_be_compared_start_anew(then: LoadSnapshot, why: str) -> None:
    seen = follow(Consumption(), *(at(s, 10 * s, 5 * s) for s in range(31)))
    drained = Drained().stepped_up(4, seen)
    assert drained.trial is not None
    seen = follow(seen, then)
    after = drained.judged(seen, T0 + 31, settled=False, behind=True, tolerance=0.1)
    assert (seen.records_per_s, after.trial) == (None, None), why


def test_a_measurement_that_is_not_known_or_comes_twice_changes_nothing() -> None:
    seen = follow(Consumption(), *(at(s, 10 * s, 5 * s) for s in range(31)))
    after = follow(seen, at(31, 0, 0, known=False), at(31.5, 300, None), at(30, 999, 999), at(3, 0, 0))
    assert (after.totals, after.records_per_s, after.whole_since) == (seen.totals, 15.0, seen.whole_since)
    assert len(follow(seen, *(at(s, 0, 0, known=False) for s in range(31, 500))).samples) == 62, "nor is it kept for ever"


JUDGED = {"settled": True, "behind": True, "tolerance": 0.1}
FULL = drained_by(T0 - WINDOW_S, T0, 300)  # 10 records/s


def trial(before: float, **changes: object) -> Trial:
    return replace(Trial(before=before, consumers=4, whole_since=FULL.whole_since), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "changes", "in_vain", "why"),
    [
        (10.0, {}, 3, "no more than before: one more in vain"),
        (9.1, {}, 3, "within the tolerance"),
        (9.0, {}, 0, "a ninth more: it helped, and those before count no longer"),
        (10.0, {"behind": False}, 0, "caught up: nothing is wrong"),
        (10.0, {"settled": False}, 2, "its consumers are not there yet"),
    ],
)
def test_a_step_is_judged_a_window_after_its_consumers_are_there(
    before: float, changes: dict[str, object], in_vain: int, why: str
) -> None:
    drained = Drained(in_vain=2, level=20.0, trial=trial(before, settled_at=T0 - WINDOW_S))
    after = drained.judged(FULL, T0, **{**JUDGED, **changes})  # type: ignore[arg-type]
    assert after.in_vain == in_vain, why
    early = replace(drained, trial=trial(before, settled_at=T0 - WINDOW_S + 1)).judged(FULL, T0, **JUDGED)  # type: ignore[arg-type]
    assert (early.in_vain, early.trial is None) == (2, False)


def test_a_step_before_anything_is_known_is_not_judged() -> None:
    assert Drained().stepped_up(4, Consumption()) == Drained()


def test_what_is_given_back_begins_before_the_first_step_in_vain() -> None:
    drained = replace(Drained().stepped_up(4, FULL), in_vain=1, consumers=3, level=20.0)
    settled = replace(drained, trial=replace(drained.trial or trial(0), settled_at=T0 - WINDOW_S))
    assert settled.judged(FULL, T0, **JUDGED).consumers == 3  # type: ignore[arg-type]
    assert replace(settled, in_vain=0, consumers=0, level=0.0).judged(FULL, T0, **JUDGED).consumers == 4  # type: ignore[arg-type]
    assert settled.judged(FULL, T0, **{**JUDGED, "behind": False}).consumers == 0  # type: ignore[arg-type]


def test_steps_that_follow_each_other_are_judged_together() -> None:
    drained = Drained().stepped_up(4, FULL).stepped_up(5, FULL)
    later = replace(drained_by(T0, T0 + 60, 300), whole_since=FULL.whole_since)
    first = drained.judged(later, T0 + 60, **JUDGED)  # type: ignore[arg-type]
    assert first.judged(later, T0 + 60 + WINDOW_S, **JUDGED).in_vain == 2  # type: ignore[arg-type]


def test_what_was_given_up_is_taken_up_when_more_is_drained_or_nothing_is_left() -> None:
    gave_up = Drained(in_vain=3, level=10.0)
    assert gave_up.judged(FULL, T0, **JUDGED) == gave_up  # type: ignore[arg-type]
    assert gave_up.judged(FULL, T0, settled=True, behind=False, tolerance=0.1).in_vain == 0
    assert gave_up.judged(drained_by(T0 - WINDOW_S, T0, 340), T0, **JUDGED).in_vain == 0  # type: ignore[arg-type]
