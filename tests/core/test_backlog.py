"""How fast a backlog must be read to be worked off in the operator's time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.load.backlog import backlog_told, needed_of, rates_to_catch_up
from tests.builders import load, snapshot, tp

BEHIND_S = 5.0
BEHIND = load(tp(0), 20.0, lag_records=100, lag_bytes=1200.0, lag_s=60.0)


def needed(*loads: object, within_s: float | None = 60.0, still: frozenset[object] = frozenset()) -> dict[object, float]:
    return dict(rates_to_catch_up(snapshot(list(loads)).loads, within_s=within_s, behind_s=BEHIND_S, still=still))  # type: ignore[arg-type]


def test_it_is_what_arrives_and_the_backlog_over_the_time() -> None:
    assert needed(BEHIND, load(tp(1), 30.0)) == {tp(0): 20.0 + 1200.0 / 60.0}


@pytest.mark.parametrize(
    "other",
    [
        replace(BEHIND, lag_s=BEHIND_S), replace(BEHIND, lag_s=None), replace(BEHIND, lag_bytes=None),
        replace(BEHIND, lag_bytes=0.0), replace(BEHIND, bytes_per_s=None), replace(BEHIND, known=False),
    ],
    ids=["hardly behind", "since when is not known", "how much is not known", "nothing", "no rate", "not fresh"],
)  # fmt: skip
def test_nothing_is_asked_for_what_is_not_behind_or_not_known(other: object) -> None:
    assert needed(other) == {}


def test_nothing_is_asked_without_a_time_or_of_what_stands_still() -> None:
    assert needed(BEHIND, within_s=None) == {}
    assert needed(BEHIND, still=frozenset({tp(0)})) == {}


@given(rate=st.floats(0, 1e9), lag=st.floats(1, 1e12), within_s=st.floats(1, 1e6), longer=st.floats(1, 10))
def test_it_is_never_below_what_arrives_and_less_the_more_time_there_is(
    rate: float, lag: float, within_s: float, longer: float
) -> None:
    behind = replace(BEHIND, bytes_per_s=rate, lag_bytes=lag)
    soon, late = needed(behind, within_s=within_s)[tp(0)], needed(behind, within_s=within_s * longer)[tp(0)]
    assert rate <= late <= soon


def test_a_record_tells_it_again_unless_it_does_not_say_which_partitions_counted() -> None:
    told = backlog_told([("OVERLOADED", {}), ("CATCHING_UP", {"within_s": 60.0, "behind_s": BEHIND_S, "partitions": 1})])
    assert told is not None
    assert needed_of(told, [BEHIND, load(tp(1), 30.0)]) == {tp(0): 20.0 + 1200.0 / 60.0}
    assert needed_of(told, [BEHIND, replace(BEHIND, partition=tp(1))]) is None, "one of them stood still"
    assert needed_of({"within_s": 60.0, "partitions": 1}, [BEHIND]) is None, "of an earlier release"
    assert needed_of(backlog_told([("OVERLOADED", {})]), [BEHIND]) == {}
