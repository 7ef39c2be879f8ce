"""What a running job is made of, and what it must not load: baselines, EXACT, evaluation, devtools."""

import ast
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
APART = (
    "autoscaler.core.baselines",
    "autoscaler.packing.exact",
    "autoscaler.packing.research",
    "autoscaler.packing.large",
    "autoscaler.packing.published",
    "autoscaler.packing.simple",
)
NEVER = ("autoscaler.devtools", "autoscaler.evaluation", "tests")
MOST_LINES = 23_600  # of the job and all that it imports
RUN = """
import sys
import tomllib
from fnmatch import fnmatchcase
import jobs.autoscale
from autoscaler.packing.precompile import warm
warm(["PACE"])
for name, module in sorted(sys.modules.items()):
    if name.split(".")[0] in {"autoscaler", "jobs", "tests"} and getattr(module, "__file__", None):
        print(name, module.__file__)
"""


def loaded() -> dict[str, Path]:
    """Return the modules of this project that a job imports before the first cycle of groups with the default algorithm."""
    done = subprocess.run([sys.executable, "-c", RUN], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    return {name: Path(file) for name, file in (line.split(" ", 1) for line in done.stdout.splitlines())}


def test_a_job_loads_what_it_runs_and_nothing_else() -> None:
    modules = loaded()
    unwanted = [m for m in modules if m.startswith((*(f"{a}." for a in APART), *NEVER)) or m in APART]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in modules.values())
    print(f"{len(modules)} modules, {lines} lines")
    assert not unwanted
    assert lines <= MOST_LINES


def test_the_wheel_holds_no_demo_and_no_evaluation() -> None:
    chosen = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]["find"]
    found = {".".join(p.parent.relative_to(ROOT).parts) for p in (ROOT / "autoscaler").rglob("__init__.py")}
    packages = {p for p in found if not any(fnmatchcase(p, pattern) for pattern in chosen["exclude"])}
    assert {"autoscaler.worker", "autoscaler.handover", "autoscaler.core.rules"} <= packages
    assert not [p for p in packages if p.startswith(("autoscaler.devtools", "autoscaler.evaluation", "tests"))]


TIERS = {"bench", "browser", "contracts", "docs", "kafka", "kubernetes", "properties", "scenarios"}


def test_tests_lie_in_folders_named_like_what_they_test() -> None:
    folders = {p.parent.relative_to(ROOT / "tests").parts[0] for p in (ROOT / "tests").glob("*/*.py")}
    packages = {p.parent.name for p in (ROOT / "autoscaler").glob("*/__init__.py")}
    assert folders - packages == TIERS


def test_every_folder_says_what_lives_there_and_stands_in_the_architecture_page() -> None:
    page = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    packages = sorted(p.parent for p in (ROOT / "autoscaler").rglob("__init__.py"))
    assert len(packages) > 30
    silent = [
        p for p in packages if not (ast.get_docstring(ast.parse((p / "__init__.py").read_text(encoding="utf-8"))) or "").strip()
    ]
    assert not silent
    unnamed = [str(p.relative_to(ROOT)) for p in packages if f"`{p.name}" not in page and f"/{p.name}" not in page]
    assert not unnamed
