"""What is said of a number of consumers that was not chosen, from what was recorded."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.sizing.other_counts import Recorded, judge_count
from autoscaler.model.findings import What
from tests import builders as b

USABLE = 80.0


def recorded(*rates: float, consumers: int = 2, **changed: object) -> Recorded:
    held = {b.tp(n): n % consumers for n in range(len(rates))}
    given = {
        "rates": {b.tp(n): r for n, r in enumerate(rates)}, "complete": True, "owner": held,
        "usable_bytes_per_s": USABLE, "algorithm": "PACE balanced", "consumers": consumers,
    } | changed  # fmt: skip
    return Recorded(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "count", "says"),
    [
        (recorded(40, 40, 40, consumers=2), 1, [What.CANNOT_HOLD]),  # the sum is too much
        (recorded(41, 41, 41, consumers=3), 2, [What.CANNOT_HOLD]),  # the sum is not, but no two share a consumer
        (recorded(30, 30, 30, 30, 30, consumers=3), 2, [What.NONE_FOUND_TO_HOLD]),  # 150 of 160, but three of them are 90
        (recorded(40, 30, consumers=2), 1, [What.WOULD_HOLD]),
        (recorded(40, 38, consumers=2, calm_bytes_per_s=72.0), 1, [What.WOULD_HOLD, What.NOTHING_TO_SPARE]),
        (recorded(40, 30, consumers=2, calm_bytes_per_s=72.0), 1, [What.WOULD_HOLD]),
        (recorded(40, 30, 20, consumers=2), 3, [What.WOULD_LEAVE_ROOM]),
        (recorded(40, 41, 42, consumers=2), 3, [What.WOULD_HOLD]),  # two do not: a limit holds it
        (recorded(30, 30, 30, 30, 30, consumers=2), 3, [What.WOULD_HOLD]),
        (recorded(40, 30, consumers=2), 3, [What.MORE_THAN_PARTITIONS]),
        (recorded(90, 10, 10, consumers=2), 3, [What.ONE_PARTITION_ABOVE]),
        (recorded(40, 30, consumers=2, by_assignor=True), 1, [What.ASSIGNOR_NOT_RECORDED]),
        (recorded(40, 30, consumers=2, by_assignor=None), 1, [What.PLACED_BY_NOT_RECORDED]),
        (recorded(40, 40, 40, consumers=2, by_assignor=True), 1, [What.CANNOT_HOLD]),  # that is so, whatever places
        (recorded(consumers=2), 1, [What.LOADS_NOT_RECORDED]),  # made from a plan's summary after a crash
        (recorded(40, 30, consumers=2, complete=False), 1, [What.LOADS_LEFT_OUT]),
        (recorded(40, 30, consumers=2, algorithm="LINEAR"), 1, [What.NOT_WORKED_OUT]),
        (recorded(40, 30, consumers=2, algorithm="UNEVEN"), 1, [What.NOT_WORKED_OUT]),
        (recorded(40, 30, consumers=2, algorithm="EXACT"), 1, [What.WOULD_HOLD]),  # no solver is asked for an explanation
        (recorded(40, 30, consumers=2, algorithm="PACE even at 1.5 per consumer"), 1, [What.WOULD_HOLD]),
    ],
)
def test_what_another_number_would_have_meant(record: Recorded, count: int, says: list[What]) -> None:
    assert [f.what for f in judge_count(record, count)] == says


RATES = st.lists(st.integers(1, 90), min_size=1, max_size=6)


@given(rates=RATES, count=st.integers(1, 4))
def test_it_never_says_that_nothing_holds_what_some_placement_does_nor_the_other_way_round(rates: list[int], count: int) -> None:
    said = judge_count(recorded(*rates, consumers=4), count)[0].what
    placements = product(range(count), repeat=len(rates))
    holds = any(
        max(math.fsum(r for r, c in zip(rates, p, strict=True) if c == n) for n in range(count)) <= USABLE for p in placements
    )
    alone = any(r > USABLE for r in rates)
    if said is What.CANNOT_HOLD:
        assert not holds or alone
    if said in {What.WOULD_HOLD, What.WOULD_LEAVE_ROOM}:
        assert holds
