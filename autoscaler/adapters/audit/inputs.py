"""What a decision was made from besides the measurement, as one value of a row of ``loads``, and back without loss.

Beside ``encoding``, which has the measurement. Pure: no clock, no I/O. JSON that is not compressed: from one cycle to the next
nearly all of it stays the same, which the table's compression, seeing many cycles at once, takes away. A partition is its place
in the measurement; of a value the fields are left out that have their default.
"""

import json
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from autoscaler.config.policy import Policy
from autoscaler.core.group.history import History
from autoscaler.model import LoadSnapshot, Moment, Observation, PartitionLoad, TopicPartition
from autoscaler.ports import Inputs, Start

VERSION = 1
_FIELDS = tuple(Policy.model_fields)  # of a group's settings: what else there is, such as its workers, decides nothing

_HINTS = {"array": list}  # that of the standard library takes no parameters when it is evaluated

Places = Mapping[TopicPartition, int]
Decoder = Callable[[Any, Sequence[TopicPartition]], Any]


def pack_inputs(inputs: Inputs) -> bytes:
    """Return what a decision was made from, but not what ``encoding.pack`` keeps of the same measurement."""
    snapshot, start = inputs.observation.snapshot, inputs.start
    places = {x.partition: i for i, x in enumerate(snapshot.loads)}
    seen = {f.name: v for f, v in _told(inputs.observation) if f.name not in {"group", "snapshot"}}
    data: dict[str, object] = {"v": VERSION, "n": inputs.number, "now": inputs.moment.now, "wall": inputs.moment.wall}
    data |= {"held": True} if inputs.held else {}
    data |= {"lost": sorted(snapshot.lost)} if snapshot.lost else {}
    if any(x.last_stable is not None for x in snapshot.loads):
        data["stable"] = [_before_end(x) for x in snapshot.loads]
    data["seen"] = {name: _encoded(v, places) for name, v in seen.items()}
    if start is not None:
        policy = start.policy.model_dump(mode="json", exclude_unset=True, include=set(_FIELDS))
        data["start"] = {"follows": start.follows, "policy": policy, "history": _encoded(start.history, places)}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def unpack_inputs(blob: bytes, snapshot: LoadSnapshot) -> Inputs:
    """Return what ``pack_inputs`` was given, with the measurement that ``encoding.unpack`` gives.

    Raises:
        ValueError: It is of a version that this release does not read.
    """
    data = json.loads(blob)
    if data["v"] != VERSION:
        raise ValueError(f"inputs are packed in version {data['v']}; this release reads version {VERSION}")
    listed = [x.partition for x in snapshot.loads]
    if stable := data.get("stable"):
        loads = tuple(_with_stable(x, s) for x, s in zip(snapshot.loads, stable, strict=True))
        snapshot = replace(snapshot, loads=loads)
    if lost := data.get("lost"):
        snapshot = replace(snapshot, lost=frozenset(lost))
    seen = _values(Observation, data["seen"], listed)
    start = None
    if (began := data.get("start")) is not None:
        history = History(**_values(History, began["history"], listed))
        start = Start(history=history, policy=Policy.model_validate(began["policy"]), follows=began["follows"])
    return Inputs(
        number=data["n"],
        observation=Observation(group=snapshot.group, snapshot=snapshot, **{"state": None} | seen),
        moment=Moment(now=data["now"], wall=data["wall"]),
        start=start,
        held=data.get("held", False),
    )


def plain(value: object) -> object:
    """Return a value as plain data, to compare it and to show where two differ."""
    return _encoded(value, {})


def _before_end(x: PartitionLoad) -> list[int] | int | None:
    """Return how far before its end a log is stable, where both are known; else in brackets where that is."""
    if x.last_stable is None:
        return None
    return [x.last_stable] if x.log_end is None else x.log_end - x.last_stable


def _with_stable(x: PartitionLoad, told: list[int] | int | None) -> PartitionLoad:
    if told is None:
        return x
    return replace(x, last_stable=told[0] if isinstance(told, list) else (x.log_end or 0) - told)


# --- values to plain data ----------------------------------------------------------------------------------------------------


def _encoded(value: object, places: Places) -> object:  # noqa: PLR0911  a case for each kind of value
    if isinstance(value, TopicPartition):
        return places.get(value, list(value))
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, array):
        return value.tolist()
    if isinstance(value, Mapping):
        return [[_encoded(k, places), _encoded(v, places)] for k, v in value.items()]
    if isinstance(value, frozenset | set):
        return [_encoded(x, places) for x in sorted(value)]
    if isinstance(value, tuple):
        return [_encoded(x, places) for x in value]
    if is_dataclass(value):
        return {f.name: _encoded(v, places) for f, v in _told(value)}
    raise TypeError(f"{type(value).__name__} cannot be written")


def _told(value: Any) -> Iterable[tuple[Field[Any], object]]:
    """Yield the fields of a dataclass that have not their default, with their values."""
    for f in fields(value):
        found = getattr(value, f.name)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if default is MISSING or found != default:
            yield f, found


# --- and back ----------------------------------------------------------------------------------------------------------------


def _values(kind: type, data: Mapping[str, object], listed: Sequence[TopicPartition]) -> dict[str, Any]:
    decoders = _fields_of(kind)
    return {name: decoders[name](v, listed) for name, v in data.items()}


@lru_cache
def _fields_of(kind: type) -> Mapping[str, Decoder]:
    hints = get_type_hints(kind, localns=_HINTS)
    return {f.name: _decoder(hints[f.name]) for f in fields(kind)}


@lru_cache
def _decoder(hint: Any) -> Decoder:  # noqa: C901, PLR0911  a case for each kind of type
    origin, args = get_origin(hint), get_args(hint)
    if hint is TopicPartition or hint is Hashable:
        return _partition
    if origin in {Union, UnionType}:
        return partial(_optional, _decoder(next(a for a in args if a is not NoneType)))
    if origin is tuple and args[-1] is ...:
        return partial(_many, tuple, _decoder(args[0]))
    if origin is tuple:
        return partial(_one_by_one, tuple, [_decoder(a) for a in args])
    if origin is frozenset:
        return partial(_many, frozenset, _decoder(args[0]))
    if origin is list:  # an array, see _HINTS
        return lambda data, _: array("q", data)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_mapping, _decoder(args[0]), _decoder(args[1]))
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(_dataclass, hint)
    if isinstance(hint, type) and issubclass(hint, tuple):  # a named one
        hints = get_type_hints(hint, localns=_HINTS)
        return partial(_one_by_one, hint._make, [_decoder(hints[n]) for n in hint._fields])  # type: ignore[attr-defined]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda data, _: hint(data)
    return lambda data, _: data


def _partition(data: Any, listed: Sequence[TopicPartition]) -> TopicPartition:
    return listed[data] if isinstance(data, int) else TopicPartition(*data)


def _optional(inner: Decoder, data: Any, listed: Sequence[TopicPartition]) -> Any:
    return None if data is None else inner(data, listed)


def _many(make: Callable[..., Any], inner: Decoder, data: Any, listed: Sequence[TopicPartition]) -> Any:
    return make(inner(x, listed) for x in data)


def _one_by_one(make: Callable[..., Any], inner: Sequence[Decoder], data: Any, listed: Sequence[TopicPartition]) -> Any:
    return make(d(x, listed) for d, x in zip(inner, data, strict=True))


def _mapping(key: Decoder, value: Decoder, data: Any, listed: Sequence[TopicPartition]) -> Any:
    return {key(k, listed): value(v, listed) for k, v in data}


def _dataclass(kind: type, data: Any, listed: Sequence[TopicPartition]) -> Any:
    return kind(**_values(kind, data, listed))
