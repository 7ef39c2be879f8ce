"""A thousand histories in each run of the tests, nine thousand more and as many as there is time for in ``make chaos``."""

import pytest

from tests.handover.simulation.schedule import Fault, Kind, Schedule, calm, draw
from tests.handover.simulation.tally import DEMANDED, FENCED, LEAST_FENCED, LEAST_SHARE, Tally
from tests.handover.simulation.world import World

_CHUNK = 50
_CHUNKS = [
    pytest.param(first, marks=() if first < 1000 else pytest.mark.slow)  # make chaos
    for first in range(0, 10_000, _CHUNK)
]
_all = Tally()


@pytest.mark.parametrize("first", _CHUNKS)
def test_no_schedule_breaks_a_promise(first: int) -> None:
    tally = Tally().run(range(first, first + _CHUNK))
    _all.add(tally)
    assert not tally.broken, "python -m tests.handover.soak --seed N shrinks one to its shortest trace"


def test_each_hazard_is_reached_by_a_tenth_of_the_schedules() -> None:
    tally = _all if _all.histories else Tally().run(range(300))
    print(tally.report())
    assert {hazard: tally.share(hazard) for hazard in DEMANDED if tally.share(hazard) < LEAST_SHARE} == {}
    assert {hazard: tally.share(hazard) for hazard in FENCED if tally.share(hazard) < LEAST_FENCED} == {}


def test_nothing_stays_of_who_died_when_the_heartbeat_log_was_made_anew() -> None:
    """Shrunk from seed 4488: nobody could expire w-1, and its releases stayed for ever."""
    faults = (
        Fault(kind=Kind.MOVE, at=8.0, partition=2, to="w-2"),
        Fault(kind=Kind.CRASH, at=2.0, who="w-1", for_s=2.0),
        Fault(kind=Kind.HEARTBEATS_ANEW, at=6.6),
    )
    World(Schedule(seed=4488, slow=0.1, platform=False, park_after=1, tidy=True, faults=faults)).run()


def test_what_a_clean_up_sent_by_half_did_not_delete_goes_with_the_next() -> None:
    """Shrunk from seed 8718: one of two tombstones made a controller forget a worker, whose other record stayed for ever."""
    faults = (
        Fault(kind=Kind.MOVE, at=4.0, partition=1, to="w-1"),
        Fault(kind=Kind.LEAVE, at=2.0, who="w-1", for_s=1.0),
        Fault(kind=Kind.HEARTBEATS_ANEW, at=4.5),
        Fault(kind=Kind.LEADERLESS, on="begun", nth=4, for_s=3.0, to="control"),
    )
    World(Schedule(seed=8718, partitions=2, quiet_from=3.0, tidy=True, steady=True, exactly_once=True, faults=faults)).run()


def test_planned_moves_cost_no_duplicate() -> None:
    assert {seed: n for seed in range(200) if (n := World(calm(seed)).run().duplicates)} == {}


def test_equal_seeds_give_equal_histories() -> None:
    one, other = list[str](), list[str]()
    World(draw(7), one).run()
    World(draw(7), other).run()
    assert one == other
    assert len(one) > 10
