"""Committed offsets that are out of range (rule 5): by the reset policy, with a row that says from where to where."""

from dataclasses import replace

import pytest

from autoscaler.config.policy import Policy
from autoscaler.core.decide import decide
from autoscaler.model import Decision, OutOfRange, PartitionLoad, Reason, ResetOffset
from autoscaler.model.findings import What
from tests.builders import T0, load, moment, observation, owned, policy, says, snapshot, state, tp
from tests.core.answers import LONG_AGO


def answer(measured: PartitionLoad, out_of_range: OutOfRange, rules: Policy | None = None) -> Decision:
    group = replace(state(owned([0], [1])), out_of_range={tp(1): out_of_range})
    return decide(observation(snapshot([load(tp(0), 70), measured]), group), LONG_AGO, rules or policy(), moment(T0))[0]


def measured(start: int | None, end: int | None, **changes: object) -> PartitionLoad:
    return load(tp(1), 70, log_start=start, log_end=end, **changes)


@pytest.mark.parametrize(
    ("rule", "log", "start", "why"),
    [
        ("earliest", (60, 90), 60, "records were deleted before they were read: on with the first that is there"),
        ("latest", (60, 90), 90, "or with the next that comes"),
        ("earliest", (0, 40), 0, "the log lost its end: everything again"),
        ("latest", (0, 40), 40, "or from its new end"),
        ("latest", (50, 90), 50, "the log holds it by now: nothing is skipped"),
    ],
)
def test_the_reset_policy_says_where_to_go_on(rule: str, log: tuple[int, int], start: int, why: str) -> None:
    decision = answer(measured(*log), OutOfRange(offset=50, start=None), policy(reset_policy=rule))
    assert decision.actions == (ResetOffset(partition=tp(1), offset=50, start=start),), why
    assert decision.reason is Reason.OFFSET_OUT_OF_RANGE
    assert says(decision, What.OFFSET_RESET, partitions=(tp(1),), offset=50, start=start, policy=rule)


def test_where_nothing_is_committed_any_more_it_begins_by_the_reset_policy() -> None:
    decision = answer(measured(60, 90), OutOfRange(offset=-1, start=None))
    assert decision.actions == (ResetOffset(partition=tp(1), offset=-1, start=60),)
    assert says(decision, What.OFFSET_RESET, partitions=(tp(1),), start=60, policy="earliest")
    assert "offset" not in decision.findings[0].numbers


@pytest.mark.parametrize(
    "unknown", [measured(None, 90), measured(60, None), measured(60, 90, known=False, age_s=3.0, error="broker 0 is away")]
)
def test_nothing_is_skipped_while_nobody_knows_what_the_log_holds(unknown: PartitionLoad) -> None:
    decision = answer(unknown, OutOfRange(offset=50, start=None))
    assert decision.actions == ()
    assert decision.findings[0].numbers == {"partitions": 1, "offset": 50}


def test_what_a_plan_says_already_is_not_said_again() -> None:
    assert answer(measured(60, 90), OutOfRange(offset=50, start=60)).actions == ()


def test_the_log_went_on_meanwhile() -> None:
    decision = answer(measured(70, 90), OutOfRange(offset=50, start=60))
    assert decision.actions == (ResetOffset(partition=tp(1), offset=50, start=70),)
