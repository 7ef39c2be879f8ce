"""What a failed test leaves: what it said, its logs and those of the brokers that run, and where every thread stood."""

import faulthandler
import re
import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.until import until

MOST_BYTES, MOST_FILES = 2_000_000, 200  # of a file, its end; and in all
_LOGS = {".log", ".out", ".err", ".jsonl", ".txt", ""}
_BROKER = re.compile(r"-Dlog4j2\.configurationFile=(.*)/log4j2-(\d+)\.properties")
_DUMP_S = 5.0
_begun: set[Path] = set()


def keep(item: pytest.Item, report: pytest.TestReport) -> Path:
    """Write it all to ``.run/failed/NAME/`` and return that directory; what a run before left there goes."""
    name = re.sub(r"[^\w.=-]+", "_", item.nodeid.removeprefix("tests/")).strip("_")[:150]
    place = item.config.rootpath / ".run" / "failed" / name
    if place not in _begun:
        _begun.add(place)
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    said = [report.longreprtext, *(f"--- {title}\n{text}" for title, text in report.sections)]
    (place / f"{report.when}.txt").write_text("\n".join(said), encoding="utf-8")
    with (place / "stacks.txt").open("a", encoding="utf-8") as stacks:
        stacks.write(f"--- {report.when}\n")
        stacks.flush()
        faulthandler.dump_traceback(stacks, all_threads=True)
        stacks.writelines(f"{line}\n" for line in _processes())
    for log in _brokers():
        _copy_end(log, place / "brokers" / f"{log.parent.name}-{log.name}")
    for folder in _folders(getattr(item, "funcargs", {})):
        for file in _logs(folder):
            _copy_end(file, place / file.relative_to(folder))
    return place


def _folders(given: Mapping[str, object]) -> Iterator[Path]:
    """Return the test's own directory, and that of a job that it shares with others."""
    for name, value in given.items():
        folder = value if name == "tmp_path" else getattr(value, "directory", None)
        if isinstance(folder, Path):
            yield folder


def _processes() -> Iterator[str]:
    """Return a line for each process that the test's started."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            yield f"process {child.pid} of {child.ppid()}, {child.status()}: {' '.join(child.cmdline())[:300]}"


def _brokers() -> Iterator[Path]:
    """Return the logs of brokers that run, with the stacks of their threads at their end: a JVM writes them when asked."""
    for child in psutil.Process().children():
        with suppress(psutil.Error, AssertionError):
            found = next(filter(None, map(_BROKER.fullmatch, child.cmdline())), None)
            if found is None:
                continue
            log = Path(found[1]) / f"broker-{found[2]}.log"
            before = log.stat().st_size
            if child.status() != psutil.STATUS_STOPPED:
                child.send_signal(signal.SIGQUIT)
                with suppress(AssertionError):
                    until("its stacks", lambda log=log, at=before: _said_since(log, at), within_s=_DUMP_S)  # type: ignore[misc]
            yield log


def _said_since(log: Path, at: int) -> bool:
    with log.open("rb") as file:
        file.seek(at)
        return b"JNI global refs" in file.read()


def _logs(folder: Path) -> Iterable[Path]:
    """Return files that are logs, not data of a broker."""
    files = (f for f in sorted(folder.rglob("*")) if f.suffix in _LOGS and f.is_file() and not f.is_symlink())
    logs = (f for f in files if not any(part.startswith(("data-", "checkpoint", "_delta_log")) for part in f.parts))
    return [f for f, _ in zip(logs, range(MOST_FILES), strict=False)]


def _copy_end(file: Path, to: Path) -> None:
    with suppress(OSError):
        to.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as source:
            source.seek(max(0, file.stat().st_size - MOST_BYTES))
            to.write_bytes(source.read())
