"""Which of several jobs acts, by a Lease: never two of them, whatever is slow, away or cut off."""

import logging
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.kubernetes.api import MissingError, OvertakenError
from autoscaler.adapters.lease import Lease
from autoscaler.errors import TransientError
from tests.fakes import FakeClock
from tests.until import until


class FakeApi:
    """One Lease, patched as the API server does it; each job has a line to it that can be cut, and that takes its time."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.kept: dict[str, Any] | None = {"metadata": {"resourceVersion": "1"}, "spec": {}}

    def line(self) -> "Line":
        return Line(self)


class Line:
    def __init__(self, api: FakeApi) -> None:
        self.api, self.cut, self.lost_answer, self.takes_s = api, False, False, 0.0
        self.between: Callable[[], object] = str  # what happens after something was read

    def get(self, path: str) -> dict[str, Any]:
        self._passes(path)
        if self.api.kept is None:
            raise MissingError(f"no {path}")
        seen = deepcopy(self.api.kept)
        self.between()
        return seen

    def patch(self, path: str, body: object, *, kind: str, manager: str) -> dict[str, Any]:
        self._passes(path)
        if self.api.kept is None:
            raise MissingError(f"no {path}")
        assert (kind, manager) == ("json-patch", "kafka-group-autoscaler")
        changed = deepcopy(self.api.kept)
        assert isinstance(body, list)
        for step in body:
            *way, last = step["path"].strip("/").split("/")
            at: Any = changed
            for name in way:
                at = at[name]
            if step["op"] == "test" and at.get(last) != step["value"]:
                raise OvertakenError(path)
            at[last] = step["value"]
        changed["metadata"]["resourceVersion"] = str(int(changed["metadata"]["resourceVersion"]) + 1)
        self.api.kept = changed
        if self.lost_answer:
            raise TransientError(path)
        return changed

    def close(self) -> None:
        pass

    def _passes(self, path: str) -> None:
        self.api.clock.advance(self.takes_s)
        if self.cut:
            raise TransientError(path)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.api = FakeApi(self.clock)
        self.lines: list[Line] = []

    def job(self) -> Lease:
        self.lines.append(self.api.line())
        return Lease(self.lines[-1], "shop", "autoscaler", self.clock, elapsed=self.clock.monotonic)

    def spec(self) -> Mapping[str, Any]:
        assert self.api.kept is not None
        spec: Mapping[str, Any] = self.api.kept["spec"]
        return spec


@pytest.fixture
def world() -> World:
    return World()


def acts(job: Lease) -> bool:
    try:
        job.may_act()
    except TransientError:
        return False
    return True


def test_a_second_job_waits_says_for_whom_and_goes_on_when_the_first_gives_it_back(world: World) -> None:
    first, second = world.job(), world.job()
    assert not acts(first), "not taken yet"
    assert not first.tried()
    assert acts(first)
    said = second.tried()
    assert said.startswith(f"{first.me}, which has Lease autoscaler in namespace shop since {world.spec()['acquireTime']}; ")
    assert not acts(second)
    first.close()
    assert not acts(first)
    assert not second.tried()
    assert (acts(second), second.lapsed, world.spec()["leaseTransitions"]) == (True, False, 2)


def test_what_is_renewed_is_not_taken_however_long_another_one_waits(world: World) -> None:
    first, second = world.job(), world.job()
    first.tried()
    for _ in range(20):
        world.clock.advance(19.0)
        first.renew()
        assert second.tried()
    assert acts(first)


def test_a_job_that_is_cut_off_stops_before_the_lease_can_be_taken(world: World) -> None:
    first, second = world.job(), world.job()
    first.tried()
    second.tried()
    world.lines[0].cut = True
    stopped = taken = None
    while taken is None:
        with pytest.raises(TransientError):
            first.renew()
        stopped = stopped or (None if acts(first) else world.clock.monotonic())
        taken = None if second.tried() else world.clock.monotonic()
        world.clock.advance(1.0)
    assert stopped == 20.0
    assert taken == 30.0, "and what was begun just before, which takes 10 s at most, is over by then"
    assert second.lapsed
    with pytest.raises(TransientError, match=r"was not renewed for 31 s .*look whether the Kubernetes API can be reached"):
        first.may_act()
    world.lines[0].cut = False
    first.renew()
    assert (first.lost, acts(first), acts(second)) == (True, False, True)
    with pytest.raises(TransientError, match=f"{second.me} has taken it"):
        first.may_act()
    first.close()
    assert world.spec()["holderIdentity"] == second.me, "what is not its own it does not give back"


def test_an_outage_that_nobody_used_is_over_when_the_api_answers_again(world: World) -> None:
    job = world.job()
    job.tried()
    world.clock.advance(300.0)
    assert not acts(job)
    job.renew()
    assert (acts(job), job.lost) == (True, False)


@given(st.lists(st.tuples(st.sampled_from(["cut 0", "cut 1", "heal 0", "heal 1", "renew", "wait", "slow"]), st.integers(0, 15))))
def test_two_jobs_never_act_at_the_same_time(steps: list[tuple[str, int]]) -> None:
    world = World()
    jobs = (world.job(), world.job())
    for what, seconds in steps:
        world.clock.advance(float(seconds))
        if what == "slow":
            world.lines[0].takes_s = float(seconds)
        elif what not in {"renew", "wait"}:
            world.lines[int(what[-1])].cut = what.startswith("cut")
        for job, line in zip(jobs, world.lines, strict=True):
            if not line.cut and not job.lost:
                job.renew() if job._asked_at is not None else job.tried()
            assert sum(map(acts, jobs)) <= 1


def test_a_taking_whose_answer_was_lost_is_known_at_the_next_try(world: World) -> None:
    job = world.job()
    world.lines[0].lost_answer = True
    with pytest.raises(TransientError):
        job.tried()
    assert not acts(job)
    world.lines[0].lost_answer = False
    assert not job.tried()
    assert (acts(job), job.lapsed) == (True, False)


def test_that_the_one_before_let_it_expire_is_known_also_where_the_answer_to_its_taking_was_lost(world: World) -> None:
    first, second = world.job(), world.job()
    first.tried()
    second.tried()
    world.clock.advance(30.0)
    world.lines[1].lost_answer = True
    with pytest.raises(TransientError):
        second.tried()
    world.lines[1].lost_answer = False
    assert not second.tried()
    assert second.lapsed


def test_of_two_that_find_it_free_one_takes_it(world: World) -> None:
    first, second = world.job(), world.job()
    world.lines[1].between = first.tried
    assert second.tried() == "another job that has just taken Lease autoscaler in namespace shop"


def test_a_lease_that_was_deleted_is_acted_under_no_more(world: World) -> None:
    job = world.job()
    job.tried()
    world.api.kept = None
    with pytest.raises(MissingError):
        job.renew()
    assert not acts(job), "one that is made anew is free at once"
    world.api.kept = {"metadata": {"resourceVersion": "1"}, "spec": {}}
    job.renew()
    assert job.lost


def test_what_keeps_it_from_being_taken_is_said_once_and_its_end_ends_the_waiting(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    kept, world.api.kept = world.api.kept, None
    job = Lease(world.api.line(), "shop", "autoscaler", world.clock, lasts_s=1)
    stop, took = threading.Event(), list[bool]()
    waits = threading.Thread(target=lambda: took.append(job.take(stop)))
    with caplog.at_level(logging.INFO):
        waits.start()
        until("it says so", lambda: "apply the manifest that has it (docs/tasks/job-in-kubernetes.md)" in job.waits_for)
        world.api.kept = kept
        waits.join(10)
    assert (took, job.waits_for, caplog.text.count("does nothing yet")) == ([True], "", 1)
    assert kept is not None
    world.api.kept = {**kept, "spec": {"holderIdentity": "another"}}
    assert until("it learns that another one has it, and ends", stop.is_set)
    job.close()
    assert not Lease(world.api.line(), "shop", "autoscaler", world.clock).take(stop), "told to end"
