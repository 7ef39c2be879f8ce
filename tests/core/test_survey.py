"""What a few looks say of consumer groups: made-up clusters, of which each shows one thing."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.looks import Ends, GroupLook, Look, at_rest, read_to_the_end
from autoscaler.core.survey import Sizing, Trouble, Verdict, survey
from autoscaler.model import GroupMembers, Member, Retention, Span
from tests import builders as b

SIZE = 100.0  # bytes of a record
SECONDS = 60.0
FOR_EVER = Retention(seconds=math.inf, bytes=math.inf)
DAY = Retention(seconds=86_400.0, bytes=math.inf)


def group(held: list[list[int]], committed: dict[int, int], at: float, **changed: str) -> GroupLook:
    """Return a group whose consumers hold partitions by number."""
    members = tuple(
        Member(
            member_id=f"c{n}-id", client_id=f"c{n}", host="/10.0.0.7", assigned=frozenset(map(b.tp, ps)), place=n,
            topics=frozenset({b.TOPIC}), library="java",
        )
        for n, ps in enumerate(held)
    )  # fmt: skip
    how = {"state": "STABLE" if held else "EMPTY", "kind": "CLASSIC", "assignor": "range", **changed}
    found = GroupMembers(**how, members=members, at=0.0)
    return GroupLook(at=at, members=found, committed={b.tp(p): o for p, o in committed.items()})


def looks(
    held: list[list[int]], arrived: list[int], drained: list[int], *, lag: int = 10, seconds: float = SECONDS, **changed: str
) -> list[Look]:
    """Return three looks at a group: of each partition how many records came and how many were committed meanwhile."""
    made = []
    for part in (0.0, 0.5, 1.0):
        ends = {b.tp(p): Ends(start=0, end=10_000 + round(n * part)) for p, n in enumerate(arrived)}
        committed = {p: 10_000 - lag + round(n * part) for p, n in enumerate(drained)}
        seen = group(held, committed, seconds * part, **changed)
        sizes = {p: e.end * SIZE for p, e in ends.items()}
        made.append(Look(at=seconds * part, groups={"g": seen}, ends=ends, sizes=sizes))
    return made


def judged(made: list[Look], kept: Retention = FOR_EVER, sizing: Sizing | None = None) -> Verdict:
    (found,) = survey(made, {b.TOPIC: kept}, {} if sizing is None else {"g": sizing})
    return found


def test_a_group_that_keeps_up_has_nothing_to_do_and_shows_the_least_of_what_a_consumer_can_do() -> None:
    v = judged(looks([[0, 1], [2, 3]], [600] * 4, [600] * 4))
    assert v.troubles == (Trouble.FINE,)
    assert [v.arriving, v.consumed] == pytest.approx([4_000.0, 4_000.0])
    assert (v.lag, v.at_least, v.takes, v.saves) == (40, True, 2, 0)
    assert v.capacity == pytest.approx(2_000.0)


def test_a_consumer_that_is_behind_shows_what_one_handles_and_how_many_it_takes() -> None:
    """Each drains 20 records/s of 40, and a partition has 20: above the four fifths that are planned for."""
    v = judged(looks([[0, 1], [2, 3]], [1200] * 4, [600] * 4, lag=2_000))
    assert v.troubles == (Trouble.UNDER,)
    assert v.capacity == pytest.approx(2_000.0)
    assert v.takes_by_load == 4
    assert (v.grown, v.lag) == (2_400, 10_400)


def test_a_configured_capacity_counts_and_fewer_must_leave_something_to_spare() -> None:
    keeps_up = looks([[0], [1], [2], [3]], [600] * 4, [600] * 4)
    v = judged(keeps_up, sizing=Sizing(capacity_bytes_per_s=10_000.0))
    assert v.troubles == (Trouble.OVER,)
    assert (v.takes, v.saves, v.configured) == (1, 3, True)
    barely = judged(keeps_up, sizing=Sizing(capacity_bytes_per_s=5_000.0))
    assert (barely.takes, barely.saves) == (1, 2), "4,000 of 4,000 usable is enough to stay at one, but not to go there"


def test_consumers_without_a_partition_are_too_many_whatever_one_handles() -> None:
    v = judged(looks([[0], [1], [], []], [600] * 2, [600] * 2))
    assert (v.troubles, v.saves, v.idle) == ((Trouble.OVER,), 2, 2)


def test_a_partition_without_a_commit_stands_still_only_while_there_is_something_to_read() -> None:
    v = judged(looks([[0], [1]], [600, 600], [0, 600]))
    assert (v.troubles[0], v.stuck) == (Trouble.STUCK, (b.tp(0),))
    assert judged(looks([[0], [1]], [0, 600], [0, 600], lag=0)).stuck == ()
    assert judged(looks([[0], [1]], [0, 600], [0, 600])).stuck == (b.tp(0),), "it stands, and so does the lag"
    assert judged(looks([[0], [1]], [600, 600], [0, 600], seconds=5.0)).stuck == (), "too short to say so"


def test_records_that_are_deleted_unread_come_first() -> None:
    made = looks([[0]], [600], [600], lag=5_000)
    late = [replace(x, ends={p: Ends(start=6_000, end=e.end) for p, e in x.ends.items()}) for x in made]
    assert judged(late, DAY).troubles[0] is Trouble.LOST
    near = [replace(x, ends={p: Ends(start=5_500, end=e.end) for p, e in x.ends.items()}) for x in made]
    assert judged(near, DAY).troubles[0] is Trouble.RETENTION
    assert not {Trouble.LOST, Trouble.RETENTION} & set(judged(near, FOR_EVER).troubles)
    assert judged(made, Retention(seconds=520.0, bytes=math.inf)).troubles[0] is Trouble.RETENTION, "500 s of 520 wait"


def test_load_that_could_be_spread_and_is_not_is_uneven() -> None:
    assert Trouble.UNEVEN in judged(looks([[0, 1], [2, 3]], [900, 900, 60, 60], [900, 900, 60, 60])).troubles
    assert judged(looks([[0], [1]], [1800, 60], [1800, 60])).troubles == (Trouble.FINE,), "one partition cannot be split"


def test_a_group_without_consumers_is_said_where_records_wait() -> None:
    v = judged(looks([], [600], [0]))
    assert v.troubles == (Trouble.NO_CONSUMERS,)
    assert judged(looks([], [0], [0], lag=0)).troubles == (Trouble.FINE,)


def test_what_is_not_of_consumers_or_has_nothing_is_left_out() -> None:
    assert survey(looks([[0]], [1], [1], kind="SHARE"), {}, {}) == ()
    assert survey(looks([], [], []), {}, {}) == ()


@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_look_that_failed_is_not_read_as_no_load(when: int) -> None:
    made = looks([[0], []], [600], [600])
    made[when] = replace(made[when], groups={"g": "its coordinator answers CoordinatorLoadInProgressError"})
    v = judged(made)
    assert (v.troubles, v.arriving, v.saves) == ((Trouble.UNKNOWN,), None, 0)


@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_topic_that_could_not_be_read_leaves_the_load_unknown(when: int) -> None:
    made = looks([[0, 1], []], [600, 600], [600, 600])
    gone = {p: e for p, e in made[when].ends.items() if p != b.tp(1)}
    made[when] = replace(made[when], ends=gone, unread={b.TOPIC: "LeaderNotAvailableError"})
    v = judged(made, sizing=Sizing(capacity_bytes_per_s=1e9))
    assert v.troubles == (Trouble.UNKNOWN,)
    assert (v.arriving, v.takes, v.saves) == (None, None, 0)


def test_without_sizes_of_logs_rates_are_records_and_bytes_of_the_configuration_do_not_count() -> None:
    made = [replace(x, sizes={}) for x in looks([[0], [1]], [600, 600], [600, 600])]
    v = judged(made, sizing=Sizing(capacity_bytes_per_s=1e9))
    assert (v.by_bytes, v.configured, v.takes) == (False, False, 2)
    assert v.capacity == pytest.approx(10.0)
    assert v.arriving == pytest.approx(20.0)


def test_a_partition_without_a_commit_has_no_lag_of_zero() -> None:
    made = looks([[0], [1]], [600, 600], [600])
    v = judged(made)
    assert (v.uncommitted, v.lag) == (1, 10)


@given(
    rates=st.lists(st.integers(0, 3_000), min_size=1, max_size=6),
    consumers=st.integers(1, 6),
    capacity=st.one_of(st.none(), st.floats(100.0, 1e6)),
)
def test_a_group_never_takes_more_and_could_do_with_fewer_at_once(
    rates: list[int], consumers: int, capacity: float | None
) -> None:
    held: list[list[int]] = [[] for _ in range(consumers)]
    for p in range(len(rates)):
        held[p % consumers].append(p)
    v = judged(looks(held, rates, rates), sizing=Sizing(capacity_bytes_per_s=capacity))
    assert not {Trouble.UNDER, Trouble.OVER} <= set(v.troubles)
    assert 0 <= v.saves < consumers
    if v.takes is not None and v.takes_by_load is not None:
        assert v.takes >= v.takes_by_load or v.takes >= 1


def test_groups_that_ask_for_a_person_come_first() -> None:
    one = looks([[0], [1]], [600, 600], [600, 600])
    stuck = looks([[0], [1]], [600, 600], [0, 600])
    both = [replace(x, groups={"a-fine": x.groups["g"], "stuck": y.groups["g"]}) for x, y in zip(one, stuck, strict=True)]
    assert [v.group for v in survey(both, {}, {})] == ["stuck", "a-fine"]


def without_commits(made: list[Look], *partitions: int) -> list[Look]:
    """Return the looks as if some partitions had never had a commit."""
    gone = set(map(b.tp, partitions))
    seen = [x.groups["g"] for x in made]
    left = [replace(s, committed={p: o for p, o in s.committed.items() if p not in gone}) for s in seen]  # type: ignore[union-attr,type-var]
    return [replace(x, groups={"g": s}) for x, s in zip(made, left, strict=True)]


def test_records_that_come_and_are_never_committed_are_stuck() -> None:
    v = judged(without_commits(looks([[0], [1]], [600, 600], [0, 600]), 0))
    assert (v.troubles[0], v.stuck) == (Trouble.STUCK, (b.tp(0),))
    assert judged(without_commits(looks([[0], [1]], [0, 600], [0, 600]), 0)).stuck == (), "nothing came to be committed"


def test_a_group_that_has_never_committed_where_records_are_is_not_known() -> None:
    v = judged(without_commits(looks([[0]], [0], [0]), 0))
    assert v.troubles == (Trouble.UNKNOWN,)


def test_lost_records_of_a_group_without_consumers_are_lost() -> None:
    made = looks([], [600], [0], lag=5_000)
    late = [replace(x, ends={p: Ends(start=6_000, end=e.end) for p, e in x.ends.items()}) for x in made]
    assert judged(late, DAY).troubles == (Trouble.LOST, Trouble.NO_CONSUMERS)


def test_who_assigns_partitions_to_itself_is_no_member_and_consumes() -> None:
    assert judged(looks([], [600], [600])).troubles == (Trouble.FINE,)
    assert judged(looks([], [600], [100])).troubles == (Trouble.UNDER,)


def in_look(made: list[Look], when: int, **changed: object) -> list[Look]:
    """Return the looks with one in which the group's membership is another one."""
    seen = made[when].groups["g"]
    assert not isinstance(seen, str)
    members = replace(seen.members, **changed)  # type: ignore[arg-type]
    return [*made[:when], replace(made[when], groups={"g": replace(seen, members=members)}), *made[when + 1 :]]


def test_a_group_that_rebalances_all_the_time_is_said() -> None:
    """Who holds what is another one in each look; once in a minute is a consumer that came or went."""
    kept = looks([[0, 1], [2, 3]], [600] * 4, [600] * 4)
    (one, two) = kept[0].groups["g"].members.members  # type: ignore[union-attr]
    swapped = (replace(one, assigned=two.assigned), replace(two, assigned=one.assigned))
    v = judged(in_look(kept, 1, members=swapped))
    assert (v.troubles, v.rebalances) == ((Trouble.REBALANCING,), 2)
    once = judged(in_look(kept, 2, members=swapped))
    assert (once.troubles, once.rebalances) == ((Trouble.FINE,), 1)
    assert judged(kept).rebalances == 0
    unsettled = kept
    for when in range(3):
        unsettled = in_look(unsettled, when, state="PREPARING_REBALANCING", members=())
    assert judged(unsettled).troubles[0] is not Trouble.REBALANCING, "without members there is none that could join"
    joining = (replace(one, assigned=frozenset()), replace(two, assigned=frozenset()))
    for when in range(3):
        unsettled = in_look(unsettled, when, state="PREPARING_REBALANCING", members=joining)
    assert Trouble.REBALANCING in judged(unsettled).troubles


def test_a_commit_beyond_the_end_of_the_log_is_not_known_and_no_lag_of_zero() -> None:
    """A topic that was made anew under its name, or lost records: what comes below the commit may never be read."""
    made = looks([[0], [1]], [600, 600], [600, 600])
    short = [replace(x, ends={**x.ends, b.tp(0): Ends(start=0, end=500 + n)}) for n, x in enumerate(made)]
    v = judged(short)
    assert (v.troubles, v.lag, v.uncommitted) == ((Trouble.UNKNOWN,), 10, 0)
    assert "beyond the end of its log, 502" in v.why_unknown[0]
    assert v.arriving is not None, "how much arrives is known all the same"
    left = looks([], [600, 600], [600, 600])
    empty = [replace(x, groups=y.groups) for x, y in zip(short, left, strict=True)]
    assert judged(empty).troubles[0] is Trouble.UNKNOWN


def test_a_mark_of_a_transaction_at_the_end_is_nothing_that_waits() -> None:
    """Partition 0 rests and its last commit is one behind its end; 1 still gets records."""
    made = looks([[0], [1]], [0, 600], [0, 0], lag=1)
    rests = at_rest(made, {"g": judged(made).stuck})
    assert rests == {"g": {b.tp(0): Span(9_999, 10_000)}}
    v = judged(read_to_the_end(made, rests))
    assert (v.stuck, v.lag) == ((b.tp(1),), 601)
    assert judged(read_to_the_end(made, {})).stuck == (b.tp(0), b.tp(1))


def test_what_the_hottest_consumer_keeps_up_with_shows_that_others_are_too_many() -> None:
    """One of four has 4,000 B/s: two, of which each gets 2,600 B/s, are enough with more than a tenth to spare."""
    rates = [180, 180, 1_200, 1_200, 180, 180]
    v = judged(looks([[0, 1], [2, 3], [4], [5]], rates, rates))
    assert (v.troubles, v.at_least) == ((Trouble.UNEVEN, Trouble.OVER), True)
    assert (v.takes, v.saves) == (2, 2)
    assert v.capacity == pytest.approx(4_000.0)
    even = judged(looks([[0], [1], [2]], [2_400, 2_300, 2_350], [2_400, 2_300, 2_350]))
    assert (even.troubles, even.takes, even.saves) == ((Trouble.FINE,), 3, 0)
    behind = judged(looks([[0], [1]], [2_400, 60], [1_200, 60], lag=3_000))
    assert not behind.at_least
    assert behind.capacity == pytest.approx(2_000.0), "who is behind shows it better"
