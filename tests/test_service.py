"""The start of the job, before there is anything to look after."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from autoscaler import service
from autoscaler.config.hot_reload import FollowedFile
from autoscaler.config.settings import load
from autoscaler.errors import Exit, SettingsError
from tests.config.files import MINIMAL, write
from tests.until import until


def test_a_start_that_fails_keeps_nothing_waiting_for_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where state lies elsewhere, the look at the clusters asks the session whether the job has run before."""
    ended: list[str] = []

    def greet(_: object, spark: Callable[[], object]) -> None:
        try:
            spark()
        except SettingsError as e:
            ended.append(str(e))

    def check(*_: object) -> None:
        raise SettingsError(("tables: Spark has no file system for it",))

    builder: Any = SimpleNamespace(appName=lambda _: SimpleNamespace(getOrCreate=object))
    monkeypatch.setattr(service, "greet", greet)
    monkeypatch.setattr(service, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr("autoscaler.service.kernels.prepare", lambda *_: "")
    monkeypatch.setattr("autoscaler.service.file_systems.check", check)
    file = tmp_path / "autoscaler.yaml"
    file.write_text(yaml.safe_dump(MINIMAL), encoding="utf-8")
    settings = load(file)
    with pytest.raises(SettingsError, match="no file system"):
        service.run(settings, FollowedFile(file, settings))
    until("the look at the clusters ends", lambda: ended, bool, within_s=5)


def test_a_job_that_is_told_to_end_while_another_controller_acts_has_taken_over_from_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    session: Any = SimpleNamespace(stop=lambda: ended.append("Spark"))
    builder: Any = SimpleNamespace(appName=lambda _: SimpleNamespace(getOrCreate=lambda: session))
    waited: list[tuple[str, ...]] = []

    def wait(_served: object, _job: object, found: tuple[str, ...], stop: threading.Event) -> None:
        waited.append(found)
        stop.set()

    monkeypatch.setattr(service, "greet", lambda *_: None)
    monkeypatch.setattr(service, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(service, "Job", lambda *_, **__: pytest.fail("it began to act"))
    monkeypatch.setattr(service, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=lambda *_: None))
    monkeypatch.setattr("autoscaler.service.kernels.prepare", lambda *_: "")
    monkeypatch.setattr("autoscaler.service.file_systems.check", lambda *_: None)
    monkeypatch.setattr("autoscaler.service.query.prepare", lambda *_: None)
    monkeypatch.setattr("autoscaler.adapters.control_log.others.acted_on", lambda *_: ("orders",))
    monkeypatch.setattr("autoscaler.adapters.control_log.others.wait_for_end", wait)
    file = tmp_path / "autoscaler.yaml"
    file.write_text(yaml.safe_dump({**MINIMAL, "state_dir": str(tmp_path)}), encoding="utf-8")
    settings = load(file)
    assert service.run(settings, FollowedFile(file, settings)) == 0
    assert (waited, ended) == ([("orders",)], ["Spark"])


@pytest.mark.parametrize(("lost", "code"), [(False, 0), (True, Exit.FENCED)])
def test_a_job_gives_its_lease_back_and_tells_by_its_exit_code_that_another_one_has_taken_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lost: bool, code: int
) -> None:
    lease: Any = SimpleNamespace(take=lambda _: False, lost=lost, lapsed=False, waits_for="", closed=[])
    lease.close = lambda: lease.closed.append(True)
    named: list[str] = []

    def of_job(_: object, name: str, _clock: object) -> object:
        named.append(name)
        return lease

    def ended(_s: object, _f: object, stop: threading.Event, _d: object, its: object) -> int:
        assert its is lease
        assert not stop.is_set()
        return 0

    monkeypatch.setattr("autoscaler.adapters.lease.of_job", of_job)
    monkeypatch.setattr(service, "_run", ended)
    file = write(tmp_path / "c.yaml", {**MINIMAL, "kubernetes": {"lease": "autoscaler"}})
    settings = load(file)
    assert service.run(settings, FollowedFile(file, settings)) == code
    assert (named, lease.closed) == (["autoscaler"], [True])


def test_a_query_that_ends_by_itself_is_noted_also_after_its_first_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch was handed over and never committed: the next start does the same batch, and ends as this one did."""
    ended: list[object] = []
    there: Any = SimpleNamespace(start=lambda: None)
    job: Any = SimpleNamespace(
        stop=threading.Event(), watchdog=there, upkeep=there, endpoint=None, notifications=None, exit_code=0
    )
    job.followed = SimpleNamespace(anew=None)
    job.on_snapshots = job.close = lambda *_: None
    session: Any = SimpleNamespace(stop=lambda: None)
    builder: Any = SimpleNamespace(appName=lambda _: SimpleNamespace(getOrCreate=lambda: session))
    stream: Any = SimpleNamespace(isActive=False, exception=lambda: "the commit log is damaged")
    monkeypatch.setattr(service, "greet", lambda *_: None)
    monkeypatch.setattr(service, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(service, "Job", lambda *_, **__: job)
    monkeypatch.setattr(service, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=lambda *_: None))
    monkeypatch.setattr(service, "gc", SimpleNamespace(collect=lambda: 0, freeze=lambda: None))
    monkeypatch.setattr("autoscaler.service.kernels.prepare", lambda *_: "")
    monkeypatch.setattr("autoscaler.service.file_systems.check", lambda *_: None)
    monkeypatch.setattr("autoscaler.service.query.prepare", lambda *_: None)
    monkeypatch.setattr("autoscaler.service.query.start", lambda *_: stream)
    monkeypatch.setattr("autoscaler.service.query.stop", lambda _: None)
    monkeypatch.setattr("autoscaler.service.query.ended_by_itself", lambda spark, _: ended.append(spark))
    file = tmp_path / "autoscaler.yaml"
    file.write_text(yaml.safe_dump({**MINIMAL, "state_dir": str(tmp_path)}), encoding="utf-8")
    job.settings = settings = load(file)
    assert service.run(settings, FollowedFile(file, settings)) == Exit.FAILED
    assert ended == [session]


@pytest.mark.parametrize(
    ("left", "before", "code"), [(0, 0, 0), (3, 0, Exit.UNWRITTEN), (3, Exit.FAILED, Exit.FAILED), (3, Exit.FENCED, Exit.FENCED)]
)
def test_an_orderly_end_that_leaves_rows_unwritten_is_told_by_its_exit_code(left: int, before: int, code: int) -> None:
    closing: Any = SimpleNamespace(stop=lambda: None, close=lambda *_: None)
    job: Any = SimpleNamespace(watchdog=closing, endpoint=None, upkeep=closing, clusters=closing, lines=closing, names=[])
    job.notifications = None
    job.sites, job.audit, job.exit_code = (closing,), SimpleNamespace(close=lambda: left), before
    job._leave = lambda _: None
    service.Job.close(job)
    assert job.exit_code == code


@pytest.mark.parametrize("left", [0, 3])
def test_a_job_that_is_made_anew_goes_on_with_other_groups_also_when_rows_wait(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "autoscaler.yaml"
    file.write_text(yaml.safe_dump({**MINIMAL, "state_dir": str(tmp_path)}), encoding="utf-8")
    settings = load(file)
    followed: Any = SimpleNamespace(anew=settings, made_anew=lambda: settings)
    made: list[SimpleNamespace] = []

    def make(_s: object, _spark: object, _f: object, stop: threading.Event, **_: object) -> SimpleNamespace:
        made.append(SimpleNamespace(stop=stop, exit_code=Exit.UNWRITTEN if left else 0, clock=None))
        return made[-1]

    def run(job: SimpleNamespace, _: object) -> None:
        if len(made) == 2:
            job.exit_code = 0
            job.stop.set()

    builder: Any = SimpleNamespace(appName=lambda _: SimpleNamespace(getOrCreate=lambda: SimpleNamespace(stop=lambda: None)))
    monkeypatch.setattr(service, "greet", lambda *_: None)
    monkeypatch.setattr(service, "_greeted_anew", lambda _: ())
    monkeypatch.setattr(service, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(service, "signal", SimpleNamespace(SIGTERM=15, SIGINT=2, signal=lambda *_: None))
    monkeypatch.setattr(service, "Job", make)
    monkeypatch.setattr(service, "_run_until_over", run)
    monkeypatch.setattr("autoscaler.service.kernels.prepare", lambda *_: "")
    monkeypatch.setattr("autoscaler.service.file_systems.check", lambda *_: None)
    monkeypatch.setattr("autoscaler.service.query.prepare", lambda *_: None)
    assert service.run(settings, followed) == 0
    assert len(made) == 2


def test_a_job_without_a_group_waits_for_one_or_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, closed = [0], list[bool]()
    followed: Any = SimpleNamespace(anew=None)

    def look() -> None:
        looks[0] += 1
        followed.anew = "other settings" if looks[0] == 3 else None

    followed.look = look
    upkeep: Any = SimpleNamespace(start=lambda: None)
    job: Any = SimpleNamespace(
        settings=load(write(tmp_path / "c.yaml", {**MINIMAL, "groups": [], "kubernetes": {"consumer_groups": "all"}})),
        stop=threading.Event(), endpoint=None, notifications=None, upkeep=upkeep, followed=followed,
        close=lambda: closed.append(True),
    )  # fmt: skip
    monkeypatch.setattr(service, "_LOOK_S", 0.001)
    monkeypatch.setattr(service, "gc", SimpleNamespace(collect=lambda: 0, freeze=lambda: None))
    service._run_until_over(job, SimpleNamespace())  # type: ignore[arg-type]
    assert (looks, closed) == ([3], [True])
    followed.anew = None
    job.stop.set()
    service._run_until_over(job, SimpleNamespace())  # type: ignore[arg-type]
    assert closed == [True, True]
