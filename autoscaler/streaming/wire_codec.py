"""Kafka requests and answers about thousands of partitions as numpy arrays, sent over kafka-python's own connection.

The only module of the measuring path that imports the client library. kafka-python decodes one Python object per partition,
which costs ten times more than the broker takes to answer; here an answer is one structured array. Connecting, TLS, SASL,
framing and correlation stay kafka-python's. Message layouts: https://kafka.apache.org/protocol (ListOffsets v5, OffsetFetch
v8, DescribeLogDirs v3: Kafka 3.0 and later).
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from kafka import IsolationLevel, KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

_LIST_OFFSETS, _OFFSET_FETCH, _DESCRIBE_LOG_DIRS = (2, 5), (9, 8), (35, 3)  # (API key, version)
REQUIRED = (_LIST_OFFSETS, _OFFSET_FETCH, _DESCRIBE_LOG_DIRS)

_CLUSTER_AUTHORIZATION_FAILED = 31
_ASKED = np.dtype([("partition", ">i4"), ("epoch", ">i4"), ("timestamp", ">i8")])
_OFFSET = np.dtype([("partition", ">i4"), ("error", ">i2"), ("timestamp", ">i8"), ("offset", ">i8"), ("epoch", ">i4")])
_SIZE = np.dtype([("partition", ">i4"), ("size", ">i8"), ("lag", ">i8"), ("future", "?"), ("tags", "u1")])
_COMMITTED = np.dtype([("partition", "i4"), ("offset", "i8"), ("error", "i2")])


def metadata(topics: Sequence[str] | None) -> MetadataRequest:
    """Ask for brokers and these topics, or all that this user may describe, without creating any."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=t) for t in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def coordinators(groups: Sequence[str]) -> FindCoordinatorRequest:
    """Ask for the coordinators of groups."""
    return FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups), min_version=4)


@dataclass(frozen=True, slots=True)
class LogDirs:
    """Sizes per topic as ``_SIZE`` arrays, or the error code that the broker gave instead."""

    error: int
    topics: Mapping[str, tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Committed:
    """Committed offsets of one group per topic (-1: none), or the group's error code."""

    error: int
    topics: Mapping[str, Array]


class _Header:
    def __init__(self, request: "Request") -> None:
        self.api_key, self.api_version = request.API_KEY, request.API_VERSION
        self.correlation_id = 0
        self._request = request

    def get_response_class(self) -> "Request":
        return self._request


@dataclass(slots=True)
class _Answered:
    correlation_id: int


class Request:
    """Stands in for a kafka-python request and for its response class; its protocol parser calls nothing but these methods."""

    def __init__(self, api: tuple[int, int], body: bytes, decode: Callable[[bytes], Any]) -> None:
        """Keep the encoded body and what turns the answer's body into a value."""
        self.API_KEY, self.API_VERSION = api
        self.flexible = api != _LIST_OFFSETS
        self.header = _Header(self)
        self._body, self._decode, self._client_id = body, decode, b""

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        """Take what the connection puts into the header."""
        self.header.correlation_id = correlation_id
        self._client_id = client_id.encode()

    def encode(self, *, framed: bool = True, header: bool = True) -> bytes:
        """Return the frame to send."""
        del framed, header
        head = struct.pack(">hhih", self.API_KEY, self.API_VERSION, self.header.correlation_id, len(self._client_id))
        frame = head + self._client_id + (b"\0" if self.flexible else b"") + self._body
        return struct.pack(">i", len(frame)) + frame

    def expect_response(self) -> bool:
        """Return that an answer comes."""
        return True

    def parse_header(self, buffer: Any) -> _Answered:
        """Read the answer's header."""
        (correlation_id,) = struct.unpack(">i", buffer.read(4))
        if self.flexible:
            buffer.read(1)  # no tagged field is defined for any answer's header
        return _Answered(correlation_id)

    def decode(self, buffer: Any) -> Any:
        """Read the answer's body."""
        return self._decode(bytes(buffer.read()))

    def __repr__(self) -> str:
        """Return the API, for kafka-python's log."""
        return f"Request(api={self.API_KEY}, version={self.API_VERSION})"


class _Cursor:
    """Reads the pieces of a message one after the other."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(code, self.data, self.at)
        self.at += struct.calcsize(code)
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004  the format's continuation bit
                return value
            shift += 7

    def length(self) -> int:
        return self.varint() - 1

    def text(self) -> str:
        return self.take(self.length()).decode()

    def text16(self) -> str:
        return self.take(self.number(">h")).decode()

    def take(self, count: int) -> bytes:
        self.at += max(count, 0)
        return self.data[self.at - max(count, 0) : self.at]

    def array(self, dtype: np.dtype[Any], count: int) -> Array:
        out = np.frombuffer(self.data, dtype, count, self.at)
        self.at += count * dtype.itemsize
        return out

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def _text16(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:  # noqa: PLR2004  the format's continuation bit
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(value: str) -> bytes:
    raw = value.encode()
    return _varint(len(raw) + 1) + raw


def _topics(wanted: Mapping[str, Ints]) -> bytes:
    parts = [_varint(len(wanted) + 1)]
    for topic, partitions in wanted.items():
        parts += [_text(topic), _varint(len(partitions) + 1), partitions.astype(">i4").tobytes(), b"\0"]
    return b"".join(parts)


def list_offsets(wanted: Mapping[str, Ints], timestamp: int, isolation: int = READ_UNCOMMITTED) -> Request:
    """Ask for the offset at ``timestamp`` (LATEST or EARLIEST); the answer is an ``_OFFSET`` array per topic."""
    parts = [struct.pack(">ibi", -1, isolation, len(wanted))]
    for topic, partitions in wanted.items():
        asked = np.empty(len(partitions), _ASKED)
        asked["partition"], asked["epoch"], asked["timestamp"] = partitions, -1, timestamp
        parts += [_text16(topic), struct.pack(">i", len(partitions)), asked.tobytes()]

    def decode(data: bytes) -> dict[str, Array]:
        cursor = _Cursor(data, 4)  # after the throttle time
        return {cursor.text16(): cursor.array(_OFFSET, cursor.number(">i")) for _ in range(cursor.number(">i"))}

    return Request(_LIST_OFFSETS, b"".join(parts), decode)


def log_dirs(wanted: Mapping[str, Ints]) -> Request:
    """Ask for the log sizes of these replicas; the answer is ``LogDirs``."""

    def decode(data: bytes) -> LogDirs:
        cursor = _Cursor(data, 4)
        error = cursor.number(">h")
        sizes: dict[str, list[Array]] = {}
        for _ in range(cursor.length()):
            dir_error = cursor.number(">h")
            error = error or dir_error
            cursor.text()
            for _ in range(cursor.length()):
                topic = cursor.text()
                sizes.setdefault(topic, []).append(cursor.array(_SIZE, cursor.length()))
                cursor.tags()
            cursor.tags()
        return LogDirs(error, {t: tuple(a) for t, a in sizes.items()})

    return Request(_DESCRIBE_LOG_DIRS, _topics(wanted) + b"\0", decode)


def committed(groups: Mapping[str, Mapping[str, Ints]]) -> Request:
    """Ask for the committed offsets of several groups at once; the answer is ``{group: Committed}``."""
    parts = [_varint(len(groups) + 1)]
    for group, wanted in groups.items():
        parts += [_text(group), _topics(wanted), b"\0"]

    def decode(data: bytes) -> dict[str, Committed]:
        cursor = _Cursor(data, 4)
        out: dict[str, Committed] = {}
        for _ in range(cursor.length()):
            group, topics = cursor.text(), {}
            for _ in range(cursor.length()):
                topic = cursor.text()
                topics[topic] = _committed(cursor, cursor.length())
                cursor.tags()
            out[group] = Committed(cursor.number(">h"), topics)
            cursor.tags()
        return out

    return Request(_OFFSET_FETCH, b"".join(parts) + b"\0\0", decode)  # not require_stable; no tags


def _committed(cursor: _Cursor, count: int) -> Array:
    """Read one topic's entries: at once where all carry metadata of the same length, else one by one."""
    out = np.empty(count, _COMMITTED)
    if count == 0:
        return out
    length = cursor.data[cursor.at + 16]
    layout = np.dtype([
        ("partition", ">i4"), ("offset", ">i8"), ("epoch", ">i4"), ("length", "u1"),
        ("metadata", f"V{max(length - 1, 0)}"), ("error", ">i2"), ("tags", "u1"),
    ])  # fmt: skip
    if length < 0x80 and cursor.at + count * layout.itemsize <= len(cursor.data):  # noqa: PLR2004
        seen = np.frombuffer(cursor.data, layout, count, cursor.at)
        if (seen["length"] == length).all() and not seen["tags"].any() and (seen["error"] >= -1).all():
            cursor.at += count * layout.itemsize
            out["partition"], out["offset"], out["error"] = seen["partition"], seen["offset"], seen["error"]
            return out
    for i in range(count):
        partition, offset, _ = cursor.number(">i"), cursor.number(">q"), cursor.number(">i")
        cursor.take(cursor.length())
        out[i] = (partition, offset, cursor.number(">h"))
        cursor.tags()
    return out


def described(admin: KafkaAdminClient, topics: Sequence[str] | None) -> tuple[dict[int, str], list[dict[str, Any]]]:
    """Return ``host:port`` by broker id, and the metadata of these topics or of all, by public calls."""
    brokers = {b["broker_id"]: f"{b['host']}:{b['port']}" for b in admin.describe_cluster()["brokers"]}
    return brokers, list(admin.describe_topics(None if topics is None else list(topics)))


@dataclass(frozen=True, slots=True)
class Plain:
    """The questions of one share, to be asked one after the other."""

    offsets: Callable[[OffsetSpec, IsolationLevel], dict[str, Array]]
    sizes: Callable[[], LogDirs]
    commits: Callable[[], dict[str, Committed]]

    def answers(self, *, leads: bool, stable: bool, coordinates: bool) -> list[Any]:
        """Return answers, or exceptions, in the order in which the fast requests are asked."""
        asked: list[Callable[[], Any]] = []
        if leads:
            asked += [
                lambda: self.offsets(OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
                lambda: self.offsets(OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
                self.sizes,
            ]
            asked += [lambda: self.offsets(OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)] if stable else []
        asked += [self.commits] if coordinates else []
        return [_attempt(ask) for ask in asked]


def plainly(admin: KafkaAdminClient, node: int, wanted: Mapping[str, Ints], groups: Mapping[str, Mapping[str, Ints]]) -> Plain:
    """Ask the same questions with kafka-python's public calls: slower, and an error of one partition is an error of all.

    For brokers older than the layouts above, or a kafka-python whose inner parts have changed.
    """
    specs = {at: TopicPartition(*at) for at in _each(wanted)}

    def offsets(spec: OffsetSpec, isolation: IsolationLevel) -> dict[str, Array]:
        found = admin.list_partition_offsets(dict.fromkeys(specs.values(), spec), isolation)
        return {
            t: np.array([(p, 0, -1, found[specs[t, p]].offset, -1) for p in ps.tolist()], _OFFSET) for t, ps in wanted.items()
        }

    def sizes() -> LogDirs:
        (found,) = admin.describe_log_dirs({t: p.tolist() for t, p in wanted.items()}, [node])
        per_topic: dict[str, list[Array]] = {}
        for directory in found["log_dirs"]:
            for t in directory["topics"]:
                parts = [(p["partition_index"], p["partition_size"], 0, p["is_future_key"], 0) for p in t["partitions"]]
                per_topic.setdefault(t["name"], []).append(np.array(parts, _SIZE))
        denied = 0 if found["log_dirs"] else _CLUSTER_AUTHORIZATION_FAILED  # older answers say it by saying nothing
        return LogDirs(denied, {t: tuple(a) for t, a in per_topic.items()})

    def commits() -> dict[str, Committed]:
        out = {}
        for group, topics in groups.items():
            asked = {at: TopicPartition(*at) for at in _each(topics)}
            found = admin.list_group_offsets({group: list(asked.values())})[group]
            out[group] = Committed(
                0, {t: np.array([(p, found[asked[t, p]].offset, 0) for p in ps.tolist()], _COMMITTED) for t, ps in topics.items()}
            )
        return out

    return Plain(offsets, sizes, commits)


def _attempt(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (KafkaError, KeyError) as e:
        return e


def _each(wanted: Mapping[str, Ints]) -> list[tuple[str, int]]:
    return [(t, p) for t, ps in wanted.items() for p in ps.tolist()]
