"""``python -m tests.chaos --minutes 60``: faults among real processes and long random runs, one part after the other.

A seed, drawn and printed where none is given, decides all that is drawn. Everything lies in one directory afterwards: a log per
part, and the siege's brokers, tables and logs. Told to end (Ctrl-C, SIGTERM), the part that runs judges what was done by then,
and no other begins. Ends with 1 if a part found something.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLOW_MINUTES = 25.0  # what tests marked slow, and many examples of properties, take; a shorter run leaves them out
PROPERTIES = [f"tests/properties/test_{subject}_properties.py" for subject in ("decide", "guard", "fallback")]
SIEGE_BESIDES_MINUTES = 3.0  # until its group has settled, and until everything is well again


@dataclass(frozen=True, slots=True)
class Part:
    """A program that ends with 0 if all is well, and on SIGINT judges what it has done."""

    name: str
    command: tuple[str, ...]


def parts(minutes: float, seed: int, place: Path) -> list[Part]:
    """Return what is run in so many minutes."""
    slow = minutes >= 2 * SLOW_MINUTES
    left = minutes - SLOW_MINUTES * slow
    siege, aborts, share = 0.5 * left - SIEGE_BESIDES_MINUTES, 0.2 * left, 0.15 * left
    module = (sys.executable, "-u", "-m")
    drawn = f"--minutes={share:.2f}", f"--first={seed % 1_000_000 * 1_000_000}"
    where = f"--dir={place / 'siege'}", f"--report={place / 'siege.md'}"
    return [
        Part("siege", (*module, "tests.kafka.siege", f"--minutes={max(1.0, siege):.2f}", f"--seed={seed}", *where)),
        Part("histories of the handover", (*module, "tests.handover.soak", *drawn)),
        Part("inputs of the planners", (*module, "tests.properties.long_run", *drawn)),
        Part("aborts", (*module, "tests.kafka.aborts", f"--minutes={aborts:.2f}", f"--seed={seed}")),
        *(_slow() if slow else []),
    ]


def _slow() -> list[Part]:
    pytest = (sys.executable, "-u", "-m", "pytest", "-n", "0")
    return [
        Part("properties of decisions", ("env", "HYPOTHESIS=search", *pytest, *PROPERTIES)),
        Part("slow tests", (*pytest, "-m", "slow", "--no-skips", "tests")),
    ]


class Run:
    """Parts one after the other, until the end or until told to."""

    def __init__(self, place: Path) -> None:
        self.place, self.told = place, False
        self.results: dict[str, int] = {}
        self._now: subprocess.Popen[str] | None = None

    def stop(self) -> None:
        """Have the part that runs judge what it has done, and begin no other."""
        self.told = True
        if self._now is not None and self._now.poll() is None:
            self._now.send_signal(signal.SIGINT)

    def run(self, wanted: Sequence[Part]) -> bool:
        """Return whether all that was run is well."""
        for number, part in enumerate(wanted, 1):
            if self.told:
                break
            self.results[part.name] = self._run(part, self.place / f"{number}-{part.name.replace(' ', '-')}.log")
        return bool(self.results) and not any(self.results.values())

    def _run(self, part: Part, log: Path) -> int:
        print(f"== {part.name}: {' '.join(part.command)}", flush=True)
        # A session of its own: Ctrl-C reaches it once, and not what it has started.
        program = subprocess.Popen(
            part.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        with log.open("w", encoding="utf-8") as out, program:
            self._now = program
            if self.told:
                self.stop()
            for line in program.stdout or ():
                out.write(line)
                out.flush()
                sys.stdout.write(line)
                sys.stdout.flush()
        return program.returncode


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--dir", type=Path, help="where everything lies afterwards (default: .run/chaos/TIME-SEED)")
    given = parser.parse_args()
    named = f"{time.strftime('%Y%m%d-%H%M%S')}-{given.seed}"
    place: Path = (given.dir or ROOT / ".run" / "chaos" / named).resolve()
    place.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}; everything lies in {place}", flush=True)
    began, run = time.monotonic(), Run(place)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: run.stop())
    well = run.run(parts(given.minutes, given.seed, place))
    print(f"== {(time.monotonic() - began) / 60:.0f} minutes, seed {given.seed}" + (", told to end" if run.told else ""))
    for name, code in run.results.items():
        print(f"{'ok' if code == 0 else 'FAILED'}  {name}" + (f" (exit code {code})" if code else ""))
    print(f"logs and evidence: {place}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
