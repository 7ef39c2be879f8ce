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
from functools import partial
from pathlib import Path
from typing import IO

from confluent_kafka import KafkaException
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
_PATIENCE = 3  # times what a stage usually takes: then it is no longer waited for
_STOP_S = 60.0  # spark-submit.sh gives the job 45
_TOPIC_S = 30.0
_TAIL_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What the stages of a demo take at most where all is well, on two busy cores, in seconds."""

    first_decision_s: float = 60.0
    processed_s: float = 30.0
    program_s: float = 60.0


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
    usual: Usual = Usual()


@dataclass(slots=True, kw_only=True)
class Stage:
    """The running parts of one demo."""

    options: Options
    console: Console
    config: str  # the job's configuration file, relative to the project
    clock: SystemClock = field(default_factory=SystemClock)
    broker: Broker
    settings: Settings
    view: View
    tail: CycleTail
    # What was started and is not waited for, by name
    programs: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

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
            self.programs[name] = subprocess.Popen(
                command,
                cwd=self.options.project,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is the demo's to handle
            )
        return self.programs[name]

    def call(self, name: str, arguments: Sequence[str]) -> None:
        """Run a Python program to its end, with its output in the run's ``logs/NAME.log``.

        Raises:
            PermanentError: It failed or did not end in time; with its last lines.
        """
        process = self.spawn(name, [sys.executable, *arguments])
        usual_s = self.options.usual.program_s
        try:
            code = process.wait(timeout=_PATIENCE * usual_s)
        except subprocess.TimeoutExpired as e:
            raise PermanentError(_waited(f"{name} to end", usual_s) + self._last_lines(name)) from e
        if code != 0:
            raise PermanentError(self._failure(name, code))

    def show(self, name: str, arguments: Sequence[str], errors: IO[bytes] | None = None) -> int:
        """Run a Python program that prints what came of the run, and return its exit code; ``errors`` takes its standard error.

        Raises:
            PermanentError: It did not end in time.
        """
        o = self.options
        usual_s = o.usual.program_s + o.duration_s  # the longer the run, the more there is to read
        command, limit_s = [sys.executable, *arguments], _PATIENCE * usual_s
        try:
            return subprocess.run(command, cwd=o.project, stderr=errors, check=False, timeout=limit_s).returncode
        except subprocess.TimeoutExpired as e:
            raise PermanentError(_waited(f"{name} to end", usual_s)) from e

    def start_job(self) -> None:
        """Start the job as a user does and wait for its first decision.

        Raises:
            PermanentError: It ended, or decided nothing in time.
        """
        with self.step(f"job: ./spark-submit.sh --config {self.config}, until its first decision"):
            self.spawn("job", [str(self.options.project / "spark-submit.sh"), "--config", self.config])
            usual_s = self.options.usual.first_decision_s
            self._await("the job's first decision", "job", lambda: self.view.latest is not None, usual_s)

    def drive(self) -> tuple[float, float]:
        """Run the load while showing the group, until everything is processed; return when the load began and ended.

        Raises:
            PermanentError: The job or the load generator failed, or something did not come in time.
        """
        o = self.options
        generator = self.spawn("load", self._load_command())
        began_at, began = self.clock.now(), time.monotonic()
        self.view.started_at = began_at
        phases = tuple((name, share * o.duration_s) for name, share in PHASES)
        with Screen(self.console) as screen:

            def show() -> None:
                screen.show(self.view, Progress(phases=phases, elapsed_s=time.monotonic() - began))

            self._await("the load to end", "load", lambda: generator.poll() is not None, o.duration_s, show)
            ended_at = self.clock.now()
            self.view.note = "the load has ended; waiting until everything is processed"
            processed = partial(self._is_processed, ended_at)
            self._await("the load to be processed", "job", processed, o.usual.processed_s, show)
        return began_at, ended_at

    def _await(
        self, what: str, program: str, come: Callable[[], bool], usual_s: float, show: Callable[[], None] = lambda: None
    ) -> None:
        """Look at the job's cycles, and show them, until what a program does has come, at most three times its usual time."""
        limit = time.monotonic() + _PATIENCE * usual_s
        while True:
            self._look()
            show()
            if come():
                return
            if time.monotonic() > limit:
                raise PermanentError(f"{_waited(what, usual_s)}; {self._last_decision()}{self._last_lines(program)}")
            time.sleep(_LOOK_S)

    def stop_job(self) -> None:
        """End the job in order, by force if that takes long."""
        job = self.programs.pop("job")
        with self.step("job told to stop"):
            job.terminate()
            try:
                job.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()

    def print_history(self, *arguments: str) -> None:
        """Print the decision history from the tables, through Spark SQL."""
        self.console.print()
        script = str(self.options.project / "jobs" / "history.py")
        file = self.options.run.logs / "history.log"
        with file.open("ab") as log:
            code = self.show("decision history", [script, "--config", self.config, *arguments], log)
        if code:
            self._say(f"[red]the decision history could not be printed, see {file}[/]")

    def close(self) -> None:
        """Stop the broker and say what lies where."""
        run = self.options.run
        with self.step("broker stopped"):
            self.broker.stop()
        self._say(f"\ntables  {run.tables}")
        for question in ("history", "explain"):
            self._say(f"        .venv/bin/autoscaler {question} {self.group.group} --tables {run.tables}")
        self._say(f"logs    {run.logs}, {run.state / 'logs'}")
        if self.options.keep:
            self._say(f"topic   {run.broker}")
        else:
            shutil.rmtree(run.broker, ignore_errors=True)  # the topic's data is large

    def _look(self) -> None:
        for cycle in self.tail.read():
            self.view.take(cycle)
        for name, program in self.programs.items():
            if (code := program.poll()) is not None and (code or name == "job"):
                raise PermanentError(self._failure(name, code))

    def _is_processed(self, ended_at: float) -> bool:
        cycle = self.view.latest
        sampled_at = 0.0 if cycle is None else cycle.t - (cycle.sample_age_s or 0.0)
        return cycle is not None and cycle.known and cycle.total_lag_records == 0 and sampled_at > ended_at

    def _last_decision(self) -> str:
        cycle = self.view.latest
        if cycle is None:
            return "no decision was taken"
        return f"the last decision: {cycle.reason}, lag {cycle.total_lag_records} records, {cycle.detail}"

    def _load_command(self) -> list[str]:
        o = self.options
        return [
            *(sys.executable, "-m", "autoscaler.devtools.load", "--bootstrap", self.broker.bootstrap, "--topic", self.topic),
            *("--duration", str(o.duration_s), "--seed", str(o.seed), "--log", str(o.run.logs)),
        ]

    def _failure(self, name: str, code: int) -> str:
        return f"the {name} ended with code {code}{self._last_lines(name)}"

    def _last_lines(self, name: str) -> str:
        files = [self.options.run.logs / f"{name}.log"]
        if name == "job":
            files.append(self.options.run.state / "logs" / "job.log")
        return "".join(f"\nthe last lines of {file}:\n{_tail(file)}" for file in files if file.exists())

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


def _waited(what: str, usual_s: float) -> str:
    return f"waited {_PATIENCE * usual_s:.0f} s for {what}, {_PATIENCE} times as long as that takes"


def _make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    config = {"message.timestamp.type": "LogAppendTime"}  # latency counts from the append
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
    try:
        admin.create_topics([new])[topic].result(timeout=_TOPIC_S)
    except (KafkaException, TimeoutError) as e:
        raise PermanentError(f"topic {topic} was not made within {_TOPIC_S:.0f} s: {e!r}") from e


def _tail(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"    {line[:300]}" for line in lines) or "    (nothing)"
