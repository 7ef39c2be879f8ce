"""From load rows to values, and which checkpoint belongs to which settings."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from autoscaler.config.settings import Settings
from autoscaler.errors import SettingsError, TransientError
from autoscaler.model import RateSource
from autoscaler.streaming import query, schema
from autoscaler.streaming.source import Plan
from autoscaler.streaming.state import LAYOUT
from tests.conftest import ROOT
from tests.streaming.claimed import claim, forsake, problems


def settings(place: Path, **measure: object) -> Settings:
    return Settings.model_validate({
        "clusters": [{"connection": {"bootstrap.servers": "127.0.0.1:1"}}],
        "state_dir": str(place),
        "groups": [{"group": "g", "topics": ["t"], "capacity_bytes_per_s": 1000.0}],
        "measure": measure,
    })  # fmt: skip


def row(**values: object) -> dict[str, object]:
    plain = {
        "group": "g", "topic": "t", "partition": 0, "topic_id": "id", "read_ts": 10.0, "sample_ts": 10.0, "leader": 1,
        "bytes_per_s": 5.0, "records_per_s": 1.0, "lag_records": 3, "lag_bytes": 30.0, "lag_s": 0.5, "committed": 7,
        "log_start": 0,
        "log_end": 10, "size_bytes": 100, "known": True, "age_s": 0.0, "window_s": 5.0, "rate_source": "log_dirs",
        "bytes_total": 1.0, "records_total": 1.0, "error": None,
    }  # fmt: skip
    return plain | values


def table(*rows: dict[str, object]) -> pa.Table:
    return schema.table(rows, schema.LOADS)


def test_loads_are_ordered_and_unknown_is_none() -> None:
    nothing = dict.fromkeys(("bytes_per_s", "records_per_s", "lag_records", "lag_bytes", "lag_s", "committed", "log_end"))
    found = query.snapshots(table(row(partition=2), row(partition=0, known=False, error="away", **nothing)), ["g"])["g"]
    assert [str(p.partition) for p in found.loads] == ["t-0", "t-2"]
    assert (found.loads[0].bytes_per_s, found.loads[0].lag_records, found.loads[0].log_end) == (None, None, None)
    assert (found.loads[1].bytes_per_s, found.loads[1].lag_records, found.loads[1].rate_source) == (5.0, 3, RateSource.LOG_DIRS)
    assert type(found.loads[1].known) is bool
    assert (found.known, found.error, found.sample_ts) == (False, "away", 10.0)


def test_a_group_is_known_when_all_of_it_is() -> None:
    assert query.snapshots(table(row(), row(partition=1)), ["g"])["g"].known
    lost = query.snapshots(table(row(), row(topic="u", partition=-1, error="unknown topic u", known=False)), ["g"])["g"]
    assert (lost.known, lost.error, len(lost.loads)) == (False, "unknown topic u", 1)


def test_groups_are_kept_apart_and_absent_ones_stay_absent() -> None:
    found = query.snapshots(table(row(), row(group="h", partition=5)), ["g", "h", "i"])
    assert {g: [p.partition.partition for p in s.loads] for g, s in found.items()} == {"g": [0], "h": [5]}


def test_a_checkpoint_is_claimed_once_and_recognised(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    assert claim(checkpoint, clusters=["kafka"], buckets=1) == {"kafka": 0}
    written = (checkpoint / "autoscaler.json").stat().st_mtime_ns
    assert claim(checkpoint, clusters=["kafka"], buckets=1) == {"kafka": 0}
    assert (checkpoint / "autoscaler.json").stat().st_mtime_ns == written


def test_a_clusters_place_is_its_own_for_good(tmp_path: Path) -> None:
    def places(*clusters: str) -> dict[str, int]:
        found = claim(tmp_path / "checkpoint", clusters=clusters, buckets=4)
        return {c: found[c] for c in clusters}

    assert places("b", "a") == {"b": 0, "a": 1}
    assert places("a", "c", "b") == {"a": 1, "c": 2, "b": 0}, "added, and in another order"
    assert places("c") == {"c": 2}, "the others are taken out"
    assert places("d", "c") == {"d": 3, "c": 2}, "nobody gets the place of one that may come back"
    assert places("a", "b", "c", "d") == {"a": 1, "b": 0, "c": 2, "d": 3}, "they are back"


def test_a_checkpoint_from_when_there_was_one_cluster_goes_on(tmp_path: Path) -> None:
    (tmp_path / "autoscaler.json").write_text('{"cluster.name": "old", "measure.buckets": 1, "state format": 3}')
    assert claim(tmp_path, clusters=["new", "old"], buckets=1) == {"old": 0, "new": 1}


@pytest.mark.parametrize("clusters", ["{}", '{"a": 0, "b": 0}', '["a"]', "null"])
def test_places_that_make_no_sense_are_given_anew(tmp_path: Path, clusters: str) -> None:
    checkpoint = begun(tmp_path, f'{{"clusters": {clusters}, "measure.buckets": 1, "state format": 3}}')
    assert claim(checkpoint, clusters=["a"], buckets=1) == {"a": 0}
    assert (checkpoint / "offsets").exists() == (clusters == "{}")


def begun(place: Path, said: str | dict[str, object]) -> Path:
    """Make a checkpoint that Spark has written to."""
    checkpoint = place / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "autoscaler.json").write_text(said if isinstance(said, str) else json.dumps(said))
    return checkpoint


def written(**other: object) -> dict[str, object]:
    """Return what this release writes down of a checkpoint."""
    now = {"clusters": {"kafka": 0}, "measure.buckets": 1, "state format": LAYOUT["format"], "state tables": LAYOUT["tables"]}
    return now | {k.replace("_", " "): v for k, v in other.items()}


NEWER = {**LAYOUT["tables"], "row": [*LAYOUT["tables"]["row"], ["speed", "<f8"]]}
OTHER = {**LAYOUT["tables"], "slot": [*LAYOUT["tables"]["slot"], ["speed", "<f8"]]}
RETYPED = {**LAYOUT["tables"], "row": [["key", "<i4"], *LAYOUT["tables"]["row"][1:]]}


@pytest.mark.parametrize("said", [
    {"cluster.name": "kafka", "measure.buckets": 1, "state format": 3},
    {"clusters": {"kafka": 0}, "measure.buckets": 1, "state format": 3},
    written(state_tables=NEWER),
], ids=["one cluster", "format 3", "a newer release's field"])  # fmt: skip
def test_state_of_another_release_is_taken_over_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: dict[str, object]
) -> None:
    checkpoint = begun(tmp_path, said)
    with caplog.at_level("INFO"):
        assert [claim(checkpoint, clusters=["kafka"], buckets=1) for _ in range(2)] == [{"kafka": 0}] * 2
    (line,) = caplog.messages
    assert f"checkpoint {checkpoint}: the window's state of another release" in line
    assert "is taken over" in line
    assert (checkpoint / "offsets").is_dir()


@pytest.mark.parametrize(("said", "why"), [
    (written(state_format=99), "its state format 99 cannot be read by this release"),
    ({"clusters": {"kafka": 0}, "measure.buckets": 1, "state format": 2}, "its state format 2 cannot be read by this release"),
    (written(state_tables=OTHER), "cannot be read by this release"),
    (written(state_tables=RETYPED), "cannot be read by this release"),
    (written() | {"measure.buckets": 4}, "measure.buckets was 4 and is 1"),
    ({"clusters": {"kafka": 0}}, "autoscaler.json is damaged"),
    (written(state_tables=7), "autoscaler.json is damaged"),
    (written(state_tables={}), "autoscaler.json is damaged"),
    ("", "autoscaler.json is damaged"),
    ("[1]", "autoscaler.json is damaged"),
    ('{"cluster', "autoscaler.json is damaged"),
])  # fmt: skip
def test_a_checkpoint_that_cannot_be_continued_is_replaced_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: str | dict[str, object], why: str
) -> None:
    checkpoint = begun(tmp_path, said)
    assert [claim(checkpoint, clusters=["kafka"], buckets=1) for _ in range(2)] == [{"kafka": 0}] * 2
    (line,) = caplog.messages
    assert f"checkpoint {checkpoint} is replaced: " in line
    assert why in line
    assert "rates start anew and are known again within one window" in line
    assert f"the old one is in {checkpoint}/set-aside" in line
    assert sorted(f.name for f in checkpoint.iterdir()) == ["autoscaler.json", "set-aside"]
    assert (checkpoint / "set-aside" / "offsets").is_dir()


def test_a_checkpoint_is_replaced_when_the_query_has_ended_twice_without_a_batch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = begun(tmp_path, written())
    (checkpoint / "commits").mkdir()
    for batch in range(9, 12):  # a machine that is too busy now and then: there are batches in between
        (checkpoint / "commits" / str(batch)).touch()
        forsake(checkpoint, "the query ended")
        assert claim(checkpoint, clusters=["kafka"], buckets=1) == {"kafka": 0}
    assert caplog.text == ""
    forsake(checkpoint, "the query ended")
    claim(checkpoint, clusters=["kafka"], buckets=1)
    assert "is replaced: the query ended; rates start anew" in caplog.text
    assert not (checkpoint / "offsets").exists()
    forsake(tmp_path / "there is none", "the query ended")
    assert not (tmp_path / "there is none").exists()


@pytest.mark.parametrize("steps", range(3))
def test_who_is_killed_while_a_checkpoint_is_replaced_leaves_none_or_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The next start ends what was begun, whichever of the three steps the kill came before, and all of the old one is kept."""
    checkpoint, left = begun(tmp_path, written(state_format=99)), steps

    def killed(step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **more: object) -> Any:  # noqa: ANN401
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return step(*args, **more)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed(Path.rename))
        patch.setattr(Path, "replace", killed(Path.replace))
        with pytest.raises(KeyboardInterrupt):
            claim(checkpoint, clusters=["kafka"], buckets=1)
    assert (checkpoint / "offsets").is_dir() == (steps < 2)
    assert problems(checkpoint) == ()
    assert claim(checkpoint, clusters=["kafka"], buckets=1) == {"kafka": 0}
    assert [f.name for f in checkpoint.iterdir() if f.suffix == ".json"] == ["autoscaler.json"]
    assert not (checkpoint / "offsets").exists()
    assert (checkpoint / "set-aside" / "offsets").is_dir()


def test_only_the_latest_checkpoint_that_was_set_aside_is_kept(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path, written(state_format=99))
    (checkpoint / "commits").mkdir()
    claim(checkpoint, clusters=["kafka"], buckets=1)
    assert sorted(f.name for f in (checkpoint / "set-aside").iterdir()) == ["commits", "offsets"]
    (checkpoint / "offsets").mkdir()
    claim(checkpoint, clusters=["kafka"], buckets=4)
    assert sorted(f.name for f in (checkpoint / "set-aside").iterdir()) == ["offsets"]


def test_a_checkpoint_that_another_job_uses_is_not_replaced_until_that_has_ended(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path, written())
    code = (
        "import pathlib, sys; from tests.streaming.claimed import claim; "
        "claim(pathlib.Path(sys.argv[1]), clusters=['kafka'], buckets=1); print('claimed', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(checkpoint)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        with pytest.raises(TransientError, match=r"measure\.buckets was 1 and is 4\), but another job uses it"):
            claim(checkpoint, clusters=["kafka"], buckets=4)
        assert (checkpoint / "offsets").is_dir()
        other.communicate("")
    claim(checkpoint, clusters=["kafka"], buckets=4)
    assert not (checkpoint / "offsets").exists()


def test_somebody_elses_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    with pytest.raises(SettingsError, match="is a checkpoint of something else"):
        claim(tmp_path / "checkpoint", clusters=["kafka"], buckets=1)


def test_the_source_is_told_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "very-secret")
    given = settings(tmp_path).model_dump() | {
        "clusters": [{"connection": {"bootstrap.servers": "a:1", "ssl.key.password": "env:KAFKA_PASSWORD"}}]
    }
    option = query.source_option(Settings.model_validate(given), {"kafka": 0})
    assert "env:KAFKA_PASSWORD" in option
    assert "very-secret" not in option


def test_each_cluster_has_its_own_groups_connection_and_place(tmp_path: Path) -> None:
    given = Settings.model_validate({
        "clusters": [{"name": n, "connection": {"bootstrap.servers": f"{n}:1"}} for n in ("east", "idle", "west")],
        "state_dir": str(tmp_path),
        "groups": [
            {"group": g, "cluster": c, "topics": ["t"], "read_committed": g == "q", "capacity_bytes_per_s": 1.0}
            for g, c in (("p", "west"), ("q", "east"), ("r", "west"))
        ],
        "measure": {"buckets": 2},
    })  # fmt: skip
    places = {"west": 0, "gone": 1, "east": 2}
    plans = Plan.parse(query.source_option(given, places))
    assert [(p.connection["bootstrap.servers"], list(p.topics_of), p.read_committed, p.place) for p in plans] == [
        ("east:1", ["q"], True, 2),
        ("west:1", ["p", "r"], False, 0),
    ], "a cluster without groups is not read"
    assert {n: [g.group for g in groups] for n, groups in query.group_rules(given, places).items()} == {2: ["q"], 0: ["p", "r"]}
