"""Fetches the jars that no Python package carries: Delta's for Spark and a Kafka broker's for the demo and the tests.

Spark ships Ivy, so that Java and pyspark are all this needs. A bundle is complete or absent: it is fetched beside its place
and renamed, under a lock, so that two runs at once share one download. ``python -m autoscaler.jars`` fetches
everything and prints where it lies. Must not import Spark.
"""

import argparse
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from autoscaler.errors import Exit, PermanentError, SettingsError

_FETCH_TIMEOUT_S = 900.0
_TAIL_LINES = 12
_JAVA_LEAST = 17
_JAVA_TODO = "`make java` says how to install Java 17 or later here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Jars that are fetched together.

    Attributes:
        artifacts: Maven coordinates, ``organisation:module:version``; what they need comes with them. With ``:classifier`` at the
            end it is that jar of the module, and nothing else.
        beside_spark: Leave out what Spark's own distribution holds; another version of it would win or lose by chance.
        required: Beginnings of file names without which the bundle is of no use.
        excluded: ``organisation:module`` that are left out of what the artifacts need.
    """

    name: str
    version: str
    artifacts: tuple[str, ...]
    required: tuple[str, ...]
    beside_spark: bool = False
    excluded: tuple[str, ...] = ()


def kafka(version: str) -> Bundle:
    """Return the jars of a Kafka broker of this version."""
    return Bundle(
        name="kafka",
        version=version,
        artifacts=(
            f"org.apache.kafka:kafka_2.13:{version}",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",  # without a binding a broker that cannot start says nothing
        ),
        required=("kafka_2.13-", "kafka-clients-", "kafka-server-", "log4j-core-", "log4j-slf4j-impl-"),
    )


KAFKA = kafka("4.2.1")  # the newest that keeps the promise of docs/tasks/exactly-once.md
DELTA = Bundle(
    name="delta",
    version="4.4.0",
    artifacts=("io.delta:delta-spark_4.2_2.13:4.4.0",),
    required=("delta-spark_4.2_2.13-", "delta-storage-"),
    beside_spark=True,
)
# Hadoop's file system s3a for the Hadoop that Spark brings, with the parts of Amazon's library that it uses: 13 MB. By its own
# description it takes all of that library, 686 MB. Spark's module writes checkpoints there without a rename; 4.2 has none.
EXCLUDED = ("software.amazon.awssdk:bundle", "org.wildfly.openssl:wildfly-openssl")
S3A = Bundle(
    name="s3a",
    version="3.5.0",
    artifacts=(
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:s3:2.35.4",
        "software.amazon.awssdk:s3-transfer-manager:2.35.4",
        "software.amazon.awssdk:sts:2.35.4",
    ),
    required=("hadoop-aws-", "s3-2", "s3-transfer-manager-", "sts-"),
    beside_spark=True,
    excluded=EXCLUDED,
)
BUNDLES = (DELTA, KAFKA)
_NAMED = (*BUNDLES, S3A)  # all that can be asked for by name


def cache_root() -> Path:
    """Return the cache directory: ``$XDG_CACHE_HOME/kafka-autoscaler``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "kafka-autoscaler"


def directory(bundle: Bundle) -> Path:
    """Return where the bundle's jars lie once they are fetched."""
    return cache_root() / f"{bundle.name}-{bundle.version}"


def class_path(*bundles: Bundle) -> str:
    """Return bundles as a Java class path (with Java's own wildcard), fetching them first if needed."""
    return os.pathsep.join(f"{fetch(bundle)}{os.sep}*" for bundle in bundles)


def needed(schemes: Iterable[str]) -> tuple[Bundle, ...]:
    """Return what Spark needs for tables and a checkpoint at addresses of these schemes, as far as bundles have it."""
    return (DELTA, S3A) if "s3a" in set(schemes) else (DELTA,)


def class_archive(bundle: Bundle) -> Path:
    """Return where the bundle's classes lie as this machine's Java keeps them, for quicker starts; it need not be there."""
    return _beside(directory(bundle), f"{_java_version(Path(java()))}.jsa")


def java() -> str:
    """Return the java executable: of ``JAVA_HOME``, else of ``PATH``.

    Raises:
        SettingsError: There is none, it cannot be run, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME is {home}, which holds no bin/java" if home else "no java on PATH"
        raise SettingsError((f"java: {where}; {_JAVA_TODO}",))
    said = _java_version(Path(found))
    major = re.match(r"(?:1\.)?(\d+)", said)
    if major is None:
        raise SettingsError((f"java: {found} cannot be run ({said or 'it says nothing'}); {_JAVA_TODO}",))
    if int(major[1]) < _JAVA_LEAST:
        raise SettingsError((f"java: {found} is version {said}; {_JAVA_TODO}, or set JAVA_HOME to one",))
    return found


def _java_version(java: Path) -> str:
    """Return the version that a Java says it is, from the file beside it if there is one: to run it takes .1 s."""
    release = java.resolve().parent.parent / "release"
    if release.is_file() and (noted := re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(encoding="utf-8"), re.MULTILINE)):
        return noted[1]
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"{type(e).__name__}: {e}"
    told = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return told[1] if told else f"exit code {done.returncode}"


def spark_home() -> Path:
    """Return Spark's directory: ``SPARK_HOME``, else the installed pyspark's.

    Raises:
        SettingsError: There is none.
    """
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(("pyspark: is not installed; `make install` installs it, or set SPARK_HOME",))
    return Path(next(iter(spec.submodule_search_locations)))


def fetch(bundle: Bundle, *, progress: bool = False) -> Path:
    """Return the bundle's directory, downloading it if it is not there yet.

    Args:
        bundle: What to fetch.
        progress: Say on standard error what is being done.

    Raises:
        PermanentError: It could not be fetched; the message says what was tried and what to do.
        SettingsError: Java or Spark is missing.
    """
    place = directory(bundle)
    if _complete(bundle, place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _lock(_beside(place, "lock")):
            if not _complete(bundle, place):
                _download(bundle, place, progress=progress)
    except OSError as e:
        msg = f"{bundle.name} jars: {place.parent} cannot be written ({e.strerror}); free space there or set XDG_CACHE_HOME"
        raise PermanentError(msg) from e
    return place


def _beside(place: Path, suffix: str) -> Path:
    return place.with_name(f"{place.name}.{suffix}")


def _complete(bundle: Bundle, place: Path) -> bool:
    return not _missing(bundle, place)


def _missing(bundle: Bundle, place: Path) -> list[str]:
    return [r for r in bundle.required if not any(place.glob(f"{r}*.jar"))]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # goes with the process, however it ends
        yield


def _download(bundle: Bundle, place: Path, *, progress: bool) -> None:
    home = spark_home()
    ivy = next(iter(sorted((home / "jars").glob("ivy-*.jar"))), None)
    if ivy is None:
        raise SettingsError((f"{home}/jars: holds no ivy-*.jar; point SPARK_HOME at a whole Spark distribution",))
    log = _beside(place, "log")
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as work:
        description = Path(work) / "ivy.xml"
        description.write_text(_description(bundle, _shipped(home) if bundle.beside_spark else ()), encoding="utf-8")
        command = [java(), f"-Divy.default.ivy.user.dir={place.parent / 'ivy'}", "-jar", str(ivy)]
        command += ["-cache", str(place.parent / "ivy" / "cache"), "-ivy", str(description)]
        if settings := os.environ.get("AUTOSCALER_IVY_SETTINGS"):
            command += ["-settings", settings]
        command += ["-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", f"{work}/libs/[artifact]-[revision](-[classifier]).[ext]"]
        code = _run(command, log, label=f"{bundle.name} {bundle.version}", progress=progress)
        libs = Path(work) / "libs"
        if code != 0 or _missing(bundle, libs):
            raise PermanentError(_failure(bundle, log, code))
        shutil.rmtree(place, ignore_errors=True)
        libs.rename(place)


def _shipped(home: Path) -> tuple[str, ...]:
    names = {re.sub(r"-\d[^-]*(-\w+)?$", "", jar.stem) for jar in (home / "jars").glob("*.jar")}
    return tuple(sorted(names))


def _description(bundle: Bundle, excluded: tuple[str, ...]) -> str:
    parts = []
    for artifact in bundle.artifacts:
        org, name, rev, *classified = artifact.split(":")
        named = f"org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(rev)}"
        if classified:
            jar = f'<artifact name={quoteattr(name)} type="jar" m:classifier={quoteattr(classified[0])}/>'
            parts.append(f'<dependency {named} conf="default->master" transitive="false">{jar}</dependency>')
        else:
            parts.append(f'<dependency {named} conf="default->default"/>')
    parts += [f"<exclude module={quoteattr(name)}/>" for name in excluded]
    pairs = (x.split(":") for x in bundle.excluded)
    parts += [f"<exclude org={quoteattr(org)} module={quoteattr(name)}/>" for org, name in pairs]
    maven = 'xmlns:m="http://ant.apache.org/ivy/maven"'
    head = f'<ivy-module version="2.0" {maven}><info organisation="local" module={quoteattr(bundle.name)}/>'
    return f"{head}<dependencies>{''.join(parts)}</dependencies></ivy-module>"


def _run(command: list[str], log: Path, *, label: str, progress: bool) -> int:
    """Run Ivy with its output in ``log``, counting the jars that arrive."""
    done = 0
    with (
        log.open("w", encoding="utf-8") as out,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process,
    ):
        limit = threading.Timer(_FETCH_TIMEOUT_S, process.kill)
        limit.start()
        try:
            for line in process.stdout or ():
                out.write(line)
                done += "[SUCCESSFUL" in line
                if progress and sys.stderr.isatty():
                    _say(f"\r  {label}: " + (f"{done} jars" if done else "looking up what is needed"))
            return process.wait()
        finally:
            limit.cancel()
            process.kill()  # only matters when an exception leaves the loop early
            if progress:
                _say(f"\r  {label}: {done} jars                      \n")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _failure(bundle: Bundle, log: Path, code: int) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8").splitlines()]
    telling = [x for x in lines if x and not x.startswith(("found ", "downloading ", "...", "::", "----"))]
    tail = "\n".join(f"    {line[:200]}" for line in telling[-_TAIL_LINES:])
    return (
        f"{bundle.name} jars {', '.join(bundle.artifacts)} could not be fetched (Ivy ended with {code}).\n"
        f"The last lines of {log}:\n{tail}\n"
        "What to do: check that https://repo1.maven.org is reachable from here and that the disk is not full, then run the same "
        "command again; behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; for a mirror "
        "set AUTOSCALER_IVY_SETTINGS to an ivysettings.xml; without a network copy the directory "
        f"{directory(bundle)} from a machine that has it."
    )


def main(argv: list[str] | None = None) -> int:
    """Fetch the named bundles (by default what the demo needs) and print their directories, one a line."""
    parser = argparse.ArgumentParser(prog="python -m autoscaler.jars", description="Fetch the jars that are needed.")
    names = {b.name: b for b in _NAMED}
    parser.add_argument("bundles", nargs="*", metavar="BUNDLE", help=f"{', '.join(names)}; by default all but s3a")
    parser.add_argument("--class-path", action="store_true", help="print a Java class path instead of directories")
    args = parser.parse_args(argv)
    if unknown := set(args.bundles) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    try:
        for bundle in [names[n] for n in args.bundles] or BUNDLES:
            place = fetch(bundle, progress=True)
            print(class_path(bundle) if args.class_path else place)
    except SettingsError as e:
        sys.stderr.write("\n".join(e.problems) + "\n")
        return Exit.SETTINGS
    except PermanentError as e:
        sys.stderr.write(f"{e}\n")
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
