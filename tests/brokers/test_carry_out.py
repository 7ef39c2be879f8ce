"""What is done next, and that whatever happens in between nothing is left behind."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.brokers.carry_out import Step, begin, cancel, moves_of, proceed
from autoscaler.brokers.journal import NOTHING, Journal, Move, decode, encode
from autoscaler.brokers.view import (
    LISTS,
    RATES,
    Broker,
    Cancel,
    ClearThrottle,
    Elect,
    Holders,
    Reassign,
    SetThrottle,
    Setting,
    View,
)
from autoscaler.errors import FencedError
from autoscaler.goals import MoveLeadership, MoveReplica
from autoscaler.model import TopicPartition, What
from tests.brokers.fake_cluster import FakeCluster, FakeJournal, FakeJournalLog, holders, tp
from tests.goals.clusters import of_replicas

T0 = 1_700_000_000.0
COPY = Move(before=(1, 2), after=(3, 2))
LEAD = Move(before=(1, 2), after=(2, 1))
RATE_1 = Setting("broker", "1", RATES[0])


def cluster() -> FakeCluster:
    return FakeCluster({tp(n): holders(1, 2) for n in range(3)})


def view(
    partitions: dict[TopicPartition, Holders] | None = None, running: dict[TopicPartition, tuple[int, ...]] | None = None
) -> View:
    found = cluster().observe(["t"])
    return replace(found, partitions=found.partitions if partitions is None else partitions, running=running or {})


def opened() -> FakeJournalLog:
    log = FakeJournal().opened()
    log.take()
    return log


def carried_out(step: Step, at: FakeCluster, log: FakeJournalLog) -> Journal:
    log.write(step.ahead)
    for command in step.commands:
        at.execute(command)
    log.write(step.after)
    return step.after


def test_a_batch_sets_its_throttle_then_reassigns_and_is_written_ahead() -> None:
    step = begin(view(), "b", {tp(0): COPY, tp(1): LEAD}, throttle=5e6)
    throttle, reassign = step.commands
    assert isinstance(throttle, SetThrottle)
    assert reassign == Reassign(replicas={tp(0): (3, 2), tp(1): (2, 1)})
    assert step.ahead.throttle == throttle.values
    assert {s.name for s in throttle.values if s.kind == "broker"} == {"1", "2", "3"}
    assert throttle.values[Setting("topic", "t", "leader.replication.throttled.replicas")] == "0:1,0:2"
    assert throttle.values[Setting("topic", "t", "follower.replication.throttled.replicas")] == "0:3"


def test_leaderships_alone_need_no_throttle() -> None:
    step = begin(view(), "b", {tp(1): LEAD}, throttle=5e6)
    assert step.commands == (Reassign(replicas={tp(1): (2, 1)}),)


def test_nothing_begins_while_replicas_are_out_of_sync_or_somebody_else_reassigns() -> None:
    lagging = view(partitions={tp(0): holders(1, 2), tp(1): Holders((1, 2), frozenset({1}), 1)})
    elsewhere = view(running={tp(2): (2, 3)})
    for at, what in ((lagging, What.UNDER_REPLICATED), (elsewhere, What.REASSIGNED_ELSEWHERE)):
        step = begin(at, "b", {tp(0): COPY}, throttle=None)
        assert (step.commands, step.after, [f.what for f in step.findings]) == ((), NOTHING, [what])


def test_what_does_not_fit_any_more_or_whose_consumers_move_is_not_begun() -> None:
    wanted = {tp(0): Move(before=(1, 4), after=(3, 4)), tp(1): Move(before=(1, 2), after=(9, 2)), tp(7): COPY, tp(2): COPY}
    assert begin(view(), "b", wanted, throttle=None).commands == (Reassign(replicas={tp(2): (3, 2)}),)
    away = view(partitions={tp(0): holders(1, 9)})
    assert begin(away, "b", {tp(0): Move(before=(1, 9), after=(1, 3))}, throttle=5e6).commands == (), "9 can be set no throttle"
    step = begin(view(), "b", {tp(2): COPY}, throttle=None, busy={"t"})
    assert (step.commands, [f.what for f in step.findings]) == ((), [What.CONSUMERS_MOVE])


def test_a_throttle_of_somebody_else_is_neither_changed_nor_taken_away() -> None:
    at, log = cluster(), opened()
    at.settings = {RATE_1: "77"}
    journal = carried_out(begin(at.observe(["t"]), "b", {tp(0): COPY}, throttle=5e6), at, log)
    assert RATE_1 not in journal.throttle
    at.settings[Setting("broker", "2", RATES[0])] = "88"  # set over ours meanwhile
    while journal != NOTHING:
        journal = carried_out(proceed(at.observe(journal.topics), journal, T0), at, log)
    assert at.settings == {RATE_1: "77", Setting("broker", "2", RATES[0]): "88"}


def test_a_leadership_is_elected_until_it_has_moved_and_given_up_in_the_end() -> None:
    journal, at = Journal(batch="b", moves={tp(0): LEAD}), view(partitions={tp(0): Holders((2, 1), frozenset({1, 2}), 1)})
    step = proceed(at, journal, T0)
    assert step.commands == (Elect(partitions=frozenset({tp(0)})),)
    for _ in range(10):
        step = proceed(at, step.after, T0)
    assert (step.ended, step.after) == ({tp(0): "not_led"}, NOTHING)


def test_the_throttle_of_a_broker_that_does_not_answer_is_taken_away_when_it_is_back() -> None:
    at, log = replace(cluster(), looks=1), opened()
    journal = carried_out(begin(at.observe(["t"]), "b", {tp(0): COPY}, throttle=5e6), at, log)
    everyone, at.brokers = at.brokers, {n: b for n, b in at.brokers.items() if n != 1}  # it held the replica that moves
    seen = set[What]()
    for _ in range(4):
        step = proceed(at.observe(journal.topics), journal, T0)
        seen |= {f.what for f in step.findings}
        journal = carried_out(step, at, log)
    assert at.settings.keys() == {Setting("broker", "1", key) for key in RATES}
    assert (journal.moves, journal.throttle) == ({}, at.settings)
    assert seen == {What.THROTTLE_LEFT}
    assert cancel(at.observe([]), journal).after == journal, "it is not forgotten at an end either"
    at.brokers = everyone
    assert carried_out(proceed(at.observe([]), journal, T0), at, log) == NOTHING
    assert at.settings == {}


def test_a_batch_that_begins_meanwhile_goes_on_with_the_throttle_that_is_left() -> None:
    left = Journal(batch="a", throttle={Setting("broker", "4", RATES[0]): "7", RATE_1: "7"})
    at = replace(view(), throttles={RATE_1: "7"})  # broker 1 has just come back
    step = begin(at, "b", {tp(0): COPY}, throttle=5e6, left=left)
    assert step.ahead.throttle.items() >= {Setting("broker", "4", RATES[0]): "7", RATE_1: "5000000"}.items()
    assert not step.findings, "it is no other tool's"
    assert begin(at, "b", {}, throttle=5e6, left=left).after == left


def test_replicas_that_move_are_added_to_a_list_that_another_tool_has_left_and_taken_out_again() -> None:
    leaders, followers = (Setting("topic", "t", key) for key in LISTS)
    at, log = cluster(), opened()
    at.settings = {leaders: "7:1,0:2", followers: "*"}
    step = begin(at.observe(["t"]), "b", {tp(0): COPY}, throttle=5e6)
    assert [f.texts["settings"] for f in step.findings] == [f"topic t {LISTS[1]}"]
    journal = carried_out(step, at, log)
    assert at.settings[leaders] == "7:1,0:2,0:1", "0:2 was theirs already"
    assert at.settings[followers] == "*", "all replicas are in it"
    while journal != NOTHING:
        journal = carried_out(proceed(at.observe(journal.topics), journal, T0), at, log)
    assert at.settings == {leaders: "7:1,0:2", followers: "*"}


@pytest.mark.parametrize(
    ("at", "how"),
    [
        (view(), "cancelled"),
        (view(partitions={tp(0): holders(4, 2)}), "changed"),
        (view(running={tp(0): (4, 2)}), "changed"),
        (view(partitions={}), "gone"),
    ],
)
def test_what_somebody_else_has_changed_ends_once_it_was_seen_twice(at: View, how: str) -> None:
    journal = Journal(batch="b", moves={tp(0): COPY})
    first = proceed(at, journal, T0)
    assert not first.ended
    assert first.after.doubted == frozenset({tp(0)})
    assert proceed(at, first.after, T0).ended == {tp(0): how}
    assert proceed(at, first.after, T0).commands == ()


def cancelled(at: FakeCluster, log: FakeJournalLog, journal: Journal) -> dict[TopicPartition, str]:
    """Cancel until nothing is left, and return what became of partitions."""
    became = dict[TopicPartition, str]()
    for _ in range(9):
        if journal == NOTHING:
            break
        step = cancel(at.observe(journal.topics), journal)
        became |= step.ended
        journal = carried_out(step, at, log)
    assert journal == NOTHING
    return became


ABSENT = {n: b for n, b in cluster().brokers.items() if n != 3}


@pytest.mark.parametrize(
    ("at", "who"),
    [
        (replace(view({tp(0): holders(1, 2, 3)}, {tp(0): (3, 2)}), brokers=ABSENT), "3"),  # it copies to a broker that is away
        (view({tp(0): Holders((3, 2), frozenset({2}), 2)}), "3"),  # the copy is over, and the broker that shall lead was lost
        (replace(view({tp(0): Holders((3, 2), frozenset({2}), 2)}), brokers=ABSENT), "3"),
        (
            replace(view({tp(0): Holders((1, 2, 3), frozenset({1}), -1)}, {tp(0): (3, 2)}), brokers={2: Broker(), 3: Broker()}),
            "1",
        ),
    ],
)
def test_a_batch_that_cannot_get_on_says_for_whom_it_waits_and_how_long_already(at: View, who: str) -> None:
    step = proceed(at, Journal(batch="b", moves={tp(0): COPY}), T0)
    later = proceed(at, decode(encode(step.after)), T0 + 90)  # also a job that has come after the one that saw it first
    for x, waited_s in ((step, 0), (later, 90)):
        (found,) = x.findings
        assert (found.what, found.partitions, x.ended) == (What.BATCH_WAITS, (tp(0),), {})
        assert (found.texts["brokers"], found.numbers["waited_s"]) == (who, waited_s)


def test_a_batch_that_gets_on_again_waits_no_more() -> None:
    journal = Journal(batch="b", moves={tp(0): COPY}, waits_since=T0)
    step = proceed(view({tp(0): holders(1, 2, 3)}, {tp(0): (3, 2)}), journal, T0 + 90)
    assert (step.findings, step.after.waits_since) == ((), 0.0)


def test_a_cancelled_batch_leaves_what_has_moved_and_no_throttle() -> None:
    at, log = replace(cluster(), looks=9), opened()
    journal = carried_out(begin(at.observe(["t"]), "b", {tp(0): COPY, tp(1): LEAD}, throttle=5e6), at, log)
    became = cancelled(at, log, journal)
    assert (at.running, at.settings) == ({}, {})
    assert became == {tp(0): "cancelled", tp(1): "not_led"}
    assert at.partitions[tp(0)].replicas == (1, 2)
    assert at.partitions[tp(1)].replicas == (2, 1)


def test_what_is_cancelled_counts_once_it_is_seen_to_have_gone_back() -> None:
    """The brokers refuse, or the copy ends before they are asked: neither is cancelled."""
    journal = Journal(batch="b", moves={tp(0): COPY}, throttle={RATE_1: "5"})
    running = replace(view(running={tp(0): (3, 2)}), throttles={RATE_1: "5"})
    first = cancel(running, journal)
    assert (first.commands, first.ended) == ((Cancel(partitions=frozenset({tp(0)})),), {})
    assert first.after == journal, "its throttle stays as long as it copies"
    assert cancel(running, first.after).commands == first.commands, "asked again"
    over = replace(running, running={}, partitions={tp(0): holders(3, 2)})
    assert cancel(over, first.after).ended == {tp(0): "moved"}
    assert cancel(over, first.after).commands == (ClearThrottle(settings=frozenset({RATE_1})),)


def test_a_partition_that_went_back_gets_its_preferred_leader_again() -> None:
    journal = Journal(batch="b", moves={tp(0): COPY})
    step = cancel(view(partitions={tp(0): Holders((2, 1), frozenset({1, 2}), 1)}), journal)
    assert step.ended == {tp(0): "cancelled"}
    assert step.commands == (Reassign(replicas={tp(0): (1, 2)}),)


def test_a_broker_that_still_tells_of_both_is_asked_again() -> None:
    journal = Journal(batch="b", moves={tp(0): COPY})
    between = view(partitions={tp(0): holders(3, 2, 1)})
    step = cancel(between, journal)
    assert (step.ended, step.after) == ({}, replace(journal, doubted=frozenset({tp(0)})))
    assert cancel(between, step.after).ended == {tp(0): "changed"}


@given(deaths=st.lists(st.integers(0, 4), max_size=6), looks=st.integers(1, 3), ends=st.booleans())
def test_jobs_killed_between_any_two_commands_leave_nothing_behind(deaths: list[int], looks: int, *, ends: bool) -> None:
    at, shared = replace(cluster(), looks=looks), FakeJournal()
    at.settings = {RATE_1: "77"}
    wanted = {tp(0): COPY, tp(1): LEAD, tp(2): Move(before=(1, 2), after=(1, 4))}
    for dies_after in [*deaths, None]:
        at.dies_after, log = dies_after, shared.opened()
        journal = log.take()
        try:
            if journal == NOTHING:
                journal = carried_out(begin(at.observe(["t"]), "b", wanted, throttle=5e6), at, log)
            if ends and dies_after is None:
                cancelled(at, log, journal)
                journal = log.take()
            while journal != NOTHING:
                journal = carried_out(proceed(at.observe(journal.topics), journal, T0), at, log)
        except KeyboardInterrupt:
            continue
    assert (at.settings, at.running) == ({RATE_1: "77"}, {})
    for p, move in wanted.items():
        assert set(at.partitions[p].replicas) in (set(move.before), set(move.after))


def test_of_two_jobs_only_the_latest_writes() -> None:
    shared = FakeJournal()
    first, second = shared.opened(), shared.opened()
    first.take()
    second.take()
    with pytest.raises(FencedError):
        first.write(NOTHING)


def test_a_journal_is_read_as_it_was_written() -> None:
    journal = Journal(
        batch="b", moves={tp(0): COPY}, throttle={RATE_1: "5"}, elections=2, doubted=frozenset({tp(0)}), waits_since=T0
    )
    assert decode(encode(journal)) == journal
    assert decode(None) == NOTHING
    assert decode(encode(NOTHING).replace(b',"waits_since":0.0', b"")) == NOTHING, "of a release before"
    for wrong in (b"", b"[]", b'{"v":2}', b'{"v":1}', b'{"v":1,"batch":"b","moves":[[1]],"throttle":[],"elections":0}'):
        with pytest.raises(ValueError, match=r"."):
            decode(wrong)


def test_moves_of_a_batch_name_the_leader_first() -> None:
    snapshot = of_replicas([(0, 1), (0, 1)], brokers=3)
    lead = MoveLeadership(partition=0, source=0, target=1)
    copy = MoveReplica(partition=1, source=1, target=2, leads=False, size_bytes=1.0)
    elsewhere = MoveReplica(partition=1, source=2, target=1, leads=False, size_bytes=1.0)
    moves = moves_of(snapshot, [elsewhere, lead, copy])
    assert moves == {0: Move(before=(0, 1), after=(1, 0)), 1: Move(before=(0, 1), after=(0, 2))}
