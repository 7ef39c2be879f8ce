"""The planner's machine code where it cannot be kept beside the package, or nowhere at all."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import event

import autoscaler
from autoscaler.adapters import kernels
from autoscaler.adapters.kernels import announced
from tests.fakes import FakeClock

RUN = """
import numpy as np
from autoscaler.adapters.kernels import _where
from autoscaler.packing.kernels.drift import min_evict
print(min_evict(np.array([0.5, 0.25]), 2, 0.3), len(min_evict.stats.cache_hits), _where())
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a directory with a copy of the package beside which nothing can be kept, whoever runs this."""
    package = Path(autoscaler.__file__).parent
    shutil.copytree(package, tmp_path / "site" / "autoscaler", ignore=shutil.ignore_patterns("__pycache__"))
    packing = tmp_path / "site" / "autoscaler" / "packing"
    for folder in (packing, *(x for x in packing.iterdir() if x.is_dir())):
        (folder / "__pycache__").write_text("", encoding="utf-8")
    return tmp_path / "site"


def run(site: Path, cache: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    done = subprocess.run([sys.executable, "-c", RUN], env=environment, cwd=site, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_package_that_cannot_be_written_keeps_its_machine_code_in_the_users_cache(installed: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second = run(installed, cache), run(installed, cache)
    assert first.startswith(f"0.5 0 kept in {cache}/numba/pace_")
    assert second.startswith("0.5 1 kept in "), "loaded, not compiled"


def test_where_nothing_can_be_kept_it_compiles_and_says_so(installed: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("", encoding="utf-8")
    said = run(installed, nowhere)
    assert said.startswith("0.5 0 it is not kept")
    assert "every start compiles; set NUMBA_CACHE_DIR" in said


@pytest.mark.timeout(600)  # it compiles everything where a module has changed
def test_getting_ready_says_what_it_took_and_leaves_nothing_to_compile() -> None:
    kernels.prepare(FakeClock())
    assert kernels.prepare(FakeClock()) == "the planner's machine code was loaded in 0.0 s"


def test_compiling_is_said_once_and_only_while_it_is_listened_for() -> None:
    said: list[str] = []
    with announced(said.append):
        assert said == [], "what is only loaded is not waited for"
        for _ in range(2):
            event.start_event("numba:compile", data={})  # type: ignore[no-untyped-call]
            event.end_event("numba:compile", data={})  # type: ignore[no-untyped-call]
    event.start_event("numba:compile", data={})  # type: ignore[no-untyped-call]
    assert said == ["compiling the planner, which takes about a minute and is kept for later\n"]
