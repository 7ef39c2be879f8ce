"""What the simulation executes of the modules that production runs: nearly every branch, by chance alone."""

import json
from pathlib import Path

import pytest
from coverage import Coverage

from tests.handover.mutants import copy_of

_LEAST = 0.95
_CHUNK, _CHUNKS = 50, 18  # it stops when there is enough


def _share_of_branches(coverage: Coverage, report: Path) -> float:
    coverage.json_report(outfile=str(report))
    read = json.loads(report.read_text(encoding="utf-8"))
    for name, found in read["files"].items():
        print(name, "not reached:", found["missing_branches"])
    return float(read["totals"]["covered_branches"] / read["totals"]["num_branches"])


@pytest.mark.timeout(600)
def test_the_simulation_alone_takes_nearly_every_branch(tmp_path: Path) -> None:
    coverage = Coverage(branch=True, data_file=None, config_file=False, include=["autoscaler/handover/*"])
    coverage.exclude(r"case _:\s+assert_never")  # what mypy proves cannot be reached
    share = 0.0
    with copy_of() as copy:
        world, schedule = (copy.module(f"tests.handover.simulation.{name}") for name in ("world", "schedule"))
        for chunk in range(_CHUNKS):
            coverage.start()
            for seed in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
                world.World(schedule.draw(seed)).run()
            coverage.stop()
            if (share := _share_of_branches(coverage, tmp_path / "coverage.json")) >= _LEAST:
                break
    assert share >= _LEAST
