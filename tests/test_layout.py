"""What a running job is made of, and what it must not load: baselines, EXACT, evaluation, devtools."""

import ast
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

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
MOST_LINES = 25_800  # of the job and all that it imports
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


TIERS = {"bench", "browser", "contracts", "docs", "kafka", "kubernetes", "prometheus", "properties", "scenarios"}


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


def imported(package: Path) -> set[str]:
    """Return the folders and the root's modules of ``autoscaler`` that a folder's own modules import, whenever they do."""
    found = set[str]()
    for file in package.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "autoscaler":
                names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
                folders = [n for n in names if (ROOT / n.replace(".", "/")).is_dir()]
                modules = [n for n in names if (ROOT / f"{n.replace('.', '/')}.py").is_file()]
                found |= {m if m.count(".") == 1 else m.rpartition(".")[0] for m in modules} or {folders[-1]}
    return {x.removeprefix("autoscaler.") for x in found} - {
        "autoscaler",
        ".".join(package.relative_to(ROOT / "autoscaler").parts),
    }


FOLDERS = sorted(p.parent for p in (ROOT / "autoscaler").glob("**/__init__.py") if p.parent.name != "autoscaler")


@pytest.mark.parametrize("package", FOLDERS, ids=lambda p: str(p.relative_to(ROOT / "autoscaler")))
def test_a_folder_imports_what_it_says_that_it_may(package: Path) -> None:
    said = " ".join((ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or "").split())
    _, found, may = said.partition("May import")
    assert found, "says nothing of what it may import"
    assert "Lives here" in said
    assert "May not: " in said
    named = set(re.findall(r"``([\w.]+)``", may))
    if re.search(r"\bbelow\b|\beverything\b|\bevery other folder\b", may):
        return  # by the floors of the layers, which import-linter looks after
    own = ".".join(package.relative_to(ROOT / "autoscaler").parts)
    allowed = {own} | {n.removesuffix(".policy") for n in named}
    unsaid = [x for x in imported(package) if not any(f".{x}".endswith(f".{n}") or f"{x}.".startswith(f"{n}.") for n in allowed)]
    assert not unsaid


def test_no_folders_import_each_other() -> None:
    names = {".".join(p.relative_to(ROOT / "autoscaler").parts): p for p in FOLDERS}
    reached = {name: imported(p) & set(names) for name, p in names.items()}
    for middle in names:
        for name in names:
            if middle in reached[name]:
                reached[name] = reached[name] | reached[middle]
    assert not [name for name in names if name in reached[name]]


def test_no_commands_import_each_other() -> None:
    """Whenever they do: an import within a function closes a circle as well."""
    files = {p.stem: ast.parse(p.read_text(encoding="utf-8")) for p in (ROOT / "autoscaler" / "cli").glob("*.py")}
    left = {
        name: {
            part
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autoscaler.cli")
            for part in ((node.module or "").rpartition(".")[2], *(a.name for a in node.names))
        }
        & files.keys()
        for name, tree in files.items()
    }
    while ready := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in ready}
    assert left == {}
