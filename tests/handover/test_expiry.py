"""Rule 8b, case by case: what proves that a silent worker is over, and what only looks as if it did."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.handover.expiry import HeartbeatLog, margin_s

LEASE = 10.0
SPAN = LEASE + margin_s(LEASE)  # 11.5


def log(*records: tuple[str, float, int | None, int], boots: dict[int, str] | None = None, start: int = 0) -> HeartbeatLog:
    """Return a log of (writer, stamp, acked, offset); ``boots`` overrides the boot id of single offsets."""
    out = HeartbeatLog(LEASE)
    out.started(start)
    for writer, stamp, acked, offset in records:
        out.add(writer, boot_id=(boots or {}).get(offset, "boot"), stamp=stamp, acked=acked, offset=offset)
    return out


@pytest.mark.parametrize(("lease_s", "margin"), [(1.0, 0.6), (3.0, 0.8), (30.0, 3.5)])
def test_the_margin_is_half_a_second_and_a_tenth_of_the_lease(lease_s: float, margin: float) -> None:
    assert margin_s(lease_s) == pytest.approx(margin)


def test_a_record_stamped_after_an_acknowledged_one_and_another_a_lease_and_margin_later_prove_it() -> None:
    # the silent worker's last record is at 4; s was acknowledged at 5, stamps 6 after that, and 7 a whole span later
    assert log(("s", 0.0, None, 5), ("s", 1.0, 5, 6), ("s", 1.0 + SPAN, 6, 7)).horizon(LEASE) == 5


@pytest.mark.parametrize(
    ("why", "records"),
    [
        ("no time has passed", [("s", 0.0, None, 5), ("s", 1.0, 5, 6)]),
        ("the lease has passed, the margin has not", [("s", 0.0, None, 5), ("s", 1.0, 5, 6), ("s", 1.0 + LEASE, 6, 7)]),
        ("a hair before the margin's end", [("s", 0.0, None, 5), ("s", 1.0, 5, 6), ("s", 1.0 + SPAN - 1e-6, 6, 7)]),
        ("nothing was acknowledged when the span began", [("s", 0.0, None, 5), ("s", SPAN, 5, 6)]),
        ("two writers' stamps are no clock", [("s", 0.0, None, 5), ("s", 1.0, 5, 6), ("t", 1.0 + 2 * SPAN, None, 7)]),
        (
            "two writers' stamps are no clock, both acknowledged",
            [("s", 0.0, None, 5), ("t", 50.0, None, 6), ("s", 1.0, 5, 7), ("t", 51.0, 6, 8)],
        ),
        ("an acknowledgement of the future was never one", [("s", 1.0, 9, 6), ("s", 1.0 + SPAN, 9, 7)]),
        ("stamps that fall are no clock", [("s", 0.0, None, 5), ("s", 90.0, 5, 6), ("s", 1.0, 6, 7), ("s", 9.0, 7, 8)]),
    ],
)
def test_less_than_that_proves_nothing(why: str, records: list[tuple[str, float, int | None, int]]) -> None:
    assert log(*records).horizon(LEASE) == -1, why


def test_stamps_of_two_boots_are_not_joined() -> None:
    records = [("s", 0.0, None, 5), ("s", 1.0, 5, 6), ("s", 1.0 + SPAN, 6, 7)]
    assert log(*records, boots={7: "another boot"}).horizon(LEASE) == -1


def test_a_gap_makes_earlier_evidence_void_and_moves_everybody_up() -> None:
    seen = log(("s", 0.0, None, 5), ("s", 1.0, 5, 6))
    seen.started(100)
    assert seen.floor == 99
    seen.add("s", boot_id="boot", stamp=1.0 + SPAN, acked=6, offset=100)
    assert seen.horizon(LEASE) == -1
    seen.add("s", boot_id="boot", stamp=2.0 + SPAN, acked=100, offset=101)
    seen.add("s", boot_id="boot", stamp=2.0 + 2 * SPAN, acked=101, offset=102)
    assert seen.horizon(LEASE) == 100


def test_the_evidence_of_before_the_log_start_does_not_count_against_who_has_no_record() -> None:
    # acked 5 lies before the log's start: whoever stamped records in between may have had them deleted
    seen = log(("s", 1.0, 5, 10), ("s", 1.0 + SPAN, 10, 11), start=10)
    assert seen.horizon(LEASE) == -1


def test_each_lease_has_its_own_horizon() -> None:
    seen = log(("s", 0.0, None, 5), ("s", 1.0, 5, 6), ("s", 6.0, 6, 7), ("s", 1.0 + SPAN, 7, 8))
    assert seen.horizon(LEASE) == 5
    assert seen.horizon(4.0) == 6


def test_a_writer_that_has_left_the_log_is_forgotten() -> None:
    seen = log(("s", 0.0, None, 5), ("s", 1.0, 5, 6), ("s", 1.0 + SPAN, 6, 7))
    seen.forget_before(8)
    assert seen.horizon(LEASE) == -1


def test_long_histories_are_trimmed_and_still_prove_it() -> None:
    records: list[tuple[str, float, int | None, int]] = [("s", float(n), n - 1 if n else None, n) for n in range(5000)]
    seen = log(*records)
    assert seen.horizon(LEASE) == 4999 - 12 - 1
    (source,) = seen._sources.values()
    assert len(source.stamps) < 500


@given(
    gaps=st.lists(st.floats(0.0, 20.0), min_size=1, max_size=40),
    acks=st.lists(st.booleans(), min_size=40, max_size=40),
    silent_after=st.integers(0, 39),
)
def test_nobody_is_over_within_a_lease_of_its_last_stamp(gaps: list[float], acks: list[bool], silent_after: int) -> None:
    """One true clock for both: whatever the writer's pattern, the proof comes no earlier than a lease after the last record."""
    seen, now, acked, last, stamped = HeartbeatLog(LEASE), 0.0, None, -1, 0.0
    seen.started(0)
    offset = 0
    for n, gap in enumerate(gaps):
        now += gap
        if n <= silent_after:
            last, stamped, offset = offset, now, offset + 1  # the worker's own heartbeat
        seen.add("s", boot_id="boot", stamp=now, acked=acked, offset=offset)
        if last < seen.horizon(LEASE):
            assert now - stamped >= LEASE
        if acks[n]:
            acked = offset
        offset += 1
