"""Machine code that is kept between processes, and when it is not."""

import os
import subprocess
import sys
from pathlib import Path

ABOVE = """
from autoscaler.packing.kernels.jit import compiled
from below import FACTOR, helped

@compiled
def used(x: int) -> int:
    return helped(x) * FACTOR
"""
BELOW = """
from autoscaler.packing.kernels.jit import compiled

FACTOR = {factor}

@compiled
def helped(x: int) -> int:
    return x + {step}
"""


def used(folder: Path, factor: int, step: int) -> int:
    """Write the modules, run the upper one in a process of its own and return what it gives for 1."""
    (folder / "below.py").write_text(BELOW.format(factor=factor, step=step))
    (folder / "above.py").write_text(ABOVE)
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run(
        [sys.executable, "-c", "import above; print(above.used(1), sum(above.used.stats.cache_hits.values()))"],
        env=os.environ | {"PYTHONPATH": f"{folder}:{root}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    value, hits = map(int, run.stdout.split())
    assert hits == (folder / "seen").exists()
    (folder / "seen").touch()
    return value


def test_machine_code_is_kept_until_a_module_below_changes(tmp_path: Path) -> None:
    assert used(tmp_path, 1, 1) == 2
    assert used(tmp_path, 1, 1) == 2, "from what was kept"
    (tmp_path / "seen").unlink()
    assert used(tmp_path, 1, 5) == 6, "the function below is another one"
    (tmp_path / "seen").unlink()
    assert used(tmp_path, 3, 5) == 18, "a number below is another one"
