"""Directed checks of rules whose breach chance does not find, or not soon: each takes a copy of the modules, asserts one rule."""

import logging
from collections.abc import Callable
from types import SimpleNamespace

from confluent_kafka import KafkaError, TopicPartition

from autoscaler.errors import PermanentError
from tests.handover.mutants import Copy

L = 10.0
SPAN = L + 0.5 + L / 10
_STATE, _WORKER, _EXPIRY = (
    "autoscaler.handover.controller_state",
    "autoscaler.handover.worker_state",
    "autoscaler.handover.expiry",
)
_RECORDS, _PLANNING = "autoscaler.handover.records", "autoscaler.handover.planning"


class _Driven:
    """One worker's machine of a copy."""

    def __init__(self, copy: Copy) -> None:
        self.machine, self.records = copy.module(_WORKER), copy.module(_RECORDS)
        self.me = self.records.Incarnation("a", "a1")
        self.state = self.machine.WorkerState(group="g", me=self.me, control_id="c", lease_s=L)

    def feed(self, event: object, now: float) -> list[str]:
        """Take an event and return the names of the effects."""
        self.state, effects = self.machine.step(self.state, event, now)
        return [type(e).__name__ for e in effects]

    def plan(self, number: int, *, mine: bool) -> object:
        tp, other = self.records.Tp("t", 0), self.records.Incarnation("b", "b1")
        grant = self.records.Grant(owner=self.me if mine else other, epoch=number)
        return self.records.Plan(
            group="g", epoch=self.records.Epoch("c", number), topics={"t": "t"}, grants={tp: grant}, waits={}, starts={tp: 0},
            leases_s={}, requested=(), summary="", at=0.0,
        )  # fmt: skip


def lease_from_the_stamp(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    w.feed(w.machine.HeartbeatAcked(stamp=1.0, offset=0), 6.0)
    assert w.state.valid_until == 1.0 + L


def nothing_before_the_first_acknowledgement(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    effects = w.feed(w.machine.LogRead(records=(w.plan(1, mine=True),)), 1.1)
    assert w.state.valid_until == float("-inf")
    assert effects == []


def own_end_is_a_lapse(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    w.feed(w.machine.HeartbeatAcked(stamp=1.0, offset=0), 1.1)
    end = w.records.Expired(group="g", worker=w.me, control_id="c", evidence="heartbeats")
    assert w.feed(w.machine.LogRead(records=(end,)), 1.2) == ["Lapse"]


def a_failed_heartbeat_gives_no_lease(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    w.feed(w.machine.HeartbeatFailed(stamp=1.0), 2.0)
    assert w.state.valid_until == float("-inf")


def a_late_acknowledgement_does_not_revive(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    w.feed(w.machine.HeartbeatAcked(stamp=1.0, offset=0), 1.1)
    w.feed(w.machine.Elapsed(), 9.0)
    assert w.feed(w.machine.HeartbeatAcked(stamp=9.0, offset=1), 1.5 + L) == ["Lapse"]
    assert w.state.valid_until == float("-inf")


def what_was_taken_away_meanwhile_is_not_started(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    w.feed(w.machine.HeartbeatAcked(stamp=1.0, offset=0), 1.1)
    assert "ReadOffsets" in w.feed(w.machine.LogRead(records=(w.plan(1, mine=True),)), 1.2)
    w.feed(w.machine.LogRead(records=(w.plan(2, mine=False),)), 1.3)
    assert w.feed(w.machine.OffsetsRead(offsets=((w.records.Tp("t", 0), 1, 5),)), 1.4) == []


def one_heartbeat_in_flight(copy: Copy) -> None:
    w = _Driven(copy)
    assert w.feed(w.machine.Elapsed(), 1.0) == ["SendHeartbeat"]
    assert w.feed(w.machine.Elapsed(), 5.0) == []


def an_older_plan_says_nothing(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.LogRead(records=(w.plan(3, mine=False), w.plan(2, mine=True))), 1.0)
    assert w.state.epoch == 3
    assert w.state.wanted == {}


def a_leaving_worker_takes_nothing(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    w.feed(w.machine.HeartbeatAcked(stamp=1.0, offset=0), 1.1)
    w.feed(w.machine.LogRead(records=(w.plan(1, mine=True),)), 1.2)
    tp = w.records.Tp("t", 0)
    w.feed(w.machine.OffsetsRead(offsets=((tp, 1, 5),)), 1.3)
    w.feed(w.machine.Leave(), 1.4)
    w.feed(w.machine.LogRead(records=(w.plan(2, mine=True),)), 1.5)
    assert w.state.wanted == {}


def a_running_partition_gets_the_new_token(copy: Copy) -> None:
    w = _Driven(copy)
    w.feed(w.machine.Elapsed(), 1.0)
    w.feed(w.machine.HeartbeatAcked(stamp=1.0, offset=0), 1.1)
    w.feed(w.machine.LogRead(records=(w.plan(1, mine=True),)), 1.2)
    w.feed(w.machine.OffsetsRead(offsets=((w.records.Tp("t", 0), 1, 5),)), 1.3)
    w.feed(w.machine.LogRead(records=(w.plan(2, mine=True),)), 1.5)
    assert list(w.state.active.values()) == [2]


def only_acknowledged_records_are_evidence(copy: Copy) -> None:
    """Somebody wrote at 5; the source's own record 6 was stamped before that was heard of, and 7 long after."""
    log = copy.module(_EXPIRY).HeartbeatLog(L)
    log.started(0)
    log.add("s", boot_id="b", stamp=0.0, acked=None, offset=3)
    log.add("w", boot_id="b2", stamp=9.0, acked=None, offset=5)
    log.add("s", boot_id="b", stamp=1.0, acked=3, offset=6)
    log.add("s", boot_id="b", stamp=1.0 + SPAN, acked=6, offset=7)
    assert log.horizon(L) == 3


def an_impossible_acknowledgement_is_no_evidence(copy: Copy) -> None:
    """A source that calls acknowledged what stands behind its own record speaks of another log."""
    log = copy.module(_EXPIRY).HeartbeatLog(L)
    log.started(0)
    for offset, stamp in ((3, 0.0), (4, SPAN)):
        log.add("s", boot_id="b", stamp=stamp, acked=500, offset=offset)
    assert log.horizon(L) == -1


def the_margin_is_waited_for(copy: Copy) -> None:
    """Half of the margin is no proof: this source's clock may run fast, and the worker's slow."""
    log = copy.module(_EXPIRY).HeartbeatLog(L)
    log.started(0)
    log.add("s", boot_id="b", stamp=0.0, acked=1, offset=2)
    log.add("s", boot_id="b", stamp=(L + SPAN) / 2, acked=2, offset=3)
    assert log.horizon(L) == -1


def a_gap_voids_the_evidence(copy: Copy) -> None:
    log = copy.module(_EXPIRY).HeartbeatLog(L)
    log.started(0)
    log.add("s", boot_id="b", stamp=0.0, acked=12, offset=13)
    log.started(11)
    assert log.floor == 10
    log.add("s", boot_id="b", stamp=SPAN, acked=13, offset=20)
    assert log.horizon(L) == -1


def two_boots_are_two_clocks(copy: Copy) -> None:
    log = copy.module(_EXPIRY).HeartbeatLog(L)
    log.started(0)
    log.add("s", boot_id="b", stamp=0.0, acked=1, offset=2)
    log.add("s", boot_id="c", stamp=SPAN, acked=2, offset=3)
    assert log.horizon(L) == -1


def _beat(
    copy: Copy,
    name: str,
    uuid: str,
    stamp: float,
    acked: int | None,
    *,
    owned: dict[object, int] | None = None,
    exactly_once: bool = False,
) -> object:
    records = copy.module(_RECORDS)
    return records.Heartbeat(
        group="g", worker=records.Incarnation(name, uuid), stamp=stamp, boot_id="b", acked=acked, lease_s=L, epoch=0,
        phase=records.Phase.ACTIVE, owned=owned or {}, exactly_once=exactly_once,
    )  # fmt: skip


def two_incarnations_are_two_clocks(copy: Copy) -> None:
    """The one stamps before the other begins to count: a process that started later has a later origin."""
    state = copy.module(_STATE).ControllerState("g", "c", L)
    state.log.started(0)
    state.fold(_beat(copy, "w", "w1", 3.0, None), offset=0, at=0.0)
    state.fold(_beat(copy, "s", "s1", 0.0, 1), offset=2, at=0.0)
    state.fold(_beat(copy, "s", "s2", SPAN, 2), offset=3, at=0.0)
    assert state.to_expire() == {}


def only_a_sources_own_stamps_count(copy: Copy) -> None:
    """The broker's time, or anybody else's, may jump."""
    state = copy.module(_STATE).ControllerState("g", "c", L)
    state.log.started(0)
    state.fold(_beat(copy, "w", "w1", 3.0, None), offset=0, at=0.0)
    state.fold(_beat(copy, "s", "s1", 0.0, 1), offset=2, at=0.0)
    state.fold(_beat(copy, "s", "s1", 1.0, 2), offset=3, at=1000.0)
    assert state.to_expire() == {}


def _over(copy: Copy) -> tuple[object, object]:
    """Return a state in which a worker has expired whose heartbeat lies at 7, and the worker."""
    records = copy.module(_RECORDS)
    worker = records.Incarnation("w", "w1")
    state = copy.module(_STATE).ControllerState("g", "c", L)
    state.log.started(0)
    state.fold(_beat(copy, "w", "w1", 3.0, None), offset=7, at=0.0)
    state.fold(records.Expired(group="g", worker=worker, control_id="c", evidence="platform"), offset=0, at=0.0)
    return state, worker


def _ended(copy: Copy, *, spoken: bool) -> tuple[SimpleNamespace, object]:
    """Return a state in which the platform saw a worker end that commits in transactions, and the worker."""
    records, state = copy.module(_RECORDS), copy.module(_STATE).ControllerState("g", "c", L)
    worker, tp = records.Incarnation("w", "w1"), records.Tp("t", 0)
    state.log.started(100)
    plan = records.Plan(
        group="g", epoch=records.Epoch("c", 1), topics={"t": "t"}, grants={tp: records.Grant(owner=worker, epoch=1)}, waits={},
        starts={}, leases_s={worker: L}, requested=(), summary="", at=0.0, exactly_once=frozenset({worker}),
    )  # fmt: skip
    state.fold(plan, offset=0, at=0.0)
    state.log.add("s", boot_id="b", stamp=0.0, acked=110, offset=111)
    state.log.add("s", boot_id="b", stamp=SPAN, acked=111, offset=112)
    if spoken:
        state.fold(_beat(copy, "w", "w1", 3.0, None, exactly_once=True), offset=101, at=0.0)
    return state, worker


def no_worker_is_over_before_it_is_fenced(copy: Copy) -> None:
    state, worker = _ended(copy, spoken=True)
    assert state.to_expire() == {}
    assert state.to_fence() == (worker,)
    state.fenced(worker)
    assert set(state.to_expire()) == {worker}


def the_plan_remembers_whom_to_fence(copy: Copy) -> None:
    """Its heartbeats may be gone when it is found to be over."""
    state, worker = _ended(copy, spoken=False)
    assert state.to_fence() == (worker,)


class _Client:
    """Stands for a producer: fails outputs by these errors, loses a connection while it commits, or is well."""

    def __init__(self, _: dict[str, object], *, logger: logging.Logger) -> None:
        self._log, self.lost, self.losing = logger, False, False
        self.fails: int | None = None
        self.calls: list[str] = []

    def produce(self, *_: object, on_delivery: Callable[[KafkaError | None, object], None], **__: object) -> None:
        on_delivery(None if self.fails is None else KafkaError(self.fails), None)

    def flush(self, _: float) -> int:
        return 0

    def poll(self, _: float) -> int:
        if self.lost:
            self._log.log(logging.INFO, "%s [%s] %s", "FAIL", "rdkafka#producer-1", "Disconnected")
        self.lost = False
        return 0

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def abort_transaction(self, _: float) -> None:
        self.calls.append("abort")

    def commit_transaction(self, _: float) -> None:
        self.calls.append("commit")
        self.lost = self.losing

    def send_offsets_to_transaction(self, *_: object) -> None:
        self.calls.append("offsets")


def _transactions(copy: Copy) -> tuple[SimpleNamespace, _Client, object]:
    module = copy.module("autoscaler.worker.transactions")
    vars(module)["Producer"] = _Client
    made = module.Transactions({}, "g", "u", timeout_s=9.0, metadata=lambda: None)
    return made, made._producer, module.Output(topic="to", value="a")


def outputs_that_are_given_up_are_the_last(copy: Copy) -> None:
    """Given up in time, or refused for what they are: no output follows under the same id; offsets may, after a refusal."""
    here = [TopicPartition("from", 0, 7)]
    made, client, output = _transactions(copy)
    client.fails = KafkaError._MSG_TIMED_OUT
    assert made.write([output], here, lambda: True).name == "OVER"
    assert client.calls == ["begin"], "who takes the id aborts it, under a new epoch"
    made, client, output = _transactions(copy)
    client.fails = KafkaError.MSG_SIZE_TOO_LARGE
    try:
        made.write([output], here, lambda: True)
    except PermanentError:
        client.fails = None
    assert made.write([], here, lambda: True).name == "COMMITTED"
    assert made.write([output], here, lambda: True).name == "OVER"
    assert client.calls == ["begin", "abort", "begin", "offsets", "commit"]


def a_commit_whose_connection_was_lost_is_the_last(copy: Copy) -> None:
    """What was sent twice may come late, and would count for the next transaction."""
    made, client, output = _transactions(copy)
    client.lost = True
    here = [TopicPartition("from", 0, 7)]
    assert made.write([output], here, lambda: True).name == "COMMITTED", "lost before it"
    assert not made.over
    offsets, run, said = copy.module("autoscaler.worker.offsets"), copy.module("autoscaler.worker.delivery").Run, list[str]()
    lease = SimpleNamespace(until=10.0)
    mine = run(tp=copy.module(_RECORDS).Tp("t", 0), topic="from", epoch=1, position=9, processed=9, committed=0)
    committing = offsets.Offsets(None, "u", lease, lambda: 0.0, made, said.append)
    client.losing = True
    assert committing.commit_with([output], {mine: 9}).name == "COMMITTED"
    assert mine.committed == 9
    assert len(said) == 1
    assert made.write([output], here, lambda: True).name == "OVER"


def an_outage_is_no_loss(copy: Copy) -> None:
    """Two owners end: the first while a controller is heard, the second while nobody is, for a lease."""
    records = copy.module(_RECORDS)
    for silent in (False, True):
        state, worker = _ended(copy, spoken=True)
        for offset, at in enumerate((L,) if silent else (0.25 * L, 0.5 * L, 0.75 * L, L), 102):
            tick = records.Tick(group="g", incarnation="c1", stamp=at, boot_id="b", acked=None)
            state.fold(tick, offset=offset, at=at)
        state.fold(records.Expired(group="g", worker=worker, control_id="c", evidence="platform"), offset=1, at=L)
        assert (state.lost() == {}) is silent


def a_retained_heartbeat_keeps_the_records(copy: Copy) -> None:
    state, _ = _over(copy)
    assert state.forgettable(7) == ()  # type: ignore[attr-defined]
    assert state.forgettable(8) != ()  # type: ignore[attr-defined]


def a_plan_keeps_the_releases_that_it_waits_for(copy: Copy) -> None:
    """Its partition has arrived, and the next plan is not there yet."""
    records, state = copy.module(_RECORDS), copy.module(_STATE).ControllerState("g", "c", L)
    a, b, tp = records.Incarnation("w", "w1"), records.Incarnation("v", "v1"), records.Tp("t", 0)
    plan = records.Plan(
        group="g", epoch=records.Epoch("c", 2), topics={"t": "t"}, grants={tp: records.Grant(owner=b, epoch=2)},
        waits={tp: (records.Wait(worker=a, epoch=2),)}, starts={}, leases_s={}, requested=(), summary="", at=0.0,
    )  # fmt: skip
    state.fold(plan, offset=0, at=0.0)
    state.fold(records.Released(group="g", tp=tp, worker=a, control_id="c", epoch=2, offset=5), offset=1, at=0.0)
    state.fold(_beat(copy, "v", "v1", 1.0, None, owned={tp: 2}), offset=0, at=0.0)
    assert state.pending() == frozenset()
    assert state.spent() == ()


def a_plan_keeps_the_records(copy: Copy) -> None:
    state, worker = _over(copy)
    records = copy.module(_RECORDS)
    grants = {records.Tp("t", 0): records.Grant(owner=worker, epoch=1)}
    plan = records.Plan(
        group="g", epoch=records.Epoch("c", 1), topics={"t": "t"}, grants=grants, waits={}, starts={}, leases_s={}, requested=(),
        summary="", at=0.0,
    )  # fmt: skip
    state.fold(plan, offset=1, at=0.0)  # type: ignore[attr-defined]
    assert state.forgettable(8) == ()  # type: ignore[attr-defined]


def _planned(copy: Copy, state: object, owners: object, starts: object) -> object:
    records, planning = copy.module(_RECORDS), copy.module(_PLANNING)
    return planning.next_plan(
        state,
        planning.Intended(
            owners=owners,
            topics={"t": "t"},
            partitions=frozenset({records.Tp("t", 0)}),
            starts=starts,
            requested=(),
            summary="",
            at=0.0,
        ),
    )


def a_published_start_stays(copy: Copy) -> None:
    records, state = copy.module(_RECORDS), copy.module(_STATE).ControllerState("g", "c", L)
    tp = records.Tp("t", 0)
    state.fold(_planned(copy, state, {}, {tp: 5}), offset=0, at=0.0)
    second = _planned(copy, state, {}, {tp: 9})
    assert second.starts == {tp: 5}  # type: ignore[attr-defined]


def numbers_grow(copy: Copy) -> None:
    state = copy.module(_STATE).ControllerState("g", "c", L)
    first = _planned(copy, state, {}, {})
    state.fold(first, offset=0, at=0.0)
    assert _planned(copy, state, {}, {}).epoch.number > first.epoch.number  # type: ignore[attr-defined]


def tokens_go_on(copy: Copy) -> None:
    """A heartbeat names an epoch of the control topic that was."""
    state = copy.module(_STATE).ControllerState("g", "c", L)
    records = copy.module(_RECORDS)
    state.fold(_beat(copy, "w", "w1", 1.0, None, owned={records.Tp("t", 0): 41}), offset=0, at=0.0)
    assert _planned(copy, state, {}, {}).epoch.number == 42  # type: ignore[attr-defined]


def an_unseen_topic_keeps_its_waits(copy: Copy) -> None:
    records, planning = copy.module(_RECORDS), copy.module(_PLANNING)
    state = copy.module(_STATE).ControllerState("g", "c", L)
    worker, tp = records.Incarnation("w", "w1"), records.Tp("t", 0)
    state.fold(_planned(copy, state, {tp: worker}, {}), offset=0, at=0.0)
    unseen = planning.Intended(owners={}, topics={}, partitions=frozenset(), starts={}, requested=(), summary="", at=0.0)
    assert set(planning.next_plan(state, unseen).waits) == {tp}


def a_partition_that_stays_keeps_its_token(copy: Copy) -> None:
    records, state = copy.module(_RECORDS), copy.module(_STATE).ControllerState("g", "c", L)
    tp, owner = records.Tp("t", 0), records.Incarnation("w", "w1")
    state.fold(_planned(copy, state, {tp: owner}, {}), offset=0, at=0.0)
    assert _planned(copy, state, {tp: owner}, {}).grants[tp].epoch == 1  # type: ignore[attr-defined]


def what_is_not_released_is_not_moved_again(copy: Copy) -> None:
    records, state = copy.module(_RECORDS), copy.module(_STATE).ControllerState("g", "c", L)
    tp, owners = records.Tp("t", 0), [records.Incarnation("w", f"w{n}") for n in range(3)]
    for owner in owners[:2]:
        state.fold(_planned(copy, state, {tp: owner}, {}), offset=0, at=0.0)
    assert _planned(copy, state, {tp: owners[2]}, {}).grants[tp].owner == owners[1]  # type: ignore[attr-defined]


def the_first_plan_waits_for_everybody(copy: Copy) -> None:
    records, state = copy.module(_RECORDS), copy.module(_STATE).ControllerState("g", "c", L)
    state.log.started(0)
    state.fold(_beat(copy, "w", "w1", 3.0, None), offset=0, at=0.0)
    tp = records.Tp("t", 0)
    waits = _planned(copy, state, {tp: records.Incarnation("s", "s1")}, {}).waits.get(tp, ())  # type: ignore[attr-defined]
    assert [w.worker.uuid for w in waits] == ["w1"]


def a_suspended_machine_loses_its_lease(copy: Copy) -> None:
    """CLOCK_MONOTONIC_RAW stands still in suspend, CLOCK_BOOTTIME may be slewed: the greater counts."""
    clock = copy.module("autoscaler.worker.clock")
    reads = {"boot": 0.0, "raw": 0.0}
    real, fake = clock.time, SimpleNamespace(CLOCK_BOOTTIME="boot", CLOCK_MONOTONIC_RAW="raw", clock_gettime=reads.__getitem__)
    clock.__dict__["time"] = fake
    now = clock.lease_clock()
    clock.__dict__["time"] = real
    reads.update(boot=100.0, raw=1.0)
    assert now() == 100.0
    reads.update(boot=184.0, raw=200.0)
    assert now() == 200.0


class _Message:
    """As the client's, as far as the intake looks."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def __len__(self) -> int:
        return 1

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (0, 0)


def only_what_was_handed_out_is_processed(copy: Copy) -> None:
    """Five records are fetched, the application takes two of them and asks for the next batch."""
    intake_module, records = copy.module("autoscaler.worker.delivery"), copy.module(_RECORDS)
    brought = [[_Message(i) for i in range(5)]]
    consumer = SimpleNamespace(consume=lambda _n, _s: brought.pop() if brought else [])
    intake = intake_module.Intake(consumer, lambda: 0.0, batch_size_bytes=5, wait_time_s=0.01, idle_s=1.0)
    run = intake_module.Run(tp=records.Tp("id", 0), topic="t", epoch=1, position=0, processed=0, committed=0)
    intake.runs["t", 0] = run
    batch = iter(intake.fetch(intake_module.Lease(until=float("inf"))))
    assert [next(batch).offset(), next(batch).offset()] == [0, 1]
    intake.finish()
    assert run.processed == 2
    assert run.position == 5


def only_a_successor_ends_a_controller(copy: Copy) -> None:
    state, records = copy.module(_STATE), copy.module(_RECORDS)
    log = state.ControllerState("g", "c", L)

    def said(number: int, by: str, group: str = "g", control_id: str = "c") -> None:
        log.fold(records.TakeOver(group=group, control_id=control_id, number=number, incarnation=by), offset=0, at=0.0)

    assert not log.superseded("me", 0)
    said(3, "before")
    assert not log.superseded("me", 3), "that is the predecessor"
    said(4, "me")
    assert not log.superseded("me", 3), "that is the controller itself, which did not learn that it is in the log"
    said(9, "another group's", group="other")
    said(9, "of a topic that is no more", control_id="other")
    assert not log.superseded("me", 4)
    said(5, "successor")
    assert log.superseded("me", 4)


def numbers_go_on_by_the_ticks(copy: Copy) -> None:
    state, records = copy.module(_STATE), copy.module(_RECORDS)
    log = state.ControllerState("g", "c", L)

    def tick(number: int, group: str = "g") -> None:
        log.fold(records.Tick(group=group, incarnation="a", stamp=1.0, boot_id="b", acked=None, number=number), offset=0, at=0.0)

    tick(7)
    tick(6)
    tick(9, group="other")
    assert log.number == 7
    assert not log.superseded("me", 3), "a tick is no proof"
