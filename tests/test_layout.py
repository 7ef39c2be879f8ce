"""What a running job is made of, and what it must not load: baselines, EXACT, evaluation, devtools."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APART = (
    "autoscaler.core.baselines",
    "autoscaler.packing.exact",
    "autoscaler.packing.research",
    "autoscaler.packing.published.reference",
)
NEVER = ("autoscaler.devtools", "autoscaler.evaluation", "autoscaler.testing", "tests")
MOST_LINES = 24_000  # of the job and all that it imports
RUN = """
import sys
import jobs.autoscale
import autoscaler.packing.precompile
for name, module in sorted(sys.modules.items()):
    if name.split(".")[0] in {"autoscaler", "jobs", "tests"} and getattr(module, "__file__", None):
        print(name, module.__file__)
"""


def loaded() -> dict[str, Path]:
    """Return the modules of this project that a job imports."""
    done = subprocess.run([sys.executable, "-c", RUN], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    return {name: Path(file) for name, file in (line.split(" ", 1) for line in done.stdout.splitlines())}


def test_a_job_loads_what_it_runs_and_nothing_else() -> None:
    modules = loaded()
    unwanted = [m for m in modules if m.startswith((*(f"{a}." for a in APART), *NEVER)) or m in APART]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in modules.values())
    print(f"{len(modules)} modules, {lines} lines")
    assert not unwanted
    assert lines <= MOST_LINES
