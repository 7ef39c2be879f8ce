"""What executors on other machines need: the package is brought to them, the rest is looked at once before anything runs there.

Loaded only where the master is not local. The operator's part are libraries, files that connections refer to, and a checkpoint
and tables that every executor reaches; what is missing is said of all executors at once. One that comes later is not looked at:
what it lacks stands in the rows that it was to read, or ends the query.
"""

import hashlib
import logging
import os
import re
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkFiles
from pyspark.errors import PySparkException

from autoscaler.clients.secrets import naming, resolve_secrets, variables
from autoscaler.config.places import is_catalog, scheme_of
from autoscaler.errors import SettingsError, TransientError
from autoscaler.streaming.checkpoint_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from autoscaler.config.settings import Settings

_ROOT = Path(__file__).resolve().parents[1]
_LIBRARIES = {"google.protobuf": "protobuf", "kafka": "kafka-python", "numpy": "numpy", "pandas": "pandas", "pyarrow": "pyarrow"}
_PATIENCE_S = 120.0  # until executors have come and have been looked at
_ROUNDS = 5  # at most; one that came while the others were looked at is looked at in the next
_TRIES = 2  # to have each executor write: one that was busy may have got no task
_APART_S = 1.0  # of two clocks; less is no matter to who compares logs
_TRACE = "executors-look"  # a directory in each place while it is looked at; Hadoop reads none that begins with _
# What a place says that no later start finds otherwise
_UNUSABLE = ("AccessControlException", "AccessDeniedException", "Permission denied", "Read-only", "Mkdirs failed", "not exist")
_PYTHON = re.compile(r"Cannot run program .*|\[PYTHON_VERSION_MISMATCH\].*|No module named .*")
_SAME_PYTHON = "driver and executors need the same Python at the same path, PYSPARK_PYTHON names it"

_THERE = "executors need it at the same path as the driver"

Found = Mapping[str, Any]  # what an executor has said: host, at, python, now, problems

log = logging.getLogger(__name__)


def prepare(spark: "SparkSession", settings: "Settings") -> None:
    """Bring the package to the executors, and look whether they have all else that they need.

    Raises:
        SettingsError: Something is missing; says what, on which executors, and what to do.
        TransientError: No executor has come, one was lost, or a store cannot be reached.
    """
    context = spark.sparkContext
    package = archive(_ROOT, Path(context._temp_dir))  # noqa: SLF001  removed when the session ends
    context.addPyFile(str(package))
    with _bounded(context):
        found = _found(context, {c.name: dict(c.connection) for c, _ in settings.served}, package.name)
        problems = told(found)
        if not problems:
            places = (("checkpoint", settings.checkpoint_place), ("tables", settings.tables_place))
            problems = tuple(p for s, x in places if not is_catalog(x) for p in _unshared(spark, s, x, found))
    if problems:
        raise SettingsError(problems)
    for said in found:
        log.info("executor %s: has the job's package and all that it needs (%s, Python %s)", *_named(said))


def archive(root: Path, place: Path) -> Path:
    """Pack a package for Python's path, and return the file; its name says what is in it."""
    files = sorted(f for f in root.rglob("*.py") if f.is_file())
    digest = hashlib.sha256(b"".join(b"%s\0%s\0" % (str(f.relative_to(root)).encode(), f.read_bytes()) for f in files))
    packed = place / f"{root.name}-{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for file in files:
            out.write(file, file.relative_to(root.parent))
    return packed


def lacking(connections: Mapping[str, Mapping[str, Any]], package: str) -> Iterator[str]:
    """Yield what this process, one of an executor's, lacks to read the clusters of these names with the package of this file."""
    if package not in __file__:
        yield f"takes the package from {_ROOT} although the job has brought its own: remove it there"
    if absent := [library for module, library in _LIBRARIES.items() if not _there(module)]:
        yield (
            f"{sys.executable} has no {', '.join(absent)}: install them there, with the versions of the driver "
            f"(pip install kafka-group-autoscaler[controller]); {_SAME_PYTHON}"
        )
    for name, connection in connections.items():
        yield from _unread(name, connection)


def _unread(name: str, connection: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a connection refers to and this process cannot read."""
    for key, value in connection.items():
        try:
            with naming(name):
                (given,) = resolve_secrets({key: value}).values()
            if key.endswith(".location"):
                Path(str(given)).read_bytes()
        except SettingsError as e:
            yield from (f"{problem}: {_THERE}" for problem in e.problems)
        except OSError as e:
            yield f"clusters.{name}.connection.{key}: file {given} cannot be read ({e.strerror}): {_THERE}"


def told(found: Iterable[Found]) -> tuple[str, ...]:
    """Return what executors lack, each thing once with the hosts of all that lack it; warn of clocks that are wrong."""
    lack: dict[str, set[str]] = {}
    for said in found:
        for problem in said["problems"]:
            lack.setdefault(problem, set()).add(said["host"])
        if said["ahead_s"] > _APART_S or said["behind_s"] > _APART_S:
            much = f"{said['ahead_s']:.1f} s ahead of" if said["ahead_s"] > 0 else f"{said['behind_s']:.1f} s behind"
            log.warning(
                "executor %s: its clock is at least %s the driver's; rates go by the driver's, logs do not", said["host"], much
            )
    return tuple(f"executors on {', '.join(sorted(hosts))}: {problem}" for problem, hosts in sorted(lack.items()))


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # a package above it is not there
        return False


def _named(said: Found) -> tuple[str, str, str]:
    return said["host"], said["at"], said["python"]


def _found(context: SparkContext, connections: Mapping[str, Mapping[str, Any]], package: str) -> list[Found]:
    """Return what each executor says of itself, asked twice or more: the first answer waits for Python to start there."""
    environment = {k: v for c in connections.values() for k, v in variables(c).items()}
    ask = _question(connections, environment, package)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(_ROUNDS):
        known, before = len(found), time.time()
        said = _run(context, lambda: _everywhere(context, ask).collect())
        after = time.time()
        for one in said:
            last = found.get(one["at"], {"ahead_s": 0.0, "behind_s": 0.0})
            one["ahead_s"] = max(last["ahead_s"], one["now"] - after)
            one["behind_s"] = max(last["behind_s"], before - one["now"])
            found[one["at"]] = one
        if known == len(found) >= _registered(context):
            break
    return sorted(found.values(), key=lambda one: (one["host"], one["at"]))


def _question(
    connections: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str], package: str
) -> Callable[[Iterable[int]], Iterator[dict[str, Any]]]:
    """Return what each task runs: a function within one, which travels as such, because the package might not be there."""

    def ask(_numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        said = {
            "host": socket.gethostname(), "at": os.path.realpath(SparkFiles.getRootDirectory()), "now": time.time(),
            "python": sys.version.split()[0], "problems": [],
        }  # fmt: skip
        os.environ.update(environment)
        from autoscaler.streaming.executors import lacking  # noqa: PLC0415  from what the job has brought

        said["problems"] = list(lacking(connections, package))
        yield said

    return ask


def _everywhere(context: SparkContext, work: Callable[[Iterable[int]], Iterator[Any]]) -> Any:
    """Return a data set that is made by more tasks than there are cores: Spark gives each executor some."""
    tasks = 2 * context.defaultParallelism
    return context.parallelize(range(tasks), tasks).mapPartitions(work)


def _registered(context: SparkContext) -> int:
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001  without the driver


def _unshared(spark: "SparkSession", setting: str, place: str, found: Sequence[Found]) -> Iterator[str]:
    """Yield what is wrong with a place as executors see it: what each has written must be there for the driver and the others."""
    context, files = spark.sparkContext, HadoopFiles(spark, place, setting)

    def write_and_read() -> set[str]:
        files.remove(_TRACE)
        _everywhere(context, _itself).saveAsTextFile(f"{place}/{_TRACE}")
        return set(context.textFile(f"{place}/{_TRACE}", context.defaultParallelism).collect())

    apart = list(found)
    try:
        for _ in range(_TRIES):
            seen = _run(context, write_and_read)
            apart = [said for said in apart if said["at"] not in seen]
            if not apart:
                return
    except TransientError as e:
        if not any(word in str(e) for word in _UNUSABLE):
            raise
        said = str(e).removeprefix("executors: ")
        yield f"{setting}: executors cannot write to {place}, or not read it ({said}): {_shared(place)}"
        return
    finally:
        files.remove(_TRACE)
    if _registered(context) < len(found):
        raise TransientError(f"{setting}: an executor was lost while executors wrote to {place}")
    hosts = ", ".join(sorted({said["host"] for said in apart}))
    yield f"{setting}: what executors on {hosts} write to {place} is not there for the driver: {_shared(place)}"


def _itself(_numbers: Iterable[int]) -> Iterator[str]:
    yield os.path.realpath(SparkFiles.getRootDirectory())


def _shared(place: str) -> str:
    if scheme_of(place):
        return "give the executors the keys and the permission that the driver has"
    return "name a disk that all machines share at this path, or an address such as s3a://bucket/path"


@contextmanager
def _bounded(context: SparkContext) -> Iterator[None]:
    """Call off what waits too long for executors: Spark would wait for ever."""
    timer = threading.Timer(_PATIENCE_S, context.cancelAllJobs)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _run(context: SparkContext, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (Py4JError, PySparkException) as e:
        text = str(e)
        if why := _PYTHON.search(text):
            raise SettingsError((f"executors: {why[0].strip()}: {_SAME_PYTHON}",)) from e
        if "cancelled" in text and not _registered(context):
            said = f"no executor has come within {_PATIENCE_S:.0f} s: look at the master whether cores and memory are free"
            raise TransientError(said) from e
        lines = [x.strip() for x in text.splitlines() if x.strip()]
        causes = [x.removeprefix("Caused by: ") for x in lines if x.startswith("Caused by: ")]
        raise TransientError(f"executors: {(causes or lines or [type(e).__name__])[-1 if causes else 0][:300]}") from e
