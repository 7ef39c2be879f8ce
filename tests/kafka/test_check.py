"""The check on a small run whose every record is known: green as it is, red for each thing that is broken on purpose."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import write_deltalake

from autoscaler.adapters.audit.tables import TABLES
from autoscaler.devtools.broker import Broker
from autoscaler.devtools.verify.__main__ import check, main
from autoscaler.devtools.verify.finding import Finding
from autoscaler.devtools.verify.run import EvidenceError, Run
from tests.until import until

pytestmark = pytest.mark.broker

PARTITIONS = 4
SECONDS = 40
HOT_FROM, UP_AT, HOT_TO, DOWN_AT = 8, 15, 24, 30
SIZE = 100
PER_SECOND, HOT_PER_SECOND = 2, 10
A, B = "aaaaaaaa-1", "bbbbbbbb-2"
Line = list[Any]  # topic, partition, offset, epoch, processed ns, appended ms


@dataclass
class Made:
    """A run that went well, in a form that a test can break before it is written."""

    bootstrap: str
    topic: str
    began: float
    moved: tuple[int, ...] = (0, 1)
    paused: int = 0
    lines: dict[str, list[Line]] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    cycles: list[dict[str, Any]] = field(default_factory=list)  # lines of the cycle log
    acknowledged: dict[int, list[int]] = field(default_factory=dict)  # records, bytes, last offset

    def at(self, second: float) -> datetime:
        return datetime.fromtimestamp(self.began + second, UTC)

    def fill(self, appended: dict[int, list[int]]) -> "Made":
        self.acknowledged = {p: [len(times), len(times) * SIZE, len(times) - 1] for p, times in appended.items()}
        self.lines = {A: [], B: []}
        for partition, times in appended.items():
            for offset, at_ms in enumerate(times):
                second = at_ms / 1000 - self.began
                away = partition in self.moved and UP_AT <= second < DOWN_AT
                epoch = 2 if away else 3 if partition in self.moved and second >= DOWN_AT else 1
                line = [self.topic, partition, offset, epoch, at_ms * 1_000_000 + 50_000_000, at_ms]
                self.lines[B if away else A].append(line)
        for lines in self.lines.values():
            lines.sort(key=lambda x: (x[4], x[1], x[2]))
        self.cycles = []
        self.tables = {"decisions": [], "actions": [], "handovers": [], "loads": []}
        for second in range(SECONDS):
            running = 2 if UP_AT < second <= DOWN_AT else 1
            wanted = {0: 1, UP_AT: 2, DOWN_AT: 1}.get(second, running)
            self._cycle(second, running if second else 0, wanted, {0: 1, UP_AT: 2, DOWN_AT: 3}.get(second))
        for partition in range(PARTITIONS):
            self._handover(partition, 1, (None, A), 0)
        for partition in self.moved:
            first = next(i for i, t in enumerate(appended[partition]) if t / 1000 - self.began >= UP_AT)
            last = next(i for i, t in enumerate(appended[partition]) if t / 1000 - self.began >= DOWN_AT)
            self._handover(partition, 2, (A, B), first)
            self._handover(partition, 3, (B, A), last)
        return self

    def _cycle(self, second: int, running: int, wanted: int, epoch: int | None) -> None:
        row = {"decision_id": f"g/{second}", "group": "g", "at": self.at(second), "reason": "WITHIN_TARGET",
               "consumers_now": running, "consumers": wanted, "acted": epoch is not None, "mode": "act"}  # fmt: skip
        self.tables["loads"].append(row)
        moves = self._moves(epoch) if epoch is not None else []
        self.cycles.append({"t": self.began + second, "cycle": second, "group": "g", "mode": "act",
                            "actions": [{"kind": "move", "partition": m["partition"]} for m in moves]})  # fmt: skip
        if epoch is None:
            return
        self.tables["decisions"].append(dict(row, steps=moves))
        for phase, status, number in (("intent", "planned", None), ("outcome", "done", epoch)):
            self.tables["actions"].append({"decision_id": f"g/{second}", "group": "g", "at": self.at(second + 0.1),
                                           "phase": phase, "status": status, "epoch": number})  # fmt: skip

    def _moves(self, epoch: int) -> list[dict[str, Any]]:
        who = range(PARTITIONS) if epoch == 1 else self.moved
        source, target = {1: (None, 0), 2: (0, 1), 3: (1, 0)}[epoch]
        return [{"kind": "move", "topic": self.topic, "partition": p, "source": source, "target": target} for p in who]

    def _handover(self, partition: int, epoch: int, workers: tuple[str | None, str], offset: int) -> None:
        before, after = workers
        self.tables["handovers"].append({"group": "g", "at": self.at(0), "topic": self.topic, "topic_id": "t",
                                         "partition": partition, "from_worker": {None: None, A: "g-0", B: "g-1"}[before],
                                         "from_uuid": before, "to_uuid": after,
                                         "to_worker": {A: "g-0", B: "g-1"}[after], "epoch": epoch,
                                         "offset": offset, "pause_s": 0.02 if before else None})  # fmt: skip

    def write(self, directory: Path) -> Path:
        (directory / "processed").mkdir(parents=True)
        for worker, lines in self.lines.items():
            text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
            (directory / "processed" / f"processed-{worker}.log").write_text(text)
        for name, rows in self.tables.items():
            schema = TABLES[name].schema
            columns = [pa.array([self._value(r, f.name) for r in rows], f.type) for f in schema]
            write_deltalake(str(directory / "tables" / name), pa.Table.from_arrays(columns, schema=schema))
        (directory / "cycles.jsonl").write_text("".join(json.dumps(c) + "\n" for c in self.cycles))
        facts = {"bootstrap": self.bootstrap, "topic": self.topic, "group": "g", "window_s": 5, "usable_bytes_per_s": 1000,
                 "load_from_s": self.began,
                 "load_to_s": self.began + SECONDS, "logs": "processed", "tables": "tables",
                 "produced": "produced.jsonl", "cycles": "cycles.jsonl", "flush_s": 5, "paused": self.paused}  # fmt: skip
        (directory / "run.json").write_text(json.dumps(facts))
        (directory / "produced.jsonl").write_text('{"t": 1}\n' + json.dumps({"partitions": self.acknowledged}) + "\n")
        return directory

    @staticmethod
    def _value(row: dict[str, Any], name: str) -> object:
        return row["at"].date() if name == "date" else row.get(name)

    def rows(self, table: str, **equal: object) -> Iterator[dict[str, Any]]:
        return (r for r in self.tables[table] if all(r[k] == v for k, v in equal.items()))

    def drop(self, table: str, **equal: object) -> None:
        gone = list(self.rows(table, **equal))
        assert gone
        self.tables[table] = [r for r in self.tables[table] if r not in gone]

    def of(self, worker: str, partition: int, epoch: int) -> list[Line]:
        return [x for x in self.lines[worker] if x[1] == partition and x[3] == epoch]


@pytest.fixture(scope="module")
def produced(broker: Broker) -> tuple[str, float, dict[int, list[int]]]:
    """Produce the run's records with the times of a run that has just ended; return topic, begin and times by partition."""
    from tests.conftest import create_topic  # noqa: PLC0415  no package: found through the test path

    topic = create_topic(broker, "check-run", PARTITIONS)
    began = float(int(time.time()) - SECONDS)
    times: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
    producer = Producer({**broker.connection(), "enable.idempotence": True})
    for second in range(SECONDS):
        for partition in range(PARTITIONS):
            count = HOT_PER_SECOND if partition == 0 and HOT_FROM <= second < HOT_TO else PER_SECOND
            for i in range(count):
                at_ms = int((began + second) * 1000) + i * 1000 // count
                value = f"{partition} {second} {i}".encode().ljust(SIZE)
                producer.produce(topic, value, partition=partition, timestamp=at_ms)
                times[partition].append(at_ms)
    assert producer.flush(30) == 0
    return topic, began, times


@pytest.fixture
def made(broker: Broker, produced: tuple[str, float, dict[int, list[int]]]) -> Made:
    topic, began, times = produced
    return Made(broker.bootstrap, topic, began).fill(times)


def findings(directory: Path) -> dict[str, Finding]:
    return {f.rule: f for f in check(Run.load(directory))}


def red(directory: Path) -> set[str]:
    return {name for name, f in findings(directory).items() if f.ok is False}


def test_a_run_that_went_well_is_green_and_its_numbers_are_right(made: Made, tmp_path: Path) -> None:
    found = findings(made.write(tmp_path / "run"))
    total = PARTITIONS * SECONDS * PER_SECOND + (HOT_TO - HOT_FROM) * (HOT_PER_SECOND - PER_SECOND)
    assert {n: f.evidence for n, f in found.items() if f.ok is False} == {}
    assert found["every record processed"].numbers == {"produced": total, "lost": 0, "gone": 0}
    assert found["processed twice"].numbers == {"twice": 0}
    assert found["one worker at a time"].numbers == {"tenures": PARTITIONS + 4, "overlaps": 0, "late_records": 0}
    assert found["scale-up"].numbers == {"scale_ups": 1}
    assert found["scale-down"].numbers == {"scale_downs": 1}
    assert found["move of a hot partition"].numbers == {"hot_moves": 1}
    assert found["append to processed"].numbers == pytest.approx({"p50_s": 0.05, "p99_s": 0.05, "max_s": 0.05}, abs=1e-6)
    assert found["pause of a moved partition"].numbers["moves"] == 4


def test_consumers_used_are_held_against_the_fewest_of_each_second(made: Made, tmp_path: Path) -> None:
    """2 consumers ran from 16 to 30 s; above 1,000 B/s, which 2 are needed for, the window's mean was from 10 to 27 s."""
    numbers = findings(made.write(tmp_path / "run"))["consumers used"].numbers
    counted = SECONDS - 5
    over = sum(
        4 * PER_SECOND * SIZE + (HOT_PER_SECOND - PER_SECOND) * SIZE * len(range(max(s - 5, HOT_FROM), min(s, HOT_TO))) / 5 > 1000
        for s in range(5, SECONDS)
    )
    assert numbers == {
        "used_s": counted + DOWN_AT - UP_AT,
        "fewest_s": counted + over,
        "ratio": pytest.approx((counted + DOWN_AT - UP_AT) / (counted + over)),
        "exact_s": counted,
        "seconds": counted,
    }


@pytest.mark.parametrize(("paused", "late", "ok"), [(0, 1, False), (1, 1, True), (1, 2, False), (2, 2, False)])
def test_who_is_paused_beyond_the_lease_may_finish_the_record_in_work_and_no_other(
    made: Made, tmp_path: Path, paused: int, late: int, *, ok: bool
) -> None:
    of_b = made.of(B, 1, 2)
    for offset, line in enumerate(of_b[:late]):
        made.lines[A].append([*line[:3], 1, of_b[late + 2 + offset][4], line[5]])
    made.lines[A].sort(key=lambda x: x[4])
    made.paused = paused
    found = findings(made.write(tmp_path / "run"))
    assert found["one worker at a time"].ok is ok
    assert all(f.ok is not False for rule, f in found.items() if rule != "one worker at a time")


def _lose(run: Made) -> None:
    run.lines[A].remove(run.of(A, 2, 1)[7])


def _lose_the_last(run: Made) -> None:
    run.lines[A].remove(run.of(A, 3, 1)[-1])


def _lose_in_the_broker(run: Made) -> None:
    run.acknowledged[1][0] += 1


def _invent(run: Made) -> None:
    run.lines[A].append([run.topic, 2, 100_000, 1, run.lines[A][-1][4], 0])


def _swap_two(run: Made) -> None:
    first, second = run.of(A, 2, 1)[3:5]
    first[2], second[2] = second[2], first[2]


def _process_before_the_one_in_front(run: Made) -> None:
    run.of(B, 0, 2)[5][4] -= 1_000_000_000 // HOT_PER_SECOND * 2


def _go_on_after_the_handover(run: Made) -> None:
    """A processes its last record of partition 1 again while B has it: nothing lost, nothing out of order, two at once."""
    last, later = run.of(A, 1, 1)[-1], run.of(B, 1, 2)[2]
    run.lines[A].append([*last[:4], later[4], last[5]])
    run.lines[A].sort(key=lambda x: x[4])


def _keep_both_all_along(run: Made) -> None:
    for line in run.of(B, 1, 2)[:3]:
        run.lines[A].append([*line[:3], 1, line[4] + 1000, line[5]])
    run.lines[A].sort(key=lambda x: x[4])


def _forget_a_handover(run: Made) -> None:
    run.drop("handovers", partition=1, epoch=2)


def _write_a_handover_twice(run: Made) -> None:
    run.tables["handovers"].append(dict(next(run.rows("handovers", partition=1, epoch=2))))


def _name_another_owner(run: Made) -> None:
    next(run.rows("handovers", partition=1, epoch=2))["to_uuid"] = "cccccccc-3"


def _name_another_source(run: Made) -> None:
    next(run.rows("handovers", partition=1, epoch=2))["from_uuid"] = "cccccccc-3"


def _name_another_offset(run: Made) -> None:
    next(run.rows("handovers", partition=1, epoch=2))["offset"] -= 1


def _hand_over_in_the_table_only(run: Made) -> None:
    row = next(run.rows("handovers", partition=2, epoch=1))
    run.tables["handovers"].append({**row, "epoch": 3, "from_uuid": A, "to_uuid": B, "to_worker": "g-1", "offset": 20})


def _forget_an_outcome(run: Made) -> None:
    run.drop("actions", decision_id=f"g/{UP_AT}", phase="outcome")


def _forget_an_intent(run: Made) -> None:
    run.drop("actions", decision_id=f"g/{UP_AT}", phase="intent")


def _write_an_outcome_twice(run: Made) -> None:
    run.tables["actions"].append(dict(next(run.rows("actions", decision_id=f"g/{UP_AT}", phase="outcome"))))


def _forget_a_decision(run: Made) -> None:
    run.drop("decisions", decision_id="g/0")


def _write_a_decision_twice(run: Made) -> None:
    run.tables["decisions"].append(dict(next(run.rows("decisions", decision_id="g/0"))))


def _publish_unseen(run: Made) -> None:
    next(run.rows("actions", decision_id=f"g/{UP_AT}", phase="outcome"))["epoch"] = 9


def _forget_a_plan_that_nobody_worked_under(run: Made) -> None:
    later = {"decision_id": "g/later", "steps": []}
    run.tables["decisions"].append({**next(run.rows("decisions", decision_id=f"g/{DOWN_AT}")), **later})
    for phase, epoch in (("intent", None), ("outcome", 5)):  # plan 4, in between, has left no row
        run.tables["actions"].append(
            {**next(run.rows("actions", decision_id=f"g/{DOWN_AT}", phase=phase)), **later, "epoch": epoch}
        )


def _steps_of(run: Made, second: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = next(run.rows("decisions", decision_id=f"g/{second}"))["steps"]
    return steps


def _decide_another_target(run: Made) -> None:
    _steps_of(run, UP_AT)[0]["target"] = 0


def _decide_another_source(run: Made) -> None:
    _steps_of(run, DOWN_AT)[0]["source"] = 0


def _forget_a_step(run: Made) -> None:
    _steps_of(run, UP_AT).pop()


def _decide_a_move_that_never_comes(run: Made) -> None:
    _steps_of(run, UP_AT).append({"kind": "move", "topic": run.topic, "partition": 3, "source": 0, "target": 1})


def _forget_a_cycle(run: Made) -> None:
    run.drop("loads", decision_id="g/20")


def _forget_the_last_cycle(run: Made) -> None:
    run.drop("loads", decision_id=f"g/{SECONDS - 1}")


def _write_a_cycle_twice(run: Made) -> None:
    run.tables["loads"].append(dict(next(run.rows("loads", decision_id="g/20"))))


def _leave_no_trace_of_a_cycle(run: Made) -> None:
    run.drop("loads", decision_id="g/20")
    del run.cycles[20]


def _never_grow(run: Made) -> None:
    next(run.rows("decisions", decision_id=f"g/{UP_AT}"))["consumers"] = 1


def _fail_to_grow(run: Made) -> None:
    next(run.rows("actions", decision_id=f"g/{UP_AT}", phase="outcome"))["status"] = "failed"


def _never_shrink(run: Made) -> None:
    next(run.rows("decisions", decision_id=f"g/{DOWN_AT}"))["consumers"] = 2


BROKEN: tuple[tuple[Callable[[Made], None], set[str]], ...] = (
    (_lose, {"every record processed"}),
    (_lose_the_last, {"every record processed"}),
    (_lose_in_the_broker, {"acknowledged is in the topic"}),
    (_invent, {"only records of the topic"}),
    (_swap_two, {"order per partition"}),
    (_process_before_the_one_in_front, {"order per partition"}),
    (_go_on_after_the_handover, {"one worker at a time", "order per partition"}),  # A's own offsets step back, too
    (_keep_both_all_along, {"one worker at a time"}),
    (_forget_a_handover, {"handovers match the logs"}),
    (_write_a_handover_twice, {"handovers match the logs"}),
    (_name_another_owner, {"handovers match the logs"}),
    (_name_another_source, {"handovers match the logs"}),
    (_name_another_offset, {"handovers match the logs"}),
    (_hand_over_in_the_table_only, {"handovers match the logs"}),
    (_forget_an_outcome, {"decisions have their rows", "scale-up"}),  # what has no outcome did not scale, either
    (_forget_an_intent, {"decisions have their rows"}),
    (_write_an_outcome_twice, {"decisions have their rows"}),
    (_forget_a_decision, {"decisions have their rows"}),
    (_write_a_decision_twice, {"decisions have their rows"}),
    (_publish_unseen, {"decisions have their rows", "steps match the logs"}),
    (_forget_a_plan_that_nobody_worked_under, {"decisions have their rows"}),
    (_decide_another_target, {"steps match the logs"}),
    (_decide_another_source, {"steps match the logs"}),
    (_forget_a_step, {"steps match the logs"}),
    (_decide_a_move_that_never_comes, {"steps match the logs"}),
    (_forget_a_cycle, {"cycles have their rows"}),
    (_forget_the_last_cycle, {"cycles have their rows"}),
    (_write_a_cycle_twice, {"cycles have their rows"}),
    (_leave_no_trace_of_a_cycle, {"cycles have their rows"}),
    (_never_grow, {"scale-up"}),
    (_fail_to_grow, {"scale-up"}),
    (_never_shrink, {"scale-down"}),
)


@pytest.mark.parametrize(("spoil", "rules"), BROKEN, ids=[spoil.__name__[1:] for spoil, _ in BROKEN])
def test_what_is_broken_turns_its_own_rule_red(
    spoil: Callable[[Made], None], rules: set[str], made: Made, tmp_path: Path
) -> None:
    spoil(made)
    assert red(made.write(tmp_path / "run")) == rules


def test_moves_of_cool_partitions_are_no_move_of_a_hot_one(
    broker: Broker, produced: tuple[str, float, dict[int, list[int]]], tmp_path: Path
) -> None:
    topic, began, times = produced
    run = Made(broker.bootstrap, topic, began, moved=(2, 3)).fill(times)
    assert red(run.write(tmp_path / "run")) == {"move of a hot partition"}


def test_a_record_processed_again_after_a_crash_is_counted_and_allowed(made: Made, tmp_path: Path) -> None:
    """B takes over two records before the end of what A, which was killed, had processed."""
    row = next(made.rows("handovers", partition=1, epoch=2))
    again = made.of(A, 1, 1)[-2:]
    row["offset"] -= 2
    began = made.of(B, 1, 2)[0][4]
    made.lines[B] = [[*x[:3], 2, began - 20 + i, x[5]] for i, x in enumerate(again)] + made.lines[B]
    found = findings(made.write(tmp_path / "run"))
    assert {n: f.evidence for n, f in found.items() if f.ok is False} == {}
    assert found["processed twice"].numbers == {"twice": 2}


def test_an_owner_that_was_planned_and_never_began_may_be_where_it_came_from(made: Made, tmp_path: Path) -> None:
    """Plan 2 gives a partition to somebody who is killed before it takes it, plan 3 gives it to B."""
    moved = [x for worker, epoch in ((B, 2), (A, 3)) for x in made.of(worker, 1, epoch)]
    for lines in made.lines.values():
        lines[:] = [x for x in lines if x not in moved]
    made.lines[B] += [[*x[:3], 3, *x[4:]] for x in moved]
    made.lines[B].sort(key=lambda x: (x[4], x[1], x[2]))
    offset = next(made.rows("handovers", partition=1, epoch=2))["offset"]
    made.drop("handovers", partition=1, epoch=2)
    next(made.rows("handovers", partition=1, epoch=3)).update(
        from_worker="g-1", from_uuid="cccccccc-3", to_uuid=B, to_worker="g-1", offset=offset
    )
    found = findings(made.write(tmp_path / "run"))["handovers match the logs"]
    assert found.ok, found.evidence


def _killed(run: Made, last: int, gone: int, but: int = 0) -> None:
    """Let the job be killed after the cycle of a second, the last ones (but one) not yet written, and come back 8 s later."""
    for second in range(last + 1, last + 9):
        run.drop("loads", decision_id=f"g/{second}")
    for second in set(range(last - gone + 1, last + 1)) - {but}:
        run.drop("loads", decision_id=f"g/{second}")
    run.cycles = [c for c in run.cycles if not last < c["cycle"] < last + 9]
    for c in run.cycles:
        c["cycle"] -= 8 * (c["cycle"] > last)


def test_a_kill_may_lose_the_cycles_that_waited_and_did_nothing(made: Made, tmp_path: Path) -> None:
    _killed(made, last=21, gone=5)
    found = findings(made.write(tmp_path / "run"))
    assert {n: f.evidence for n, f in found.items() if f.ok is False} == {}
    assert found["cycles have their rows"].numbers["lost_by_kill"] == 5


@pytest.mark.parametrize(("last", "gone"), [(29, 12), (16, 5)], ids=["longer than rows may wait", "one that acted"])
def test_a_kill_may_lose_nothing_else(last: int, gone: int, made: Made, tmp_path: Path) -> None:
    _killed(made, last, gone)
    if last == UP_AT + 1:
        made.drop("decisions", decision_id=f"g/{UP_AT}")
    assert "cycles have their rows" in red(made.write(tmp_path / "run"))


def test_a_kill_may_lose_the_loads_of_one_whose_decision_is_there(made: Made, tmp_path: Path) -> None:
    _killed(made, last=UP_AT + 1, gone=5)
    found = findings(made.write(tmp_path / "run"))["cycles have their rows"]
    assert (found.ok, found.numbers["lost_by_kill"]) == (True, 5), found.evidence


def test_a_kill_may_lose_what_waited_around_one_whose_row_comes_from_its_plan(made: Made, tmp_path: Path) -> None:
    _killed(made, last=UP_AT + 1, gone=5, but=UP_AT)
    found = findings(made.write(tmp_path / "run"))["cycles have their rows"]
    assert (found.ok, found.numbers["lost_by_kill"]) == (True, 4), found.evidence


def test_a_line_cut_off_by_a_kill_is_not_read(made: Made, tmp_path: Path) -> None:
    directory = made.write(tmp_path / "run")
    with (directory / "processed" / f"processed-{B}.log").open("a") as log:
        log.write(f"{made.topic} 0 1")
    assert red(directory) == set()


def test_what_a_producer_repeats_is_no_loss_and_hides_none(
    made: Made, broker: Broker, tmp_path: Path, make_topic: Callable[..., str]
) -> None:
    made.topic = make_topic(partitions=PARTITIONS)
    producer = Producer(broker.connection())
    for value in (b"a", b"b", b"c", b"b"):
        producer.produce(made.topic, value, partition=0)
    assert producer.flush(30) == 0
    for acknowledged, ok in ((3, True), (4, False)):
        made.acknowledged = {0: [acknowledged, acknowledged, 3]}
        found = findings(made.write(tmp_path / f"run-{acknowledged}"))["acknowledged is in the topic"]
        assert found.ok is ok
        assert found.numbers == {"acknowledged": acknowledged, "more": 4 - acknowledged}


def test_records_that_left_the_topic_cannot_be_vouched_for(
    made: Made, broker: Broker, tmp_path: Path, make_topic: Callable[..., str]
) -> None:
    made.topic = make_topic(partitions=PARTITIONS)
    producer = Producer(broker.connection())
    for _ in range(10):
        producer.produce(made.topic, b"x", partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient(broker.connection())
    for future in admin.delete_records([TopicPartition(made.topic, 0, 4)]).values():
        future.result(timeout=30)
    reader = Consumer({**broker.connection(), "group.id": "none"})
    first = partial(reader.get_watermark_offsets, TopicPartition(made.topic, 0), timeout=10)
    until("they have left it", first, lambda ends: ends[0] == 4)
    reader.close()
    found = findings(made.write(tmp_path / "run"))["every record processed"]
    assert found.ok is False
    assert found.numbers == {"produced": 6, "lost": 6, "gone": 4}


def test_the_program_says_what_it_found_and_exits_with_it(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    good = made.write(tmp_path / "good")
    assert main(["--run-dir", str(good)]) == 0
    assert "✓ all holds" in capsys.readouterr().out
    assert json.loads((good / "check.json").read_text())["ok"] is True
    _lose(made)
    bad = made.write(tmp_path / "bad")
    assert main(["--run-dir", str(bad)]) == 1
    out = capsys.readouterr().out
    assert "✗ broken: every record processed" in out
    assert f"{made.topic}-2@7" in out
    assert json.loads((bad / "check.json").read_text())["ok"] is False


def test_what_cannot_be_read_is_said_and_is_no_verdict(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run-dir", str(tmp_path / "nothing")]) == 2
    assert "run.json cannot be read" in capsys.readouterr().err
    made.tables.pop("handovers")
    assert main(["--run-dir", str(made.write(tmp_path / "run"))]) == 2
    assert "handovers cannot be read" in capsys.readouterr().err


def test_a_line_that_says_nothing_is_an_error(made: Made, tmp_path: Path) -> None:
    made.lines[A].insert(3, ["what", "is", "this"])
    with pytest.raises(EvidenceError, match=f"processed-{A}"):
        check(Run.load(made.write(tmp_path / "run")))
