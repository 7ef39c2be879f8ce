"""Draws the live view of a demo run as it was at one moment, as an SVG picture: the README's is made by this.

``python -m autoscaler.devtools.picture --run-dir .run/demo-TIME --at 100 --to docs/images/demo.svg``. It reads what the run left
behind, the job's line per cycle and ``run.json``, and draws it with the same code as the terminal.
"""

import argparse
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from autoscaler.console.cycle_reader import CycleTail
from autoscaler.console.group_view import Progress, View
from autoscaler.devtools.rundir import RunDir
from autoscaler.devtools.scenario import PHASES


def picture(run: RunDir, at_s: float, width: int, title: str) -> str:
    """Return the view as it was ``at_s`` seconds after the load began, as SVG.

    Raises:
        OSError: The run's files are not there.
        ValueError: They say something else than a run that went to its end.
    """
    facts = json.loads((run.root / "run.json").read_text(encoding="utf-8"))
    began, duration = float(facts["load_from_s"]), float(facts["duration_s"])
    view = View(group=str(facts["group"]), started_at=began)
    for cycle in CycleTail(run.cycles).read():
        if cycle.t <= began + at_s:
            view.take(cycle)
    progress = Progress(phases=tuple((name, share * duration) for name, share in PHASES), elapsed_s=at_s)
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(view.render(width, progress))
    return console.export_svg(title=title)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the picture and return 0, or 1 if the run cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m autoscaler.devtools.picture", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run-dir", type=Path, required=True, help="directory of the run; holds run.json")
    parser.add_argument("--at", type=float, required=True, help="seconds after the load began")
    parser.add_argument("--to", type=Path, required=True, help="file to write")
    parser.add_argument("--width", type=int, default=100, help="columns of the terminal (default 100)")
    parser.add_argument("--title", default="make demo", help="what stands above it (default: make demo)")
    args = parser.parse_args(argv)
    try:
        drawn = picture(RunDir(args.run_dir.absolute()), args.at, args.width, args.title)
    except (OSError, ValueError, KeyError) as e:
        sys.stderr.write(f"{args.run_dir} cannot be drawn ({type(e).__name__}: {e}): give the directory of a finished demo\n")
        return 1
    args.to.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
