"""A schedule that breaks a promise becomes as short as it can be, and a test."""

from dataclasses import replace

import pytest

from tests.handover.mutants import copy_of
from tests.handover.mutations import ALL
from tests.handover.simulation.schedule import Fault, Kind, Schedule, draw
from tests.handover.simulation.shrink import as_code, broken_by, shrink, trace_of
from tests.handover.simulation.violation import Promise

_MUTATION = next(m for m in ALL if m.name == "an owner that never started is not waited for")


def test_every_fault_that_is_left_is_needed() -> None:
    with copy_of(_MUTATION.edits) as copy:
        shrinking, schedules = (copy.module(f"tests.handover.simulation.{n}") for n in ("shrink", "schedule"))
        found = next(s for s in map(schedules.draw, range(400)) if shrinking.broken_by(s) is Promise.ONE_OWNER)
        shortest = shrinking.shrink(found)
        assert shrinking.broken_by(shortest) is Promise.ONE_OWNER
        assert len(shortest.faults) < len(found.faults)
        for i in range(len(shortest.faults)):
            fewer = replace(shortest, faults=shortest.faults[:i] + shortest.faults[i + 1 :])
            assert shrinking.broken_by(fewer) is not Promise.ONE_OWNER
        assert shrinking.trace_of(shortest)[-1].startswith(f"broken: {Promise.ONE_OWNER}")


def test_a_schedule_is_shrunk_to_the_faults_that_matter() -> None:
    """Whatever makes a fault matter: here two of them, by the judgement that is passed in."""

    def breaks(schedule: Schedule) -> Promise | None:
        kinds = {f.kind for f in schedule.faults}
        return Promise.ONE_OWNER if {Kind.CRASH, Kind.PAUSE} <= kinds else None

    faults = tuple(Fault(kind=k, at=1.234 + i) for i, k in enumerate((Kind.MOVE, Kind.CRASH, Kind.HANG, Kind.PAUSE, Kind.MOVE)))
    shortest = shrink(Schedule(seed=3, drift=0.11, tidy=True, faults=faults), breaks)
    assert shortest == Schedule(
        seed=3, steady=True, partitions=2, faults=(Fault(kind=Kind.CRASH, at=2.0), Fault(kind=Kind.PAUSE, at=4.0))
    )


def test_a_schedule_that_breaks_nothing_is_not_shrunk() -> None:
    with pytest.raises(ValueError, match="breaks no promise"):
        shrink(Schedule(seed=1))


def test_the_expression_for_a_test_makes_the_same_schedule() -> None:
    schedule = draw(17)
    assert eval(as_code(schedule), {"Schedule": Schedule, "Fault": Fault, "Kind": Kind}) == schedule  # noqa: S307
    assert broken_by(schedule) is None
    assert len(trace_of(schedule)) > 10
