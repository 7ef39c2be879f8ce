"""``make bench``: every measurement in one table, with the machine and the commit.

``make bench ARGS="--seconds 120 --only job handover"`` shortens it; the figures in the docs come from the whole run.
``make bench ARGS="--only packing --full --write"`` writes the planner's table in docs/research/placement-measured.md.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]


def programs(seconds: int, planner: Sequence[str] = ()) -> dict[str, list[tuple[str, list[str]]]]:
    """Return what is run, by the name that ``--only`` takes: (title, module and arguments)."""
    long = str(seconds)
    job, groups = ["tests.bench.job", "--seconds", long], ["tests.bench.groups", "--seconds", "80"]
    few = [*groups, "--partitions", "400", "--groups", "8", "--records-per-s", "400"]
    return {
        "job": [
            ("the whole job, acting, 16 partitions", [*job, "--partitions", "16"]),
            ("the whole job, acting, 1,000 partitions", [*job, "--partitions", "1000"]),
        ],
        "running": [
            ("hot partitions among running consumers, 16 partitions", [*job, "--partitions", "16", "--consumers", "running"]),
            ("hot partitions among running consumers, 1,000", [*job, "--partitions", "1000", "--consumers", "running"]),
        ],
        "outage": [("the broker away for half a minute", ["tests.bench.job", "--seconds", "180", "--outage", "30"])],
        "memory": [("ten minutes", ["tests.bench.job", "--seconds", "660"])],
        "handover": [("moving partitions at 80 % utilisation, 32 partitions, 4 consumers", ["tests.bench.handover"])],
        "rebalance": [("a consumer joins, leaves, is killed: beside Kafka's own protocols", ["tests.bench.rebalance"])],
        "joining": [("joining after a week of 200 workers", ["tests.bench.joining"])],
        "consumer": [
            ("the library beside a bare client loop", ["tests.bench.consumer"]),
            ("threads over the library", ["tests.bench.processing"]),
            ("a transaction per batch", ["tests.bench.exactly_once"]),
        ],
        "reading": [("asking brokers about 10,000 partitions and 100 groups", ["tests.bench.reading"])],
        "groups": [("a cycle with 10,000 partitions in 200 groups", groups)],
        "clusters": [(f"400 partitions in 8 groups on {n}", [*few, "--clusters", str(n)]) for n in (1, 2)],
        "assignors": [("the hottest consumer of native groups, foretold and real", ["tests.bench.assignors"])],
        "history": [("history and explain on a million decisions", ["tests.bench.history"])],
        "page": [("the page's answers with 1,000 groups", ["tests.bench.page"])],
        "moving": [("clients while a broker is emptied", ["tests.bench.moving"])],
        "goals": [("brokers balanced by goals", ["tests.bench.goals", *(["--write"] if "--write" in planner else [])])],
        "packing": [("the planner", ["tests.bench.packing", *planner])],
    }


def machine() -> str:
    """Return one line about where the figures come from."""
    cpu = next(iter(re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text("utf-8"))), platform.processor())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT)
    return (
        f"{os.cpu_count()} cores of {cpu}, {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, commit {commit.stdout.strip() or 'unknown'}"
    )


def main() -> int:
    """Run the programs one after the other and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="of each run of the whole job (default 300)")
    parser.add_argument("--only", nargs="+", choices=sorted(programs(0)), help="some of the measurements")
    parser.add_argument("--full", action="store_true", help="the planner's bench in full")
    parser.add_argument("--write", action="store_true", help="put the planner's table into docs/research/placement-measured.md")
    args = parser.parse_args()
    planner = [f"--{name}" for name in ("full", "write") if getattr(args, name)]
    console = Console()
    table = Table("measured", "figure", title=f"{machine()}, {time.strftime('%Y-%m-%d')}", title_justify="left")
    failed = False
    for name, runs in programs(args.seconds, planner).items():
        if args.only and name not in args.only:
            continue
        for title, command in runs:
            console.print(f"[dim]{title}: python -m {' '.join(command)}; load average {os.getloadavg()[0]:.1f}[/dim]")
            done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=ROOT)
            table.add_row(f"[bold]{title}[/bold]", "" if done.returncode == 0 else "[red]failed[/red]")
            if done.returncode:
                failed = True
                console.print(done.stderr[-2000:])
            for line in done.stdout.splitlines():
                what, _, figure = line.partition(": ")
                table.add_row(what, figure)
    console.print(table)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
