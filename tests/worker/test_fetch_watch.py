"""When a data client is taken for deaf: only while the application asks in vain for what is in the log."""

from autoscaler.handover.records import Tp
from autoscaler.worker.delivery import Run
from autoscaler.worker.fetch_watch import LOOK_S, FetchWatch


def run(number: int, position: int = 5) -> Run:
    return Run(tp=Tp("id", number), topic="t", epoch=1, position=position, processed=position, committed=position)


class World:
    """A watch that is called each second; the application asks ten times a second."""

    def __init__(self, *runs: Run, end: int | None) -> None:
        self.watch, self.runs, self.end = FetchWatch(), list(runs), end
        self.now, self.in_vain, self.asked = 0.0, 0, 0

    def deaf_within(self, seconds: int) -> int:
        """Return how often it was taken for deaf."""
        return sum(self._second() for _ in range(seconds))

    def _second(self) -> bool:
        self.now += 1.0
        self.in_vain += 10
        return self.watch.is_deaf(self.runs, self.in_vain, self.now, self._end)

    def _end(self, _: Run) -> int | None:
        self.asked += 1
        return self.end


def test_what_is_there_and_does_not_come_makes_it_deaf_within_two_looks() -> None:
    assert World(run(0), end=9).deaf_within(int(2 * LOOK_S)) == 1


def test_a_partition_without_more_is_asked_about_now_and_then_and_nothing_follows() -> None:
    world = World(run(0), run(1), end=5)
    assert world.deaf_within(600) == 0
    assert world.asked <= 600 / LOOK_S + 1


def test_brokers_that_are_away_make_nothing_deaf() -> None:
    assert World(run(0), end=None).deaf_within(600) == 0


def test_one_that_advances_is_not_deaf() -> None:
    world = World(run(0), end=10**9)
    for _ in range(60):
        assert world.deaf_within(5) == 0
        world.runs[0].position += 1


def test_records_that_came_meanwhile_end_the_suspicion() -> None:
    world = World(run(0), end=9)
    for _ in range(60):
        assert world.deaf_within(int(LOOK_S) - 2) == 0
        assert not world.watch.is_deaf(world.runs, 0, world.now, world._end)
        world.in_vain = 0


def test_an_application_that_does_not_ask_makes_nothing_deaf() -> None:
    world = World(run(0), end=9)
    assert not any(world.watch.is_deaf(world.runs, 3, float(t), world._end) for t in range(600))


def test_a_partition_that_was_given_up_is_not_what_is_waited_for() -> None:
    world = World(run(0), end=9)
    world.deaf_within(3)
    world.runs = [run(1, position=9)]
    assert world.deaf_within(600) == 0


def test_what_another_client_does_not_bring_either_is_tried_less_and_less_often() -> None:
    assert 5 <= World(run(0), end=9).deaf_within(3600) <= 12
