"""From load rows to values, and which checkpoint belongs to which settings."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from autoscaler.config.settings import Settings
from autoscaler.errors import SettingsError
from autoscaler.model import RateSource
from autoscaler.streaming import query, schema
from autoscaler.streaming.checkpoint_guard import claim
from autoscaler.streaming.source import Plan


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
def test_places_that_make_no_sense_are_refused_or_none(tmp_path: Path, clusters: str) -> None:
    (tmp_path / "autoscaler.json").write_text(f'{{"clusters": {clusters}, "measure.buckets": 1, "state format": 3}}')
    if clusters == "{}":
        assert claim(tmp_path, clusters=["a"], buckets=1) == {"a": 0}
        return
    with pytest.raises(SettingsError, match="cannot be read"):
        claim(tmp_path, clusters=["a"], buckets=1)


def test_a_checkpoint_of_other_settings_is_refused_with_what_to_do(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    claim(checkpoint, clusters=["kafka"], buckets=1)
    with pytest.raises(SettingsError) as e:
        claim(checkpoint, clusters=["kafka"], buckets=4)
    (problem,) = e.value.problems
    assert "measure.buckets was 1 and is 4" in problem
    assert f"checkpoint {checkpoint} belongs to other settings" in problem
    assert "remove it, or restore" in problem


def test_a_checkpoint_of_another_state_format_is_refused(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    claim(checkpoint, clusters=["kafka"], buckets=1)
    file = checkpoint / "autoscaler.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"state format": 0}))
    with pytest.raises(SettingsError, match="state format was 0 and is 3"):
        claim(checkpoint, clusters=["kafka"], buckets=1)


@pytest.mark.parametrize("text", ["", "[]", '{"cluster'])
def test_a_checkpoint_whose_own_file_is_broken_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "autoscaler.json").write_text(text)
    with pytest.raises(SettingsError, match="cannot be read"):
        claim(tmp_path, clusters=["kafka"], buckets=1)


def test_somebody_elses_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    with pytest.raises(SettingsError, match="is a checkpoint of something else"):
        claim(tmp_path / "checkpoint", clusters=["kafka"], buckets=1)


def test_the_source_is_told_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "very-secret")
    given = settings(tmp_path).model_dump() | {
        "clusters": [{"connection": {"bootstrap.servers": "a:1", "sasl.password": "env:KAFKA_PASSWORD"}}]
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
