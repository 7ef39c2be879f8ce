"""The query goes on with checkpoints of other releases, or begins anew by itself; no operator moves a directory."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from autoscaler.streaming import query
from autoscaler.streaming.checkpoint_files import HadoopFiles
from autoscaler.streaming.checkpoint_guard import claim as claim_files
from tests.streaming.claimed import claim
from tests.streaming.made_up_load import BATCHES, RECORD_BYTES, RECORDS_PER_S, WINDOW_S, Snapshots, run, settings, unpack
from tests.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
BYTES_PER_S = [per_s * RECORD_BYTES for per_s in RECORDS_PER_S]


@pytest.fixture
def of_c3d1acc(tmp_path: Path) -> Path:
    """Return a state directory with the checkpoint of a release whose state does not name its fields."""
    unpack(HERE / "checkpoint-c3d1acc.tar.gz", tmp_path)
    return tmp_path


def said_of(place: Path) -> Path:
    return place / "checkpoint" / "autoscaler.json"


def rates(told: Snapshots) -> list[float | None]:
    return [p.bytes_per_s for p in told["g"].loads]


def said_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was said of the checkpoint; a busy machine may say more, of a batch that was cut off."""
    return [m for m in caplog.messages if m.startswith("checkpoint ")]


def assert_begins_anew(told: list[Snapshots]) -> None:
    """Nothing is known at first, and nothing is zero; then every rate is what it is, and in the end over a whole window."""
    assert not told[0]["g"].known
    assert rates(told[0]) == [None, None]
    assert [t["g"].known for t in told[1:]] == [True] * (len(told) - 1)
    assert all(rates(t) == pytest.approx(BYTES_PER_S) for t in told[1:])
    assert [round(p.window_s) for p in told[WINDOW_S]["g"].loads] == [WINDOW_S] * 2


def test_a_checkpoint_of_format_3_is_taken_over_without_a_gap(
    spark: "SparkSession", of_c3d1acc: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert json.loads(said_of(of_c3d1acc).read_text())["state format"] == 3
    with caplog.at_level("INFO", logger="autoscaler.streaming"):
        first = run(spark, of_c3d1acc, batches=3)[0]["g"]
    assert first.known
    assert [(p.bytes_per_s, p.window_s) for p in first.loads] == [(b, WINDOW_S) for b in BYTES_PER_S]
    assert first.sample_ts > 1000.0 + BATCHES, "the stream goes on where it ended"
    (line,) = said_by(caplog)
    assert "the window's state of another release (format 3) is taken over" in line
    caplog.clear()
    assert run(spark, of_c3d1acc, batches=1)[0]["g"].known, "what was taken over is kept"
    assert said_by(caplog) == []


def test_a_checkpoint_of_a_format_that_does_not_exist_is_replaced(
    spark: "SparkSession", of_c3d1acc: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = json.loads(said_of(of_c3d1acc).read_text())
    said_of(of_c3d1acc).write_text(json.dumps(said | {"state format": 99}))
    assert_begins_anew(run(spark, of_c3d1acc))
    (line,) = said_by(caplog)
    assert "its state format 99 cannot be read by this release; rates start anew" in line


@pytest.mark.parametrize("file", ["offsets", "commits", "metadata", "state"])
def test_a_checkpoint_with_a_damaged_file_is_replaced_by_the_next_start_but_one(
    spark: "SparkSession", of_c3d1acc: Path, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    """As a machine leaves them that lost its power: Spark alone notices, and the query ends."""
    damaged = of_c3d1acc / "checkpoint" / file
    for found in [f for f in damaged.rglob("*") if f.is_file()] or [damaged]:
        found.write_bytes(b"")
    for _ in range(2):
        assert ends_without_a_batch(spark, of_c3d1acc)
        assert "rates start anew" not in caplog.text
    assert_begins_anew(run(spark, of_c3d1acc))
    assert "is replaced: the query could not go on with it, twice; rates start anew" in caplog.text


def ends_without_a_batch(spark: "SparkSession", place: Path) -> bool:
    """Start the query as the job does, and do what it does when that ends by itself."""
    told: list[int] = []
    given = settings(place)
    try:
        stream = query.start(spark, given, lambda number, *_: told.append(number))
    except (PySparkException, Py4JError):
        return True
    until("a batch, or its end", lambda: bool(told) or not stream.isActive, every_s=0.1)
    if not told:
        query.ended_by_itself(spark, given)
    query.stop(stream)
    return not told


def test_our_own_file_is_damaged_where_hadoop_keeps_its_sum(
    spark: "SparkSession", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, lock = HadoopFiles(spark, f"file://{tmp_path}/checkpoint"), tmp_path / "checkpoint.lock"
    assert claim_files(files, lock, clusters=["kafka"], buckets=1) == {"kafka": 0}
    (tmp_path / "checkpoint" / "offsets").mkdir()
    whole = said_of(tmp_path).read_text()
    said_of(tmp_path).write_text(whole.replace("kafka", "kafkb"))
    assert claim_files(files, lock, clusters=["kafka"], buckets=1) == {"kafka": 0}
    (line,) = said_by(caplog)
    assert "is replaced: autoscaler.json is damaged; rates start anew" in line
    assert not (tmp_path / "checkpoint" / "offsets").exists()
    assert said_of(tmp_path).read_text() == whole


def test_another_number_of_buckets_needs_nothing_moved(of_c3d1acc: Path) -> None:
    assert claim(of_c3d1acc / "checkpoint", clusters=["kafka"], buckets=4) == {"kafka": 0}
    assert not (of_c3d1acc / "checkpoint" / "offsets").exists()
