"""Which file of tests a process gets next: what is dear is started once, and what is heavy runs one at a time.

A whole job keeps more than half of a core busy for minutes, most tests of a broker wait. Jobs side by side starve each other
while later nothing is left but tests that wait; one job beside everything else keeps the machine busy and calm from start to end.
"""

import functools
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]
# A Spark session takes 15 s of processor time to start, a Chromium 3 s, and three brokers 8 % of a core for as long as they are
# there: files that name one of these share it in one process
DEAR = ("SparkSession", "three_brokers", "secure_broker", "playwright")
# Processor seconds, as once measured, of the files that take longest beside jobs and what is shared: of two that need the same,
# the longer one begins first, so that it does not run on alone at the end
SECONDS = {
    "tests/adapters/audit/test_audit_kill.py": 60,
    "tests/properties/test_decide_properties.py": 30,
    "tests/scenarios/test_unequal_timelines.py": 29,
    "tests/scenarios/test_guard_timelines.py": 20,
    "tests/handover/test_simulation.py": 17,
    "tests/evaluation/test_sizing.py": 14,
    "tests/scenarios/test_native_faults.py": 13,
    "tests/scenarios/test_native_timelines.py": 12,
    "tests/scenarios/test_consumer_faults.py": 11,
    "tests/scenarios/test_fallback_timelines.py": 11,
    "tests/properties/test_guard_properties.py": 10,
}
JOB = ("start_job(", 'spark-submit.sh"), "--config"')  # what a file contains whose tests run the whole job


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """Tests of a file in one process, files that share what is dear in the same one, and one file at a time that runs jobs."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return shares(ROOT / file) or file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process the first file that waits; while another process runs a job, the first that runs none."""
        others = (work for other, work in self.assigned_work.items() if other is not node)
        if any(runs_job(scope) and not all(tests.values()) for work in others for scope, tests in work.items()):
            calm = next((scope for scope in self.workqueue if not runs_job(scope)), None)
            if calm is not None:
                self.workqueue.move_to_end(calm, last=False)
        super()._assign_work_unit(node)


@functools.cache
def shares(file: Path) -> str:
    """Return which dear thing of a whole run the tests of a file share with others; empty: none."""
    text = file.read_text(encoding="utf-8")
    return next((dear for dear in DEAR if dear in text), "")


def order(file: Path, heavy: int) -> tuple[bool, bool, int, int]:
    """Return when a file begins: jobs first, which run one after the other, then what is shared, what is heavy, and the rest."""
    name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else ""
    alone = bool(name) and not shares(file) and runs_job(name)
    return not alone, not shares(file), -heavy, -SECONDS.get(name, 0)


@functools.cache
def runs_job(scope: str) -> bool:
    """Say whether the tests of a scope, a file's path or a name of ``DEAR``, run the whole job."""
    return scope not in DEAR and any(word in (ROOT / scope).read_text(encoding="utf-8") for word in JOB)
