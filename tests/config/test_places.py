"""Where checkpoint and tables may lie: what is taken, what is refused, and what it means."""

from pathlib import Path

import pytest

from autoscaler.config import places
from autoscaler.config.settings import load
from tests.config.files import MINIMAL, problems, write


@pytest.mark.parametrize(
    ("value", "means", "scheme", "here"),
    [
        ("/var/x", "/var/x", "", True),
        ("x/y", f"{Path.cwd()}/x/y", "", True),
        ("$PLACE/y", "/p/y", "", True),
        ("file:/var/x", "/var/x", "", True),
        ("file:///var/x/", "/var/x", "", True),
        ("s3a://bucket/x/", "s3a://bucket/x", "s3a", False),
        ("S3A://bucket", "S3A://bucket", "s3a", False),
        ("$STORE/x", "s3a://bucket/x", "s3a", False),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x", "abfss", False),
        ("gs://b/x", "gs://b/x", "gs", False),
        ("hdfs:///x", "hdfs:///x", "hdfs", False),
        ("dbfs:/x", "dbfs:/x", "dbfs", False),
        ("main.audit", "main.audit", "", False),
        ("./main.audit", f"{Path.cwd()}/main.audit", "", True),
    ],
)
def test_what_a_place_means(monkeypatch: pytest.MonkeyPatch, value: str, means: str, scheme: str, here: bool) -> None:  # noqa: FBT001
    monkeypatch.setenv("PLACE", "/p")
    monkeypatch.setenv("STORE", "s3a://bucket")
    assert places.problem(value, catalog=True) == ""
    place = places.resolved(value, catalog=True)
    assert place == means
    assert places.scheme_of(place) == scheme
    assert (places.local(place) is not None) == here
    assert places.resolved(place, catalog=True) == place, "it means the same wherever it is asked"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("s3://bucket/x", "s3: is no file system that is known; there are s3a://bucket/path, abfss://container@account"),
        ("ftp://host/x", "ftp: is no file system that is known"),
        ("s3a:/x", "'s3a:/x' names no bucket or container: it is written s3a://bucket/path"),
        ("gs:///x", "names no bucket or container"),
        ("file://host/x", "'file://host/x' is no path of this machine: it is written file:/path"),
        ("file:x", "is no path of this machine"),
        ("$UNKNOWN_STORE/x", "unknown: is no file system"),
    ],
)
def test_what_is_refused_names_what_there_is(monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    monkeypatch.setenv("UNKNOWN_STORE", "unknown://x")
    assert said in places.problem(value)


def test_both_lie_below_the_state_directory_by_default(tmp_path: Path) -> None:
    found = load(write(tmp_path / "c.yaml", MINIMAL))
    assert (found.checkpoint_place, found.tables_place) == ("/tmp/state/checkpoint", "/tmp/state/tables")  # noqa: S108
    found = load(write(tmp_path / "c.yaml", MINIMAL | {"checkpoint": "s3a://b/c", "tables": "main.audit"}))
    assert (found.checkpoint_place, found.tables_place) == ("s3a://b/c", "main.audit")
    load(write(tmp_path / "c.yaml", MINIMAL | {"checkpoint": "s3a://b/x", "tables": "s3a://b/xy"}))  # beside each other


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"checkpoint": "s3://b/x"}, "checkpoint: s3: is no file system that is known"),
        ({"tables": "s4a://b/x"}, "file:/path, and catalog.schema"),
        ({"tables": "$NOT_SET/x"}, "tables: $NOT_SET/x names an environment variable that is not set"),
        ({"checkpoint": "/x/tables/c", "tables": "/x/tables"}, "checkpoint: lies in tables, or tables in it"),
        ({"checkpoint": "s3a://b/x", "tables": "s3a://b/x"}, "checkpoint: lies in tables, or tables in it"),
        ({"checkpoint": "/tmp/state/tables"}, "checkpoint: lies in tables, or tables in it"),  # noqa: S108
        ({"tables": ""}, "tables: must not be empty"),
    ],
)
def test_the_file_is_refused_with_what_is_wrong(tmp_path: Path, more: dict[str, object], said: str) -> None:
    assert any(said in x for x in problems(write(tmp_path / "c.yaml", MINIMAL | more)))
