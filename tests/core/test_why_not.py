"""What is said against other numbers of consumers, in words, whatever keeps the record of the decision."""

import pytest

from autoscaler.core.assignors.group_model import Assignor
from autoscaler.core.assignors.group_reader import Unpredictable
from autoscaler.core.why_not import Decided, why_not
from autoscaler.model import Finding
from autoscaler.model.findings import What
from tests import builders as b
from tests.core.test_consumer_count import group


def decided(*rates: float | None, consumers: int | None = 2, **changed: object) -> Decided:
    known = [r for r in rates if r is not None]
    given = {
        "rates": {b.tp(n): r for n, r in enumerate(rates)}, "holders": {b.tp(n): str(n % 2) for n in range(len(rates))},
        "total_bytes_per_s": sum(known), "usable_bytes_per_s": 80.0, "algorithm": "PACE balanced", "consumers": consumers,
        "reason": "WITHIN_TARGET", "limited_by": None, "by_assignor": False,
    } | changed  # fmt: skip
    return Decided(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "which", "says"),
    [
        (decided(50.0, 40.0), "fewer", "no placement on 1 consumer keeps each within 80 B/s"),
        (decided(40.0, 30.0), "fewer", "1 consumer would hold it: the hottest would get 70 B/s of 80 B/s usable"),
        (decided(40.0, 30.0), "fewer", "how much must be left to spare is not judged: ask there"),
        (decided(40.0, 38.0, tolerance_ratio=0.1), "fewer", "above the 72 B/s which fewer must do with"),
        (decided(40.0, 30.0, reason="UNDERUSED", limited_by="COOLDOWN"), "fewer", "COOLDOWN held it, see above"),
        (decided(50.0, 50.0, 50.0, limited_by="AT_MAXIMUM"), "more", "AT_MAXIMUM held it, see above"),
        (decided(50.0, 40.0, 10.0), "more", "3 consumers are not needed for it"),
        (decided(), "more", "what each partition had then is not recorded"),
        (decided(50.0, 40.0, total_bytes_per_s=120.0), "more", "some partitions did not count then"),
        (decided(50.0, None, total_bytes_per_s=50.0), "more", "2 partitions are all there are"),
    ],
)
def test_other_numbers_are_judged_in_words(record: Decided, which: str, says: str) -> None:
    assert says in (why_not(record).said(which, "ask there") or "")


def test_there_may_be_none_to_compare_with() -> None:
    assert why_not(decided(50.0, consumers=1)).said("fewer", "") is None
    assert why_not(decided(50.0, consumers=None)).said("more", "") is None


def test_members_of_a_group_of_its_own_may_hold_partitions() -> None:
    held = {b.tp(0): "rdkafka-3fbd9c7e", b.tp(1): "rdkafka-0a"}
    assert "would hold it" in (why_not(decided(40.0, 30.0, holders=held)).said("fewer", "") or "")


def test_a_backlog_that_is_given_a_time_counts() -> None:
    """By rates one would do; read in time, the first takes 70 of 80, as much as the other leaves of no single consumer."""
    by_rates = decided(40.0, 30.0, needed={})
    assert "1 consumer would hold it" in (why_not(by_rates).said("fewer", "") or "")
    late = decided(40.0, 30.0, needed={b.tp(0): 70.0})
    assert "it takes 2 consumers at least" in (why_not(late).said("fewer", "") or "")
    capped = decided(40.0, 0.0, needed={b.tp(0): 500.0})
    assert "the hottest would get 80 B/s of 80 B/s usable" in (why_not(capped).said("fewer", "") or "")
    unknown = decided(40.0, 30.0, needed=None)
    assert "no other number can be judged" in (why_not(unknown).said("fewer", "") or "")


def dealt_out(assignor: Assignor, *rates: float, consumers: int, **changed: object) -> Decided:
    seen = group(assignor, len(rates), consumers)
    held = {p: c.member_id for c in seen.consumers for p in c.owned}
    return decided(*rates, consumers=consumers, holders=held, by_assignor=True, group=seen, **changed)


@pytest.mark.parametrize(
    ("record", "which", "says"),
    [
        # in ranges of two the second of two has 60 of 80, of one all has 84
        (dealt_out(Assignor.RANGE, 12, 12, 30, 30, consumers=2), "fewer", "no placement on 1 consumer keeps each within 80 B/s"),
        (dealt_out(Assignor.RANGE, 10, 10, 30, 30, 30, consumers=3, tolerance_ratio=0.1), "fewer",
         "2 consumers would hold it: the group's own assignor (range) gives the hottest 60 B/s, of 72 B/s at most"),
        (dealt_out(Assignor.RANGE, 40, 40, 10, 10, 10, consumers=3), "fewer", "(range) gives the hottest 90 B/s, above 80 B/s"),
        (dealt_out(Assignor.RANGE, 10, 10, 30, 30, consumers=2), "more", "3 consumers are not needed for it"),
        (dealt_out(Assignor.RANGE, 40, 40, 10, 10, 10, consumers=2), "more", "3 consumers would hold it"),
    ],
)  # fmt: skip
def test_what_the_groups_own_assignor_would_do_is_judged_by_following_it(record: Decided, which: str, says: str) -> None:
    assert says in (why_not(record).said(which, "ask there") or "")


def test_why_an_assignor_cannot_be_followed_is_said() -> None:
    why = Unpredictable(why=Finding.of(What.RACKS, racks=2, assignor="range"))
    said = why_not(decided(40.0, 30.0, by_assignor=True, group=why)).said("fewer", "") or ""
    assert "rack" in said
    assert "not recorded" not in said
