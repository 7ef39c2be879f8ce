"""The window's arithmetic: counters, rates and lag, each known trap as a test."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.streaming import rate_window
from autoscaler.streaming.lag import Commits, GroupRules, Lags, lags, with_commits
from autoscaler.streaming.state import SLOT, Array, State, dump, load
from autoscaler.streaming.window_inputs import Facts, Rules

RULES = Rules(window_s=10.0, known_for_s=3.0, default_record_bytes=1000.0)
GROUP = GroupRules(group="g", topics=("t",))


def facts(ts: float, *, failed: bool = False, topic_id: str = "id", partitions: int = 1, **values: int | list[int]) -> Facts:
    """One read of ``partitions`` partitions of topic t, all with the same values unless lists are given."""

    def column(name: str, default: int | list[int], dtype: str) -> Array:
        return np.broadcast_to(np.asarray(values.get(name, default), dtype), partitions).copy()

    return Facts(
        topics=("t",), topic_ids=(topic_id,), topic=np.zeros(partitions, "i4"), partition=np.arange(partitions, dtype="i4"),
        ts=np.full(partitions, ts), leader=column("leader", 1, "i4"), epoch=column("epoch", 0, "i4"),
        start=column("start", 0, "i8"), end=column("end", 0, "i8"), stable=column("stable", values.get("end", 0), "i8"),
        size=column("size", 0, "i8"), failed=np.full(partitions, failed),
    )  # fmt: skip


class Bucket:
    """Feeds reads to the window as the Spark state machine does, slots and all."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.state, self.slots, self.rules = State(), dict[int, bytes](), rules
        self.before = dict[str, Array]()  # commits of the read before

    def read(self, given: Facts) -> "Bucket":
        used = rate_window.base_slot(self.state, given, self.rules)
        base = None if used is None else np.frombuffer(self.slots[used], SLOT)
        step = rate_window.advance(self.state, given, base, self.rules)
        if step.write is not None:
            self.slots[step.write_id] = step.write.tobytes()
        for slot in step.drop:
            del self.slots[slot]
        self.state = load(dump(step.state))
        return self

    def commit(self, ts: float, *offsets: int, group: str = "g") -> "Bucket":
        n = len(offsets)
        read = Commits(
            groups=(group,),
            topics=("t",),
            group=np.zeros(n, "i4"),
            topic=np.zeros(n, "i4"),
            partition=np.arange(n, dtype="i4"),
            ts=np.full(n, ts),
            offset=np.array(offsets),
        )
        self.before, self.state = dict(self.state.commits), with_commits(self.state, [group], read)
        return self

    def steady(self, seconds: int, *, begin: float = 0.0, per_s: int = 100, size: int = 500) -> "Bucket":
        """Read once a second while ``per_s`` records of ``size`` bytes arrive per second."""
        end = int(self.row["end"]) if len(self.state.rows) else 0
        had = int(self.row["size"]) if len(self.state.rows) else 0
        for i in range(seconds):
            n = (i + (1 if len(self.state.rows) and i == 0 else 0)) and per_s
            end, had = end + n, had + n * size
            self.read(facts(begin + i, end=end, size=had))
        return self

    @property
    def row(self) -> np.void:
        row: np.void = self.state.rows[0]
        return row

    def lag(self, now: float, group: GroupRules = GROUP) -> Lags:
        return lags(self.state, [group], now, self.rules, replace(self.state, commits=self.before))

    @property
    def source(self) -> str:
        return str(rate_window.SOURCES[self.row["source"]])


def test_rate_is_growth_over_the_window() -> None:
    b = Bucket().steady(30, per_s=100, size=500)
    assert b.row["bytes_per_s"] == pytest.approx(50_000)
    assert b.row["records_per_s"] == pytest.approx(100)
    assert b.row["span"] == pytest.approx(10)
    assert b.source == "log_dirs"


def test_the_window_forgets_what_is_older() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    b.steady(11, begin=20, per_s=10, size=500)
    assert b.row["bytes_per_s"] == pytest.approx(5_000)


def test_no_rate_before_a_second_has_passed() -> None:
    b = Bucket().read(facts(0, end=10, size=100)).read(facts(0.5, end=20, size=200))
    assert np.isnan(b.row["bytes_per_s"])
    b.read(facts(1.0, end=30, size=300))
    assert b.row["bytes_per_s"] == pytest.approx(200)


def test_state_stays_small_however_short_the_trigger() -> None:
    b = Bucket()
    for i in range(600):
        b.read(facts(i * 0.1, end=i, size=i * 10))
    assert len(b.slots) <= RULES.slots + 2
    assert len(b.state.marks) <= 24
    assert b.row["records_per_s"] == pytest.approx(10)


# --- traps --------------------------------------------------------------------------------------------------------------


def test_an_outage_longer_than_the_window_does_not_make_the_rate_zero() -> None:
    """The window ends at the last good sample: error rows move the clock, not the window."""
    b = Bucket().steady(20, per_s=100, size=500)
    for i in range(40):
        b.read(facts(20 + i, failed=True))
        assert b.row["bytes_per_s"] == pytest.approx(50_000), "the last rate is held"
    b.read(facts(60, end=1900 + 4100, size=(1900 + 4100) * 500))
    assert b.row["bytes_per_s"] == pytest.approx(50_000, rel=0.2)
    assert b.row["bytes_per_s"] > 0
    b.steady(12, begin=61, per_s=100, size=500)
    assert b.row["bytes_per_s"] == pytest.approx(50_000, rel=0.01)


def test_the_first_interval_after_an_error_counts_records_times_the_old_mean() -> None:
    """Growth over an outage may have been read against other offsets; bytes per record must not learn from it."""
    b = Bucket().steady(20, per_s=100, size=500)
    before = float(b.row["bytes"])
    b.read(facts(20, failed=True))
    b.read(facts(21, end=1900 + 200, size=1900 * 500 + 57_000_000))
    assert b.row["bytes"] - before == pytest.approx(200 * 500)
    assert b.row["mean"] == pytest.approx(500)


def test_a_poisoned_mean_is_learnt_anew() -> None:
    """Honest intervals that look implausible are rejected a few times only, not for ever."""
    b = Bucket().steady(20, per_s=100, size=25_000)
    b.steady(12, begin=20, per_s=100, size=500)
    assert b.row["mean"] == pytest.approx(500, rel=0.01)
    b.steady(11, begin=32, per_s=100, size=500)
    assert b.row["bytes_per_s"] == pytest.approx(50_000, rel=0.01)


def test_a_size_that_is_read_a_moment_after_few_records_teaches_no_record_size() -> None:
    """As after an outage: four records have come when the ends are read, and a batch of 250 more when the sizes are."""
    b = Bucket().steady(20, per_s=100, size=1000)
    end, size = int(b.row["end"]), int(b.row["size"])
    for i in range(30):
        b.read(facts(20 + i, failed=True))
    b.read(facts(50, end=end, size=size))
    b.read(facts(51, end=end + 4, size=size + 254_000))
    assert b.row["mean"] == pytest.approx(1000), "it is a matter of when, not of how large"
    for i in range(6):
        n = 254 + 100 * i
        b.read(facts(52 + i, end=end + n, size=size + n * 1000))
        assert b.row["bytes_per_s"] <= 300_000, i
    b.steady(12, begin=58, per_s=100, size=1000)
    assert b.row["bytes_per_s"] == pytest.approx(100_000, rel=0.01)


def test_few_records_teach_a_size_that_is_like_the_one_that_is_known() -> None:
    b = Bucket().steady(20, per_s=1, size=1000)
    b.steady(20, begin=20, per_s=1, size=1500)
    assert b.row["mean"] == pytest.approx(1500, rel=0.01)


def test_a_single_implausible_interval_is_counted_by_the_mean() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    size, before = int(b.row["size"]), float(b.row["bytes"])
    b.read(facts(20, end=int(b.row["end"]) + 100, size=size + 1_000))  # a deletion of segments hides in it
    assert b.row["bytes"] - before == pytest.approx(50_000)
    assert b.row["mean"] == pytest.approx(500)


@pytest.mark.parametrize("per_s", [10, 100])
@pytest.mark.parametrize("large", [100_000, 500_000, 2_000_000])
def test_a_few_large_records_among_small_ones_count_with_every_byte(per_s: int, large: int) -> None:
    b, end, size = Bucket(), 0, 0
    for i in range(120):
        end, size = end + per_s + (i % 5 == 0), size + per_s * 1000 + large * (i % 5 == 0)
        b.read(facts(i, end=end, size=size))
        if i >= 40:
            assert b.row["bytes_per_s"] == pytest.approx(per_s * 1000 + large / 5, rel=0.01), i
            assert b.source == "log_dirs"
    assert b.row["mean"] == pytest.approx((per_s * 1000 + large / 5) / (per_s + 0.2), rel=0.4)


@given(st.lists(st.lists(st.floats(10, 1e6), max_size=120), min_size=1, max_size=40))
def test_what_a_size_shows_before_the_end_is_neither_lost_nor_doubled(seconds: list[list[float]]) -> None:
    """Whatever sizes records have: with neither bound in force, only what has come before its records is held."""
    b = Bucket(replace(RULES, plausible_records=10**9)).read(facts(0, end=0, size=0))
    end = size = 0
    for i, records in enumerate(seconds):
        end, size = end + len(records), size + sum(int(r) for r in records)
        b.read(facts(1 + i, end=end, size=size))
    for i in range(4):
        b.read(facts(1 + len(seconds) + i, end=end, size=size))
    assert b.row["bytes"] == pytest.approx(size)


@pytest.mark.parametrize("early", [1, 254])
def test_records_that_the_size_shows_before_the_end_count_once(early: int) -> None:
    """A batch that comes between the reading of ends and of sizes."""
    b = Bucket().steady(20, per_s=100, size=1000)
    end, size, before = int(b.row["end"]), int(b.row["size"]), float(b.row["bytes"])
    b.read(facts(20, end=end, size=size + early * 1000))
    b.read(facts(21, end=end + early, size=size + early * 1000))
    assert b.row["bytes"] - before == pytest.approx(early * 1000)
    b.read(facts(22, end=end + early + 4, size=size + (early + 254) * 1000))
    b.read(facts(23, end=end + early + 254, size=size + (early + 254) * 1000))
    assert b.row["bytes"] - before == pytest.approx((early + 254) * 1000)


@pytest.mark.parametrize("quiet", [0, 4])
@pytest.mark.parametrize(("some", "early"), [(6, 15), (1, 100), (100, 100), (100, 190)])
def test_a_batch_that_the_size_shows_before_the_end_beside_some_records_counts_once(some: int, early: int, quiet: int) -> None:
    """A producer that waits between its batches: next to nothing comes after the one that the size has shown already."""
    b = Bucket().steady(20, per_s=100, size=1000)
    end, size, before = int(b.row["end"]), int(b.row["size"]), float(b.row["bytes"])
    b.read(facts(20, end=end + some, size=size + (some + early) * 1000))
    b.read(facts(21, end=end + some + early + quiet, size=size + (some + early + quiet) * 1000))
    assert b.row["bytes"] - before == pytest.approx((some + early + quiet) * 1000)
    b.steady(20, begin=22, per_s=100, size=1000)
    assert b.row["mean"] == pytest.approx(1000)


def test_a_batch_that_only_came_early_does_not_count_as_records_of_different_sizes() -> None:
    """If it did, the one record of a quiet window would teach the size of a batch that came with it."""
    b = Bucket().steady(20, per_s=100, size=1000)
    end, size = int(b.row["end"]) + 5, int(b.row["size"]) + 5000
    b.read(facts(20, end=end - 5, size=size))
    for i in range(12):
        b.read(facts(21 + i, end=end, size=size))
    before = float(b.row["bytes"])
    b.read(facts(33, end=end + 1, size=size + 30_000))
    assert b.row["mean"] == pytest.approx(1000)
    b.read(facts(34, end=end + 30, size=size + 30_000))
    assert b.row["bytes"] - before == pytest.approx(30_000)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 40)), min_size=1, max_size=9))
def test_records_of_one_size_count_once_whenever_they_come(seconds: list[tuple[int, int]]) -> None:
    """Before an end is read, or between that and the size; as far as the mean is one, which the last batch is a part of."""
    b = Bucket().steady(20, per_s=100, size=1000)
    end, before = int(b.row["end"]), int(b.row["size"]) - float(b.row["bytes"])
    for i, (first, then) in enumerate([*seconds, (0, 0), (0, 0), (0, 0), (0, 0)]):
        end += first
        b.read(facts(20 + i, end=end, size=(end + then) * 1000))
        end += then
    assert b.row["bytes"] + before == pytest.approx(end * 1000, rel=0.02)


@pytest.mark.parametrize("per_s", [4, 40, 100, 1000])
def test_a_size_that_grows_absurdly_once_is_no_arrival(per_s: int) -> None:
    b = Bucket().steady(20, per_s=per_s, size=1000)
    end, size = int(b.row["end"]), int(b.row["size"]) + 7_000_000_000
    for i in range(30):
        end, size = end + per_s, size + per_s * 1000
        b.read(facts(20 + i, end=end, size=size))
        assert b.row["bytes_per_s"] == pytest.approx(per_s * 1000), i
        assert b.row["mean"] == pytest.approx(1000)


def test_records_that_have_become_large_for_good_count_with_every_byte() -> None:
    b = Bucket().steady(20, per_s=2, size=1000)
    before = float(b.row["bytes"])
    b.steady(30, begin=20, per_s=2, size=3_000_000)
    assert b.row["bytes"] - before == pytest.approx(60 * 3_000_000)
    assert b.row["mean"] == pytest.approx(3_000_000)


def test_a_clock_set_back_forgets_that_sizes_were_uneven() -> None:
    b = Bucket().steady(20, begin=5000, per_s=100, size=1000)
    end, size = int(b.row["end"]) + 101, int(b.row["size"]) + 1_100_000
    for i in range(5):
        b.read(facts(5020 + i, end=end + 100 * i, size=size + 100_000 * i))
    assert b.row["uneven_until"] > 5000
    b.read(facts(7, end=end + 500, size=size + 500_000))
    assert b.row["uneven_until"] == 0


def test_a_failed_commit_read_is_not_lag_zero() -> None:
    b = Bucket().steady(20, per_s=100, size=500).commit(19, 1000)
    assert b.lag(19).records.tolist() == [900]
    for i in range(5):
        b.steady(1, begin=20 + i, per_s=100).commit(20 + i, -2)
    late = b.lag(24)
    assert late.records.tolist() == [1400], "carried at its last value"
    assert late.known.tolist() == [False], "and not known any more"
    assert Bucket().steady(20).lag(19).records.tolist() == [-1], "never read: unknown"


# --- what makes an interval unclean -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"start": 500}, "retention or DeleteRecords removed something"),
        ({"leader": 2}, "another replica's segments are laid out otherwise"),
        ({"epoch": 1}, "leadership changed in between, even if it came back"),
        ({"size": 0}, "a segment was deleted or compacted"),
        ({"size": -1}, "the broker does not say the size"),
    ],
)
def test_unclean_intervals_count_records_times_the_mean(change: dict[str, int], why: str) -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    before = float(b.row["bytes"])
    values = {"end": int(b.row["end"]) + 100, "size": int(b.row["size"]) + 7_000_000} | change
    b.read(facts(20, failed=False, topic_id="id", partitions=1, **values))
    assert b.row["bytes"] - before == pytest.approx(50_000), why
    assert b.row["mean"] == pytest.approx(500), why


def test_a_segment_that_is_deleted_while_nothing_arrives_teaches_no_record_size() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    b.read(facts(20, end=int(b.row["end"]), size=int(b.row["size"]) - 200_000))
    assert b.row["mean"] == pytest.approx(500)
    b.steady(5, begin=21, per_s=100, size=500)
    assert b.row["mean"] == pytest.approx(500)


def test_without_sizes_the_configured_record_size_is_used_and_said() -> None:
    b = Bucket()
    for i in range(15):
        b.read(facts(i, end=i * 100, size=-1))
    assert b.row["bytes_per_s"] == pytest.approx(100 * 1000)
    assert b.source == "offset_x_default"


def test_when_sizes_stop_the_learnt_mean_is_used_and_said() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    end = int(b.row["end"])
    for i in range(12):
        b.read(facts(20 + i, end=end + (i + 1) * 100, size=-1))
    assert b.row["bytes_per_s"] == pytest.approx(50_000)
    assert b.source == "offset_x_mean"


def test_truncation_begins_a_new_history() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    total = float(b.row["bytes"])
    b.read(facts(20, end=3, size=1500))
    assert b.row["bytes"] == total, "counters never fall"
    assert np.isnan(b.row["bytes_per_s"])
    b.read(facts(21, end=13, size=6500))
    assert b.row["bytes_per_s"] == pytest.approx(5000)
    assert b.row["records_per_s"] == pytest.approx(10)


def test_a_topic_made_anew_begins_a_new_history_although_its_offsets_are_higher() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    b.read(facts(20, topic_id="other", end=5000, size=100))
    assert np.isnan(b.row["bytes_per_s"])
    assert b.row["records"] == 1900


def test_a_clock_set_back_begins_a_new_history_instead_of_holding_the_old_rate() -> None:
    b = Bucket().steady(20, begin=3600, per_s=100, size=500)
    end = int(b.row["end"])
    for i in range(5):
        b.read(facts(i, end=end + i * 10, size=(end + i * 10) * 500))
    assert b.row["records_per_s"] == pytest.approx(10)
    assert b.row["span"] == pytest.approx(4)
    assert len(b.slots) == 5


def test_new_partitions_get_a_rate_of_their_own_and_deleted_ones_vanish() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    for i in range(3):
        b.read(facts(20 + i, partitions=2, end=[2000 + i * 100, i * 50], size=[(2000 + i * 100) * 500, i * 50 * 200]))
    assert b.state.rows["bytes_per_s"].tolist() == pytest.approx([50_000, 10_000])
    for i in range(12):
        b.read(facts(23 + i, end=2300 + i * 100, size=(2300 + i * 100) * 500))
    assert b.state.rows["partition"].tolist() == [0]


def test_a_partition_that_always_failed_has_no_rate_and_no_lag() -> None:
    b = Bucket()
    for i in range(5):
        b.read(facts(i, failed=True, end=-1, start=-1, size=-1)).commit(i, 7)
    lag = b.lag(4)
    assert np.isnan(b.row["bytes_per_s"])
    assert (lag.records.tolist(), lag.known.tolist()) == ([-1], [False])


# --- lag ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "group", "expected", "why"),
    [
        (900, GROUP, 1100, "behind"),
        (2000, GROUP, 0, "caught up"),
        (10, GROUP, 1900, "what retention removed below the commit is not lag"),
        (-1, GROUP, 1900, "no commit, earliest: everything there is"),
        (-1, replace(GROUP, earliest=False), 0, "no commit, latest: nothing yet"),
        (2001, GROUP, -1, "beyond the end: unknown, the topic was made anew or cut"),
        (900, replace(GROUP, read_committed=True), 600, "a read_committed consumer sees up to the last stable offset"),
        (1900, replace(GROUP, read_committed=True), 0, "beyond the last stable offset but not the end"),
        (-2, GROUP, -1, "unknown commit"),
    ],
)
def test_lag_in_records(committed: int, group: GroupRules, expected: int, why: str) -> None:
    b = Bucket().read(facts(0, start=100, end=2000, stable=1500, size=1000)).commit(0, committed)
    assert b.lag(0, group).records.tolist() == [expected], why


def test_a_commit_that_is_newer_than_the_end_has_caught_up_with_it() -> None:
    """Ends and commits are asked of different brokers, a moment apart: a group at the end of its log is often ahead of them."""
    b = Bucket().steady(20, per_s=100, size=500).commit(19, 1890)
    b.read(facts(20, end=2000, size=1_000_000)).commit(20, 2003)
    assert (b.lag(20).records.tolist(), b.lag(20).seconds.tolist(), b.lag(20).known.tolist()) == ([0], [0.0], [True])
    b.read(facts(21, end=2100, size=1_050_000)).commit(21, 2105)
    assert (b.lag(21).records.tolist(), b.lag(21).known.tolist()) == ([0], [True]), "the end has reached what was committed"


def test_a_commit_that_the_end_does_not_reach_is_beyond_it() -> None:
    b = Bucket().steady(20, per_s=100, size=500).commit(19, 1890)
    for i in range(3):  # said by somebody, not read by anybody
        b.read(facts(20 + i, end=2000, size=1_000_000)).commit(20 + i, 5000)
        assert (b.lag(20 + i).records.tolist(), b.lag(20 + i).known.tolist()) == (([0], [True]) if i == 0 else ([-1], [False]))
    b.read(facts(23, end=1500, size=1_000_000)).commit(23, 1501)
    assert b.lag(23).records.tolist() == [-1], "what was committed before lies beyond the end too"
    b.read(facts(24, end=1510, size=1_005_000)).commit(24, 1505)
    assert b.lag(24).records.tolist() == [5]


def test_a_log_that_was_cut_is_seen_at_once() -> None:
    b = Bucket().steady(20, per_s=100, size=500).commit(19, 1890)
    b.read(facts(20, end=1000, size=500_000)).commit(20, 1890)
    assert (b.lag(20).records.tolist(), b.lag(20).known.tolist()) == ([-1], [False])


def test_lag_in_bytes_is_records_times_bytes_per_record() -> None:
    b = Bucket().steady(20, per_s=100, size=500).commit(19, 1000)
    assert b.lag(19).bytes.tolist() == pytest.approx([900 * 500])


def test_lag_in_seconds_says_when_the_first_unread_record_arrived() -> None:
    b = Bucket().steady(20, per_s=100, size=500)
    b.steady(5, begin=20, per_s=1000, size=500)  # a burst: lag over rate would be wrong
    b.commit(24, 1900)
    assert b.lag(24).seconds.tolist() == pytest.approx([5.0], abs=1.0), "marks lie a third of their age apart"
    b.commit(24, 6400)
    assert b.lag(24).seconds.tolist() == pytest.approx([0.5], abs=0.1)


def test_lag_older_than_the_marks_is_lag_over_rate_and_unknown_without_a_rate() -> None:
    b = Bucket().read(facts(0, end=10_000, size=0)).commit(0, 0)
    assert np.isnan(b.lag(0).seconds[0])
    b.read(facts(1, end=10_100, size=0)).commit(1, 0)
    assert b.lag(1).seconds.tolist() == pytest.approx([101.0])
    b.commit(1, 10_100)
    assert b.lag(1).seconds.tolist() == [0.0]


def test_known_needs_fresh_sample_rate_and_commit() -> None:
    b = Bucket().steady(3, per_s=10).commit(2, 0)
    assert b.lag(2).known.tolist() == [True]
    assert b.lag(5).known.tolist() == [True], "known for three seconds"
    assert b.lag(5.1).known.tolist() == [False]
    assert b.commit(5, 0).lag(5.1).known.tolist() == [False], "the commit is fresh, the sample is not"
    assert b.steady(2, begin=4, per_s=10).commit(1, 0).lag(5.1).known.tolist() == [False], "the sample is, the commit is not"
    assert b.commit(5, 0).lag(5.1).known.tolist() == [True]
    assert Bucket().steady(1).commit(0, 0).lag(0).known.tolist() == [False], "no rate yet"


def test_groups_do_not_see_each_other() -> None:
    b = Bucket().steady(5, per_s=100)
    other = GroupRules(group="h", topics=("t",))
    zero = np.zeros(2, "i4")
    read = Commits(
        groups=("h", "somebody else's", "g"), topics=("t",), group=np.array([2, 0]), topic=zero, partition=zero,
        ts=np.full(2, 4.0), offset=np.array([400, 100]),
    )  # fmt: skip
    b.state = with_commits(b.state, ["g", "h"], read)
    assert (b.lag(4).records.tolist(), b.lag(4, other).records.tolist()) == ([0], [300])
    assert len(b.lag(4, replace(GROUP, topics=("u",))).at) == 0


# --- sizes that say nothing, and backlogs older than the window ----------------------------------------------------------


@pytest.mark.parametrize("per_s", [1, 10, 100])
def test_sizes_that_stop_growing_do_not_read_as_less_load(per_s: int) -> None:
    """As where segments are moved to another tier as fast as they come, or a broker's figures stand still."""
    b = Bucket().steady(20, per_s=per_s, size=500)
    end, had = int(b.row["end"]), int(b.row["size"])
    for i in range(30):
        b.read(facts(20 + i, end=end + (i + 1) * per_s, size=had))
        assert b.row["bytes_per_s"] == pytest.approx(500 * per_s, rel=0.1)
    assert b.source == "offset_x_mean"


@pytest.mark.parametrize("had", [0, 10**6])
def test_sizes_that_never_grow_do_not_read_as_no_load(had: int) -> None:
    b = Bucket()
    for i in range(15):
        b.read(facts(i, end=i * 100, size=had))
    assert (b.row["bytes_per_s"], b.source) == (pytest.approx(100 * 1000), "offset_x_default")


def test_a_burst_two_minutes_ago_is_not_as_old_as_a_trickle_since_makes_it() -> None:
    """Lag over rate would say a week, which a retention of seven days takes for records that are deleted now."""
    b, end, done = Bucket(Rules()), 0, 0
    for i in range(200):
        end += 10 if i < 60 else 100_000 if i < 70 else 1
        done = end if i < 60 else done + 3000
        b.read(facts(i, end=end, size=500 * end)).commit(i, done)
    true = 199 - (60 + (done - 600) / 100_000)
    assert true == pytest.approx(135, abs=1)
    assert float(b.lag(199).seconds[0]) == pytest.approx(true, rel=0.34)


def test_a_backlog_older_than_anything_remembered_is_told_by_the_mean_rate_since() -> None:
    b = Bucket(Rules())
    for i in range(100):  # 100,000 wait at first; then ten a second, and one in the last half minute
        b.read(facts(i, end=100_000 + min(i, 70) * 10 + max(0, i - 70), size=0)).commit(i, 0)
    mean = (70 * 10 + 29) / 99
    assert float(b.lag(99).seconds[0]) == pytest.approx(99 + 100_000 / mean, rel=0.01)


# --- properties ---------------------------------------------------------------------------------------------------------

reads = st.lists(
    st.tuples(
        st.floats(0.05, 30), st.booleans(), st.integers(0, 3), st.integers(-50, 5000), st.integers(-1, 10**7), st.integers(0, 2),
        st.sampled_from(["a", "b"]),
    ),
    max_size=40,
)  # fmt: skip


@given(reads)
def test_counters_never_fall_and_rates_are_never_negative(steps: list[tuple[float, bool, int, int, int, int, str]]) -> None:
    b, ts, end = Bucket(), 0.0, 0
    before = np.zeros(2)
    for pause, failed, start, more, size, epoch, identity in steps:
        ts, end = ts + pause, max(0, end + more)
        b.read(facts(ts, failed=failed, topic_id=identity, start=min(start, end), end=end, size=size, epoch=epoch))
        now = np.array([b.row["bytes"], b.row["records"]])
        assert (now >= before).all()
        assert np.isfinite(now).all()
        assert np.isnan(b.row["bytes_per_s"]) or b.row["bytes_per_s"] >= 0
        before = now
        lag = b.commit(ts, 5).lag(ts)
        assert lag.records[0] >= -1
        assert np.isnan(lag.seconds[0]) or lag.seconds[0] >= 0


@given(st.integers(1, 50), st.integers(1, 40), st.integers(0, 1000), st.integers(1, 5000))
def test_steady_load_gives_its_rate(partitions: int, seconds: int, per_s: int, size: int) -> None:
    b = Bucket()
    for i in range(seconds + 1):
        b.read(facts(i, partitions=partitions, end=i * per_s, size=i * per_s * size))
    assert b.state.rows["records_per_s"].tolist() == pytest.approx([per_s] * partitions)
    assert b.state.rows["bytes_per_s"].tolist() == pytest.approx([per_s * size] * partitions)


@given(st.integers(0, 30), st.integers(0, 20))
def test_state_survives_being_written_and_read(partitions: int, steps: int) -> None:
    state = State()
    for i in range(steps):
        state = rate_window.advance(state, facts(i, partitions=partitions, end=i, size=i), None, RULES).state
    again = load(dump(state))
    assert again.topics == state.topics
    for name in ("rows", "slots", "marks", "ends"):
        assert getattr(again, name).tobytes() == getattr(state, name).tobytes()
