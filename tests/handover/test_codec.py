"""Every record survives its bytes, and no bytes hurt the reader."""

import base64
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.handover.codec import Decoded, decode, encode, encode_key, key_of, partition_for
from autoscaler.handover.records import (
    AGE_BOUNDS_S,
    MOST_LEASE_S,
    Epoch,
    Expired,
    Grant,
    Heartbeat,
    Incarnation,
    Left,
    Loss,
    Phase,
    Plan,
    Record,
    Released,
    Reset,
    TakeOver,
    Tick,
    Tp,
    Unparked,
    Wait,
    kafka_id,
)
from autoscaler.streaming.discovery import topic_id

NAMES = st.text(min_size=1, max_size=12)
INTS = st.integers(min_value=0, max_value=2**63 - 1)
LEASES = st.floats(0.001, MOST_LEASE_S)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INCARNATIONS = st.builds(Incarnation, NAMES, NAMES)
TPS = st.builds(Tp, st.sampled_from(["tid-a", "tid-b", 'ü/["]']), st.integers(0, 40))
GRANTS = st.builds(Grant, owner=INCARNATIONS, epoch=INTS)
WAITS = st.lists(st.builds(Wait, worker=INCARNATIONS, epoch=INTS), min_size=1, max_size=3).map(tuple)

PLANS = st.builds(
    Plan,
    group=NAMES,
    epoch=st.builds(Epoch, NAMES, INTS),
    topics=st.dictionaries(st.sampled_from(["tid-a", "tid-b", "tid-c"]), NAMES),
    grants=st.dictionaries(TPS, GRANTS, max_size=12),
    waits=st.dictionaries(TPS, WAITS, max_size=4),
    starts=st.dictionaries(TPS, INTS, max_size=4),
    leases_s=st.dictionaries(INCARNATIONS, LEASES, max_size=4),
    requested=st.lists(st.integers(0, 100), max_size=4).map(tuple),
    summary=st.text(),
    at=FLOATS,
    losses=st.dictionaries(TPS, st.builds(Loss, owners=INTS, offset=INTS | st.just(-1), epoch=INTS), max_size=3),
    parked=st.dictionaries(TPS, INTS, max_size=3),
    recommit_s=st.none() | FLOATS,
    resets=st.dictionaries(TPS, st.builds(Reset, offset=INTS, start=INTS, epoch=INTS), max_size=3),
    exactly_once=st.frozensets(INCARNATIONS, max_size=3),
)
HEARTBEATS = st.builds(
    Heartbeat,
    group=NAMES,
    worker=INCARNATIONS,
    stamp=FLOATS,
    boot_id=NAMES,
    acked=st.none() | INTS,
    lease_s=LEASES,
    epoch=INTS,
    phase=st.sampled_from(Phase),
    owned=st.dictionaries(TPS, INTS, max_size=6),
    taken=st.lists(st.tuples(TPS, INTS, INTS), max_size=4).map(tuple),
    out_of_range=st.lists(st.tuples(TPS, INTS), max_size=3).map(tuple),
    instance=st.none() | NAMES,
    records=INTS,
    payload_bytes=INTS,
    busy_s=FLOATS,
    ages=st.dictionaries(st.integers(0, len(AGE_BOUNDS_S)), st.integers(1, 2**40), max_size=4).map(
        lambda told: tuple(told.get(i, 0) for i in range(len(AGE_BOUNDS_S) + 1)) if told else ()
    ),
    last_progress=FLOATS,
    exactly_once=st.booleans(),
)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    PLANS,
    HEARTBEATS,
    st.builds(Expired, group=NAMES, worker=INCARNATIONS, control_id=NAMES, evidence=NAMES),
    st.builds(
        Released,
        group=NAMES,
        tp=TPS,
        worker=INCARNATIONS,
        control_id=NAMES,
        epoch=INTS,
        offset=INTS | st.just(-1),
        failed=st.booleans(),
    ),
    st.builds(TakeOver, group=NAMES, control_id=NAMES, number=INTS, incarnation=NAMES),
    st.builds(Unparked, group=NAMES, tp=TPS, control_id=NAMES, epoch=INTS),
    st.builds(Left, group=NAMES, worker=INCARNATIONS, control_id=NAMES),
    st.builds(Tick, group=NAMES, incarnation=NAMES, stamp=FLOATS, boot_id=NAMES, acked=st.none() | INTS),
)


@given(RECORDS)
def test_a_record_survives_its_bytes(record: Record) -> None:
    key, value = encode(record)
    assert decode(key, value) == Decoded(key=key_of(record), record=record)


@given(RECORDS)
def test_a_tombstone_names_the_key_it_deletes(record: Record) -> None:
    assert decode(encode_key(key_of(record)), None) == Decoded(key=key_of(record), tombstone=True)


@given(RECORDS, RECORDS)
def test_two_keys_are_equal_only_if_their_bytes_are(a: Record, b: Record) -> None:
    assert (key_of(a) == key_of(b)) == (encode(a)[0] == encode(b)[0])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=5), x, max_size=4),
    max_leaves=12,
)


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_random_bytes_are_ignored_with_a_reason(key: bytes | None, value: bytes | None) -> None:
    said = decode(key, value)
    assert said.record is None
    assert said.ignored


@given(RECORDS, st.data())
def test_a_record_with_one_field_replaced_is_read_or_ignored_but_never_raises(record: Record, data: st.DataObject) -> None:
    key, value = encode(record)
    body = json.loads(value)
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(JSON)
    said = decode(key, json.dumps(body).encode())
    assert (said.record is None) == bool(said.ignored)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        pytest.param(None, b"{}", "key", id="no key"),
        pytest.param(b'["plans","g"]', b'{"v":1}', "key", id="a kind that is not ours"),
        pytest.param(b'["left","g","w"]', b'{"v":1,"control":"c"}', "key", id="a key that is too short"),
        pytest.param(b'["released","g","t",true,"w","u"]', b'{"v":1}', "key", id="a truth value is no partition"),
        pytest.param(b'["left","g","w","u"]', b'{"v":2,"control":"c"}', "version 2", id="a later version"),
        pytest.param(b'["left","g","w","u"]', b'{"control":"c"}', "version None", id="no version"),
        pytest.param(b'["left","g","w","u"]', b'{"v":1,"control":"old"}', "control topic 'old'", id="another control topic"),
        pytest.param(b'["left","g","w","u"]', b"[1]", "value", id="a value that is no object"),
        pytest.param(b'["left","g","w","u"]', b'{"v":1', "value", id="a torn value"),
        pytest.param(b'["left","g","w","u"]', b"[" * 200_000, "value", id="nesting without end"),
        pytest.param(b'["tick","g","i"]', b'{"v":1,"stamp":NaN,"boot":"b","acked":1}', "value", id="not a number"),
    ],
)
def test_what_cannot_be_read_is_ignored_with_the_reason(key: bytes | None, value: bytes, reason: str) -> None:
    said = decode(key, value, control_id="c")
    assert said.record is None
    assert reason in said.ignored


def test_a_plan_of_two_thousand_partitions_stays_below_100_kilobytes() -> None:
    workers = [Incarnation(f"consumer-{i}", f"{i:032x}") for i in range(200)]
    tps = [Tp(f"topic-id-{t:012d}", p) for t in range(10) for p in range(200)]
    plan = Plan(
        group="orders",
        epoch=Epoch("control-id", 123_456),
        topics={tp.topic_id: f"name-{tp.topic_id}" for tp in tps},
        grants={tp: Grant(owner=workers[i % 200], epoch=123_000 + i) for i, tp in enumerate(tps)},
        waits={tp: (Wait(worker=workers[i % 199], epoch=123_456),) for i, tp in enumerate(tps)},
        starts={tp: 1_000_000_000 + i for i, tp in enumerate(tps)},
        leases_s=dict.fromkeys(workers, 30.0),
        requested=tuple(range(200)),
        summary="",
        at=1.7e9,
    )
    key, value = encode(plan)
    assert len(value) < 100_000
    assert decode(key, value).record == plan


def test_a_group_lives_in_the_same_partition_in_every_process_and_groups_spread() -> None:
    assert [partition_for(g, 8) for g in ("orders", "payments", "")] == [4, 0, 4]
    assert {partition_for(f"group-{i}", 8) for i in range(200)} == set(range(8))


def test_an_id_is_spelled_as_kafka_prints_it_whoever_read_it() -> None:
    raw = uuid.UUID(int=(0xFB << 120) | (0xFF << 112) | 3)
    plain, printed = base64.b64encode(raw.bytes).decode(), base64.urlsafe_b64encode(raw.bytes).decode().rstrip("=")
    assert plain.rstrip("=") != printed
    assert kafka_id(plain) == kafka_id(printed) == printed == topic_id(raw)


def test_an_integer_too_large_for_a_float_is_ignored_with_a_reason() -> None:
    """It is JSON, and one such record must not stop everybody who reads the log."""
    record = Tick(group="g", incarnation="i", stamp=1.0, boot_id="b", acked=None)
    key, value = encode(record)
    said = decode(key, value.replace(b"1.0", b"1" + b"0" * 400))
    assert said.record is None
    assert said.ignored


def test_a_first_plan_of_a_large_group_says_once_whom_everything_waits_for() -> None:
    """200 workers, 2,000 partitions: far below the megabyte that a client sends."""
    workers = [Incarnation(f"w-{n}", f"{n:032x}") for n in range(200)]
    tps = [Tp("t" * 22, n) for n in range(2000)]
    waits = tuple(Wait(worker=w, epoch=1) for w in workers)
    plan = Plan(
        group="g", epoch=Epoch("c", 1), topics={"t" * 22: "orders"},
        grants={tp: Grant(owner=workers[n % 200], epoch=1) for n, tp in enumerate(tps)}, waits=dict.fromkeys(tps, waits),
        starts={}, leases_s=dict.fromkeys(workers, 45.0), requested=(), summary="", at=0.0,
    )  # fmt: skip
    key, value = encode(plan)
    assert decode(key, value).record == plan
    assert len(value) < 60_000


@given(st.text(max_size=20), st.integers(8, 200))
def test_a_group_stays_where_it_is_when_partitions_are_added(group: str, partitions: int) -> None:
    assert partition_for(group, partitions) == partition_for(group, 8) < 8


def forged(**fields: object) -> Decoded:
    """Return what is made of a heartbeat in which somebody has written something else."""
    beat = Heartbeat(
        group="g", worker=Incarnation("w", "u"), stamp=1.0, boot_id="b", acked=None, lease_s=3.0, epoch=0, phase=Phase.ACTIVE,
        owned={},
    )  # fmt: skip
    key, value = encode(beat)
    assert value is not None
    return decode(key, json.dumps({**json.loads(value), **fields}).encode())


@pytest.mark.parametrize(
    "fields",
    [{"epoch": 10**4300 - 2}, {"epoch": 2**63}, {"lease": 1e9}, {"lease": 0}, {"instance": "\ud800"}, {"records": -(2**70)}],
    ids=str,
)
def test_what_tables_and_logs_cannot_hold_is_ignored(fields: dict[str, object]) -> None:
    assert forged(**fields).record is None
    assert forged().record is not None


def test_a_name_that_is_no_text_is_ignored() -> None:
    key = json.dumps(["heartbeat", "g", "\ud800", "u"]).encode()
    assert decode(key, b"{}").record is None
    assert decode(json.dumps(["released", "g", "t", 2**63, "w", "u"]).encode(), b"{}").record is None
