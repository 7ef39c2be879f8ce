"""Real members whose leader asks the controller, under the controller: placed by load, placed anew, shrunk, nothing twice."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from autoscaler.devtools.broker import Broker
from autoscaler.model import AddWorkers, Decision, MovePartition, Reason, RemoveWorkers
from tests.kafka.test_native_act import PARTITIONS, MakeTopic, Produce, World
from tests.kafka.test_plan_assignor import MEMBER, Members
from tests.until import until

LIGHT, HOT = 9.0, 80.0  # of the 80 that a consumer may be given


def hot(partition: int) -> list[float]:
    return [HOT if n == partition else LIGHT for n in range(PARTITIONS)]


class Placed(World):
    """The same over members that follow a placement."""

    def said(self) -> Members:
        made = Members(self.broker, self.group, self.topic, self.logs, "")
        made.running = dict.fromkeys(f.stem for f in self.logs.glob("*.log"))  # type: ignore[assignment]
        return made

    def until(self, rates: Sequence[float], what: str, true: Callable[[dict[str, list[int]]], bool]) -> None:
        def settled(decision: Decision) -> bool:
            calm = decision.reason in {Reason.WITHIN_TARGET, Reason.UNDERUSED} and not decision.actions
            return calm and true(self.said().held())

        until(what, lambda: self.measured(rates), settled, explain=lambda: self.said().held(), every_s=0.2)


@pytest.fixture(params=["eager", "cooperative"])
def world(request: pytest.FixtureRequest, broker: Broker, make_topic: MakeTopic, group: str, tmp_path: Path) -> Iterator[Placed]:
    topic, logs = make_topic(partitions=PARTITIONS), tmp_path / "processed"
    command = ("{python}", str(MEMBER), broker.bootstrap, group, topic, "-", str(logs), request.param)
    made = Placed(broker, topic, group, tmp_path, command, {"min_consumers": 3, "cooldown_s": 1})
    yield made
    made.close()


def test_members_are_placed_by_load_placed_anew_when_it_changes_and_shrunk_and_nothing_is_processed_twice(
    world: Placed, produce: Produce
) -> None:
    sent = 0

    def more() -> None:
        nonlocal sent
        produce(world.topic, dict.fromkeys(range(PARTITIONS), 20), size=100)
        sent += 20

    def worked_off() -> bool:
        wanted = {(p, o) for p in range(PARTITIONS) for o in range(sent)}
        return set(world.said().processed()) == wanted

    def moves() -> list[Reason]:
        return [d.reason for d in world.decisions if any(isinstance(a, MovePartition) for a in d.actions)]

    for partition in (0, 5):
        before = moves()
        more()
        world.until(hot(partition), f"{partition} alone", lambda held, p=partition: len(held) == 3 and [p] in held.values())  # type: ignore[misc]
        world.until(hot(partition), "worked off", lambda _: worked_off())
    assert moves()[len(before) :] == [Reason.RATE_ABOVE_CAPACITY], "one placement for the other load"

    calm, everything = [LIGHT / 2] * PARTITIONS, list(range(PARTITIONS))
    world.until(calm, "one would do", lambda _: world.controller._history.peak() == 1)
    world.controller.policy = world.controller.policy.model_copy(update={"min_consumers": 1})
    more()
    world.until(calm, "one has all", lambda held: max(held.values(), key=len) == everything)
    world.until(calm, "the others ended", lambda _: len(world.pool.observe().running) == 1)
    world.until(calm, "worked off", lambda _: worked_off())
    assert set(world.said().processed().values()) == {1}, "nothing twice"
    steps = [type(a).__name__ for d in world.decisions for a in d.actions[:1]]
    assert steps == [
        t.__name__ for t in (AddWorkers, *[MovePartition] * len(before), MovePartition, MovePartition, RemoveWorkers)
    ]
