"""Ordinary consumers on a real broker, started and ended by the controller: real processes, real rebalances, nothing lost."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.placement_publisher import KafkaPlacements
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.policy import Policy
from autoscaler.config.settings import ProcessWorkers
from autoscaler.controller.group_controller import GroupController
from autoscaler.controller.native_actuator import NativeConsumers
from autoscaler.devtools.broker import Broker
from autoscaler.model import AddWorkers, Decision, Reason, RemoveWorkers, TopicPartition
from autoscaler.model.findings import What
from tests.builders import load, says, snapshot
from tests.fakes import FakeAudit
from tests.until import until

MakeTopic = Callable[..., str]
Produce = Callable[..., None]
PATIENCE_S = 150.0
PARTITIONS = 8


@dataclass
class World:
    """A controller over real consumers; only the load that it is told is made up."""

    broker: Broker
    topic: str
    group: str
    place: Path
    command: tuple[str, ...] = ("{python}", "-m", "autoscaler.devtools.subscriber")
    changes: Mapping[str, object] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logs = self.place / "processed"
        self.logs.mkdir(parents=True)
        self.clock = SystemClock()
        self.reader = KafkaGroupReader(self.broker.connection(), (self.group,), self.clock, 0.2)
        settings = ProcessWorkers(command=self.command, environment={"CONSUMER_LOG_DIR": str(self.logs)})
        environment = {
            "AUTOSCALER_CONNECTION": json.dumps(self.broker.connection()),
            "AUTOSCALER_GROUP": self.group,
            "AUTOSCALER_TOPICS": self.topic,
            "PYTHONPATH": ":".join(p for p in sys.path if p),
        }
        self.pool = ProcessPool(
            group=self.group, settings=settings, directory=self.place / "workers", environment=environment, clock=self.clock
        )
        policy = {
            "group": self.group, "topics": (self.topic,), "mode": "act", "assignment": "native", "capacity_bytes_per_s": 100.0,
            "shrink_stabilisation_s": 2, "shrink_cooldown_s": 1, "worker_start_timeout_s": PATIENCE_S,
        }  # fmt: skip
        self.controller = GroupController(
            policy=Policy.model_validate({**policy, **self.changes}),
            actuator=NativeConsumers(
                group=self.group, start=lambda: self.pool, place=lambda: KafkaPlacements(self.broker.connection(), self.group)
            ),
            reader=self.reader,
            audit=FakeAudit(),
            clock=self.clock,
            sink=lambda **_: None,
        )

    def cycle(self, total: float) -> Decision:
        return self.measured([total / PARTITIONS] * PARTITIONS)

    def measured(self, rates: Sequence[float]) -> Decision:
        loads = [load(TopicPartition(self.topic, n), r) for n, r in enumerate(rates)]
        self.decisions.append(self.controller.cycle(len(self.decisions), snapshot(loads, at=self.clock.now()), {}))
        return self.decisions[-1]

    def run_until(self, total: float, consumers: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        def settled(decision: Decision) -> bool:
            if (decision.reason, decision.consumers_now) == (Reason.WITHIN_TARGET, consumers):
                return True
            meanwhile()
            return False

        until(f"{consumers} consumers", lambda: self.cycle(total), settled, every_s=0.2)

    @property
    def scalings(self) -> list[int]:
        acted = (AddWorkers, RemoveWorkers)
        return [d.consumers for d in self.decisions if any(isinstance(a, acted) for a in d.actions)]

    def processed(self) -> Counter[tuple[int, int]]:
        lines = [line.split() for f in self.logs.glob("processed-*.log") for line in f.read_text("utf-8").splitlines()]
        return Counter((int(p), int(o)) for _, p, o, *_ in lines)

    def close(self) -> None:
        self.pool.stop_all()
        self.controller.close()
        self.reader.close()


@pytest.fixture
def world(broker: Broker, make_topic: MakeTopic, group: str, tmp_path: Path) -> Iterator[World]:
    made = World(broker, make_topic(partitions=PARTITIONS), group, tmp_path)
    yield made
    made.close()


def test_unmodified_consumers_are_scaled_up_and_down_and_nothing_is_lost(world: World, produce: Produce) -> None:
    sent = 0

    def more() -> None:
        nonlocal sent
        produce(world.topic, dict.fromkeys(range(PARTITIONS), 5), size=100)
        sent += 5 * PARTITIONS

    world.run_until(60.0, 1, more)
    world.run_until(300.0, 4, more)
    world.run_until(60.0, 1, more)
    more()
    until(f"{sent} are processed", lambda: len(world.processed()), lambda n: n >= sent)
    assert len(world.processed()) == sent
    assert world.scalings == [1, 4, 1], "one step each way: one rebalance per decision"
    assert any(says(d, What.FORECAST, count=4, assignor="cooperative-sticky", high_bytes_per_s=75) for d in world.decisions)
