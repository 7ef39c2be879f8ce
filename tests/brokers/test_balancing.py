"""The loop on a cluster in memory: from a skewed cluster to a balanced one, and what it leaves in every other case."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.balancing import Balancer, Waiting, World
from autoscaler.brokers.journal import NOTHING, Journal, encode
from autoscaler.brokers.measured import Rate, numbered
from autoscaler.brokers.ports import Entry
from autoscaler.brokers.view import RATES, Broker, Holders, Reassign, Setting
from autoscaler.config.balance import Balance
from autoscaler.errors import FencedError
from autoscaler.goals import MoveReplica
from autoscaler.model import TopicPartition, What
from tests.brokers.fake_cluster import FakeCluster, FakeJournal, holders, tp
from tests.fakes import FakeClock
from tests.until import until

MIB = 2.0**20
QUICK = Balance(mode="act", rounds=1, smoothing_s=0, stays_s=0, goals=("bytes_in", "leaders"), every_s=60)


@dataclass
class Case:
    """All of twelve partitions are led by broker 1, with replicas on 1 and 2 of four brokers."""

    balance: Balance = QUICK
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster({tp(n): holders(1, 2) for n in range(12)}))
    shared: FakeJournal = field(default_factory=FakeJournal)
    clock: FakeClock = field(default_factory=FakeClock)
    rows: list[Entry] = field(default_factory=list)
    busy: frozenset[str] = frozenset()
    measured: bool = True
    age_s: float = 0.0
    mib_per_s: Sequence[float] = (4.0,) * 12

    def job(self) -> Balancer:
        self.cluster.sizes = dict.fromkeys(self.cluster.partitions, 1e6)
        world = World(
            admin=self.cluster, journal=self.shared.opened(), rates=self.rates, busy=lambda: self.busy, record=self.take,
            clock=self.clock,
        )  # fmt: skip
        found = Balancer(self.balance, world)
        if found.acts:
            found.take_over()
        return found

    def rates(self) -> dict[TopicPartition, Rate]:
        found = dict(zip(self.cluster.partitions, self.mib_per_s, strict=False)) if self.measured else {}
        return {p: Rate(x * MIB, self.age_s) for p, x in found.items()}

    def take(self, rows: Sequence[Entry]) -> None:
        self.rows += rows

    def change(self, *, hot: Collection[int] = (), **changed: object) -> None:
        """Let the cluster change; ``hot`` are partitions that are written to ten times as much from now on."""
        for name, value in changed.items():
            setattr(self if name == "age_s" else self.cluster, name, value)
        self.mib_per_s = [40.0 if p.partition in hot else 4.0 for p in self.cluster.partitions]

    def first_batch(self, job: Balancer) -> None:
        """Let the first batch of a plan end, and no other begin."""
        while job.waiting is None or job.journal != NOTHING:
            self.clock.advance(job.look())

    def looks(self, job: Balancer, count: int = 40) -> None:
        for _ in range(count):
            self.clock.advance(job.look())

    def leaders(self) -> list[int]:
        led = [h.leader for h in self.cluster.partitions.values()]
        return [led.count(b) for b in (1, 2, 3, 4)]

    def said(self) -> set[What]:
        return {f.what for r in self.rows for f in r.findings}


def test_a_skewed_cluster_becomes_balanced_batch_by_batch_and_nothing_is_left() -> None:
    case = Case()
    job = case.job()
    case.looks(job)
    assert case.leaders() == [3, 3, 3, 3]
    assert (case.cluster.settings, case.cluster.running, job.journal, job.waiting) == ({}, {}, NOTHING, None)
    held = [b for h in case.cluster.partitions.values() for b in h.replicas]
    assert [held.count(b) for b in (1, 2, 3, 4)] == [6, 6, 6, 6]
    assert sum(isinstance(c, Reassign) for c in case.cluster.commands) >= 2  # half of a topic's partitions at a time


def test_each_action_is_recorded_with_its_scores_and_what_became_of_it() -> None:
    case = Case()
    case.looks(case.job())
    actions = [r for r in case.rows if r.kind == "action"]
    assert {r.status for r in actions} == {"planned"}
    assert all(r.findings[0].numbers["score"] > 0.5 for r in actions)
    for p in {r.partition for r in actions}:
        became = [x.status for x in case.rows if x.kind == "outcome" and x.partition == p]
        assert became == ["begun", "moved"] * (len(became) // 2)
        assert became
    assert case.said() >= {What.BALANCING, What.BALANCE_ESTIMATE, What.BROKERS_BALANCED}


def test_advise_says_the_same_and_touches_nothing() -> None:
    case = Case(balance=QUICK.model_copy(update={"mode": "advise"}))
    case.looks(case.job(), 5)
    assert case.cluster.commands == []
    assert case.shared.value is None
    planned = [r for r in case.rows if r.kind == "action"]
    assert {r.status for r in planned} == {"advised"}
    assert len({r.plan for r in planned}) == 1, "the same plan is written once"


def test_rates_that_are_out_of_date_or_missing_are_said_and_move_nothing() -> None:
    for case, what in ((Case(age_s=121.0), What.BROKERS_NOT_MEASURED), (Case(measured=False), What.NO_RATES_YET)):
        case.looks(case.job(), 3)
        assert case.cluster.commands == []
        assert what in case.said()
        assert What.BROKERS_BALANCED not in case.said()
        assert [r.kind for r in case.rows] == ["look"], "said once"
    fresh = Case(age_s=119.0)  # within two looks
    fresh.looks(fresh.job())
    assert fresh.leaders() == [3, 3, 3, 3]


def test_advise_says_what_a_job_that_was_killed_has_left_until_it_is_ended() -> None:
    case = Case(cluster=replace(Case().cluster, looks=9999))
    acting = case.job()
    until("a copy", acting.look, lambda _: case.cluster.running)
    left, written, commands = case.cluster.settings, case.shared.value, len(case.cluster.commands)
    case.balance = QUICK.model_copy(update={"mode": "advise"})
    advising = case.job()
    advising.world = replace(advising.world, rates=dict)
    case.rows.clear()
    advising.look()
    found = next(f for r in case.rows for f in r.findings)
    assert found.what is What.BEGUN_BEFORE, "before anything is measured"
    assert found.numbers["partitions"] == len(acting.journal.moves)
    case.rows.clear()
    advising = case.job()
    case.looks(advising, 3)
    assert [What.BEGUN_BEFORE in {f.what for f in r.findings} for r in case.rows if r.kind == "look"] == [True, True]
    assert (case.cluster.settings, case.shared.value, len(case.cluster.commands)) == (left, written, commands)
    until("its end", acting.end, bool)
    case.rows.clear()
    case.looks(advising, 3)
    assert What.BEGUN_BEFORE not in case.said()


def test_what_stays_the_same_is_said_again_every_day() -> None:
    case = Case(balance=QUICK.model_copy(update={"mode": "advise", "every_s": 3600.0}))
    case.looks(case.job(), 50)
    looks = [r.at for r in case.rows if r.kind == "look"]
    assert [at - looks[0] for at in looks] == [0, 86_400, 172_800]


def test_a_broker_that_leaves_is_emptied_and_what_moves_is_throttled_meanwhile() -> None:
    case = Case(balance=QUICK.model_copy(update={"leaving": (1,), "throttle_bytes_per_s": 1e6}))
    job = case.job()
    case.clock.advance(job.look())
    assert {s.name for s in case.cluster.settings if s.kind == "topic"} == {"t"}
    case.looks(job)
    assert not [h for h in case.cluster.partitions.values() if 1 in h.replicas]
    assert case.cluster.settings == {}


def test_nothing_begins_while_another_tool_reassigns_or_replicas_are_missing() -> None:
    for change, what in (
        ({"running": {tp(3): (2, 3)}}, What.REASSIGNED_ELSEWHERE),
        ({"partitions": {tp(n): Holders((1, 2), frozenset({1}), 1) for n in range(12)}}, What.UNDER_REPLICATED),
    ):
        case = Case(cluster=replace(Case().cluster, looks=99, **change))
        case.looks(case.job(), 3)
        assert case.cluster.commands == []
        assert what in case.said()
        assert {r.status for r in case.rows if r.kind == "action"} == {"held"}


def test_before_each_batch_of_a_plan_it_looks_whether_the_rest_of_it_still_holds() -> None:
    disk = Broker(disk_bytes=1e9, free_bytes=1e9)
    for changed, what in (
        ({"brokers": {1: disk, 2: disk, 3: disk}}, What.TARGETS_AWAY),
        ({"brokers": {1: disk, 2: disk, 3: disk, 4: Broker(disk_bytes=1e9, free_bytes=0.0)}}, What.LIMIT_IN_THE_WAY),
        ({"hot": range(3, 9)}, What.PLAN_WORSENS),
        ({"age_s": 999.0}, What.TARGETS_AWAY),
    ):
        case = Case()
        case.cluster.brokers = dict.fromkeys((1, 2, 3, 4), disk)
        job = case.job()
        case.first_batch(job)
        begun = len(case.cluster.commands)
        case.change(**changed)
        case.clock.advance(job.look())
        assert what in case.said()
        assert len(case.cluster.commands) == begun
        assert job.waiting is None, "it is planned anew"


def test_the_rest_of_a_plan_is_not_taken_for_partitions_that_came_meanwhile() -> None:
    case = Case()
    job = case.job()
    case.first_batch(job)
    assert job.waiting is not None
    left = {a.partition for batch in job.waiting.batches for a in batch}
    gone = [p for p, n in job.numbers.items() if n >= min(left)]
    for p in gone:
        del case.cluster.partitions[p]
        case.cluster.partitions[tp(p.partition, "new")] = holders(1, 2)
    begun = len(case.cluster.commands)
    case.clock.advance(job.look())
    assert len(case.cluster.commands) == begun


def test_topics_whose_consumers_are_handed_over_wait() -> None:
    case = Case(busy=frozenset({"t"}))
    job = case.job()
    case.looks(job, 3)
    assert (case.cluster.commands, job.waiting) == ([], None)
    actions = [r for r in case.rows if r.kind == "action"]
    assert {r.status for r in actions} == {"held"}
    assert len({r.plan for r in actions}) == 1, "said once"
    case.busy = frozenset()
    case.looks(job)
    assert case.leaders() == [3, 3, 3, 3]


def test_a_job_on_another_machine_goes_on_with_what_was_begun_and_the_first_one_changes_nothing_more() -> None:
    case = Case(cluster=replace(Case().cluster, looks=5))
    first = case.job()
    while not case.cluster.running:
        first.look()
    second = case.job()
    assert second.journal.moves.keys() >= case.cluster.running.keys()
    with pytest.raises(FencedError):
        case.looks(first, 9)
    assert case.cluster.settings != {}
    case.looks(second)
    assert (case.cluster.settings, case.leaders()) == ({}, [3, 3, 3, 3])


def test_an_orderly_end_cancels_what_copies_and_leaves_no_throttle_but_those_of_others() -> None:
    theirs = {Setting("broker", "4", "leader.replication.throttled.rate"): "5"}
    case = Case(cluster=replace(Case().cluster, looks=99, settings=dict(theirs)))
    job = case.job()
    while not case.cluster.running:
        job.look()
    copying = set(case.cluster.running)
    until("its end", job.end, bool)
    assert (case.cluster.running, case.cluster.settings, job.journal) == ({}, theirs, NOTHING)
    assert {r.partition for r in case.rows if r.status == "cancelled"} >= copying
    assert {case.cluster.partitions[p].replicas for p in copying} == {(1, 2)}


def test_a_cluster_is_balanced_while_the_throttle_of_a_broker_that_is_gone_is_left_and_that_is_said() -> None:
    left = Journal(batch="a", throttle={Setting("broker", "9", RATES[0]): "7"})
    case = Case(shared=FakeJournal(encode(left)))
    job = case.job()
    case.looks(job)
    assert case.leaders() == [3, 3, 3, 3]
    assert (case.cluster.settings, job.journal.throttle, job.journal.moves) == ({}, left.throttle, {})
    plans = [r for r in case.rows if r.kind == "look" and {f.what for f in r.findings} & {What.BALANCING, What.BROKERS_BALANCED}]
    assert plans
    assert all(What.THROTTLE_LEFT in {f.what for f in r.findings} for r in plans)


def test_for_whom_a_batch_waits_is_said_at_once_and_then_every_ten_minutes() -> None:
    case = Case(cluster=replace(Case().cluster, looks=9999))
    job = case.job()
    until("a copy", job.look, lambda _: case.cluster.running)
    awaited = {b for to in case.cluster.running.values() for b in to} - {1, 2}
    case.cluster.brokers = {n: b for n, b in case.cluster.brokers.items() if n not in awaited}
    before = len(case.rows)
    case.looks(job, 121)  # ten seconds each
    said = [f for r in case.rows[before:] for f in r.findings if f.what is What.BATCH_WAITS]
    assert [f.numbers["waited_s"] for f in said] == [0, 600, 1200]
    assert {f.texts["brokers"] for f in said} == {", ".join(map(str, sorted(awaited)))}


def test_a_plan_of_thousands_of_moves_is_begun_in_parts_that_the_journal_has_room_for() -> None:
    cluster = FakeCluster({tp(n, "t" * 249): holders(1, 2) for n in range(4000)}, looks=1)
    case = Case(cluster=cluster, mib_per_s=(4.0,) * 4000)
    numbers = numbered({}, case.cluster.observe(()).partitions)
    actions = tuple(MoveReplica(partition=n, source=2, target=3, leads=False, size_bytes=1.0) for n in range(4000))
    job = replace(case.job(), numbers=numbers, waiting=Waiting("p", deque([actions]), forced=True))
    until("its end", job.look, lambda _: job.waiting is None and job.journal == NOTHING)
    assert {h.replicas for h in case.cluster.partitions.values()} == {(1, 3)}
    begun = [c.replicas for c in case.cluster.commands if isinstance(c, Reassign)]
    assert 1 < len(begun) < 9
    assert sum(map(len, begun)) == 4000


def test_what_was_refused_is_not_waited_for() -> None:
    case = Case()
    job = case.job()
    gone = TopicPartition(topic="t", partition=0)
    begin = case.cluster.execute

    def refuses(command: object) -> dict[TopicPartition, str]:
        found = dict(begin(command))  # type: ignore[arg-type]
        return {gone: "NoReplicas"} if isinstance(command, Reassign) and gone in command.replicas else found

    case.cluster.execute = refuses  # type: ignore[method-assign]
    while not [r for r in case.rows if r.status.startswith("refused")]:
        job.look()
    assert gone not in job.journal.moves


def test_a_job_with_nothing_begun_notices_that_another_one_has_taken_over() -> None:
    case = Case(cluster=FakeCluster({tp(n): holders(1 + n % 4, 1 + (n + 1) % 4) for n in range(12)}))
    first = case.job()
    case.looks(first, 2)
    assert (first.journal, case.cluster.commands) == (NOTHING, [])
    case.job()
    with pytest.raises(FencedError):
        first.look()
