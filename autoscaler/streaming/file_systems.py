"""Whether Spark knows the file system that a place is on, and how a checkpoint is kept there.

Beside the path, asked once at start: a class that is missing ends the job with what to add, not in a loop of restarts.
"""

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from autoscaler.config.places import is_catalog, scheme_of
from autoscaler.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_RENAMES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ABORTS = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
_MODULES = {"abfss": "org.apache.hadoop:hadoop-azure:{}", "gs": "org.apache.hadoop:hadoop-gcp:{}"}


def check(spark: "SparkSession", setting: str, place: str) -> None:
    """Look whether the classes are there for a setting's place.

    Raises:
        SettingsError: They are not; it says what to add.
    """
    if not scheme_of(place) or is_catalog(place):
        return
    jvm: Any = spark._jvm  # noqa: SLF001  no other way to Hadoop
    try:
        uri = jvm.java.net.URI(place)
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(uri.getScheme(), spark._jsc.hadoopConfiguration())  # noqa: SLF001
    except Py4JError as e:
        hadoop = str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())
        said = f"{setting}: Spark has no file system for {place}"
        raise SettingsError((f"{said}: {_addition(scheme_of(place), hadoop)}",)) from e


def _addition(scheme: str, hadoop: str) -> str:
    """Return what gives Spark a file system, of the version of Hadoop that it runs with."""
    if scheme == "s3a":
        from autoscaler import jars  # noqa: PLC0415  of no use to a job that has what it needs

        modules = ",".join(jars.S3A.artifacts)
        return f"add --packages {modules} --exclude-packages {','.join(jars.EXCLUDED)}, or start it with ./spark-submit.sh"
    if scheme in _MODULES:
        return f"add --packages {_MODULES[scheme].format(hadoop)} (spark.jars.packages)"
    return f"{scheme} is there on Databricks only" if scheme == "dbfs" else f"add the jar that has it (fs.{scheme}.impl)"


def keep_checkpoint(spark: "SparkSession", place: str) -> None:
    """Let Spark write the files of a checkpoint as its place needs it, unless a class has been configured.

    On this machine's disks by renaming, which is atomic and takes no process of its own per file. On s3a, where a rename is a
    copy, by an upload that is complete or not there, if Spark's cloud module has been added. Elsewhere as Spark does by default.
    """
    if spark.sparkContext.getConf().get(_MANAGER):
        return
    if not scheme_of(place):
        spark.conf.set(_MANAGER, _RENAMES)
    elif scheme_of(place) == "s3a" and _loads(spark, _ABORTS):
        spark.conf.set(_MANAGER, _ABORTS)
    else:
        spark.conf.unset(_MANAGER)


def _loads(spark: "SparkSession", name: str) -> bool:
    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        jvm.org.apache.spark.util.Utils.classForName(name, False, False)
    except (Py4JError, TypeError):
        return False
    return True
