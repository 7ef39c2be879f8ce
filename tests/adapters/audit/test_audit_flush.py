"""Buffer, journal and flusher over tables in memory: killed at every point, refused, delayed."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from autoscaler.adapters.audit.buffer import Buffer
from autoscaler.adapters.audit.decision_json import summarise
from autoscaler.adapters.audit.flusher import Flusher, Key
from autoscaler.adapters.audit.journal import WRITTEN, Journal, recovered
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.adapters.audit.tables import TABLES
from autoscaler.errors import TransientError
from autoscaler.ports import ActionOutcome
from tests.adapters.audit import audit_cases as cases
from tests.until import throughout, until


class KilledError(BaseException):
    """The process ended here."""


@dataclass
class Store:
    """Tables that outlive a life, with Delta's rule: a version that a life has committed is skipped."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})
    commits: list[tuple[str, str, int]] = field(default_factory=list)

    def keys(self, table: str) -> list[Key]:
        return [tuple(r[c] for c in TABLES[table].key) for r in self.rows[table]]


@dataclass
class Tables:
    """A life's access to the store; ``trouble(call)`` may raise before or after the commit of a call."""

    store: Store
    life: str
    trouble: Callable[[str], None] = lambda _: None
    prepared: int = 0

    def today(self) -> date:
        return datetime.fromtimestamp(cases.T0, tz=UTC).date()

    def prepare(self) -> None:
        self.trouble("prepare")
        self.prepared += 1

    def append(self, table: str, rows: pa.Table, version: int) -> None:
        self.trouble(f"before {table}")
        if not any(life == self.life and t == table and v >= version for life, t, v in self.store.commits):
            self.store.commits.append((self.life, table, version))
            self.store.rows[table] += rows.to_pylist()
        self.trouble(f"after {table}")

    def keys(self, table: str, since: date) -> set[Key]:
        self.trouble(f"keys {table}")
        return {tuple(r[c] for c in TABLES[table].key) for r in self.store.rows[table] if r["date"] >= since}


class Unthreaded(Flusher):
    """A flusher whose thread is the test."""

    def wake(self, *, at_once: bool) -> None:
        """Start nothing."""


class Life:
    """What one start of the job has of the audit, without a thread: ``flush`` is called by the test."""

    def __init__(self, directory: Path, store: Store, name: str, trouble: Callable[[str], None] = lambda _: None) -> None:
        self.journal = Journal(directory, name)
        self.buffer = Buffer()
        self.tables = Tables(store, name, trouble)
        self.flusher = Unthreaded(self.buffer, self.tables, self.journal, flush_s=60.0)

    def record(self, cycle: Cycle) -> None:
        self.buffer.add(cycle, self.journal.add(cycle) if cycle.acted or cycle.handovers else None)

    def complete(self, summary_of: Cycle) -> None:
        d = summary_of.decision
        self.flusher.complete(recovered(d, cases.outcomes(d, status="recovered")))

    def die(self) -> None:
        """End as a killed process does: the lock goes, nothing is written, nothing is tidied up."""
        self.journal._file.close()


class Start(Protocol):
    """Starts a life."""

    def __call__(self, name: str, trouble: Callable[[str], None] = ...) -> Life: ...


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def start(tmp_path: Path, store: Store) -> Iterator[Start]:
    lives = []

    def make(name: str, trouble: Callable[[str], None] = lambda _: None) -> Life:
        lives.append(Life(tmp_path, store, name, trouble))
        return lives[-1]

    yield make
    for life in lives:
        life.die()


def idle(at: float) -> Cycle:
    d, s, state = cases.calm(at)
    return Cycle(decision=d, snapshot=s, outcomes=(), handovers=(), owner=state.owner)


def acting(at: float, *handed: int) -> Cycle:
    d, s, state = cases.hot(at)
    done = tuple(cases.handover(p, at=at, epoch=int(at - cases.T0)) for p in handed)
    return Cycle(decision=d, snapshot=s, outcomes=cases.outcomes(d), handovers=done, owner=state.owner)


def timeline() -> list[Cycle]:
    t = cases.T0
    return [idle(t), acting(t + 1), idle(t + 2), replace(idle(t + 3), handovers=(cases.handover(7, at=t + 3),)), acting(t + 4, 5)]


def assert_once(store: Store, cycles: list[Cycle]) -> None:
    """Everything that acted is there, with its phases and hand-overs; nothing is there twice."""
    for name in TABLES:
        twice = [k for k, n in Counter(store.keys(name)).items() if n > 1]
        assert not twice, f"{name}: {twice}"
    acted = [c for c in cycles if c.acted]
    assert {(c.decision.decision_id,) for c in acted} <= set(store.keys("decisions"))
    assert set(store.keys("actions")) == {(c.decision.decision_id, o.phase) for c in acted for o in c.outcomes}
    assert len(store.rows["handovers"]) == sum(len(c.handovers) for c in cycles)
    assert all(r["acted"] for r in store.rows["decisions"] if (r["decision_id"], "intent") in set(store.keys("actions")))


POINTS = ["prepare", "keys handovers", *(f"{when} {t}" for t in TABLES for when in ("before", "after"))]


def run_until(life: Life, cycles: list[Cycle], *, every: int) -> list[Cycle]:
    """Record the cycles, flushing after every ``every``; return those that were recorded before the kill."""
    told: list[Cycle] = []
    with suppress(KilledError):
        for n, cycle in enumerate(cycles, start=1):
            told.append(cycle)
            life.record(cycle)
            if n % every == 0:
                life.flusher.flush()
    life.die()
    return told


@pytest.mark.parametrize(("after", "every"), [(1, 1), (1, 2), (1, 5), (2, 1), (2, 2)])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_and_doubles_nothing_that_acted(
    start: Start, tmp_path: Path, point: str, after: int, every: int
) -> None:
    seen = Counter[str]()

    def kill(call: str) -> None:
        seen[call] += 1
        if call == point and seen[call] == after:
            raise KilledError

    first = start("first", kill)
    store = first.tables.store
    told = run_until(first, timeline(), every=every)
    second = start("second")
    second.complete(told[-1] if told[-1].acted else timeline()[1])
    told = told if timeline()[1].decision in [c.decision for c in told] else [*told, timeline()[1]]
    second.flusher.flush()
    assert_once(store, told)
    second.journal.close()
    assert {p.name for p in tmp_path.iterdir()} <= {WRITTEN}, "no journal, at most the sign of the latest commit"


@pytest.mark.parametrize("point", ["keys decisions", "keys actions", "before actions", "after actions", "after decisions"])
def test_a_kill_while_recovering_is_recovered_from(start: Start, store: Store, point: str) -> None:
    cycles = timeline()
    first = start("first")
    for cycle in cycles:
        first.record(cycle)
    first.die()

    def kill(call: str) -> None:
        if call == point:
            raise KilledError

    second = start("second", kill)
    second.complete(acting(cases.T0 + 5))
    second.record(acting(cases.T0 + 6))
    with pytest.raises(KilledError):
        second.flusher.flush()
    second.die()
    third = start("third")
    third.flusher.flush()
    assert_once(store, [*cycles, acting(cases.T0 + 5), acting(cases.T0 + 6)])


def test_a_plan_published_right_before_the_kill_is_completed_from_its_summary(start: Start, store: Store) -> None:
    cycle = acting(cases.T0)
    life = start("second")
    life.complete(cycle)
    life.flusher.flush()
    row = store.rows["decisions"][0]
    assert (row["recovered"], row["acted"], row["loads"]) == (True, True, None)
    assert summarise(cycle.decision)
    assert {x["owner"] for x in row["assignment_before"]} == {"0"}
    assert [(r["phase"], r["status"]) for r in store.rows["actions"]] == [("intent", "planned"), ("outcome", "recovered")]
    life.complete(cycle)
    life.flusher.flush()
    assert_once(store, [cycle])


def test_an_outcome_that_was_written_is_not_replaced_by_a_recovered_one(start: Start, store: Store) -> None:
    cycle = acting(cases.T0)
    first = start("first")
    first.record(cycle)
    first.die()
    second = start("second")
    second.complete(cycle)
    second.flusher.flush()
    assert [(r["phase"], r["status"]) for r in store.rows["actions"]] == [("intent", "planned"), ("outcome", "done")]


def test_completing_waits_while_another_life_can_still_write(start: Start, store: Store) -> None:
    cycle = acting(cases.T0)
    old, new = start("old"), start("new")
    old.record(cycle)
    new.complete(cycle)
    new.flusher.flush()
    assert not store.rows["decisions"]
    old.flusher.flush()
    old.journal.close()
    new.flusher.flush()
    assert_once(store, [cycle])
    assert not store.rows["decisions"][0]["recovered"]


def test_handovers_that_are_reported_again_after_a_restart_are_written_once(start: Start, store: Store) -> None:
    old = replace(idle(cases.T0), handovers=(cases.handover(1, at=cases.T0 - 20 * 86400), cases.handover(2)))
    for n in range(2):
        life = start(f"life-{n}")
        life.record(replace(old, decision=replace(old.decision, decision_id=f"g/{n}")))
        life.flusher.flush()
        life.journal.close()
    assert len(store.rows["handovers"]) == 2


@pytest.mark.parametrize("point", POINTS)
def test_a_failed_or_lost_answer_is_tried_again_without_doubling(start: Start, store: Store, point: str) -> None:
    left = [point]

    def fail_once(call: str) -> None:
        if left and call == left[0]:
            left.clear()
            msg = "no answer"
            raise TransientError(msg)

    life = start("only", fail_once)
    cycles = timeline()
    for cycle in cycles[:3]:
        life.record(cycle)
    with suppress(TransientError):
        life.flusher.flush()
    for cycle in cycles[3:]:
        life.record(cycle)
    life.complete(acting(cases.T0 + 9))  # comes with a higher version than the batch that waits
    with suppress(TransientError):
        life.flusher.flush()
    life.flusher.flush()
    assert not left
    assert_once(store, [*cycles, acting(cases.T0 + 9)])
    assert len(store.rows["loads"]) == 5


def test_a_decision_gets_a_row_when_it_acts_changes_or_ten_seconds_have_passed(start: Start, store: Store) -> None:
    life = start("only")
    told = [idle(cases.T0 + n) for n in range(25)]
    told[4] = acting(cases.T0 + 4)
    for cycle in told:
        life.record(cycle)
    life.flusher.flush()
    assert [r["decision_id"] for r in store.rows["decisions"]] == [told[n].decision.decision_id for n in (0, 4, 5, 15)]
    assert [r["decision_id"] for r in store.rows["loads"]] == [c.decision.decision_id for c in told]


def test_a_sample_that_is_seen_twice_and_did_nothing_is_written_once(start: Start, store: Store) -> None:
    life = start("only")
    for _ in range(3):
        life.record(idle(cases.T0))
    life.flusher.flush()
    assert len(store.rows["loads"]) == len(store.rows["decisions"]) == 1


def test_memory_is_bounded_by_dropping_what_did_nothing_and_saying_so(start: Start, store: Store) -> None:
    life = start("only")
    life.buffer.max_partitions = 30
    cycles = [acting(cases.T0 + n) if n % 20 == 0 else idle(cases.T0 + n) for n in range(200)]
    for cycle in cycles:
        life.record(cycle)
    life.flusher.flush()
    assert_once(store, [c for c in cycles if c.acted])
    written = {k[0] for k in store.keys("loads")}
    assert {c.decision.decision_id for c in cycles if c.acted} <= written
    assert len(written) < 40
    assert sum(r["dropped_before"] for r in store.rows["loads"]) == 200 - len(written)


def test_what_is_dropped_is_said_once(start: Start, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    life = start("only")
    life.buffer.max_partitions = 40
    for n in range(100):
        life.record(idle(cases.T0 + n))
    assert life.flusher._tried()
    assert life.flusher._tried()
    dropped = 100 - len(store.rows["loads"])
    assert dropped > 0
    both = f"measurements of {dropped} cycles and {10 - len(store.rows['decisions'])} decisions"
    assert caplog.messages == [f"more waits for the audit's tables than is kept: {both} were dropped"]


def test_the_journal_is_empty_once_rows_are_written_and_gone_after_an_orderly_end(start: Start, tmp_path: Path) -> None:
    life = start("only")
    life.record(acting(cases.T0))
    assert life.journal.path.stat().st_size > 0
    life.flusher.flush()
    assert life.journal.path.stat().st_size == 0
    life.journal.close()
    assert [p.name for p in tmp_path.iterdir()] == [WRITTEN], "no journal, only the sign of the latest commit"


def test_a_line_cut_off_by_a_kill_is_left_out_and_the_rest_is_read(
    start: Start, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    first = start("first")
    first.record(acting(cases.T0))
    first.record(acting(cases.T0 + 1))
    first.die()
    whole = first.journal.path.read_bytes()
    first.journal.path.write_bytes(whole[:-30])
    second = start("second")
    second.flusher.flush()
    assert_once(store, [acting(cases.T0)])
    assert "line 2 is left out" in caplog.text


@pytest.fixture
def threaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Flusher, Buffer, Store, Tables]]:
    monkeypatch.setattr("autoscaler.adapters.audit.flusher._GAP_S", 0.01)
    store, buffer = Store(), Buffer()
    tables = Tables(store, "only")
    flusher = Flusher(buffer, tables, Journal(tmp_path, "only"), flush_s=60.0)
    yield flusher, buffer, store, tables
    flusher.close(10.0)


def test_the_thread_writes_at_once_after_a_plan_and_the_rest_on_close(threaded: tuple[Flusher, Buffer, Store, Tables]) -> None:
    flusher, buffer, store, _ = threaded
    assert not any(t.name == "audit-flush" for t in threading.enumerate())
    buffer.add(acting(cases.T0))
    flusher.wake(at_once=True)
    until("a row", lambda: len(store.rows["loads"]) == 1, every_s=0.005)
    buffer.add(idle(cases.T0 + 1))
    flusher.wake(at_once=False)
    flusher.close(10.0)
    assert len(store.rows["loads"]) == 2
    assert not any(t.name == "audit-flush" for t in threading.enumerate())


def test_what_is_not_written_in_the_end_is_counted_and_said(
    threaded: tuple[Flusher, Buffer, Store, Tables], caplog: pytest.LogCaptureFixture
) -> None:
    flusher, buffer, _, tables = threaded

    def away(_: str) -> None:
        msg = "the store is away"
        raise TransientError(msg)

    tables.trouble = away
    for n in range(3):
        buffer.add(idle(cases.T0 + n))
    flusher.complete(recovered(acting(cases.T0 + 3).decision, ()))
    assert flusher.close(10.0) == 4
    assert caplog.messages[-1].startswith("4 cycles are not in the audit's tables")


def test_an_end_that_has_written_all_counts_nothing(
    threaded: tuple[Flusher, Buffer, Store, Tables], caplog: pytest.LogCaptureFixture
) -> None:
    flusher, buffer, store, _ = threaded
    buffer.add(idle(cases.T0))
    flusher.wake(at_once=False)
    assert flusher.close(10.0) == 0
    assert len(store.rows["loads"]) == 1
    assert "are not in the audit's tables" not in caplog.text


def test_one_commit_follows_each_cycle(threaded: tuple[Flusher, Buffer, Store, Tables], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.adapters.audit.flusher._GAP_S", 60.0)
    flusher, buffer, store, tables = threaded
    cycles, committed_after = 0, []
    tables.trouble = lambda call: committed_after.append(cycles) if call.startswith("before") else None
    buffer.add(acting(cases.T0, 1))

    def committed(wanted: int) -> bool:
        return len(store.commits) == wanted

    for number in range(1, 5):
        cycles = number
        flusher.wake(at_once=number == 1)
        until(f"{number} is committed", partial(committed, number), every_s=0.005)
    assert committed_after == [1, 2, 3, 4]


def committed(store: Store) -> Counter[str]:
    return Counter(table for _, table, _ in store.commits)


def cycles_for(flusher: Flusher, buffer: Buffer, seconds: float, made: Callable[[float], Cycle]) -> float:
    """Run a cycle every few milliseconds for a while, and return how long that really took."""
    began, numbers = time.monotonic(), itertools.count()

    def run() -> None:
        cycle = made(cases.T0 + next(numbers))
        buffer.add(cycle)
        flusher.wake(at_once=cycle.acted)

    throughout("cycles", run, for_s=seconds, every_s=0.005)
    return time.monotonic() - began


@pytest.mark.parametrize("made", [idle, acting])
def test_a_table_has_one_commit_per_flush_s_however_many_cycles_there_are(
    threaded: tuple[Flusher, Buffer, Store, Tables], made: Callable[[float], Cycle]
) -> None:
    flusher, buffer, store, _ = threaded
    flusher._flush_s = 0.4
    took = cycles_for(flusher, buffer, 2.0, made)
    flusher.close(10.0)
    for table, commits in committed(store).items():
        assert commits <= took / 0.4 + 3, f"{table}: {commits} commits in {took:.1f} s"  # one at the start, one at the end
    assert committed(store)["loads"] > 2
    assert len(store.rows["loads"]) == buffer._order


def test_what_acted_is_written_soon_and_does_not_take_along_what_waits(threaded: tuple[Flusher, Buffer, Store, Tables]) -> None:
    flusher, buffer, store, _ = threaded
    buffer.add(idle(cases.T0))
    flusher.wake(at_once=False)
    until("one row", lambda: len(store.rows["loads"]) == 1, every_s=0.005)
    buffer.add(idle(cases.T0 + 1))
    buffer.add(acting(cases.T0 + 2))
    buffer.add(idle(cases.T0 + 3))
    flusher.wake(at_once=True)
    until("two rows", lambda: len(store.rows["loads"]) == 2, every_s=0.005)
    assert [r["acted"] for r in store.rows["loads"]] == [False, True]
    assert len(store.rows["actions"]) == 2
    buffer.add(acting(cases.T0 + 4))  # soon after: both are written by one commit to each table, some seconds later
    flusher.wake(at_once=True)
    throughout("only the first was written", lambda: len(store.rows["actions"]), lambda n: n == 2, for_s=0.3)
    flusher.close(10.0)
    assert len(store.rows["loads"]) == 5


def test_a_buffer_that_fills_is_written_before_flush_s_has_passed(threaded: tuple[Flusher, Buffer, Store, Tables]) -> None:
    flusher, buffer, store, _ = threaded
    buffer.max_partitions = 40
    buffer.add(idle(cases.T0))
    flusher.wake(at_once=False)
    until("one row", lambda: len(store.rows["loads"]) == 1, every_s=0.005)
    until("it waits for flush_s", lambda: flusher._signal._cond._waiters, every_s=0.005)  # type: ignore[attr-defined]
    for n in range(1, 8):
        buffer.add(idle(cases.T0 + n))
        flusher.wake(at_once=False)
    until("more rows", lambda: len(store.rows["loads"]) > 1, within_s=15.0, every_s=0.005)  # flush_s is a minute
    flusher.close(10.0)
    assert len(store.rows["loads"]) == 8
    assert not any(r["dropped_before"] for r in store.rows["loads"])


def test_the_thread_goes_on_after_a_defect(
    threaded: tuple[Flusher, Buffer, Store, Tables], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.adapters.audit.flusher._BACKOFF_S", (0.01,))
    flusher, buffer, store, tables = threaded
    left = [ZeroDivisionError("a defect"), TransientError("no answer")]

    def fail_twice(call: str) -> None:
        if left and call == "before loads":
            raise left.pop(0)

    tables.trouble = fail_twice
    buffer.add(acting(cases.T0))
    flusher.wake(at_once=True)
    until("a row", lambda: len(store.rows["loads"]) == 1, every_s=0.005)
    assert [r.levelname for r in caplog.records if "rows wait" in r.message] == ["ERROR", "WARNING"]
    assert len(store.rows["decisions"]) == 1


def test_a_failed_action_without_a_plan_is_kept_too(start: Start, store: Store) -> None:
    d, s, state = cases.calm()
    failed = ActionOutcome(
        decision_id=d.decision_id, group="g", at=d.at, epoch=None, phase="outcome", status="failed", error="no such command"
    )
    first = start("first")
    done = (cases.handover(1, at=d.at, epoch=3),)
    first.record(Cycle(decision=d, snapshot=s, outcomes=(failed,), handovers=done, owner=state.owner, cluster="east"))
    first.die()
    second = start("second")
    second.flusher.flush()
    assert [(r["phase"], r["status"], r["error"], r["steps"]) for r in store.rows["actions"]] == [
        ("outcome", "failed", "no such command", [])
    ]
    assert {r["cluster"] for name in ("decisions", "actions", "handovers") for r in store.rows[name]} == {"east"}


@pytest.mark.parametrize("wrong", [{"detail": "a name like \ud800"}, {"epoch": 2**63}])
def test_a_cycle_that_no_table_can_hold_is_left_out_and_keeps_no_other_waiting(
    wrong: dict[str, object], start: Start, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    life, cycles = start("only"), timeline()
    bad = replace(cycles[1], decision=replace(cycles[1].decision, **wrong), handovers=())  # type: ignore[arg-type]
    for cycle in [cycles[0], bad, *cycles[2:]]:
        life.record(cycle)
    life.flusher.flush()
    assert_once(store, [cycles[0], *cycles[2:]])
    assert bad.decision.decision_id in caplog.text
    assert "cannot be written and are left out" in caplog.text
