"""The demo: a broker, load, the job and its consumers on this machine, watched in the terminal and checked at the end.

It runs the same job that a cluster runs, ``spark-submit.sh --config conf/demo.yaml``, and only watches it: what it shows is read
from the job's cycle log, what it checks is recomputed by a separate program. However it ends, nothing that it started stays.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from autoscaler.devtools.rundir import RunDir, lock
from autoscaler.devtools.stage import Options, Stage
from autoscaler.devtools.sweep import MARK, sweep, watch
from autoscaler.errors import AutoscalerError, Exit

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MANAGED, _NATIVE, _ADVISE = "conf/demo.yaml", "conf/demo-native.yaml", "conf/demo-advise.yaml"
_MEMBERS = 3
# In a shorter load the group has no time to shrink; with fewer partitions each is so large that the hot ones can stay where they
# are while the others make room: the check, which wants to see both, would be red for no fault.
_SHORTEST_S, _FEWEST = 90.0, 12


class Interrupts:
    """Turns the first SIGINT, SIGTERM or SIGHUP into ``KeyboardInterrupt`` and swallows the others: it is ending already."""

    def __init__(self) -> None:
        """Take the signals."""
        self.fired = False
        for number in _SIGNALS:
            signal.signal(number, self._on)

    def _on(self, _number: int, _frame: object) -> None:
        if not self.fired:
            self.fired = True
            raise KeyboardInterrupt


def acting(options: Options, console: Console) -> int:
    """Show a group being sized, and placed unless it is native, check the run and decide it again, and return an exit code."""
    config = _NATIVE if options.native else _MANAGED
    stage = Stage.open(options, console, config)
    stage.start_job()
    began, ended = stage.drive()
    stage.stop_job()
    with stage.step("consumers drained and stopped"):
        stage.call("stop", ["-m", "autoscaler.cli", "workers", "stop", "--config", config])
    options.run.describe(_facts(stage, began, ended))
    stage.print_history()
    console.print()
    code = stage.show("check", ["-m", "autoscaler.devtools.verify", "--run-dir", str(options.run.root)])
    code = _decide_again(stage) or code
    stage.close()
    if options.keep:
        console.print(
            f"check again with: .venv/bin/autoscaler recheck --run-dir {options.run.root}", highlight=False, soft_wrap=True
        )
    return code


def advised(options: Options, console: Console) -> int:
    """Show what is advised for a group of ordinary consumers, which is left alone."""
    stage = Stage.open(options, console, _ADVISE)
    with stage.step(f"{_MEMBERS} ordinary consumers that subscribe"):
        for number in range(_MEMBERS):
            arguments = ("--bootstrap", stage.broker.bootstrap, "--topic", stage.topic, "--group", stage.group.group)
            name = f"consumer-{number}"
            stage.spawn(name, [sys.executable, "-m", "autoscaler.devtools.subscriber", *arguments, "--client", name])
    stage.start_job()
    stage.drive()
    stage.stop_job()
    stage.print_history()
    code = _decide_again(stage)
    stage.close()
    return code


def _decide_again(stage: Stage) -> int:
    """Make every recorded decision of the run again, print what came out, and return the exit code."""
    where = ["--tables", str(stage.options.run.tables), "--since", "1d"]
    return stage.show("replay", ["-m", "autoscaler.cli", "replay", stage.group.group, *where])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code: that of check and replay, 130 when interrupted, 1 when it could not run."""
    options = _options(argv)
    interrupts = Interrupts()
    try:
        with lock(options.run.root.parent):
            return _guarded(options, Console())
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
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
    watcher = watch(run.root)
    try:
        console.print(f"run directory {run.root}", highlight=False, soft_wrap=True)
        return (advised if options.advise else acting)(options, console)
    except KeyboardInterrupt:
        console.print("\n[yellow]interrupted: ending everything[/]")
        raise
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        sweep(run.root)
        watcher.communicate(b"\n")


def _end_leftovers(directory: Path, console: Console) -> None:
    """End what a demo left that was killed together with its watcher."""
    for place in directory.glob("demo-*"):
        if ended := sweep(place):
            console.print(f"[yellow]ended {ended} processes that {place} had left[/]", highlight=False, soft_wrap=True)


def _options(argv: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="autoscaler demo", description="Run the whole loop on an embedded broker.")
    parser.add_argument("--duration", type=float, default=240, help="seconds of load (default 240)")
    parser.add_argument("--partitions", type=int, default=16, help="partitions of the topic (default 16)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the load: which partitions become hot (default 1)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--native", action="store_true", help="ordinary consumers that subscribe; only their number is set")
    kinds.add_argument("--advise", action="store_true", help="watch and advise a group of ordinary consumers, touching nothing")
    parser.add_argument("--keep", action="store_true", help="keep the topic's data, so that the check can run again")
    parser.add_argument("--dir", type=Path, help="directory of the run, new or empty (default .run/demo-TIME)")
    args = parser.parse_args(argv)
    shortest, fewest = (10.0, 2) if args.advise else (_SHORTEST_S, _FEWEST)
    if args.duration < shortest or args.partitions < fewest:
        parser.error(f"--duration must be at least {shortest:.0f} (seconds) and --partitions at least {fewest}")
    project = Path(__file__).resolve().parents[2]
    root = args.dir.absolute() if args.dir else project / ".run" / time.strftime("demo-%Y%m%d-%H%M%S")
    if root.exists() and any(root.iterdir()):
        parser.error(f"--dir {root} is not empty; give a new directory")
    return Options(
        duration_s=args.duration,
        partitions=args.partitions,
        seed=args.seed,
        keep=args.keep,
        native=args.native,
        advise=args.advise,
        project=project,
        run=RunDir(root),
    )


def _facts(stage: Stage, began: float, ended: float) -> dict[str, str | float | int]:
    run = stage.options.run
    return {
        "bootstrap": stage.broker.bootstrap,
        "topic": stage.topic,
        "group": stage.group.group,
        "window_s": stage.settings.measure.window_s,
        "usable_bytes_per_s": stage.group.usable_bytes_per_s,
        "duration_s": stage.options.duration_s,
        "load_from_s": began,
        "load_to_s": ended,
        "produced": str((run.logs / "produced.jsonl").relative_to(run.root)),
        "logs": str(run.processed.relative_to(run.root)),
        "tables": str(run.tables.relative_to(run.root)),
        "cycles": str(run.cycles.relative_to(run.root)),
        "flush_s": stage.settings.audit.flush_s,
        "native": stage.options.native,
    }


if __name__ == "__main__":
    sys.exit(main())
