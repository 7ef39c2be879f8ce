"""Measure the planner: how few consumers, how little moved, how fast, each beside its aim.

``python -m tests.bench.packing`` takes a few minutes, ``--full`` looks at more steps beside the exact solver. ``--write`` puts
the table into docs/research/placement-measured.md. Presets are fixed for whole rows; seeds from 100 on are for tuning, these
begin at 0.
"""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.__main__ import ROOT, machine
from tests.bench.packing_exact import bounds, distance
from tests.bench.packing_quality import moves, two_dimensions
from tests.bench.packing_speed import cycle, million, pace
from tests.bench.rows import Row, put, table

PAGE = ROOT / "docs" / "research" / "placement-measured.md"
PARTS = ("moves", "exact", "bounds", "two", "million", "pace", "cycle")


def parts(args: argparse.Namespace) -> dict[str, Callable[[], list[Row]]]:
    """Return what is measured, by the name that ``--parts`` takes."""
    seeds = range(args.seed_base, args.seed_base + args.seeds)
    repeats = 25 if args.full else 9
    return {
        "moves": lambda: moves(seeds),
        "exact": lambda: distance(seeds if args.full else seeds[:2], 25 if args.full else 5),
        "bounds": lambda: bounds(seeds if args.full else seeds[:2], 10 if args.full else 5),
        "two": lambda: two_dimensions(range(args.seed_base, args.seed_base + (100 if args.full else 20))),
        "million": lambda: million(args.seed_base, repeats),
        "pace": lambda: pace(args.seed_base, repeats),
        "cycle": lambda: cycle(args.seed_base, repeats),
    }


def page(rows: list[Row], arguments: list[str]) -> str:
    """Return what stands in the docs: the table, and how to get it again."""
    command = " ".join(["python -m tests.bench.packing", *map(shlex.quote, arguments)])
    return f"`{command}` on {machine()}:\n\n{table(rows)}"


def main() -> int:
    """Measure, print and, if asked, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more steps and repetitions")
    parser.add_argument("--write", action="store_true", help="put the table into docs/research/placement-measured.md")
    parser.add_argument("--seeds", type=int, default=8, help="how many streams per setting (default 8)")
    parser.add_argument("--seed-base", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="some of the measurements")
    args = parser.parse_args()
    rows: list[Row] = []
    for name, measure in parts(args).items():
        if name in args.parts:
            rows += (found := measure())
            for row in found:
                sys.stdout.write(f"{row.line()}\n")
                sys.stdout.flush()
    if args.write:
        put(Path(PAGE), "bench:packing", page(rows, [a for a in sys.argv[1:] if a != "--write"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
