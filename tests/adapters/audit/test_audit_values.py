"""The audit's values: summaries, rows, and the line per cycle."""

import json
import random
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.cycle_log import CycleLog, cycle_record
from autoscaler.adapters.audit.decision_json import restore, summarise
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.adapters.audit.tables import TABLES, Difference, addition, differences
from autoscaler.console.cycle_reader import Cycle as Line
from autoscaler.model import (
    Action,
    AddWorkers,
    CapacitySource,
    Decision,
    Finding,
    GroupMembers,
    Member,
    MovePartition,
    Observation,
    ParkPartition,
    PartitionLoad,
    Reason,
    RemoveWorkers,
    ResetOffset,
    TopicPartition,
)
from autoscaler.model.findings import What
from tests import builders as b
from tests.adapters.audit import audit_cases as cases

partitions = st.builds(TopicPartition, topic=st.sampled_from(("orders", "clicks-0", 'ä,{}"')), partition=st.integers(0, 60))
slots = st.integers(0, 5)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(ParkPartition, partition=partitions, owners=slots, offset=st.integers(-1, 10**12)),
    st.builds(ResetOffset, partition=partitions, offset=st.integers(0, 10**12), start=st.integers(0, 10**12)),
    st.builds(AddWorkers, slots=st.lists(slots, max_size=3).map(tuple)),
    st.builds(MovePartition, partition=partitions, source=st.none() | slots, target=slots),
    st.builds(RemoveWorkers, slots=st.lists(slots, max_size=3).map(tuple)),
)
numbers = st.floats(0, 1e12)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
findings = st.builds(
    Finding,
    what=st.sampled_from(What),
    reason=st.none() | st.sampled_from(Reason),
    limit=st.none() | st.sampled_from(Reason),
    partitions=st.lists(partitions, max_size=5).map(tuple),
    consumers=st.lists(slots, max_size=5).map(tuple),
    numbers=st.dictionaries(texts, numbers | slots, max_size=3),
    texts=st.dictionaries(texts, texts, max_size=3),
)
decisions = st.builds(
    Decision,
    decision_id=st.text(max_size=20),
    group=st.text(max_size=10),
    at=numbers,
    mode=st.sampled_from(("act", "advise")),
    reason=st.sampled_from(Reason),
    limited_by=st.none() | st.sampled_from(Reason),
    actions=st.lists(actions, max_size=30).map(tuple),
    target=st.dictionaries(partitions, slots, max_size=80),
    requested=st.frozensets(slots),
    consumers_now=st.none() | slots,
    consumers=slots,
    recommended=st.none() | slots,
    recommended_age_s=st.none() | numbers,
    lower_bound=st.none() | slots,
    r_score=numbers,
    imbalance=st.none() | numbers,
    oversized=st.lists(partitions, max_size=3).map(tuple),
    parked=st.lists(partitions, max_size=3).map(tuple),
    usable_bytes_per_s=numbers,
    capacity_bytes_per_s=numbers,
    total_bytes_per_s=numbers,
    total_lag_records=st.none() | st.integers(0, 1 << 60),
    algorithm=st.just("MWF"),
    policy_fingerprint=st.just("0123456789ab"),
    epoch=st.integers(0, 1 << 40),
    detail=st.text(max_size=40),
    hot=st.lists(partitions, max_size=3).map(tuple),
    capacity_source=st.sampled_from(CapacitySource),
    capacity_samples=slots,
    capacity_age_s=st.none() | numbers,
    capacity_records_per_s=st.none() | numbers,
    own_bytes_per_s=st.dictionaries(slots, numbers, max_size=5),
    findings=st.lists(findings, max_size=3).map(tuple),
)


@given(decisions)
def test_a_summary_gives_back_the_same_decision(decision: Decision) -> None:
    assert restore(summarise(decision)) == decision


def test_every_field_of_a_decision_reaches_plan_record_table_line_and_reader() -> None:
    decision, snapshot, state = cases.hot()
    observation = Observation(group="g", snapshot=snapshot, state=state, members=None)
    names = {f.name for f in fields(Decision)}
    assert names - json.loads(summarise(decision)).keys() == {"own_bytes_per_s"}, "written as own"
    elsewhere = {"actions", "own_bytes_per_s", "parked", "target"}  # as steps, members, findings and assignment_after
    assert names - set(TABLES["decisions"].schema.names) == elsewhere
    line = cycle_record(cluster="c", cycle=1, decision=decision, snapshot=snapshot, observation=observation, stages={})
    of_tables = {
        "decision_id",
        "at",
        "policy_fingerprint",
        "requested",
        "target",
        "hot",
        "oversized",
        "own_bytes_per_s",
        "findings",
    }
    assert names - line.keys() == of_tables
    unseen = {
        "algorithm",
        "imbalance",
        "parked",
        "capacity_source",
        "capacity_samples",
        "capacity_age_s",
        "capacity_records_per_s",
    }
    assert names - of_tables - set(Line.model_fields) == unseen, "no view shows them"


def test_a_summary_that_an_older_release_wrote_has_no_findings() -> None:
    decision, _, _ = cases.hot()
    older = {k: v for k, v in json.loads(summarise(decision)).items() if k != "findings"}
    assert restore(json.dumps(older)) == replace(decision, findings=())


def test_findings_are_columns_of_their_own_types() -> None:
    decision, snapshot, _ = cases.hot()
    cycle = rows.Cycle(decision=decision, snapshot=snapshot, outcomes=(), handovers=(), owner={})
    (row,) = rows.decisions([cycle]).to_pylist()
    found = row["findings"][0]
    assert (found["what"], found["reason"], found["limit"]) == ("OVERLOADED", decision.reason.value, decision.limited_by)
    assert dict(found["numbers"])["load_bytes_per_s"] == decision.findings[0].numbers["load_bytes_per_s"]
    assert found["consumers"] == [0]


def test_a_summary_of_ten_thousand_partitions_stays_far_below_a_records_limit() -> None:
    decision, _, _ = cases.hot()
    every = [TopicPartition(topic="a-topic-with-a-long-name", partition=n) for n in range(10_000)]
    moves = tuple(MovePartition(partition=p, source=p.partition % 40, target=(p.partition + 7) % 40) for p in every)
    big = Decision(
        **{f: getattr(decision, f) for f in Decision.__slots__}
        | {"target": {p: p.partition % 40 for p in every}, "actions": moves}
    )
    text = summarise(big)
    assert restore(text) == big
    assert len(text.encode()) < 600_000


@pytest.mark.parametrize("text", ["", "[]", "7", '{"v":1}', '{"v":2}', '{"v":1,"actions":[["leap"]]}', "null"])
def test_a_text_that_is_no_summary_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match="summary"):
        restore(text)


def test_a_row_of_loads_gives_back_exactly_what_was_measured() -> None:
    loads = [
        b.load(b.tp(0), 50.123456789),
        b.load(b.tp(1), None, known=False, age_s=25.5, error="timed out", lag_records=None, committed=None, log_end=None),
        b.load(b.tp("other"), 0.0, committed=-1, lag_bytes=None, lag_s=None),
    ]
    decision, snapshot = cases.decided(loads, b.state(b.owned([0, 1])), cases.T0 + 0.123456789)
    cycle = Cycle(decision=decision, snapshot=snapshot, outcomes=(), handovers=(), owner={b.tp(0): 0, b.tp(1): 0})
    row = rows.loads([cycle], [3]).to_pylist()[0]
    assert rows.snapshot_of(row) == snapshot
    assert rows.owners_of(row) == {b.tp(0): "0", b.tp(1): "0"}
    assert (row["partitions"], row["unknown_partitions"], row["first_unknown"]) == (3, 1, ["orders-1: timed out"])
    assert row["oldest_s"] == 25.5
    assert row["dropped_before"] == 3
    assert row["reason"] == decision.reason.value


@pytest.mark.parametrize(("partitions_", "kilobytes"), [(16, 0.15), (1000, 7.0)])
def test_a_cycle_adds_to_the_file_of_loads_what_the_page_says(tmp_path: Path, partitions_: int, kilobytes: float) -> None:
    def measured(number: int, draw: random.Random, span_s: float) -> PartitionLoad:
        counted, lag = round(number * draw.uniform(97, 103) * span_s), draw.choice((0, 0, 0, 1, 4))
        end = 10_000 * number + draw.randrange(5000)
        return b.load(
            b.tp(number), counted / span_s, records_per_s=counted // 1000 / span_s, lag_records=lag, lag_bytes=1070.0 * lag,
            lag_s=round(draw.random(), 3) if lag else 0.0, committed=end - lag, log_end=end, age_s=0.125, window_s=span_s,
        )  # fmt: skip

    def size(count: int) -> int:
        draw, told = random.Random(1), []
        for n in range(count):
            decision, snapshot, _ = cases.calm(cases.T0 + n)
            span_s = 30 + draw.random()
            loads = tuple(measured(p, draw, span_s) for p in range(partitions_))
            owner = {x.partition: x.partition.partition % 10 for x in loads}
            told.append(Cycle(decision=decision, snapshot=replace(snapshot, loads=loads), outcomes=(), handovers=(), owner=owner))
        pq.write_table(rows.loads(told, [0] * count), tmp_path / "loads.parquet", compression="zstd")
        return (tmp_path / "loads.parquet").stat().st_size

    assert (size(25) - size(5)) / 20 / 1000 == pytest.approx(kilobytes, rel=0.25)


def test_a_decisions_row_names_members_and_both_assignments() -> None:
    decision, snapshot, state = cases.hot()
    cycle = Cycle(decision=decision, snapshot=snapshot, outcomes=cases.outcomes(decision), handovers=(), owner=state.owner)
    row = rows.decisions([cycle]).to_pylist()[0]
    assert row["acted"]
    assert not row["recovered"]
    held = {"member": "0", "partitions": ["orders-0", "orders-1", "orders-2"], "bytes_per_s": 135.0}
    assert row["members"] == [held | {"capacity_bytes_per_s": 100.0}]
    cycle = replace(cycle, decision=replace(decision, own_bytes_per_s={0: 41.0}, capacity_records_per_s=7.0))
    row = rows.decisions([cycle]).to_pylist()[0]
    assert row["members"] == [held | {"capacity_bytes_per_s": 41.0}]
    assert row["capacity_records_per_s"] == 7
    assert {x["owner"] for x in row["assignment_before"]} == {"0"}
    assert {(x["topic"], x["partition"]): int(x["owner"]) for x in row["assignment_after"]} == {
        (p.topic, p.partition): s for p, s in decision.target.items()
    }
    assert [s["what"] for s in row["steps"]] == ["move orders-1 0->1", "move orders-2 0->1"]
    assert row["sample_ts"] == snapshot.sample_ts
    assert len(row["loads"]) == 3


def test_every_table_fits_its_own_schema_and_says_what_differs_in_another() -> None:
    for table in TABLES.values():
        assert list(differences(table.schema, table.schema)) == []
        assert set(table.key) <= set(table.schema.names)
    wanted = TABLES["actions"].schema
    found = [f.with_type(pa.string()) if f.name == "epoch" else f for f in wanted if f.name != "error"]
    assert list(differences(wanted, [*found, pa.field("of_a_user", pa.decimal128(9))])) == [
        Difference(path="`epoch`", wanted=pa.int64(), found=pa.string()),
        Difference(path="`error`", wanted=pa.string(), found=None),
    ]


def test_what_a_table_lacks_within_structs_is_added_there() -> None:
    field = pa.field
    step = [field("kind", pa.string()), field("target", pa.int32())]
    found = pa.schema([field("steps", pa.list_(pa.struct(step[:1]))), field("place", pa.struct(step))])
    wanted = pa.schema([
        field("steps", pa.list_(pa.struct(step))),
        field("place", pa.struct([field("target", pa.int64()), field("near", pa.list_(pa.struct(step)))])),
    ])  # fmt: skip
    different = list(differences(wanted, found))
    assert [(x.path, x.found) for x in different] == [
        ("`steps`.`element`.`target`", None), ("`place`.`target`", pa.int32()), ("`place`.`near`", None),
    ]  # fmt: skip
    assert addition("delta.`/t`", [x for x in different if x.found is None]) == (
        "ALTER TABLE delta.`/t` ADD COLUMNS (`steps`.`element`.`target` INT, "
        "`place`.`near` ARRAY<STRUCT<`kind`: STRING, `target`: INT>>)"
    )


class StoppedClock:
    def now(self) -> float:
        return 5.0

    def monotonic(self) -> float:
        return 5.0


def test_the_cycle_line_of_a_managed_group_is_what_the_live_view_reads() -> None:
    decision, snapshot, state = cases.grown()
    record = cycle_record(
        cluster="east",
        cycle=7,
        decision=decision,
        snapshot=snapshot,
        observation=b.observation(snapshot, state),
        stages={"decide_s": 0.01},
    )
    line = Line.parse(json.dumps(record))
    assert (line.cycle, line.group, line.reason, line.consumers_now, line.consumers) == (7, "g", "RATE_ABOVE_CAPACITY", 1, 2)
    assert [(a.kind, a.what) for a in line.actions] == [("add", "add 1")]
    assert line.workers[0].slot == 0
    assert line.workers[0].bytes_per_s == 120.0
    assert line.workers[0].lag_records == 0
    assert line.workers[0].partitions == ("orders-0", "orders-1", "orders-2")
    assert line.stages == {"decide_s": 0.01}
    assert line.sample_age_s == pytest.approx(0.25)
    assert record["partitions"] == 3
    assert record["cluster"] == "east"


def test_members_of_a_native_group_stand_in_for_workers() -> None:
    decision, snapshot, _ = cases.hot()
    twins = GroupMembers(
        state="STABLE", kind="CLASSIC", assignor="range", at=cases.T0,
        members=tuple(Member(member_id=f"m{i}", client_id=c, host="/h", assigned=frozenset({b.tp(i)}))
                      for i, c in enumerate(("app", "app", "solo"))),
    )  # fmt: skip
    observed = Observation(group="g", snapshot=snapshot, state=None, members=twins)
    record = cycle_record(cluster="kafka", cycle=1, decision=decision, snapshot=snapshot, observation=observed, stages={})
    line = Line.parse(json.dumps(record))
    assert [(w.slot, w.name, w.partitions) for w in line.workers] == [
        (None, "m0", ("orders-0",)),
        (None, "m1", ("orders-1",)),
        (None, "solo", ("orders-2",)),
    ]


def test_the_cycle_log_appends_and_rotates_by_size(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "cycles.jsonl"
    log = CycleLog(path, StoppedClock(), max_bytes=200, keep=2)
    for n in range(20):
        log.write({"n": n, "text": "x" * 20})
        if n % 3 == 0:
            log.flush()
    log.close()
    files = [path, tmp_path / "logs" / "cycles.jsonl.1", tmp_path / "logs" / "cycles.jsonl.2"]
    assert sorted(p.name for p in path.parent.iterdir()) == sorted(p.name for p in files)
    kept = [json.loads(line) for p in reversed(files) for line in p.read_text().splitlines()]
    assert [k["n"] for k in kept] == list(range(20))[-len(kept) :]
    assert all(p.stat().st_size <= 200 for p in files)
    assert kept[0]["t"] == 5.0
    again = CycleLog(path, StoppedClock(), max_bytes=10_000)
    before = path.read_text()
    again.write({"n": 20})
    again.close()
    assert path.read_text().startswith(before)


def test_a_cycle_log_that_cannot_be_written_is_told_once_and_never_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("a file where the directory should be")
    log = CycleLog(tmp_path / "logs" / "cycles.jsonl", StoppedClock())
    log.write({})
    log.flush()
    log.write({})
    log.flush()
    assert len(caplog.records) == 1
    (tmp_path / "logs").unlink()
    log.write({"n": 1, "text": "\ud800"})  # a surrogate by itself is no text that a file can hold
    log.write({"n": 1})
    log.flush()
    assert json.loads((tmp_path / "logs" / "cycles.jsonl").read_text()) == {"t": 5.0, "n": 1}
    log.close()
