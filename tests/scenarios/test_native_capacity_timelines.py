"""What consumers of a native group can do, measured while they work: commits that are rare, a fall, a restart."""

import pytest

from autoscaler.model import CapacitySource, RemoveWorkers
from autoscaler.model.findings import What
from tests.builders import says
from tests.scenarios.native_world import NativeWorld, Work, even

MEASURED = {"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 1000.0}  # ten times what a consumer really does


def test_a_restart_of_the_job_does_not_shrink_a_group_whose_load_is_the_same() -> None:
    world = NativeWorld(changes=MEASURED)
    work = Work(world=world, rates=even(world, 800), able=100.0)
    work.run(600)
    there, latest = len(world.consumers), world.decisions[-1]
    assert latest.capacity_source is CapacitySource.MEASURED
    world.controller = world.new_controller(measured_bytes_per_s=latest.capacity_bytes_per_s)  # as the audit tells it
    seen = work.run(300)
    assert {d.capacity_source for d in seen} == {CapacitySource.MEASURED}
    assert says(seen[0], What.CAPACITY_KEPT)
    assert len(world.consumers) == there
    assert not any(isinstance(a, RemoveWorkers) for d in seen for a in d.actions)


@pytest.mark.parametrize("seconds", [900, pytest.param(2400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("every_s", [5, 10])
def test_a_group_that_commits_seldom_is_measured_over_longer(every_s: int, seconds: int) -> None:
    world = NativeWorld(changes=MEASURED)
    work = Work(world=world, rates=even(world, 800), able=100.0, commits_every_s=every_s)
    last = work.run(seconds)[-1]
    assert last.capacity_source is CapacitySource.MEASURED
    assert 80 <= last.capacity_bytes_per_s <= 120
    assert last.total_lag_records is not None
    assert last.total_lag_records < 800 / 10 * 3 * every_s, "no more than what is on its way"


@pytest.mark.parametrize("seconds", [300, pytest.param(1800, marks=pytest.mark.slow)])
def test_a_measured_capacity_falls_when_consumers_that_are_behind_drain_less_and_the_group_rests_at_it(seconds: int) -> None:
    slow = {"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 200.0, "give_up_after": None}
    world = NativeWorld(partitions=32, changes=slow)
    work = Work(world=world, rates=even(world, 800), able=100.0)
    work.run(600)
    work.able = 60.0
    work.run(400)
    later = work.run(seconds)
    assert all(50 < d.capacity_bytes_per_s < 70 for d in later), {d.capacity_bytes_per_s for d in later}
    assert len([d for d in later if d.actions]) <= 1, [(d.consumers_now, d.consumers) for d in later if d.actions]
    assert later[-1].total_lag_records is not None
    assert later[-1].total_lag_records < 1000
