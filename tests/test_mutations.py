"""A test of the tests: each of these faults, put into a copy of the package, is noticed by the unit tests of its folder.

The rules of the handover have a table of their own (``handover/mutations.py``), which needs no process for each.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Mutation:
    """What is replaced in one module, and the tests that are to notice."""

    module: str
    old: str
    new: str
    noticed_by: str

    def __str__(self) -> str:
        return f"{Path(self.module).stem}: {self.new}"


_ROWS: list[tuple[str, str, str, str]] = [
    ("core/load/partition_progress.py", "rewound_at < patience_s", "rewound_at > patience_s", "core/test_progress.py"),
    ("core/guards/conditions.py", "cycle.now - last >= rest", "cycle.now - last <= rest", "core/test_guards.py"),
    ("core/sizing/size.py", "if load > limit * (1 + _ROUNDING)", "if load < limit * (1 + _ROUNDING)", "core/test_decide.py"),
    ("core/capacity/worker_speed.py", "x.lag_s > _BEHIND_S", "x.lag_s < _BEHIND_S", "core/test_speeds.py"),
    ("core/diff.py", "return (*parkings, *sorted(resets, key=lambda r: r.partition), *add, *moves, *remove)",
     "return (*parkings, *sorted(resets, key=lambda r: r.partition), *moves, *add, *remove)", "scenarios/test_timelines.py"),
    ("streaming/interval_bytes.py", '(facts.size >= was["size"])', "(facts.size >= 0)", "streaming/test_counters.py"),
    ("streaming/lag.py", 'now - rows["ts"] <= rules.known_for_s', 'now - rows["ts"] <= 1e9', "streaming/test_counters.py"),
    ("worker/offsets.py", "r not in unbegun", "True", "worker/test_offsets.py"),
    ("worker/processing.py", "raise error", "pass", "worker/test_processing.py"),
    ("topic_selection.py", "not topic.startswith(_INTERNAL) and", "", "core/test_topics.py"),
    ("config/windows.py", "< timedelta(minutes=duration_min)", "> timedelta(minutes=duration_min)", "core/test_schedule.py"),
    ("config/hot_reload.py", "stamp == self._read and not again", "stamp == self._read", "core/test_reloading.py"),
    ("adapters/audit/flusher.py", "if at_once or self._buffer.crowded:", "if at_once:", "streaming/test_audit_flush.py"),
    ("adapters/workers/process_pool.py", "or now >= self._slots[slot].not_before", "or True", "adapters/test_processes.py"),
    ("packing/incremental.py", "after[c] <= max(limit_of(capacity), before[c])", "True", "core/test_references.py"),
    ("packing/problem/lower_bounds.py", "share > 0.5 + ROUNDING", "share > 1.5", "packing/test_lower_bounds.py"),
    ("console/cycle_reader.py", "if size < self._at:", "if size < 0:", "test_report.py"),
    ("assignor/plan_assignor.py", "if now != held:", "if now == held:", "native/test_assignor.py"),
    ("controller/cluster_executor.py", "in work.keys() - busy:", "in work.keys():", "core/test_lanes.py"),
    ("concurrency.py", "if not wait([future], timeout_s).done:", "if not wait([future]).done:", "core/test_bounded_call.py"),
    ("cli/preflight.py", 'group.get("mode") == "act" and', "", "test_cli.py"),
]  # fmt: skip
ALL = [Mutation(*row) for row in _ROWS]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutation", ALL, ids=str)
def test_a_fault_is_noticed(mutation: Mutation, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "autoscaler", tmp_path / "autoscaler", ignore=shutil.ignore_patterns("__pycache__"))
    for other in ("conf", "docs", "jobs", "spark-submit.sh", "tests"):
        (tmp_path / other).symlink_to(ROOT / other)
    module = tmp_path / "autoscaler" / mutation.module
    module.write_text(_mutated(mutation), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "unit"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-o", f"pythonpath={tmp_path} {ROOT}"]
    done = subprocess.run(
        [*command, str(tmp_path / "tests" / mutation.noticed_by)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("mutation", ALL, ids=str)
def test_what_is_replaced_is_there_once_and_whoever_notices_too(mutation: Mutation) -> None:
    assert _mutated(mutation)
    assert (ROOT / "tests" / mutation.noticed_by).is_file()


def _mutated(mutation: Mutation) -> str:
    text = (ROOT / "autoscaler" / mutation.module).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    return text.replace(mutation.old, mutation.new)
