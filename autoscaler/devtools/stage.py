"""What every demo needs: a broker with a topic, the job watched through its cycle log, load, and steps that say how they went."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from autoscaler.adapters.clock import SystemClock
from autoscaler.config.settings import Group, Settings, load
from autoscaler.console.cycle_reader import CycleTail
from autoscaler.console.group_view import Progress, View
from autoscaler.console.live import Screen
from autoscaler.devtools.broker import Broker
from autoscaler.devtools.rundir import RunDir
from autoscaler.devtools.scenario import PHASES
from autoscaler.errors import PermanentError

_LOOK_S = 0.25
_FIRST_CYCLE_S = 180.0
_PROCESSED_S = 90.0
_STOP_S = 60.0  # spark-submit.sh gives the job 45
_TAIL_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may ask of a demo."""

    duration_s: float
    partitions: int
    seed: int
    keep: bool
    native: bool
    advise: bool
    project: Path
    run: RunDir


@dataclass(slots=True, kw_only=True)
class Stage:
    """The running parts of one demo.

    Attributes:
        config: The job's configuration file, relative to the project.
    """

    options: Options
    console: Console
    config: str
    clock: SystemClock = field(default_factory=SystemClock)
    broker: Broker
    settings: Settings
    view: View
    tail: CycleTail
    job: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def open(cls, options: Options, console: Console, config: str) -> "Stage":
        """Start a broker and make the topic that the configuration names."""
        run = options.run
        os.environ.update(DEMO_STATE=str(run.state), CONSUMER_LOG_DIR=str(run.processed), AUTOSCALER_PYTHON=sys.executable)
        with step(console, "broker on free ports") as said:
            broker = Broker(run.broker).start()
            os.environ["DEMO_BOOTSTRAP"] = broker.bootstrap
            said(broker.bootstrap)
        settings = load(options.project / config)
        group = settings.groups[0]
        with step(console, f"topic {group.topics[0]} with {options.partitions} partitions"):
            _make_topic(broker.bootstrap, group.topics[0], options.partitions)
        return cls(
            options=options,
            console=console,
            config=config,
            broker=broker,
            settings=settings,
            view=View(group=group.group),
            tail=CycleTail(run.cycles),
        )

    @property
    def group(self) -> Group:
        """Return the group that the demo is about."""
        return self.settings.groups[0]

    @property
    def topic(self) -> str:
        """Return its topic."""
        return self.group.topics[0]

    def step(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Show a step while it runs and that it is done."""
        return step(self.console, text)

    def spawn(self, name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start a program with its output in the run's ``logs/NAME.log``."""
        with (self.options.run.logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.options.project,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is the demo's to handle
            )

    def call(self, name: str, arguments: Sequence[str]) -> None:
        """Run a Python program to its end.

        Raises:
            PermanentError: It failed; with its last lines.
        """
        process = self.spawn(name, [sys.executable, *arguments])
        if process.wait(timeout=_STOP_S) != 0:
            raise PermanentError(self._failure(name, f"ended with code {process.returncode}"))

    def start_job(self) -> None:
        """Start the job as a user does and wait for its first decision.

        Raises:
            PermanentError: It ended, or decided nothing in time.
        """
        with self.step(f"job: ./spark-submit.sh --config {self.config}, until its first decision"):
            self.job = self.spawn("job", [str(self.options.project / "spark-submit.sh"), "--config", self.config])
            limit = time.monotonic() + _FIRST_CYCLE_S
            while self.view.latest is None:
                self._look()
                if time.monotonic() > limit:
                    raise PermanentError(self._failure("job", f"took no decision in {_FIRST_CYCLE_S:.0f} s"))
                time.sleep(_LOOK_S)

    def drive(self) -> tuple[float, float]:
        """Run the load while showing the group, until everything is processed; return when the load began and ended.

        Raises:
            PermanentError: The job or the load generator failed.
        """
        o = self.options
        generator = self.spawn("load", self._load_command())
        began_at, began = self.clock.now(), time.monotonic()
        self.view.started_at = began_at
        phases = tuple((name, share * o.duration_s) for name, share in PHASES)
        ended_at: float | None = None
        with Screen(self.console) as screen:
            while ended_at is None or not self._is_processed(ended_at):
                self._look()
                screen.show(self.view, Progress(phases=phases, elapsed_s=time.monotonic() - began))
                if ended_at is None and generator.poll() is not None:
                    if generator.returncode:
                        raise PermanentError(self._failure("load", f"ended with code {generator.returncode}"))
                    ended_at = self.clock.now()
                    self.view.note = "the load has ended; waiting until everything is processed"
                if ended_at is not None and self.clock.now() > ended_at + _PROCESSED_S:
                    break
                time.sleep(_LOOK_S)
        return began_at, ended_at or began_at

    def stop_job(self) -> None:
        """End the job in order, by force if that takes long."""
        if self.job is None:
            return
        with self.step("job told to stop"):
            self.job.terminate()
            try:
                self.job.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.job.pid, signal.SIGKILL)
                self.job.wait()

    def print_history(self, *arguments: str) -> None:
        """Print the decision history from the tables, through Spark SQL."""
        self.console.print()
        script = str(self.options.project / "jobs" / "history.py")
        file = self.options.run.logs / "history.log"
        with file.open("ab") as log:
            command = [sys.executable, script, "--config", self.config, *arguments]
            code = subprocess.run(command, cwd=self.options.project, stderr=log, check=False).returncode
        if code:
            self._say(f"[red]the decision history could not be printed, see {file}[/]")

    def close(self) -> None:
        """Stop the broker and say what lies where."""
        run = self.options.run
        with self.step("broker stopped"):
            self.broker.stop()
        self._say(f"\ntables  {run.tables}")
        self._say(f"logs    {run.logs}, {run.state / 'logs'}")
        if self.options.keep:
            self._say(f"topic   {run.broker}")
        else:
            shutil.rmtree(run.broker, ignore_errors=True)  # the topic's data is large

    def _look(self) -> None:
        for cycle in self.tail.read():
            self.view.take(cycle)
        if self.job is not None and self.job.poll() is not None:
            raise PermanentError(self._failure("job", f"ended with code {self.job.returncode}"))

    def _is_processed(self, ended_at: float) -> bool:
        cycle = self.view.latest
        sampled_at = 0.0 if cycle is None else cycle.t - (cycle.sample_age_s or 0.0)
        return cycle is not None and cycle.known and cycle.total_lag_records == 0 and sampled_at > ended_at

    def _load_command(self) -> list[str]:
        o = self.options
        return [
            *(sys.executable, "-m", "autoscaler.devtools.load", "--bootstrap", self.broker.bootstrap, "--topic", self.topic),
            *("--duration", str(o.duration_s), "--seed", str(o.seed), "--log", str(o.run.logs)),
        ]

    def _failure(self, name: str, what: str) -> str:
        files = [self.options.run.logs / f"{name}.log"]
        if name == "job":
            files.append(self.options.run.state / "logs" / "job.log")
        tails = "".join(f"\nthe last lines of {file}:\n{_tail(file)}" for file in files if file.exists())
        return f"the {name} {what}{tails}"

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


@contextmanager
def step(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a step while it runs and that it is done; what it is called with is shown as what came of it."""
    results: list[str] = []
    began = time.monotonic()
    if console.is_terminal:
        with console.status(text):
            yield results.append
    else:
        yield results.append
    result = f": {results[0]}" if results else ""
    took = f"{time.monotonic() - began:.1f} s"
    console.print(f"[green]✓[/] {text}{result} [dim]{took}[/]", highlight=False, soft_wrap=True)


def _make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    config = {"message.timestamp.type": "LogAppendTime"}  # latency counts from the append
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
    admin.create_topics([new])[topic].result(timeout=30)


def _tail(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"    {line[:300]}" for line in lines) or "    (nothing)"
