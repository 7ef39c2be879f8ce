"""Which file of tests a process gets next."""

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import scheduling
from tests.scheduling import DEAR, SECONDS, Sharing, order, runs_job, shares

ROOT = Path(__file__).resolve().parents[1]


@dataclass(eq=False)
class Process:
    """A process of a run, and the tests that it was given."""

    given: list[int] = field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> tuple[Sharing, list[Process], list[str]]:
    """Three processes, three jobs of one test each and four files of three tests that run none."""
    monkeypatch.setattr(scheduling, "runs_job", lambda scope: scope.startswith("job"))
    monkeypatch.setattr(scheduling, "shares", lambda _: "")
    tests = [f"job{n}::test" for n in range(3)] + [f"calm{n}::test_{i}" for n in range(4) for i in range(3)]
    processes = [Process(), Process(), Process()]
    queue = Sharing.__new__(Sharing)
    queue.log = lambda *_: None
    queue.assigned_work = {p: {} for p in processes}
    queue.registered_collections = dict.fromkeys(processes, tests)
    queue.workqueue = OrderedDict()
    for test in tests:
        queue.workqueue.setdefault(test.split("::")[0], {})[test] = False
    return queue, processes, tests


def test_one_job_runs_at_a_time_and_the_next_one_follows_where_it_ran(run: tuple[Sharing, list[Process], list[str]]) -> None:
    queue, (first, second, third), tests = run
    for process in (first, second, third):
        queue._assign_work_unit(process)
    queue._assign_work_unit(first)
    given = [[tests[i].split("::")[0] for i in p.given[:: 1 if p is first else 3]] for p in (first, second, third)]
    assert given == [["job0", "job1"], ["calm0"], ["calm1"]]
    for index in list(first.given):
        queue.mark_test_complete(first, index)  # the second one's end lets it fetch more
    assert [tests[i].split("::")[0] for i in first.given][2] == "job2"


def test_a_job_runs_beside_another_where_nothing_else_is_left(run: tuple[Sharing, list[Process], list[str]]) -> None:
    queue, (first, second, _), tests = run
    queue._assign_work_unit(first)
    for _ in range(5):
        queue._assign_work_unit(second)
    assert [tests[i].split("::")[0] for i in second.given] == [*(f"calm{n}" for n in range(4) for _ in range(3)), "job1"]


def test_what_is_overridden_is_what_xdist_calls() -> None:
    assert {"_assign_work_unit", "_split_scope"} <= vars(LoadScopeScheduling).keys() & vars(Sharing).keys()


def test_files_are_told_by_what_they_contain() -> None:
    assert shares(ROOT / "tests" / "kafka" / "test_balance.py") == "three_brokers"
    assert runs_job("tests/kafka/test_job_faults.py")
    assert runs_job("tests/kafka/test_requests.py")
    assert not runs_job("tests/kafka/test_worker.py")
    assert not any(map(runs_job, DEAR))
    assert shares(ROOT / "tests" / "browser" / "test_report.py") == "playwright"


def test_jobs_begin_first_then_what_is_shared_then_what_is_heavy_and_takes_long() -> None:
    names = (
        "test_layout.py",
        "properties/test_decide_properties.py",
        "kafka/test_commits.py",
        "kafka/test_balance.py",
        "kafka/test_requests.py",
    )
    files = [(ROOT / "tests" / name, int(name.startswith("kafka"))) for name in names]
    assert sorted(files, key=lambda f: order(*f)) == files[::-1]


def test_what_is_said_to_take_long_is_there_and_neither_a_job_nor_shared() -> None:
    assert all((ROOT / file).is_file() and not runs_job(file) and not shares(ROOT / file) for file in SECONDS)
