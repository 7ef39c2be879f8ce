"""``python -m autoscaler.devtools.verify --run-dir D``: runs every rule over a run and exits with 1 if one is broken."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autoscaler.devtools.verify.evidence import collect
from autoscaler.devtools.verify.finding import Finding
from autoscaler.devtools.verify.rules import NATIVE_RULES, RULES
from autoscaler.devtools.verify.run import EvidenceError, Run
from autoscaler.errors import Exit


def check(run: Run) -> tuple[Finding, ...]:
    """Return every rule's finding for a run.

    Raises:
        EvidenceError: Something that the check needs cannot be read.
    """
    evidence = collect(run)
    return tuple(rule(evidence) for rule in (NATIVE_RULES if run.native else RULES))


def table(findings: Sequence[Finding]) -> Table:
    """Return the findings as a table, with the first cases of what is broken below its rule."""
    out = Table(title="Check of the run", title_justify="left", box=None, padding=(0, 1), pad_edge=False)
    out.add_column("", no_wrap=True)
    out.add_column("rule")
    out.add_column("measured", overflow="fold")
    for f in findings:
        mark = Text("·", style="dim") if f.ok is None else Text("✓", style="green") if f.ok else Text("✗", style="bold red")
        out.add_row(mark, f.rule, f.measured)
        for case in f.evidence if f.ok is False else ():
            out.add_row("", "", Text(case, style="red"))
    return out


def write(findings: Sequence[Finding], file: Path) -> None:
    """Write the findings as JSON."""
    data = {
        "ok": all(f.ok is not False for f in findings),
        "findings": [
            {"rule": f.rule, "ok": f.ok, "measured": f.measured, "numbers": dict(f.numbers), "evidence": list(f.evidence)}
            for f in findings
        ],
    }
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Check a run and return the exit code: 0 all holds, 1 something is broken, 2 something cannot be read."""
    parser = argparse.ArgumentParser(prog="autoscaler recheck", description=(check.__doc__ or "").partition("\n")[0])
    parser.add_argument("--run-dir", type=Path, required=True, help="directory of the run; holds run.json")
    parser.add_argument("--bootstrap", help="broker of the run, if it listens elsewhere by now")
    args = parser.parse_args(argv)
    console = Console()
    try:
        findings = check(Run.load(args.run_dir, args.bootstrap))
    except EvidenceError as e:
        sys.stderr.write(f"the check could not run: {e}\n")
        return Exit.UNREADABLE
    write(findings, args.run_dir / "check.json")
    console.print(table(findings))
    broken = [f.rule for f in findings if f.ok is False]
    console.print(Text(f"✗ broken: {', '.join(broken)}", style="bold red") if broken else Text("✓ all holds", style="bold green"))
    return Exit.FAILED if broken else 0


if __name__ == "__main__":
    sys.exit(main())
