"""How far a log has been read is never said too early and always at last: whatever has no record, whoever writes, what is lost.

The client is modelled as librdkafka behaves: records in order; a position that may stay behind what has no record; an end that is
told only after a fetch that has brought nothing; from the start again if what was to be read next is gone.
"""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.handover.log_progress import Log, LogProgress

NOTHING_YET = -1001  # as a client calls its position before it has read anything


class Followed:
    """One log, its client, and of what was there when it began to be read what has not been read and is still there."""

    def __init__(self, log: Log, progress: LogProgress, records: list[bool], start: int) -> None:
        self.log, self.progress = log, progress
        self.records = list(records)  # the other offsets are markers, or were aborted, or removed by compaction
        self.start = self.at = min(start, len(records))
        self.told, self.noticed = NOTHING_YET, True
        self.first_end = len(records)
        self.old = {n for n in range(self.at, len(records)) if records[n]}
        progress.begin(log, self.start, self.first_end)

    def append(self, records: list[bool]) -> None:
        self.records += records

    def truncate(self, end: int) -> None:
        end = max(self.start, end)
        del self.records[end:]
        self.old = {n for n in self.old if n < end}

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, min(offset, len(self.records)))
        self.old = {n for n in self.old if n >= self.start}

    def compact(self, offsets: list[int]) -> None:
        self.records = [there and n not in offsets for n, there in enumerate(self.records)]
        self.old.difference_update(offsets)

    def fetch(self, most: int, exact: bool = True) -> None:  # noqa: FBT001, FBT002  (a drawn step)
        """Read so many offsets at most, or learn that there are no more; the position may leave out what has no record."""
        if not self.start <= self.at <= len(self.records):
            self.at, self.told, self.noticed = self.start, NOTHING_YET, False
        to = min(self.at + most, len(self.records))
        read = [n for n in range(self.at, to) if self.records[n]]
        if self.at == to != self.told:
            self.progress.end(self.log, to)
            self.told, self.noticed = to, True
        for offset in read:
            self.progress.record(self.log, offset)
            self.noticed = True
        self.old.difference_update(read)
        self.at = to
        self.progress.position(self.log, to if exact and self.noticed else read[-1] + 1 if read else NOTHING_YET)

    def check(self) -> None:
        """Nothing counts as read that was not, and the end at first as reached only when all that is left of it was read."""
        assert not self.noticed or self.progress.offset(self.log) <= self.at
        assert not (self.progress.caught_up(self.log) and self.old), self.old


records, offsets = st.lists(st.booleans(), max_size=8), st.integers(0, 12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.booleans(), min_size=1, max_size=4)),
        st.tuples(st.just("fetch"), st.integers(1, 5), st.booleans()),
        st.tuples(st.just("truncate"), offsets),
        st.tuples(st.just("delete_before"), offsets),
        st.tuples(st.just("compact"), st.lists(offsets, max_size=4)),
    ),
    max_size=30,
)


@given(records, records, offsets, steps, st.data())
def test_no_end_is_reached_too_early_and_every_end_at_last(
    first: list[bool], second: list[bool], start: int, steps: list[tuple[str, ...]], data: st.DataObject
) -> None:
    progress = LogProgress()
    logs = [Followed(("log", 0), progress, first, start)]
    added = data.draw(st.integers(0, len(steps)), label="the second log is added before this step")
    for n, (name, *arguments) in enumerate(steps):
        if n == added:
            assert not progress.caught_up(("log", 1)), "what is not followed has not been read"
            logs.append(Followed(("log", 1), progress, second, 0))
        getattr(data.draw(st.sampled_from(logs)), name)(*arguments)
        for log in logs:
            log.check()
    for log in logs:
        for _ in range(len(log.records) + 2):
            log.fetch(5, exact=False)
            log.check()
        assert progress.caught_up(log.log)
        assert progress.offset(log.log) == len(log.records)


@given(records, st.lists(st.integers(1, 5), min_size=1, max_size=20))
def test_an_end_that_is_never_told_is_reached_where_it_was_at_first(first: list[bool], fetches: list[int]) -> None:
    """Others write all the time: no fetch brings nothing."""
    progress = LogProgress()
    log = Followed(("log", 0), progress, first, 0)
    for most in fetches:
        log.append([True] * 5)
        log.fetch(most)
        log.check()
        assert progress.caught_up(log.log) == (log.at >= log.first_end)


@given(records, st.integers(0, 8), steps)
def test_who_has_caught_up_stays_so_until_the_log_is_followed_anew(
    first: list[bool], more: int, steps: list[tuple[str, ...]]
) -> None:
    progress = LogProgress()
    log = Followed(("log", 0), progress, first, 0)
    for _ in range(len(first) + 1):
        log.fetch(1, exact=False)
    for name, *arguments in steps:
        getattr(log, name)(*arguments)
        assert progress.caught_up(log.log)
    progress.begin(log.log, 0, more)
    assert (progress.offset(log.log), progress.caught_up(log.log)) == (0, more == 0)


def test_a_log_that_has_lost_its_end_is_not_read_as_far_as_before() -> None:
    progress = LogProgress()
    progress.begin(("log", 0), 0, 100)
    progress.record(("log", 0), 99)
    progress.position(("log", 0), 40)
    assert progress.offset(("log", 0)) == 100, "a position alone is never too far, and often behind"
    progress.record(("log", 0), 3)
    assert progress.offset(("log", 0)) == 4
    progress.end(("log", 0), 2)
    assert progress.offset(("log", 0)) == 2
