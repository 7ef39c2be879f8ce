"""The stages of a demo: one that does not come ends it, with what was waited for."""

import io
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from autoscaler.config.settings import load
from autoscaler.console.cycle_reader import CycleTail
from autoscaler.console.group_view import View
from autoscaler.devtools.broker import Broker
from autoscaler.devtools.rundir import RunDir
from autoscaler.devtools.stage import Options, Stage, Usual
from autoscaler.devtools.sweep import MARK, sweep
from autoscaler.errors import PermanentError
from tests.conftest import create_topic

ROOT = Path(__file__).resolve().parents[2]
SOON = Usual(first_decision_s=0.4, processed_s=0.4, program_s=0.4)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    """Return what sets a stage up for a project in the test's directory, where every program but the load is the test's own."""
    run = RunDir(tmp_path / "run")
    run.make()
    for name, value in {MARK: run.root, "DEMO_STATE": run.state, "DEMO_BOOTSTRAP": "localhost:1"}.items():
        monkeypatch.setenv(name, str(value))
    settings = load(ROOT / "conf" / "demo.yaml")
    stages: list[Stage] = []

    def make(broker: Broker | None = None, *, project: Path = ROOT, duration_s: float = 1.0) -> Stage:
        options = Options(
            duration_s=duration_s,
            partitions=2,
            seed=1,
            keep=False,
            native=False,
            advise=False,
            project=project,
            run=run,
            usual=SOON,
        )
        made = Stage(
            options=options,
            console=Console(file=io.StringIO()),
            config="conf/demo.yaml",
            broker=broker or Broker(run.broker),
            settings=settings,
            view=View(group=settings.groups[0].group),
            tail=CycleTail(run.cycles),
        )
        stages.append(made)
        return made

    yield make
    sweep(run.root, grace_s=0)
    for made in stages:
        for program in made.programs.values():
            program.wait(30)


def test_a_job_that_decides_nothing_is_not_waited_for_without_end(stage: Callable[..., Stage], tmp_path: Path) -> None:
    script = tmp_path / "spark-submit.sh"
    script.write_text("#!/bin/sh\necho stuck in the queue\nexec sleep 600\n", encoding="utf-8")
    script.chmod(0o755)
    with pytest.raises(PermanentError, match=r"(?s)waited 1 s for the job's first decision.*stuck in the queue"):
        stage(project=tmp_path).start_job()


def test_a_load_that_does_not_end_is_not_waited_for_without_end(stage: Callable[..., Stage]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes the connection and never answers
        broker = Broker()
        broker.nodes[0].port = deaf.getsockname()[1]
        with pytest.raises(PermanentError, match="waited 3 s for the load to end, 3 times as long"):
            stage(broker).drive()
        broker.close()


def test_a_load_that_no_consumer_processes_is_not_waited_for_without_end(broker: Broker, stage: Callable[..., Stage]) -> None:
    made = stage(broker, duration_s=10)
    create_topic(broker, made.topic, 2)
    with pytest.raises(PermanentError, match=r"waited 1 s for the load to be processed, .*; no decision was taken"):
        made.drive()


def test_programs_that_do_not_end_are_not_waited_for_without_end(stage: Callable[..., Stage]) -> None:
    made, endless = stage(duration_s=0.1), ("-c", "import time; print('begun', flush=True); time.sleep(600)")
    with pytest.raises(PermanentError, match=r"(?s)waited 1 s for stop to end.*"):
        made.call("stop", endless)
    with pytest.raises(PermanentError, match="waited 2 s for check to end"):
        made.show("check", endless)


def test_a_program_that_fails_beside_the_load_ends_the_demo(stage: Callable[..., Stage]) -> None:
    made = stage(duration_s=100)
    made.spawn("consumer-0", ["/bin/sh", "-c", "echo no such broker; exit 3"]).wait(30)
    with pytest.raises(PermanentError, match=r"(?s)the consumer-0 ended with code 3.*no such broker"):
        made.drive()
