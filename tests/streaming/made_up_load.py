"""The window's query over load that is made up: two partitions whose rates are known to the byte, whatever the machine does.

``python tests/streaming/made_up_load.py ARCHIVE.tar.gz`` keeps the checkpoint that the code of this tree leaves behind; run it in
a tree of the release whose checkpoint is wanted. The stream's offset is the clock, so a query that goes on with that checkpoint
goes on with the same load.
"""

import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from autoscaler.config.settings import Settings
from autoscaler.model import LoadSnapshot
from autoscaler.streaming import query, schema
from autoscaler.streaming.checkpoint_files import HadoopFiles
from autoscaler.streaming.checkpoint_guard import claim
from autoscaler.streaming.file_systems import keep_checkpoint
from tests.until import until

BATCHES = 8
RECORDS_PER_S = (10, 70)  # by partition
RECORD_BYTES = 100
WINDOW_S = 5

_PLACE = "/where/the/test/unpacks"

Snapshots = Mapping[str, LoadSnapshot]


def settings(place: Path, buckets: int = 1, checkpoint: str | None = None) -> Settings:
    return Settings.model_validate({
        "clusters": [{"connection": {"bootstrap.servers": "127.0.0.1:1"}}],
        "state_dir": str(place),
        "checkpoint": checkpoint,
        "groups": [{"group": "g", "topics": ["orders"], "capacity_bytes_per_s": 1e6}],
        "measure": {"trigger_s": 0.2, "window_s": WINDOW_S, "buckets": buckets},
    })  # fmt: skip


class Second(InputPartition):
    """One second of the load."""

    def __init__(self, number: int) -> None:
        super().__init__(None)
        self.number = number


class Reader(DataSourceStreamReader):
    """What ``kafka_load`` reads, of brokers that do as they are told."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  as Spark calls it
        return {"seq": 0, "t_ms": 0}

    def latestOffset(self, start: dict[str, int], limit: object = None) -> dict[str, int]:  # noqa: ARG002, N802
        return {"seq": start["seq"] + 1, "t_ms": 1000 * start["seq"]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002
        return [Second(end["seq"])]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401  a Second, as Spark hands it back
        ts = 1000.0 + partition.number
        ends = [per_s * partition.number for per_s in RECORDS_PER_S]
        facts = [
            {
                "topic": "orders", "topic_id": "made-up", "partition": p, "sample_ts": ts, "leader": 1, "leader_epoch": 0,
                "log_start": 0, "log_end": end, "last_stable": end, "size_bytes": end * RECORD_BYTES, "size_error": None,
                "error": None,
            }
            for p, end in enumerate(ends)
        ]  # fmt: skip
        commits = [
            {"group": "g", "topic": "orders", "partition": p, "sample_ts": ts, "committed": end - 5, "error": None}
            for p, end in enumerate(ends)
        ]
        packed = {"facts": (facts, schema.FACTS), "commits": (commits, schema.COMMITS)}
        tables = {name: [schema.pack(schema.table(rows, of))] for name, (rows, of) in packed.items()}
        yield pa.RecordBatch.from_pydict({"bucket": pa.array([0], pa.int32()), "read_ts": [ts], "read_s": [0.0], **tables})


class MadeUpLoad(DataSource):
    """Stands where the brokers' source does."""

    @classmethod
    def name(cls) -> str:
        return "kafka_load"

    def schema(self) -> str:
        return schema.SOURCE_DDL

    def streamReader(self, schema: object) -> Reader:  # noqa: N802, ARG002
        return Reader()


def run(spark: SparkSession, place: Path, batches: int = BATCHES, checkpoint: str | None = None) -> list[Snapshots]:
    """Run the query on the checkpoint, by default below ``place``, for so many batches, and return what they told."""
    given, told, enough = settings(place, checkpoint=checkpoint), list[Snapshots](), threading.Event()
    checkpoint = given.checkpoint_place
    places = claim(HadoopFiles(spark, checkpoint), given.root / "checkpoint.lock", clusters=["kafka"], buckets=1)
    keep_checkpoint(spark, checkpoint)

    def tell(number: int, snapshots: Snapshots, measured: Mapping[str, float]) -> None:
        told.append(snapshots)
        if len(told) >= batches:
            enough.set()

    spark.dataSource.register(MadeUpLoad)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    stream = (
        query.loads(query.sampled(spark, given, places), given, places)
        .writeStream.foreachBatch(query.Sink(given, tell))
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        until("so many batches", lambda: enough.wait(0.1) or not stream.isActive)
    finally:
        query.stop(stream)
    assert enough.is_set(), stream.exception()
    return told


def keep(place: Path, archive: Path) -> None:
    """Pack the checkpoint below ``place``, which is spoilt by it, without what only this machine knows."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return None if member.name.endswith(".crc") else member

    _moved(place, str(place), _PLACE)
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(place / "checkpoint", "checkpoint", filter=plain)


def unpack(archive: Path, place: Path) -> None:
    """Put a kept checkpoint below ``place``."""
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    _moved(place, _PLACE, str(place))


def _moved(place: Path, old: str, new: str) -> None:
    """Spark names the file of the state's schema with its whole path."""
    for file in (place / "checkpoint" / "state").glob("*/_metadata/v2/*"):
        if not file.name.endswith(".crc"):
            file.write_text(file.read_text().replace(old, new))


def main() -> None:
    from tests.conftest import ROOT, properties  # noqa: PLC0415  pytest loads it for the tests

    builder = SparkSession.builder.master("local[2]").config("spark.python.authenticate.socketTimeout", "180s")
    for key, value in properties(ROOT / "conf" / "spark.conf").items():
        if not key.startswith(("spark.sql.extensions", "spark.sql.catalog")):  # Delta's: not needed here
            builder = builder.config(key, value)
    with tempfile.TemporaryDirectory() as place:
        run(builder.getOrCreate(), Path(place))
        keep(Path(place), Path(sys.argv[1]))


if __name__ == "__main__":
    main()
