"""One cycle's measurements and owners as one compact binary value, and back without loss.

Beside ``rows``: what a decision was taken on is kept for every cycle, so it must be small, and equal to the last bit, so that
deciding again gives the same. Pure: no clock, no I/O.

The value is a head in JSON (four bytes with its length come first) and numpy arrays, in the order in which ``pack`` writes and
``unpack`` reads them. Numbers are laid out by significance, all lowest bytes, then all second ones and so on: what changes
little lies together, and the table's compression, which sees several cycles at once, takes it away. Besides:

- A rate is the whole number of bytes (or records) counted, where dividing by the window gives the rate back to the last bit.
- Commits are distances from the log's end, lags differences from those.
- What does not follow its column's rule is kept as it is, with its place.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.model import PartitionLoad, RateSource, TopicPartition

Array = npt.NDArray[Any]
Owners = Mapping[TopicPartition, int | str]

VERSION = 1
_LENGTH = 4  # bytes before the head
_SHARED = ("window_s", "age_s")  # few values, each of many partitions: one read gives the same to all it asked for
_WHOLE = ("log_end", "log_start", "committed", "lag_records")
_RATES = ("bytes_per_s", "records_per_s")
_SCALES = {"lag_bytes": 1.0, "lag_s": 1000.0}  # what makes a usual value whole
_EXACT = 2.0**53  # floats count whole numbers up to here


def pack(loads: Sequence[PartitionLoad], owner: Owners) -> bytes:
    """Return what was measured of each partition and who held it, in the order of ``loads``."""
    out = _Writer(len(loads))
    out.names([x.partition.topic for x in loads])
    out.numbers(np.diff(np.array([x.partition.partition for x in loads], np.int64), prepend=np.int64(0)))
    out.names([x.topic_id for x in loads])
    out.names([x.rate_source.value for x in loads])
    out.names([x.error for x in loads])
    out.names([None if (o := owner.get(x.partition)) is None else str(o) for x in loads])
    out.flags([x.known for x in loads])
    for name in _SHARED:
        out.shared([getattr(x, name) for x in loads])
    end, start, committed, lag = (out.known([getattr(x, name) for x in loads]).astype(np.int64) for name in _WHOLE)
    for values in (end, start, end - committed, end - committed - lag):
        out.numbers(values)
    window = np.array([x.window_s for x in loads], float)
    for name in (*_RATES, *_SCALES):
        out.quotients(out.known([getattr(x, name) for x in loads]).astype(float), _divisor(name, window))
    return out.finished()


def unpack(blob: bytes) -> tuple[tuple[PartitionLoad, ...], tuple[str | None, ...]]:
    """Return what ``pack`` was given: the measurements, and each partition's owner as text.

    Raises:
        ValueError: It is of a version that this release does not read.
    """
    got = _Reader(blob)
    topic, partition = got.names(), np.cumsum(got.numbers()).tolist()
    topic_id, source, error, owner = got.names(), got.names(), got.names(), got.names()
    columns: dict[str, list[Any]] = {"known": got.flags()}
    shared = {name: got.shared() for name in _SHARED}
    there = [got.flags() for _ in _WHOLE]
    end, start, behind, rest = (got.numbers() for _ in _WHOLE)
    whole = (end, start, end - behind, behind - rest)
    columns |= {name: _or_none(v, k) for name, v, k in zip(_WHOLE, whole, there, strict=True)}
    for name in (*_RATES, *_SCALES):
        known = got.flags()
        columns[name] = _or_none(got.quotients(_divisor(name, shared["window_s"])), known)
    columns |= {name: values.tolist() for name, values in shared.items()}
    loads = tuple(
        PartitionLoad(
            partition=TopicPartition(topic=topic[i] or "", partition=partition[i]),
            topic_id=topic_id[i] or "",
            rate_source=RateSource(source[i] or ""),
            error=error[i],
            **{name: values[i] for name, values in columns.items()},
        )
        for i in range(len(partition))
    )
    return loads, tuple(owner)


def _divisor(name: str, window: Array) -> Array:
    return window if name in _RATES else np.full(len(window), _SCALES[name])


def _or_none(values: Array, known: Sequence[bool]) -> list[Any]:
    return [v if k else None for v, k in zip(values.tolist(), known, strict=True)]


class _Writer:
    """Arrays one after the other, and in the head what it takes to read them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._head: list[object] = []
        self._body: list[bytes] = []

    def raw(self, values: Array) -> None:
        """Write numbers of eight bytes as they are, by significance."""
        self._head.append(len(values))
        self._body.append(_planes(values))

    def numbers(self, values: Array) -> None:
        """Write whole numbers in as few bytes each as the largest takes; nothing if all are zero."""
        top = max(int(values.max()), -int(values.min()) - 1) if len(values) else 0
        width = next(w for w in (1, 2, 4, 8) if top < 1 << (8 * w - 1)) if top or (len(values) and values.any()) else 0
        self._head.append([width, len(values)])
        self._body.append(_planes(values.astype(f"<i{width}")) if width else b"")

    def flags(self, values: Sequence[bool]) -> None:
        """Write yes or no; nothing but the answer if all are alike."""
        alike = all(values) if not any(values) or all(values) else None
        self._head.append(alike)
        self._body.append(b"" if alike is not None else np.packbits(np.array(values, bool)).tobytes())

    def names(self, values: Sequence[str | None]) -> None:
        """Write few distinct texts."""
        number = {v: i for i, v in enumerate(dict.fromkeys(values))}
        self._head.append(list(number))
        self.numbers(np.array([number[v] for v in values], np.int64))

    def shared(self, values: Sequence[float]) -> None:
        """Write few distinct numbers."""
        distinct, at = np.unique(np.array(values, float).view(np.int64), return_inverse=True)
        self.raw(distinct)
        self.numbers(at.astype(np.int64))

    def known(self, values: Sequence[float | None]) -> Array:
        """Write which are known, and return them with 0 for those that are not."""
        self.flags([v is not None for v in values])
        return np.array([0 if v is None else v for v in values])

    def quotients(self, values: Array, divisor: Array) -> None:
        """Write numbers that are whole ones over a divisor; the others as they are."""
        with np.errstate(all="ignore"):
            whole = np.rint(values * divisor)
            whole = np.where(np.abs(whole) < _EXACT, whole, 0.0) + 0.0  # as a whole number -0.0 is 0
            odd = (whole / divisor).view(np.int64) != values.view(np.int64)
        self.numbers(np.where(odd, 0.0, whole).astype(np.int64))
        self.numbers(np.flatnonzero(odd).astype(np.int64))
        self.raw(values[odd].view(np.int64))

    def finished(self) -> bytes:
        head = json.dumps([VERSION, self._count, *self._head], separators=(",", ":"), ensure_ascii=False).encode()
        return b"".join((len(head).to_bytes(_LENGTH, "little"), head, *self._body))


class _Reader:
    """The same, backwards: methods in the order in which the writer's were called."""

    def __init__(self, blob: bytes) -> None:
        at = _LENGTH + int.from_bytes(blob[:_LENGTH], "little")
        version, self._count, *head = json.loads(blob[_LENGTH:at])
        if version != VERSION:
            raise ValueError(f"measurements are packed in version {version}; this release reads version {VERSION}")
        self._head = iter(head)
        self._body = memoryview(blob)[at:]

    def raw(self) -> Array:
        return self._planes(8, next(self._head))

    def numbers(self) -> Array:
        width, count = next(self._head)
        return self._planes(width, count).astype(np.int64) if width else np.zeros(count, np.int64)

    def flags(self) -> list[bool]:
        alike = next(self._head)
        if alike is not None:
            return [alike] * self._count
        found: list[bool] = np.unpackbits(self._taken(-(-self._count // 8)), count=self._count).astype(bool).tolist()
        return found

    def names(self) -> list[str | None]:
        distinct = next(self._head)
        return [distinct[i] for i in self.numbers().tolist()]

    def shared(self) -> Array:
        distinct = self.raw().view(float)
        return distinct[self.numbers()]

    def quotients(self, divisor: Array) -> Array:
        with np.errstate(all="ignore"):
            values: Array = self.numbers() / divisor
        odd = self.numbers()
        values[odd] = self.raw().view(float)
        return values

    def _planes(self, width: int, count: int) -> Array:
        return np.ascontiguousarray(self._taken(width * count).reshape(width, count).T).view(f"<i{width}").reshape(count)

    def _taken(self, size: int) -> Array:
        taken, self._body = self._body[:size], self._body[size:]
        return np.frombuffer(taken, np.uint8)


def _planes(values: Array) -> bytes:
    bytes_of = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
    return np.ascontiguousarray(bytes_of.T).tobytes()
