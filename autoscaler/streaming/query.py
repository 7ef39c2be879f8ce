"""The streaming query: source, window, and one ``LoadSnapshot`` per group handed to a plain callable, batch by batch.

The last module that knows Spark: what comes out are values. A batch has one action, because a second one would sample the
brokers again.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from autoscaler.clients.kafka_python import translate
from autoscaler.clients.secrets import naming, resolve_secrets
from autoscaler.config.settings import Settings
from autoscaler.errors import PermanentError, SettingsError, TransientError
from autoscaler.model import LoadSnapshot, PartitionLoad, RateSource, TopicPartition
from autoscaler.streaming import schema
from autoscaler.streaming.checkpoint_files import HadoopFiles
from autoscaler.streaming.checkpoint_guard import claim, forsake
from autoscaler.streaming.file_systems import keep_checkpoint
from autoscaler.streaming.lag import GroupRules
from autoscaler.streaming.source import KafkaLoad
from autoscaler.streaming.window_inputs import Rules
from autoscaler.streaming.windows import Window

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Callback = Callable[[int, Mapping[str, LoadSnapshot], Mapping[str, float]], None]

_NOT_BEGUN = "the query could not go on with it, twice"

log = logging.getLogger(__name__)


def prepare(spark: SparkSession, settings: Settings) -> None:
    """Give executors on other machines what they need, and look whether they have the rest; see ``executors.prepare``."""
    master = str(spark.sparkContext.master)
    if master != "local" and not master.startswith("local["):
        from autoscaler.streaming import executors  # noqa: PLC0415  with a local master there are none

        try:
            executors.prepare(spark, settings)
        except BaseException:
            spark.stop()  # in order, so that the reason is the last that is said
            raise


def start(spark: SparkSession, settings: Settings, on_snapshots: Callback) -> "StreamingQuery":
    """Start measuring, with a session whose Python interpreter has the package; secrets stay references until a client is made.

    ``on_snapshots`` is called once per batch with its number, a snapshot per group and the seconds spent per stage.

    Raises:
        SettingsError: The connection block cannot be used, or the checkpoint is of something else.
        TransientError: The checkpoint cannot be reached, or is to be replaced, but another job uses it.
    """
    for cluster, _ in settings.served:
        with naming(cluster.name):
            translate(resolve_secrets(cluster.connection))
    checkpoint = settings.checkpoint_place
    files, lock = HadoopFiles(spark, checkpoint), settings.root / "checkpoint.lock"
    places = claim(files, lock, clusters=[c.name for c, _ in settings.served], buckets=settings.measure.buckets)
    keep_checkpoint(spark, checkpoint)
    spark.dataSource.register(KafkaLoad)
    # As many as one cluster has buckets, however many clusters there are: a checkpoint keeps the number for good.
    spark.conf.set("spark.sql.shuffle.partitions", str(settings.measure.buckets))
    sink = Sink(settings, on_snapshots)
    writer = (
        loads(sampled(spark, settings, places), settings, places)
        .writeStream.foreachBatch(sink)
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .queryName("autoscaler")
        .trigger(processingTime=f"{int(settings.measure.trigger_s * 1000)} milliseconds")
    )
    try:
        return writer.start()
    except (PySparkException, Py4JError):
        _forsake(files)
        raise


def ended_by_itself(spark: SparkSession, settings: Settings) -> None:
    """Note that the query has ended; after twice without a batch that was committed the next start begins an empty checkpoint."""
    _forsake(HadoopFiles(spark, settings.checkpoint_place))


def _forsake(files: HadoopFiles) -> None:
    try:
        forsake(files, _NOT_BEGUN)
    except (TransientError, SettingsError) as e:  # a store that is away ends a query too, and says nothing against the checkpoint
        log.warning("%s", e)


def stop(stream: "StreamingQuery", patience_s: float = 5.0) -> None:
    """Stop between two batches: one that is cut off fills the log with stacks that mean nothing."""
    limit = time.monotonic() + patience_s
    while stream.isActive and stream.status["isTriggerActive"] and time.monotonic() < limit:
        time.sleep(0.02)
    stream.stop()


def sampled(spark: SparkSession, settings: Settings, places: Mapping[str, int]) -> DataFrame:
    """Return the stream of packed samples, ``schema.SOURCE_DDL``."""
    return spark.readStream.format("kafka_load").option("settings", source_option(settings, places)).load()


def loads(samples: DataFrame, settings: Settings, places: Mapping[str, int]) -> DataFrame:
    """Return packed loads per bucket, ``schema.LOADS_DDL``."""
    buckets = settings.measure.buckets
    if buckets == 1:
        samples = samples.coalesce(1)  # one bucket of each cluster needs no shuffle
    return samples.groupBy("bucket").transformWithStateInPandas(
        statefulProcessor=Window(group_rules(settings, places), rules(settings), buckets),
        outputStructType=schema.LOADS_DDL,
        outputMode="Update",
        timeMode="none",
    )


def source_option(settings: Settings, places: Mapping[str, int]) -> str:
    """Return what the source is told, as JSON text; secrets are still references."""
    measure = settings.measure
    return json.dumps(
        {
            "clusters": [
                {
                    "connection": cluster.connection,
                    "place": places[cluster.name],
                    "groups": [{"group": g.group, "topics": g.topics, "read_committed": g.read_committed} for g in groups],
                }
                for cluster, groups in settings.served
            ],
            "read_timeout_s": measure.read_timeout_s,
            "metadata_every_s": measure.metadata_every_s,
            "buckets": measure.buckets,
        }
    )


def group_rules(settings: Settings, places: Mapping[str, int]) -> dict[int, tuple[GroupRules, ...]]:
    """Return what the window needs to know of each group, by the place of its cluster."""
    return {
        places[cluster.name]: tuple(
            GroupRules(group=g.group, topics=g.topics, earliest=g.reset_policy == "earliest", read_committed=g.read_committed)
            for g in groups
        )
        for cluster, groups in settings.served
    }


def rules(settings: Settings) -> Rules:
    """Return how the window counts."""
    measure = settings.measure
    return Rules(
        window_s=measure.window_s,
        known_for_s=measure.known_for_s,
        default_record_bytes=measure.default_record_bytes,
        min_span_s=min(0.9, measure.window_s / 2),
        forget_s=max(10.0, 2 * measure.metadata_every_s),
    )


class Sink:
    """Turns each batch into values and calls back."""

    def __init__(self, settings: Settings, on_snapshots: Callback) -> None:
        """Remember the callback."""
        self._groups = tuple(g.group for g in settings.groups)
        self._one_task = settings.measure.buckets == 1
        self._tell = on_snapshots
        self._partitions: dict[tuple[str, int], TopicPartition] = {}

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Collect one batch, once, and tell.

        Spark matches a failure's text with a pattern that overflows its thread's stack beyond some thousand characters, and
        then the query ends without an exception: so the whole of it goes into the log, and Spark is told in short.

        Raises:
            PermanentError: Whatever failed, in one line.
        """
        try:
            self._cycle(batch, number)
        except Exception as e:
            log.exception("batch %d failed", number)
            short = f"{type(e).__name__}: {' '.join(str(e).split())}"[:300]
            raise PermanentError(short) from None

    def _cycle(self, batch: DataFrame, number: int) -> None:
        began = time.monotonic()
        rows = batch.toArrow()
        collected = time.monotonic()
        table = schema.unpack(rows["loads"].to_pylist(), schema.LOADS) if rows.num_rows else schema.LOADS.empty_table()
        found = snapshots(table, self._groups, self._partitions)
        measured = {
            "collect_s": collected - began,
            "read_s": max(rows["read_s"].to_pylist(), default=0.0),
            "window_s": (sum if self._one_task else max)([0.0, *rows["window_s"].to_pylist()]),  # one after the other, or not
            "snapshot_s": time.monotonic() - collected,
        }
        self._tell(number, found, measured)


def snapshots(
    table: pa.Table, groups: Sequence[str], partitions: dict[tuple[str, int], TopicPartition] | None = None
) -> dict[str, LoadSnapshot]:
    """Return a snapshot per group from ``LOADS``; a group without rows is absent.

    ``partitions`` are names already made, to be made only once; filled in place.
    """
    made = {} if partitions is None else partitions
    column = [schema.values(table, name) for name in _USED]
    sources = {str(s): s for s in RateSource}
    found: dict[str, list[PartitionLoad]] = {g: [] for g in groups}
    problems: dict[str, dict[str, str]] = {g: {} for g in groups}
    read_ts: dict[str, float] = {}
    for row in zip(*column, strict=True):
        group, topic, partition, identity, ts, rate, records, lag, lag_bytes, lag_s, committed, *rest = row
        first, end, known, age, span, source, error, stable = rest
        if group not in found:
            continue
        read_ts[group] = max(ts, read_ts.get(group, -math.inf))
        if partition < 0:
            problems[group][topic] = error
            continue
        if (tp := made.get((topic, partition))) is None:
            tp = made[topic, partition] = TopicPartition(topic=topic, partition=partition)
        found[group].append(PartitionLoad(
            partition=tp, topic_id=identity, bytes_per_s=rate, records_per_s=records, lag_records=lag, lag_bytes=lag_bytes,
            lag_s=lag_s, committed=committed, log_start=first, log_end=end, known=known, age_s=age, window_s=span,
            rate_source=sources[source], error=error, last_stable=stable,
        ))  # fmt: skip
    return {g: _snapshot(g, read_ts[g], found[g], problems[g]) for g in groups if g in read_ts}


_USED = (
    "group", "topic", "partition", "topic_id", "read_ts", "bytes_per_s", "records_per_s", "lag_records", "lag_bytes", "lag_s",
    "committed", "log_start", "log_end", "known", "age_s", "window_s", "rate_source", "error", "last_stable",
)  # fmt: skip


def _snapshot(group: str, ts: float, found: list[PartitionLoad], problems: Mapping[str, str]) -> LoadSnapshot:
    found.sort(key=_order)
    error = "; ".join(problems.values()) or next((p.error for p in found if p.error), None)
    known = bool(found) and not problems and all(p.known for p in found)
    return LoadSnapshot(group=group, sample_ts=ts, loads=tuple(found), known=known, error=error, lost=frozenset(problems))


def _order(load: PartitionLoad) -> Any:
    return load.partition.topic, load.partition.partition
