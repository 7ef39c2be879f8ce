"""What executors elsewhere are brought and asked, without any: the package as a file, and what each lacks."""

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler.errors import TransientError
from autoscaler.streaming import executors

PACKAGE = Path(executors.__file__).name  # any name that the module's own file has


def test_the_package_that_travels_is_told_by_its_content_and_is_what_is_imported(tmp_path: Path) -> None:
    packed = executors.archive(executors._ROOT, tmp_path)
    assert executors.archive(executors._ROOT, tmp_path) == packed
    program = "import sys; sys.path.insert(1, sys.argv[1]); import autoscaler.streaming.source as s; print(s.__file__)"
    command = [sys.executable, "-c", program, str(packed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith(str(packed))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "__init__.py").write_text("x = 1", encoding="utf-8")
    first = executors.archive(tmp_path / "a", tmp_path)
    (tmp_path / "a" / "__init__.py").write_text("x = 2", encoding="utf-8")
    assert executors.archive(tmp_path / "a", tmp_path) != first


def test_an_executor_that_has_everything_lacks_nothing(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x", encoding="utf-8")
    connection = {
        "bootstrap.servers": "a:1",
        "sasl.password": f"file:{tmp_path}/password",
        "ssl.ca.location": f"{tmp_path}/password",
    }
    assert list(executors.lacking({"east": connection}, PACKAGE)) == []


def test_all_that_an_executor_lacks_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(executors._LIBRARIES, "no_such_module", "no-such-library")
    monkeypatch.setitem(executors._LIBRARIES, "no_such_package.part", "another-one")
    there = {
        "bootstrap.servers": "a:1",
        "sasl.username": "env:VARIABLE_OF_NO_ONE",
        "sasl.password": f"file:{tmp_path}/password",
        "ssl.ca.location": f"{tmp_path}/ca.pem",
    }
    package, libraries, *files = executors.lacking({"east": there, "west": {"bootstrap.servers": "b:1"}}, "autoscaler-0.zip")
    assert "the job has brought its own" in package
    assert "has no no-such-library, another-one: install" in libraries
    where, why = "clusters.east.connection.", "cannot be read (No such file or directory)"
    assert files == [
        f"{where}sasl.username: environment variable VARIABLE_OF_NO_ONE is not set: {executors._THERE}",
        f"{where}sasl.password: file {tmp_path}/password {why}: {executors._THERE}",
        f"{where}ssl.ca.location: file {tmp_path}/ca.pem {why}: {executors._THERE}",
    ]


def said(host: str, *problems: str, ahead_s: float = 0.0, behind_s: float = 0.0) -> dict[str, Any]:
    return {"host": host, "problems": list(problems), "ahead_s": ahead_s, "behind_s": behind_s}


def test_what_several_executors_lack_is_said_once_with_their_hosts() -> None:
    found = [said("c", "no numpy"), said("a", "no numpy", "no file"), said("b"), said("a", "no numpy")]
    assert executors.told(found) == ("executors on a: no file", "executors on a, c: no numpy")


def test_a_clock_that_is_wrong_for_certain_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert executors.told([said("a", ahead_s=0.9), said("b", ahead_s=3.5), said("c", behind_s=1.5)]) == ()
    ahead, behind = (r.getMessage() for r in caplog.records)
    assert ahead.startswith("executor b: its clock is at least 3.5 s ahead of the driver's")
    assert behind.startswith("executor c: its clock is at least 1.5 s behind the driver's")


@pytest.mark.parametrize(
    ("why", "says"),
    [
        ("executors: java.io.IOException: Mkdirs failed to create file:/x", "or not read it (java.io.IOException: Mkdirs failed"),
        ("executors: org.apache.hadoop.security.AccessControlException: no", "checkpoint: executors cannot write to /x, or not"),
        ("executors: ExecutorLostFailure: it has ended", ""),
    ],
)
def test_a_place_that_no_later_start_can_use_is_told_from_an_executor_that_was_lost(
    why: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TransientError(why)

    removed: list[str] = []
    monkeypatch.setattr(executors, "HadoopFiles", lambda *_: SimpleNamespace(remove=removed.append))
    monkeypatch.setattr(executors, "_run", fail)
    spark: Any = SimpleNamespace(sparkContext=None)
    if not says:
        with pytest.raises(TransientError, match="it has ended"):
            list(executors._unshared(spark, "checkpoint", "/x", []))
    else:
        (found,) = executors._unshared(spark, "checkpoint", "/x", [])
        assert says in found
    assert removed, "whatever came of it"


@pytest.mark.parametrize(
    ("rounds", "registered", "says"),
    [
        ([{"a", "b"}], 2, []),
        ([{"a"}, {"b"}], 2, []),  # b was busy
        ([{"a"}, {"a"}], 2, ["tables: what executors on host-b write to /x is not there for the driver: name a disk"]),
        ([{"a"}, {"a"}], 1, None),  # b has ended
    ],
)
def test_each_executor_has_to_write_what_the_driver_finds(
    rounds: list[set[str]], registered: int, says: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "HadoopFiles", lambda *_: SimpleNamespace(remove=lambda _: None))
    monkeypatch.setattr(executors, "_run", lambda *_: rounds.pop(0))
    monkeypatch.setattr(executors, "_registered", lambda _: registered)
    found = [{"host": f"host-{at}", "at": at} for at in "ab"]
    spark: Any = SimpleNamespace(sparkContext=None)
    if says is None:
        with pytest.raises(TransientError, match="tables: an executor was lost"):
            list(executors._unshared(spark, "tables", "/x", found))
    else:
        problems = list(executors._unshared(spark, "tables", "/x", found))
        assert len(problems) == len(says)
        assert all(problem.startswith(start) for problem, start in zip(problems, says, strict=True))
