"""Lag on a real broker: what counts as unread, from where, and since when."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.kafka.transaction_markers import KafkaMarkers
from autoscaler.core.load.consumption import Consumption
from autoscaler.core.load.partition_progress import Holding, Progress, judge
from autoscaler.core.load.retention_risk import time_to_close
from autoscaler.devtools.broker import Broker
from autoscaler.model import LoadSnapshot, PartitionLoad, Span
from autoscaler.model import TopicPartition as Partition
from autoscaler.streaming.lag import GroupRules
from tests.builders import moment
from tests.conftest import create_topic
from tests.contracts.publishers import commit
from tests.kafka.measuring import Measured
from tests.until import let_pass, until


@contextmanager
def watching(broker: Broker, group: str, topic: str, **rules: bool) -> Iterator[Measured]:
    with Measured(broker.connection(), (GroupRules(group=group, topics=(topic,), **rules),)) as measured:
        yield measured


def known(measured: Measured) -> PartitionLoad:
    """Return partition 0 once rate and lag are fresh."""
    return measured.until(lambda s: s.known).loads[0]


def transaction(broker: Broker, name: str) -> Producer:
    producer = Producer({**broker.connection(), "transactional.id": name, "linger.ms": 0, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def written(producer: Producer, topic: str, count: int) -> Producer:
    for _ in range(count):
        producer.produce(topic, b"x" * 100, partition=0)
    assert producer.flush(30) == 0
    return producer


def test_an_open_transaction_hides_records_from_who_reads_what_is_committed(
    broker: Broker, topic: str, group: str, produce: Callable[..., None]
) -> None:
    produce(topic, {0: 10})
    commit(broker, group, topic, {0: 4})
    producer = written(transaction(broker, f"open-{topic}"), topic, 5)
    with watching(broker, group, topic, read_committed=True) as measured:
        assert known(measured).lag_records == 6, "up to the transaction"
    with watching(broker, group, topic) as measured:
        assert known(measured).lag_records == 11, "with what it has written so far"
    producer.commit_transaction(30)
    with watching(broker, group, topic, read_committed=True) as measured:
        measured.until(lambda s: s.loads[0].lag_records == 12)  # and its marker; the last stable offset comes a moment later


def test_what_was_deleted_before_it_was_read_is_no_lag(
    broker: Broker, topic: str, group: str, produce: Callable[..., None]
) -> None:
    produce(topic, {0: 100})
    commit(broker, group, topic, {0: 10})
    admin = AdminClient({**broker.connection(), "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic, 0, 60)]).values():
        future.result(30)
    with watching(broker, group, topic) as measured:
        found = known(measured)
        assert (found.committed, found.log_start, found.lag_records) == (10, 60, 40)


@pytest.mark.parametrize(("earliest", "lag"), [(True, 40), (False, 0)])
def test_where_nothing_is_committed_the_reset_policy_says_what_is_unread(
    *, earliest: bool, lag: int, broker: Broker, topic: str, group: str, produce: Callable[..., None]
) -> None:
    produce(topic, {0: 40})
    with watching(broker, group, topic, earliest=earliest) as measured:
        found = known(measured)
        assert (found.committed, found.lag_records) == (-1, lag)


def test_an_offset_that_was_set_back_is_lag_again(broker: Broker, topic: str, group: str, produce: Callable[..., None]) -> None:
    produce(topic, {0: 50})
    commit(broker, group, topic, {0: 50})
    with watching(broker, group, topic) as measured:
        assert known(measured).lag_records == 0
        commit(broker, group, topic, {0: 5})
        back = measured.until(lambda s: s.loads[0].committed == 5)
        assert (back.loads[0].lag_records, back.known) == (45, True)


def test_lag_in_seconds_is_the_age_of_what_is_unread_whatever_the_rate_is_now(
    broker: Broker, topic: str, group: str, produce: Callable[..., None]
) -> None:
    """A thousand records arrive, then one a second: lag over rate would be a quarter of an hour."""
    with watching(broker, group, topic) as measured:
        commit(broker, group, topic, {0: 0})
        before = measured.until(lambda s: s.known).sample_ts
        produce(topic, {0: 1000})
        after = measured.one().sample_ts
        for _ in range(4):
            let_pass(1)
            produce(topic, {0: 1})
            found = measured.one()
        assert found.loads[0].lag_records == 1004
        assert found.loads[0].lag_s is not None
        assert found.sample_ts - after <= found.loads[0].lag_s + 0.001
        remembered = max(
            found.sample_ts - before, 1.5 * (found.sample_ts - after)
        )  # ends are remembered a third of their age apart
        assert found.loads[0].lag_s <= remembered + 0.001
        commit(broker, group, topic, {0: 1002})
        late = measured.until(lambda s: s.loads[0].committed == 1002)
        assert late.loads[0].lag_s is not None
        assert late.loads[0].lag_s <= late.sample_ts - after - 0.9, "the third of the single ones is next"


def looked_at(markers: KafkaMarkers, spans: Mapping[Partition, Span], group: str = "g") -> Mapping[Partition, Span]:
    """Ask, wait until every partition has answered or was asked in vain, and return which of them hold nothing."""
    markers.of(group).ask(spans)
    answered = lambda: all(x in markers._found or x[0] in markers._silent for x in spans.items())  # noqa: E731
    until("every partition has answered", answered, explain=lambda: markers._found)
    return markers.of(group).empty()


def spans(snapshot: LoadSnapshot) -> dict[Partition, Span]:
    return {
        p.partition: Span(p.committed, p.committed + p.lag_records)
        for p in snapshot.loads
        if p.committed is not None and p.lag_records
    }


def test_markers_at_the_end_are_known_to_be_nothing_and_records_to_be_something(broker: Broker, topic: str, group: str) -> None:
    producer = transaction(broker, f"markers-{topic}")
    for partition in (0, 1):
        producer.produce(topic, b"x", partition=partition)
    producer.commit_transaction(30)
    commit(broker, group, topic, {0: 1, 1: 0})  # what a consumer that commits the last record's offset plus one has
    with watching(broker, group, topic) as measured:
        found = measured.until(lambda s: s.known and s.loads[0].lag_records == 1)
        assert [p.lag_records for p in found.loads] == [1, 2, 0, 0]
    markers = KafkaMarkers(broker.connection(), read_committed=False)
    try:
        assert looked_at(markers, spans(found)) == {Partition(topic, 0): Span(1, 2)}
        other = {Partition(topic, 0): Span(1, 2), Partition(topic, 1): Span(1, 2)}
        assert looked_at(markers, other, "h") == other, "the first record was all"
        markers.of("g").close()
        assert markers.of("g").empty() == {}, "what is not asked for any more is forgotten"
        assert markers.of("h").empty() == other
    finally:
        markers.close()


@pytest.mark.parametrize(("read_committed", "nothing"), [(True, 1), (False, 0)])
def test_what_was_aborted_is_nothing_to_who_reads_what_is_committed(
    *, read_committed: bool, nothing: int, broker: Broker, topic: str, group: str
) -> None:
    written(transaction(broker, f"aborted-{topic}"), topic, 5).abort_transaction(30)
    commit(broker, group, topic, {0: 0})
    with watching(broker, group, topic, read_committed=read_committed) as measured:
        found = measured.until(lambda s: s.known and s.loads[0].lag_records == 6)
    markers = KafkaMarkers(broker.connection(), read_committed=read_committed)
    try:
        assert len(looked_at(markers, spans(found))) == nothing
    finally:
        markers.close()


def test_a_topic_that_may_not_be_read_has_lags_that_count(secure_broker: Broker, group: str) -> None:
    topic = create_topic(secure_broker, f"forbidden-{group}")
    producer = Producer({**secure_broker.connection(), "transactional.id": group, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(30)
    asked = {Partition(topic, 0): Span(1, 2)}
    for user, nothing in (("admin", 1), ("limited", 0)):
        markers = KafkaMarkers(secure_broker.connection(user), read_committed=False)
        try:
            assert len(looked_at(markers, asked)) == nothing
        finally:
            markers.close()


def progress(measured: Measured, wanted: Progress, *, held: bool = True, parked: bool = False) -> None:
    """Measure until partition 0 gets on as wanted; a second and a half is all the patience there is."""
    zero = Partition(measured.groups[0].topics[0], 0)
    holding = Holding(
        held={zero} if held else (), parked={zero} if parked else (), commits_often=True, patience_s=1.5
    )  # fmt: skip
    seen = Consumption()

    def look() -> Progress | None:
        nonlocal seen
        found = measured.one()
        seen = seen.measured(found, moment(found.sample_ts))
        return judge(found.loads[0], seen.tracks.get(zero), found.sample_ts, holding) if found.loads else None

    until(f"{wanted}", look, lambda how: how is wanted, explain=measured.one, every_s=0.2)


def test_how_a_partition_gets_on_is_seen_from_its_offsets(
    broker: Broker, topic: str, group: str, produce: Callable[..., None]
) -> None:
    with watching(broker, group, topic, read_committed=True) as measured:
        commit(broker, group, topic, {0: 0})
        progress(measured, Progress.NO_TRAFFIC)
        produce(topic, {0: 10})
        progress(measured, Progress.STALL)
        progress(measured, Progress.STOP, held=False)
        progress(measured, Progress.POISON, held=False, parked=True)
        commit(broker, group, topic, {0: 10})
        progress(measured, Progress.OK)
        producer = written(transaction(broker, f"stays-open-{topic}"), topic, 3)
        progress(measured, Progress.OPEN_TRANSACTION)
        producer.abort_transaction(30)


def test_an_offset_that_goes_back_is_seen_to(broker: Broker, topic: str, group: str, produce: Callable[..., None]) -> None:
    produce(topic, {0: 10})
    commit(broker, group, topic, {0: 10})
    with watching(broker, group, topic) as measured:
        measured.until(lambda s: s.known)
        first = measured.one()
        seen = Consumption().measured(first, moment(first.sample_ts))
        commit(broker, group, topic, {0: 4})
        back = measured.until(lambda s: s.loads[0].committed == 4)
        seen = seen.measured(back, moment(back.sample_ts))
        holding = Holding(held=(), parked=(), commits_often=True, patience_s=30)
        assert judge(back.loads[0], seen.tracks[Partition(topic, 0)], back.sample_ts, holding) is Progress.REWIND


def test_when_a_backlog_is_worked_off_is_foretold_by_what_is_committed(
    broker: Broker, topic: str, group: str, produce: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    window = 4.0
    monkeypatch.setattr("autoscaler.core.load.consumption.WINDOW_S", window)
    backlog, pace, zero = 1500, 60.0, Partition(topic, 0)
    commit(broker, group, topic, {0: 0})
    with watching(broker, group, topic) as measured:
        measured.until(lambda s: s.known)
        produce(topic, {0: backlog})
        measured.until(lambda s: s.known and s.loads[0].lag_records == backlog and s.loads[0].records_per_s == 0)
        began, told, commits = time.time(), dict[float, float](), [time.time()]
        seen = Consumption()

        def consumed() -> LoadSnapshot:
            nonlocal seen
            found = measured.one()
            assert found.loads[0].lag_records is not None
            seen = seen.measured(found, moment(found.sample_ts))
            close_s = time_to_close(found.loads[0], seen.rate(zero, 0.0))
            if found.loads[0].lag_records and close_s is not None:
                told[found.sample_ts] = close_s
            commits.append(time.time())
            commit(broker, group, topic, {0: min(backlog, int(pace * (commits[-1] - began)))})
            return found

        until("all is consumed", consumed, lambda found: found.loads[0].lag_records == 0, every_s=0.2)
    # A measurement sees what the commit before it said: that was as old as the test took between two commits, at either end of
    # the window. On a busy machine that is seconds, in which the consumption of this test is not steady.
    late = {at: max(b - a for a, b in pairwise(commits) if b > at - 2 * window and a < at) for at in told if at - began > 8}
    sharp = {at: gap for at, gap in late.items() if gap < window / 2}
    assert sharp, late
    for at, gap in sharp.items():
        left = began + backlog / pace - at
        least, most = (left - gap) / (1 + gap / window) - 0.5, (left + gap) / (1 - gap / window) + 0.5
        assert least <= told[at] <= most, (at, gap, commits)
