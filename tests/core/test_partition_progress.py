"""How partitions get on, judged by their offsets alone."""

import pytest

from autoscaler.core.load.consumption import Consumption
from autoscaler.core.load.partition_progress import Holding, Progress, judge
from autoscaler.model import PartitionLoad
from tests.builders import T0, load, moment, snapshot, tp

Sample = tuple[float, int, int, int]  # seconds, committed, end, last stable offset (-1: the group reads everything)


def measured(committed: int, end: int, stable: int, **changes: object) -> PartitionLoad:
    readable = end if stable < 0 else stable
    return load(
        tp(0), 10.0, committed=committed, log_end=end, lag_records=readable - max(committed, 0),
        last_stable=None if stable < 0 else stable, **changes,
    )  # fmt: skip


def holding(*, held: bool = True, parked: bool = False, commits_often: bool = True, patience_s: float = 60) -> Holding:
    return Holding(
        held={tp(0)} if held else (), parked={tp(0)} if parked else (), commits_often=commits_often, patience_s=patience_s
    )


def follow(so_far: Consumption, now: float, *loads: PartitionLoad) -> Consumption:
    return so_far.measured(snapshot(loads, now), moment(now))


def judged(samples: list[Sample], holds: Holding) -> Progress | None:
    seen = follow(Consumption(), T0 - 1)
    for at, committed, end, stable in samples:
        latest, now = measured(committed, end, stable), T0 + at
        seen = follow(seen, now, latest)
    return judge(latest, seen.tracks.get(tp(0)), now, holds)


@pytest.mark.parametrize(
    ("samples", "wanted", "why"),
    [
        ([(0, 5, 9, -1), (30, 6, 20, -1), (90, 7, 50, -1)], Progress.OK, "it falls behind, and advances"),
        ([(0, 5, 9, -1), (60, 5, 20, -1)], Progress.STALL, "work, and no step in a minute"),
        ([(0, 5, 9, -1), (59, 5, 20, -1)], Progress.OK, "there is patience left"),
        ([(0, 5, 5, -1), (50, 5, 9, -1), (100, 5, 9, -1)], Progress.OK, "there was nothing to do until 50 s ago"),
        ([(0, 5, 9, -1), (30, 9, 9, -1), (40, 9, 12, -1), (90, 9, 12, -1)], Progress.OK, "it had caught up in between"),
        ([(0, -1, 9, -1), (60, -1, 9, -1)], Progress.STALL, "nothing was ever committed"),
        ([(0, 9, 9, -1), (60, 9, 9, -1)], Progress.NO_TRAFFIC, "nothing to do, nothing comes"),
        ([(0, 9, 9, -1), (30, 10, 10, -1), (60, 10, 10, -1)], Progress.OK, "something came half a minute ago"),
        ([(0, 9, 9, -1), (30, 3, 9, -1)], Progress.REWIND, "set back"),
        ([(0, 9, 9, -1), (30, 3, 9, -1), (80, 5, 9, -1)], Progress.REWIND, "set back not long ago"),
        ([(0, 9, 9, -1), (30, 3, 9, -1), (90, 5, 9, -1)], Progress.OK, "set back a minute ago, and going on"),
        ([(0, 9, 9, -1), (30, 3, 9, -1), (90, 3, 9, -1)], Progress.STALL, "set back and standing still"),
        ([(0, 9, 20, 9), (60, 9, 30, 9)], Progress.OPEN_TRANSACTION, "all is read that may be read"),
        ([(0, 9, 20, 9), (60, 12, 30, 12)], Progress.OK, "transactions end"),
        ([(0, 5, 20, 9), (60, 5, 30, 9)], Progress.STALL, "it does not read even what it may"),
        ([(0, 5, 9, -1)], Progress.OK, "seen once"),
    ],
)  # fmt: skip
def test_how_a_partition_gets_on(samples: list[Sample], wanted: Progress, why: str) -> None:
    assert judged(samples, holding()) is wanted, why


def test_what_nobody_holds_has_stopped_and_what_is_parked_is_poison() -> None:
    samples: list[Sample] = [(0, 5, 9, -1), (60, 5, 20, -1)]
    assert judged(samples, holding(held=False)) is Progress.STOP
    assert judged(samples, holding(held=False, parked=True)) is Progress.POISON


@pytest.mark.parametrize(
    ("samples", "wanted", "why"),
    [
        ([(0, 5, 9, -1), (599, 5, 20, -1)], Progress.OK, "nobody knows yet how often it commits"),
        ([(0, 5, 9, -1), (600, 5, 20, -1)], Progress.STALL, "ten times the patience"),
        ([(0, 5, 9, -1), (300, 8, 20, -1), (899, 8, 30, -1)], Progress.OK, "it took five minutes before"),
        ([(0, 5, 9, -1), (300, 8, 20, -1), (900, 8, 30, -1)], Progress.STALL, "and takes more than ten now"),
        ([(0, 5, 9, -1), (1, 8, 20, -1), (61, 8, 30, -1)], Progress.STALL, "it was seen to commit often"),
    ],
)  # fmt: skip
def test_a_group_that_commits_seldom_is_given_time(samples: list[Sample], wanted: Progress, why: str) -> None:
    assert judged(samples, holding(commits_often=False)) is wanted, why


def test_what_cannot_be_read_is_not_judged_and_forgets_nothing() -> None:
    seen = follow(Consumption(), T0, measured(5, 9, -1))
    blind = measured(5, 9, -1, known=False)
    seen = follow(seen, T0 + 50, blind)
    assert judge(blind, seen.tracks[tp(0)], T0 + 50, holding(patience_s=20)) is None
    again = measured(5, 30, -1)
    seen = follow(seen, T0 + 60, again)
    assert judge(again, seen.tracks[tp(0)], T0 + 60, holding()) is Progress.STALL
    assert follow(seen, T0 + 61, again).tracks[tp(0)] is seen.tracks[tp(0)], "nothing new, nothing made"


def test_a_partition_that_is_gone_is_forgotten() -> None:
    seen = follow(Consumption(), T0, measured(5, 9, -1), load(tp(1), 1.0))
    assert set(follow(seen, T0 + 1, measured(5, 9, -1)).tracks) == {tp(0)}
