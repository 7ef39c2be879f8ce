"""Several clusters in one window: topics of one name on two of them never meet, nor do the groups."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.lib.recfunctions as rfn
import pandas as pd
import pyarrow as pa
import pytest

from autoscaler.model import LoadSnapshot
from autoscaler.streaming import query, schema
from autoscaler.streaming.lag import GroupRules
from autoscaler.streaming.state import ROW, Array
from autoscaler.streaming.window_inputs import Rules
from autoscaler.streaming.windows import Window

RULES = Rules(window_s=5.0, known_for_s=2.5)
EAST, WEST, GONE = 0, 2, 1  # places in the checkpoint; buckets are 3 of each
BUCKETS = 3


class Value:
    """A value state, of the grouping key that is worked on."""

    def __init__(self, store: "Store", name: str) -> None:
        self._store, self._name = store, name

    def get(self) -> tuple[bytes] | None:
        found: tuple[bytes] | None = self._store.held.get((self._store.key, self._name))
        return found

    def update(self, value: tuple[bytes]) -> None:
        self._store.held[self._store.key, self._name] = value


class Map:
    """A map state, of the grouping key that is worked on."""

    def __init__(self, store: "Store", name: str) -> None:
        self._store, self._name = store, name

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802  as Spark calls it
        found: tuple[bytes] | None = self._store.held.get((self._store.key, self._name, key))
        return found

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        self._store.held[self._store.key, self._name, key] = value

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
        self._store.held.pop((self._store.key, self._name, key), None)

    def clear(self) -> None:
        for held in [h for h in self._store.held if h[:2] == (self._store.key, self._name) and len(h) > 2]:
            del self._store.held[held]


class Store:
    """Spark's state, as a processor sees it: by grouping key."""

    def __init__(self) -> None:
        self.held: dict[tuple[Any, ...], Any] = {}
        self.key = -1

    def getValueState(self, name: str, _: str) -> Value:  # noqa: N802
        return Value(self, name)

    def getMapState(self, name: str, _: str, __: str) -> Map:  # noqa: N802
        return Map(self, name)


class Query:
    """The window over several batches, and what the sink makes of it."""

    def __init__(self, groups: dict[int, list[GroupRules]], store: Store | None = None) -> None:
        self.store = store or Store()
        self.groups = [g.group for told in groups.values() for g in told]
        self.window = Window(groups, RULES, BUCKETS)
        handle: Any = self.store  # as much of one as the window asks for
        self.window.init(handle)

    def batch(self, rows: dict[int, tuple[pa.Table, pa.Table]]) -> dict[str, LoadSnapshot]:
        made = []
        for bucket, (facts, commits) in rows.items():
            self.store.key = bucket
            read = pd.DataFrame(
                {"read_ts": [0.0], "read_s": [0.1], "facts": [schema.pack(facts)], "commits": [schema.pack(commits)]}
            )
            made += [row for frame in self.window.handleInputRows((bucket,), iter([read]), None) for row in frame["loads"]]
        return query.snapshots(schema.unpack(made, schema.LOADS), self.groups)


def facts(ts: float, end: int, size: int, topic_id: str) -> pa.Table:
    row = {
        "topic": "orders", "topic_id": topic_id, "partition": 0, "sample_ts": ts, "leader": 1, "leader_epoch": 0, "log_start": 0,
        "log_end": end, "last_stable": end, "size_bytes": size, "size_error": None, "error": None,
    }  # fmt: skip
    return schema.table([row], schema.FACTS)


def commits(ts: float, group: str, offset: int) -> pa.Table:
    row = {"group": group, "topic": "orders", "partition": 0, "sample_ts": ts, "committed": offset, "error": None}
    return schema.table([row], schema.COMMITS)


def bucket(place: int) -> int:
    return place * BUCKETS + 1


def read(second: int, *places: int) -> dict[int, tuple[pa.Table, pa.Table]]:
    """Return what one second's batch reads of the topic: ten records a second of 10 bytes in the east, 70 of 100 in the west."""
    per_s, size, group = {EAST: 10, WEST: 70, GONE: 1}, {EAST: 10, WEST: 100, GONE: 1}, {EAST: "e", WEST: "w", GONE: "g"}
    return {
        bucket(p): (
            facts(1000.0 + second, second * per_s[p], second * per_s[p] * size[p], f"id-{p}"),
            commits(1000.0 + second, group[p], second * per_s[p] - per_s[p]),
        )
        for p in places
    }


def rules(group: str) -> list[GroupRules]:
    return [GroupRules(group=group, topics=("^ord",))]


def test_topics_of_one_name_on_two_clusters_never_meet() -> None:
    it = Query({EAST: rules("e"), WEST: rules("w")})
    found = {}
    for second in range(1, 8):
        found = it.batch(read(second, EAST, WEST))
    (east,), (west,) = found["e"].loads, found["w"].loads
    assert [east.bytes_per_s, east.records_per_s] == pytest.approx([100, 10])
    assert [west.bytes_per_s, west.records_per_s] == pytest.approx([7000, 70])
    assert (east.lag_records, west.lag_records) == (10, 70)
    assert (east.topic_id, west.topic_id) == ("id-0", "id-2")
    assert found["e"].known
    assert found["w"].known


def test_a_cluster_that_is_taken_out_and_comes_back_goes_on_with_its_own() -> None:
    first = Query({EAST: rules("e"), WEST: rules("w")})
    for second in range(1, 8):
        first.batch(read(second, EAST, WEST))
    without = Query({EAST: rules("e"), GONE: rules("g")}, first.store)
    for second in range(8, 12):
        found = without.batch(read(second, EAST, GONE))
        assert found["e"].loads[0].bytes_per_s == pytest.approx(100)
        assert found.keys() == {"e", "g"}
    back = Query({WEST: rules("w"), EAST: rules("e")}, first.store)
    found = back.batch(read(12, WEST, EAST))
    assert found["e"].loads[0].bytes_per_s == pytest.approx(100)
    assert found["w"].loads[0].bytes_per_s == pytest.approx(7000), "the east's rates have not come into the west's"


def otherwise(blob: bytes, head: Callable[[dict[str, Any]], None], row: Callable[[Any], Any] = lambda rows: rows) -> bytes:
    """Return a window's state as another release would have written it."""
    line, _, body = blob.partition(b"\n")
    said = json.loads(line)
    length = said["lengths"][0]
    rows: Array = row(np.frombuffer(body[:length], ROW))
    said["lengths"][0] = rows.nbytes
    said["tables"] = said["tables"] | {"row": rows.dtype.descr}
    head(said)
    return b"\n".join([json.dumps(said).encode(), rows.tobytes() + body[length:]])


def without(*names: str) -> Callable[[Any], Any]:
    return lambda rows: rfn.repack_fields(rows[[n for n in rows.dtype.names if n not in names]])


def unchanged(_: dict[str, Any]) -> None:
    """Leave the rest of the head as it is."""


@pytest.mark.parametrize("row", [
    without("uneven_until", "ahead"),
    lambda rows: rfn.append_fields(rows, "speed", rows["seen"], usemask=False),
    lambda rows: rfn.repack_fields(rows[list(reversed(rows.dtype.names))]),
], ids=["fewer fields", "more fields", "another order"])  # fmt: skip
def test_state_with_other_fields_goes_on_without_a_gap(row: Callable[[Any], Any]) -> None:
    it = Query({EAST: rules("e")})
    for second in range(1, 8):
        it.batch(read(second, EAST))
    (blob,) = it.store.held[bucket(EAST), "state"]
    it.store.held[bucket(EAST), "state"] = (otherwise(blob, unchanged, row),)
    found = it.batch(read(8, EAST))["e"]
    assert [found.loads[0].bytes_per_s, found.loads[0].window_s] == pytest.approx([100, 5])
    assert found.known


def another_format(said: dict[str, Any]) -> None:
    said["format"] = 99


def shorter(said: dict[str, Any]) -> None:
    said["lengths"][0] -= 1


@pytest.mark.parametrize("spoilt", [
    lambda blob: otherwise(blob, another_format), lambda blob: otherwise(blob, shorter), lambda _: b"", lambda blob: blob[:-8],
    lambda _: b"[]\n", lambda _: b"{}\n",
], ids=["another format", "lengths", "empty", "cut off", "no head", "empty head"])  # fmt: skip
def test_state_that_cannot_be_read_starts_anew_and_what_is_not_known_yet_is_not_zero(
    spoilt: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    it = Query({EAST: rules("e")})
    for second in range(1, 8):
        it.batch(read(second, EAST))
    (blob,) = it.store.held[bucket(EAST), "state"]
    it.store.held[bucket(EAST), "state"] = (spoilt(blob),)
    found = it.batch(read(8, EAST))["e"]
    assert (found.known, found.loads[0].bytes_per_s, found.loads[0].records_per_s) == (False, None, None)
    slots = [held for held in it.store.held if held[1] == "slots"]
    assert len(slots) == 1, "nothing of the old window is left to subtract from"
    found = it.batch(read(9, EAST))["e"]
    assert found.known
    assert found.loads[0].bytes_per_s == pytest.approx(100)
    (line,) = caplog.messages
    assert f"the window of bucket {bucket(EAST)} cannot be read" in line
