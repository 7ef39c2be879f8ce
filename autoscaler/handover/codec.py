"""Records as bytes: structured keys, JSON values with a version, plans kept compact.

Both sides of the protocol send and read through this module, so that a record means the same to all. Keys are JSON arrays, never
joined strings: no name can be mistaken for another. Whatever cannot be read is reported with a reason and never raises, because
one strange record must not stop a reader. Pure, standard library only; the client that sends stands elsewhere.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Never, TypeVar, assert_never

from autoscaler.handover.records import (
    AGE_BOUNDS_S,
    MOST_LEASE_S,
    PROTOCOL_VERSION,
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
)

Key = tuple[str | int, ...]
_T = TypeVar("_T")
_MOST = 2**63 - 1
_STRANGE = (ValueError, RecursionError, ArithmeticError)  # an integer of hundreds of digits overflows where a float is expected
PARTITIONS = 8  # of either topic, at least: groups live in the first ones, so that partitions may be added
_SHAPES: Mapping[str, tuple[type, ...]] = {
    "plan": (str,),
    "controller": (str,),
    "expired": (str, str, str),
    "released": (str, str, int, str, str),
    "left": (str, str, str),
    "unparked": (str, str, int),
    "heartbeat": (str, str, str),
    "tick": (str, str),
}  # kind -> types of the key's other parts
_ADDED = frozenset({"losses", "parked", "resets"})  # of a plan's topics, absent in plans of earlier releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What a pair of bytes says."""

    key: Key | None = None  # the structured key; ``None`` if it is none of ours
    record: Record | None = None  # the record; ``None`` for a tombstone and for what is to be ignored
    tombstone: bool = False  # the key was deleted
    ignored: str = ""  # why there is neither; empty otherwise


def partition_for(group: str, partitions: int) -> int:
    """Return the partition of the control log (and of the heartbeat log) in which a group lives; the same in every process.

    Partitions added later are not used: workers that run and those that start then would look in different ones.
    """
    return int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "big") % min(partitions, PARTITIONS)


def key_of(record: Record) -> Key:  # noqa: PLR0911  (one case per kind)
    """Return a record's structured key: the kind, the group, and whatever tells it from others of its kind."""
    match record:
        case Plan(group=group):
            return ("plan", group)
        case TakeOver(group=group):
            return ("controller", group)
        case Released(group=group, tp=tp, worker=w):
            return ("released", group, tp.topic_id, tp.partition, w.name, w.uuid)
        case Expired(group=group, worker=w):
            return ("expired", group, w.name, w.uuid)
        case Left(group=group, worker=w):
            return ("left", group, w.name, w.uuid)
        case Unparked(group=group, tp=tp):
            return ("unparked", group, tp.topic_id, tp.partition)
        case Heartbeat(group=group, worker=w):
            return ("heartbeat", group, w.name, w.uuid)
        case Tick(group=group, incarnation=incarnation):
            return ("tick", group, incarnation)
        case _:
            assert_never(record)


def encode_key(key: Key) -> bytes:
    """Return a key's bytes; with a ``None`` value they make its tombstone."""
    return _dump(key)


def encode(record: Record) -> tuple[bytes, bytes]:
    """Return a record's key and value."""
    return encode_key(key_of(record)), _dump({"v": PROTOCOL_VERSION, **_body(record)})


def decode(key: bytes | None, value: bytes | None, *, control_id: str | None = None) -> Decoded:
    """Read a record (``None`` in place of a value: a tombstone); what cannot be read is returned with the reason, nothing raises.

    Records under another control topic than the one being read, ``control_id``, are ignored; ``None`` takes all.
    """
    try:
        parts = _key(key)
    except _STRANGE as e:
        return Decoded(ignored=f"key: {e}")
    if value is None:
        return Decoded(key=parts, tombstone=True)
    try:
        body = _object(_load(value))
        if (version := body.get("v")) != PROTOCOL_VERSION:
            return Decoded(key=parts, ignored=f"version {version!r} is not known")
        named = body.get("control")
        if control_id is not None and named is not None and named != control_id:
            return Decoded(key=parts, ignored=f"control topic {named!r} is not the one being read")
        return Decoded(key=parts, record=_record(parts, body))
    except _STRANGE as e:
        return Decoded(key=parts, ignored=f"value: {e}")


def _dump(value: object) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def _load(data: bytes) -> object:
    loaded: object = _DECODER.decode(data.decode("utf-8", "surrogatepass"))
    return loaded


def _refuse(what: str) -> Never:
    raise ValueError(f"{what} is not expected here")


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_refuse)  # one for all: json.loads makes one for each call


def _key(data: bytes | None) -> Key:
    if data is None:
        _refuse("an absent key")
    kind, *rest = _list(_load(data)) or [None]
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None or tuple(type(x) for x in rest) != shape:
        _refuse(f"{data[:80]!r}")
    return (_text(kind), *(_text(x) if isinstance(x, str) else _int(x) for x in rest))


def _body(record: Record) -> dict[str, object]:  # noqa: PLR0911  (one case per kind)
    match record:
        case Plan():
            return _plan_body(record)
        case TakeOver(control_id=control, number=number, incarnation=incarnation):
            return {"control": control, "number": number, "incarnation": incarnation}
        case Expired(control_id=control, evidence=evidence):
            return {"control": control, "evidence": evidence}
        case Released(control_id=control, epoch=epoch, offset=offset, failed=failed):
            return {"control": control, "epoch": epoch, "offset": offset, "failed": failed}
        case Unparked(control_id=control, epoch=epoch):
            return {"control": control, "epoch": epoch}
        case Left(control_id=control):
            return {"control": control}
        case Heartbeat():
            return _heartbeat_body(record)
        case Tick():
            return {"stamp": record.stamp, "boot": record.boot_id, "acked": record.acked, "number": record.number}
        case _:
            assert_never(record)


def _record(key: Key, body: Mapping[str, object]) -> Record:  # noqa: PLR0911  (one case per kind)
    match key:
        case ("plan", str(group)):
            return _plan(group, body)
        case ("controller", str(group)):
            number, incarnation = _int(body.get("number")), _text(body.get("incarnation"))
            return TakeOver(group=group, control_id=_text(body.get("control")), number=number, incarnation=incarnation)
        case ("expired", str(group), str(name), str(uuid)):
            evidence, control = _text(body.get("evidence")), _text(body.get("control"))
            return Expired(group=group, worker=Incarnation(name, uuid), control_id=control, evidence=evidence)
        case ("released", str(group), str(topic), int(partition), str(name), str(uuid)):
            return Released(
                group=group,
                tp=Tp(topic, partition),
                worker=Incarnation(name, uuid),
                control_id=_text(body.get("control")),
                epoch=_int(body.get("epoch")),
                offset=_int(body.get("offset")),
                failed=_bool(body.get("failed", False)),
            )
        case ("unparked", str(group), str(topic), int(partition)):
            control, epoch = _text(body.get("control")), _int(body.get("epoch"))
            return Unparked(group=group, tp=Tp(topic, partition), control_id=control, epoch=epoch)
        case ("left", str(group), str(name), str(uuid)):
            return Left(group=group, worker=Incarnation(name, uuid), control_id=_text(body.get("control")))
        case ("heartbeat", str(group), str(name), str(uuid)):
            return _heartbeat(group, Incarnation(name, uuid), body)
        case ("tick", str(group), str(incarnation)):
            return Tick(
                group=group,
                incarnation=incarnation,
                stamp=_float(body.get("stamp")),
                boot_id=_text(body.get("boot")),
                acked=_maybe_int(body.get("acked")),
                number=_int(body.get("number", 0)),
            )
        case _:
            _refuse(f"{key!r}")


def _plan_body(plan: Plan) -> dict[str, object]:
    """A table of workers, and per topic arrays that refer to it by index and to older epochs by their age in epochs."""
    now = plan.epoch.number
    waiting = {w.worker for waits in plan.waits.values() for w in waits}
    workers = sorted({g.owner for g in plan.grants.values()} | waiting | plan.exactly_once | set(plan.leases_s))
    index = {w: i for i, w in enumerate(workers)}
    tps = {*plan.grants, *plan.waits, *plan.starts, *plan.losses, *plan.parked, *plan.resets}
    sets = sorted({tuple(x for w in waits for x in (index[w.worker], now - w.epoch)) for waits in plan.waits.values()})
    at = {s: i for i, s in enumerate(sets)}  # a first plan waits for every worker, for every partition: said once
    topics = []
    for topic in sorted({tp.topic_id for tp in tps} | set(plan.topics)):
        mine = sorted(tp for tp in tps if tp.topic_id == topic)
        granted = [tp for tp in mine if tp in plan.grants]
        numbers = [tp.partition for tp in granted]
        waits = [
            [tp.partition, at[tuple(x for w in plan.waits[tp] for x in (index[w.worker], now - w.epoch))]]
            for tp in mine
            if tp in plan.waits
        ]
        topics.append(
            {
                "id": topic,
                "name": plan.topics.get(topic),
                "partitions": len(numbers) if numbers == list(range(len(numbers))) else numbers,
                "owners": [index[plan.grants[tp].owner] for tp in granted],
                "ages": [now - plan.grants[tp].epoch for tp in granted],
                "waits": waits,
                "starts": [[tp.partition, plan.starts[tp]] for tp in mine if tp in plan.starts],
                "losses": [
                    [tp.partition, loss.owners, loss.offset, now - loss.epoch] for tp in mine if (loss := plan.losses.get(tp))
                ],
                "parked": [[tp.partition, now - plan.parked[tp]] for tp in mine if tp in plan.parked],
                "resets": [[tp.partition, r.offset, r.start, now - r.epoch] for tp in mine if (r := plan.resets.get(tp))],
            }
        )
    return {
        "control": plan.epoch.control_id,
        "epoch": plan.epoch.number,
        "workers": [[w.name, w.uuid, plan.leases_s.get(w)] for w in workers],
        "waits": sets,
        "topics": topics,
        "requested": list(plan.requested),
        "summary": plan.summary,
        "at": plan.at,
        "recommit": plan.recommit_s,
        "exactly_once": sorted(index[w] for w in plan.exactly_once),
    }


def _plan(group: str, body: Mapping[str, object]) -> Plan:
    workers: list[Incarnation] = []
    leases: dict[Incarnation, float] = {}
    for row in _list(body.get("workers")):
        name, uuid, lease = _row(row, 3)
        workers.append(Incarnation(_text(name), _text(uuid)))
        if lease is not None:
            leases[workers[-1]] = _lease(lease)
    now = _int(body.get("epoch"))
    names: dict[str, str] = {}
    grants: dict[Tp, Grant] = {}
    waits: dict[Tp, tuple[Wait, ...]] = {}
    starts: dict[Tp, int] = {}
    losses: dict[Tp, Loss] = {}
    parked: dict[Tp, int] = {}
    resets: dict[Tp, Reset] = {}
    sets = [_waits(row, workers, now) for row in _list(body.get("waits"))]
    for entry in map(_object, _list(body.get("topics"))):
        if entry.get("name") is not None:
            names[_text(entry.get("id"))] = _text(entry["name"])
        grants |= _grants(entry, workers, now)
        waits |= {tp: _at(sets, index, "waits") for tp, (index,) in _rows(entry, "waits", 1)}
        starts |= {tp: start for tp, (start,) in _rows(entry, "starts", 1)}
        losses |= {tp: Loss(owners=n, offset=at, epoch=now - age) for tp, (n, at, age) in _rows(entry, "losses", 3)}
        parked |= {tp: now - age for tp, (age,) in _rows(entry, "parked", 1)}
        resets |= {tp: Reset(offset=at, start=to, epoch=now - age) for tp, (at, to, age) in _rows(entry, "resets", 3)}
    return Plan(
        group=group,
        epoch=Epoch(_text(body.get("control")), now),
        topics=names,
        grants=grants,
        waits=waits,
        starts=starts,
        leases_s=leases,
        requested=tuple(_int(x) for x in _list(body.get("requested"))),
        summary=_text(body.get("summary")),
        at=_float(body.get("at")),
        losses=losses,
        parked=parked,
        resets=resets,
        recommit_s=None if (recommit := body.get("recommit")) is None else _float(recommit),
        exactly_once=frozenset(_at(workers, x, "worker") for x in _list(body.get("exactly_once", []))),
    )


def _grants(entry: Mapping[str, object], workers: list[Incarnation], now: int) -> dict[Tp, Grant]:
    owners, ages, given = _list(entry.get("owners")), _list(entry.get("ages")), entry.get("partitions")
    numbers: list[object] = given if isinstance(given, list) else list(range(min(_int(given), len(owners))))
    if not len(numbers) == len(owners) == len(ages):
        _refuse("arrays of different length")
    return {
        Tp(_text(entry.get("id")), _int(number)): Grant(owner=_at(workers, owner, "worker"), epoch=now - _int(age))
        for number, owner, age in zip(numbers, owners, ages, strict=True)
    }


def _waits(row: object, workers: list[Incarnation], now: int) -> tuple[Wait, ...]:
    pairs = [(_at(workers, w, "worker"), now - _int(age)) for w, age in zip(_list(row)[::2], _list(row)[1::2], strict=True)]
    return tuple(Wait(worker=worker, epoch=epoch) for worker, epoch in pairs)


def _rows(entry: Mapping[str, object], name: str, numbers: int) -> Iterator[tuple[Tp, list[int]]]:
    """Yield what a topic's entry says of its partitions: of each so many numbers."""
    topic = _text(entry.get("id"))
    for row in _list(entry.get(name, [] if name in _ADDED else None)):
        partition, *rest = map(_int, _row(row, 1 + numbers))
        yield Tp(topic, partition), rest


def _heartbeat_body(h: Heartbeat) -> dict[str, object]:
    return {
        "stamp": h.stamp,
        "boot": h.boot_id,
        "acked": h.acked,
        "lease": h.lease_s,
        "epoch": h.epoch,
        "phase": str(h.phase),
        "owned": [[tp.topic_id, tp.partition, e] for tp, e in h.owned.items()],
        "taken": [[tp.topic_id, tp.partition, e, o] for tp, e, o in h.taken],
        "astray": [[tp.topic_id, tp.partition, o] for tp, o in h.out_of_range],  # every release writes this name
        "instance": h.instance,
        "records": h.records,
        "bytes": h.payload_bytes,
        "busy": h.busy_s,
        "latency": [],  # earlier releases read this name
        "ages": [[i, n] for i, n in enumerate(h.ages) if n],
        "progress": h.last_progress,
        "exactly_once": h.exactly_once,
    }


def _heartbeat(group: str, worker: Incarnation, body: Mapping[str, object]) -> Heartbeat:
    owned = [_row(x, 3) for x in _list(body.get("owned"))]
    taken = [_row(x, 4) for x in _list(body.get("taken"))]
    out_of_range = [_row(x, 3) for x in _list(body.get("astray", []))]
    instance = body.get("instance")
    return Heartbeat(
        group=group,
        worker=worker,
        stamp=_float(body.get("stamp")),
        boot_id=_text(body.get("boot")),
        acked=_maybe_int(body.get("acked")),
        lease_s=_lease(body.get("lease")),
        epoch=_int(body.get("epoch")),
        phase=Phase(_text(body.get("phase"))),
        owned={Tp(_text(t), _int(p)): _int(e) for t, p, e in owned},
        taken=tuple((Tp(_text(t), _int(p)), _int(e), _int(o)) for t, p, e, o in taken),
        out_of_range=tuple((Tp(_text(t), _int(p)), _int(o)) for t, p, o in out_of_range),
        instance=None if instance is None else _text(instance),
        records=_int(body.get("records")),
        payload_bytes=_int(body.get("bytes")),
        busy_s=_float(body.get("busy")),
        ages=_ages(_list(body.get("ages", []))),
        last_progress=_float(body.get("progress")),
        exactly_once=_bool(body.get("exactly_once", False)),
    )


def _ages(told: Sequence[object]) -> tuple[int, ...]:
    """Return a count for each place, 0 for those that are not told; none at all from a release that tells no ages."""
    pairs = [(_int(place), _int(count)) for place, count in (_row(x, 2) for x in told)]
    if any(not 0 <= place <= len(AGE_BOUNDS_S) for place, _ in pairs):
        _refuse(f"ages {told!r:.80}")
    counts = [0] * (len(AGE_BOUNDS_S) + 1 if pairs else 0)
    for place, count in pairs:
        counts[place] = count
    return tuple(counts)


def _at(table: Sequence[_T], index: object, name: str) -> _T:
    if not 0 <= (i := _int(index)) < len(table):
        _refuse(f"{name} {i}")
    return table[i]


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        _refuse(f"{value!r:.80}")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        _refuse(f"{value!r:.80}")
    return value


def _row(value: object, length: int) -> list[object]:
    if len(row := _list(value)) != length:
        _refuse(f"{value!r:.80}")
    return row


def _text(value: object) -> str:
    """Return a text that can be written down: half a surrogate pair, which JSON can carry, is none."""
    if not isinstance(value, str) or not (value.isascii() or value.encode(errors="ignore").decode() == value):
        _refuse(f"{value!r:.80}")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        _refuse(f"{value!r:.80}")
    return value


def _int(value: object) -> int:
    """Return a whole number of 64 bits: no counter reaches more, tables cannot hold it, and it may be too long to print."""
    if not isinstance(value, int) or isinstance(value, bool) or not -_MOST <= value <= _MOST:
        _refuse("a number beyond 64 bits" if type(value) is int else f"{value!r:.80}")
    return value


def _lease(value: object) -> float:
    if not 0 < (lease := _float(value)) <= MOST_LEASE_S:
        _refuse(f"a lease of {lease:g} s")
    return lease


def _maybe_int(value: object) -> int | None:
    return None if value is None else _int(value)


def _float(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        _refuse(f"{value!r:.80}")
    return float(value)
