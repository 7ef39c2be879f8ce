"""The demo: a broker, load, the job and its consumers on this machine, watched in the terminal and checked at the end.

It runs the same job that a cluster runs, ``spark-submit.sh --config conf/demo.yaml``, and only watches it: what it shows is read
from the job's cycle log, what it checks is recomputed by a separate program. However it ends, nothing that it started stays.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from autoscaler.adapters.clock import SystemClock
from autoscaler.cycles import CycleTail
from autoscaler.embedded.broker import Broker
from autoscaler.embedded.rundir import RunDir, lock
from autoscaler.embedded.scenario import PHASES
from autoscaler.embedded.sweep import MARK, sweep, watch
from autoscaler.errors import AutoscalerError, PermanentError
from autoscaler.report import Progress, View
from autoscaler.screen import Screen
from autoscaler.settings import Settings, load

EXIT_INTERRUPTED = 130

_CONFIG = "conf/demo.yaml"
_LOOK_S = 0.25
_FIRST_CYCLE_S = 180.0
_DRAIN_S = 90.0
_STOP_S = 60.0  # spark-submit.sh gives the job 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may ask of the demo."""

    duration_s: float
    partitions: int
    seed: int
    keep: bool
    project: Path
    run: RunDir


class Interrupts:
    """Turns the first SIGINT, SIGTERM or SIGHUP into ``KeyboardInterrupt`` and swallows the others: it is ending already."""

    def __init__(self) -> None:
        """Take the signals."""
        self.fired = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on)

    def _on(self, _number: int, _frame: object) -> None:
        if not self.fired:
            self.fired = True
            raise KeyboardInterrupt


@dataclass(slots=True, kw_only=True)
class Demo:
    """One run, from the empty directory to the check."""

    options: Options
    console: Console
    clock: SystemClock = field(default_factory=SystemClock)
    job: "subprocess.Popen[bytes] | None" = None

    def run(self) -> int:
        """Run everything and return the exit code of the check."""
        o = self.options
        os.environ.update(DEMO_STATE=str(o.run.state), CONSUMER_LOG_DIR=str(o.run.processed), AUTOSCALER_PYTHON=sys.executable)
        with self._step("broker on free ports") as said:
            broker = Broker(o.run.broker).start()
            os.environ["DEMO_BOOTSTRAP"] = broker.bootstrap
            said(broker.bootstrap)
        settings = load(o.project / _CONFIG)
        group = settings.groups[0]
        topic = group.topics[0]
        with self._step(f"topic {topic} with {o.partitions} partitions"):
            _make_topic(broker.bootstrap, topic, o.partitions)
        view = View(group=group.group, capacity_bytes_per_s=group.capacity_bytes_per_s)
        tail = CycleTail(o.run.cycles)
        with self._step("job: ./spark-submit.sh --config conf/demo.yaml, until its first decision"):
            self.job = self._spawn("job", [str(o.project / "spark-submit.sh"), "--config", _CONFIG])
            self._await_first_cycle(tail, view)
        began, ended = self._drive(settings, broker.bootstrap, tail, view)
        with self._step("job told to stop"):
            self._stop_job()
        with self._step("consumers drained and stopped"):
            self._call(["-m", "autoscaler.cli", "workers", "stop", "--config", _CONFIG], log="stop")
        o.run.describe(_facts(settings, broker.bootstrap, o.run, began, ended))
        code = self._check()
        self._history()
        with self._step("broker stopped"):
            broker.stop()
        self._say_where()
        return code

    @contextmanager
    def _step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a step while it runs and that it is done; ``said`` adds what came of it."""
        results: list[str] = []
        began = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(text):
                yield results.append
        else:
            yield results.append
        result = f": {results[0]}" if results else ""
        self.console.print(
            f"[green]✓[/] {text}{result} [dim]{time.monotonic() - began:.1f} s[/]", highlight=False, soft_wrap=True
        )

    def _spawn(self, name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with (self.options.run.logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.options.project,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is the demo's to handle
            )

    def _call(self, arguments: Sequence[str], *, log: str) -> None:
        process = self._spawn(log, [sys.executable, *arguments])
        if process.wait(timeout=_STOP_S) != 0:
            raise PermanentError(self._failure(log, f"ended with code {process.returncode}"))

    def _await_first_cycle(self, tail: CycleTail, view: View) -> None:
        limit = time.monotonic() + _FIRST_CYCLE_S
        while view.latest is None:
            self._job_lives()
            if time.monotonic() > limit:
                raise PermanentError(self._failure("job", f"took no decision in {_FIRST_CYCLE_S:.0f} s"))
            for cycle in tail.read():
                view.take(cycle)
            time.sleep(_LOOK_S)

    def _job_lives(self) -> None:
        if self.job is not None and self.job.poll() is not None:
            raise PermanentError(self._failure("job", f"ended with code {self.job.returncode}"))

    def _failure(self, name: str, what: str) -> str:
        file = self.options.run.logs / f"{name}.log"
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return f"the {name} {what}; the last lines of {file}:\n" + "\n".join(f"    {line[:300]}" for line in lines)

    def _drive(self, settings: Settings, bootstrap: str, tail: CycleTail, view: View) -> tuple[float, float]:
        """Run the load while showing the group, until everything is processed; return when the load began and ended."""
        o = self.options
        generator = self._spawn("load", _load_command(settings, bootstrap, o))
        began_at, began = self.clock.now(), time.monotonic()
        view.started_at = began_at
        phases = tuple((name, share * o.duration_s) for name, share in PHASES)
        ended_at = 0.0
        idle = 0
        with Screen(self.console) as screen:
            while idle < 2:  # noqa: PLR2004  two looks in a row: one may be older than the last record
                self._job_lives()
                for cycle in tail.read():
                    view.take(cycle)
                    idle = idle + 1 if ended_at and cycle.known and cycle.total_lag_records == 0 and cycle.t > ended_at + 1 else 0
                elapsed = time.monotonic() - began
                if not ended_at and generator.poll() is not None:
                    if generator.returncode:
                        raise PermanentError(self._failure("load", f"ended with code {generator.returncode}"))
                    ended_at = self.clock.now()
                    view.note = "the load has ended; waiting until everything is processed"
                if ended_at and self.clock.now() > ended_at + _DRAIN_S:
                    view.note = f"not everything was processed within {_DRAIN_S:.0f} s after the load"
                    break
                screen.show(view, Progress(phases=phases, elapsed_s=elapsed))
                time.sleep(_LOOK_S)
        return began_at, ended_at

    def _stop_job(self) -> None:
        if self.job is None:
            return
        self.job.terminate()
        try:
            self.job.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.job.pid, signal.SIGKILL)
            self.job.wait()

    def _check(self) -> int:
        self.console.print()
        return subprocess.run(
            [sys.executable, "-m", "autoscaler.embedded.check", "--run-dir", str(self.options.run.root)],
            cwd=self.options.project,
            check=False,
        ).returncode

    def _history(self) -> None:
        self.console.print()
        script = str(self.options.project / "jobs" / "history.py")
        with (self.options.run.logs / "history.log").open("ab") as log:
            command = [sys.executable, script, "--config", _CONFIG]
            code = subprocess.run(command, cwd=self.options.project, stderr=log, check=False).returncode
        if code:
            self.console.print(f"[red]the decision history could not be printed: {self.options.run.logs / 'history.log'}[/]")

    def _say_where(self) -> None:
        run = self.options.run
        if not self.options.keep:
            shutil.rmtree(run.broker, ignore_errors=True)  # the topic's data is large and the check is done
        self.console.print(
            f"\ntables {run.tables}\nlogs   {run.logs}, {run.processed}, {run.state / 'logs'}", highlight=False, soft_wrap=True
        )
        if self.options.keep:
            self.console.print(
                f"topic  {run.broker}; check again with: autoscaler check --run-dir {run.root}", highlight=False, soft_wrap=True
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code: that of the check, 130 when interrupted, 1 when it could not run."""
    options = _options(argv)
    console = Console()
    interrupts = Interrupts()
    try:
        with lock(options.run.root.parent):
            return _guarded(options, console)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except AutoscalerError as e:
        interrupts.fired = True
        sys.stderr.write(f"{e}\n")
        return 1


def _guarded(options: Options, console: Console) -> int:
    """Run the demo so that nothing it started outlives it."""
    run = options.run
    _end_leftovers(run.root.parent, console)
    run.make()
    os.environ[MARK] = str(run.root)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # workers run this Python
    watcher = watch(run.root)
    try:
        console.print(f"run directory {run.root}", highlight=False, soft_wrap=True)
        return Demo(options=options, console=console).run()
    except KeyboardInterrupt:
        console.print("\n[yellow]interrupted: ending everything[/]")
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        sweep(run.root)
        watcher.communicate(b"\n")


def _end_leftovers(directory: Path, console: Console) -> None:
    """End what a demo left that was killed together with its watcher."""
    for file in directory.glob("demo-*"):
        if ended := sweep(file):
            console.print(f"[yellow]ended {ended} processes that {file} had left[/]", highlight=False, soft_wrap=True)


def _options(argv: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="autoscaler demo", description="Run the whole loop on an embedded broker.")
    parser.add_argument("--duration", type=float, default=240, help="seconds of load (default 240)")
    parser.add_argument("--partitions", type=int, default=16, help="partitions of the topic (default 16)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the load: which partitions become hot (default 1)")
    parser.add_argument("--keep", action="store_true", help="keep the topic's data, so that the check can run again")
    parser.add_argument("--dir", type=Path, help="directory of the run (default .run/demo-TIME)")
    args = parser.parse_args(argv)
    project = Path(__file__).resolve().parents[2]
    if args.duration < 30 or args.partitions < 2:  # noqa: PLR2004  said in the message
        parser.error("--duration must be at least 30 (seconds) and --partitions at least 2")
    root = args.dir.absolute() if args.dir else project / ".run" / time.strftime("demo-%Y%m%d-%H%M%S")
    if root.exists() and any(root.iterdir()):
        parser.error(f"--dir {root} is not empty; give a new directory")
    return Options(
        duration_s=args.duration, partitions=args.partitions, seed=args.seed, keep=args.keep, project=project, run=RunDir(root)
    )


def _make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"message.timestamp.type": "LogAppendTime"}  # latency counts from the append
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
    admin.create_topics([new])[topic].result(timeout=30)


def _load_command(settings: Settings, bootstrap: str, o: Options) -> list[str]:
    topic = settings.groups[0].topics[0]
    return [
        *(sys.executable, "-m", "autoscaler.embedded.load", "--bootstrap", bootstrap, "--topic", topic),
        *("--duration", str(o.duration_s), "--seed", str(o.seed), "--log", str(o.run.logs)),
    ]


def _facts(settings: Settings, bootstrap: str, run: RunDir, began: float, ended: float) -> dict[str, str | float | int]:
    group = settings.groups[0]
    return {
        "bootstrap": bootstrap,
        "topic": group.topics[0],
        "group": group.group,
        "window_s": settings.measure.window_s,
        "usable_bytes_per_s": group.usable_bytes_per_s,
        "load_from_s": began,
        "load_to_s": ended,
        "produced": str((run.logs / "produced.jsonl").relative_to(run.root)),
        "logs": str(run.processed.relative_to(run.root)),
        "tables": str(run.tables.relative_to(run.root)),
    }


if __name__ == "__main__":
    sys.exit(main())
