"""What real workers report on a real broker, against a speed that is known: each of their records takes a fixed time."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.decision_json import restore, summarise
from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.policy import Policy
from autoscaler.config.settings import ProcessWorkers
from autoscaler.controller.group_controller import GroupController
from autoscaler.controller.managed_actuator import ManagedConsumers
from autoscaler.devtools.broker import Broker
from autoscaler.model import CapacitySource, Decision
from autoscaler.streaming.lag import GroupRules
from tests.fakes import FakeAudit
from tests.kafka.measuring import Measured
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 150.0
WORKERS, PARTITIONS = 4, 8
RECORD_S, SIZE = 0.02, 2000  # fifty records a second, whatever the machine
PER_S = 80  # records, of the 200 that four workers could do
PRIOR = 1e6  # ten times too high


@contextmanager
def traffic(broker: Broker, topic: str, *, per_s: int = PER_S, partitions: int = PARTITIONS) -> Iterator[None]:
    """Produce in the background."""
    producer, stop = Producer({**broker.connection(), "linger.ms": 5, "log_level": 0}), threading.Event()

    def run() -> None:
        began, sent = time.monotonic(), 0
        while not stop.wait(0.02):
            while sent < (time.monotonic() - began) * per_s:
                producer.produce(topic, bytes(sent % 251 for _ in range(SIZE)), partition=sent % partitions)
                sent += 1
            producer.poll(0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        assert producer.flush(30) == 0


@contextmanager
def controlled(
    broker: Broker, topic: str, group: str, place: Path, *, environment: Mapping[str, str] | None = None
) -> Iterator[GroupController]:
    """Run a group whose capacity nobody has configured, its workers with an environment of their own."""
    clock, lease_s = SystemClock(), 10.0
    place.mkdir(exist_ok=True)
    settings = ProcessWorkers(
        command=("{python}", str(ROOT / "tests" / "kafka" / "processing_consumer.py")),
        environment={"CONSUMER_LOG_DIR": str(place), "RECORD_S": str(RECORD_S), "THREADS": "1", **(environment or {})},
    )
    connecting = {
        "AUTOSCALER_BOOTSTRAP": broker.bootstrap, "AUTOSCALER_GROUP": group, "AUTOSCALER_TOPICS": topic,
        "AUTOSCALER_LEASE_S": str(lease_s), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    pool = ProcessPool(group=group, settings=settings, directory=place / "workers", environment=connecting, clock=clock)
    control = KafkaControl(
        connection=broker.connection(), group=group, topics=(topic,), reset_policy="earliest", lease_s=lease_s,
        replication_factor=None, slot_of=pool.slot_of, clock=clock,
    )  # fmt: skip
    reader = KafkaGroupReader(broker.connection(), (group,), clock, 0.5)
    policy = Policy(
        group=group, topics=(topic,), mode="act", capacity_prior_bytes_per_s=PRIOR, min_consumers=WORKERS, max_consumers=WORKERS,
        worker_start_timeout_s=PATIENCE_S,
    )  # fmt: skip
    controller = GroupController(
        policy=policy, actuator=ManagedConsumers(connect=lambda: (control, pool), summarise=summarise), reader=reader,
        audit=FakeAudit(), clock=clock, sink=lambda **_: None, restore=restore,
    )  # fmt: skip
    try:
        yield controller
    finally:
        pool.stop_all(10.0)
        controller.close()
        reader.close()


def row(controller: GroupController) -> dict[str, object]:
    """Return the latest row of the audit's table of decisions."""
    assert isinstance(controller.audit, FakeAudit)
    entry = controller.audit.entries[-1]
    cycle = rows.Cycle(decision=entry.decision, snapshot=entry.snapshot, outcomes=(), handovers=(), owner=entry.decision.target)
    found: dict[str, object] = rows.decisions([cycle]).to_pylist()[0]
    return found


def test_what_workers_report_is_what_they_can_do(
    broker: Broker, make_topic: Callable[..., str], group: str, tmp_path: Path
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    rules = GroupRules(group=group, topics=(topic,))
    decisions: list[Decision] = []
    with (
        traffic(broker, topic),
        Measured(broker.connection(), (rules,), window_s=10.0) as measured,
        controlled(broker, topic, group, tmp_path / "first") as controller,
    ):

        def cycle() -> Decision:
            decisions.append(controller.cycle(len(decisions), measured.one(), {}))
            return decisions[-1]

        until("a measured capacity", cycle, lambda d: d.capacity_source is CapacitySource.MEASURED, every_s=0.5)
        in_log = sum(f["size_bytes"] for f in measured.facts) / sum(f["log_end"] for f in measured.facts)
        true = in_log / RECORD_S
        assert decisions[0].capacity_bytes_per_s == PRIOR
        assert decisions[-1].capacity_bytes_per_s == pytest.approx(true, rel=0.15)
        said = row(controller)
        assert (said["capacity_source"], said["capacity_samples"]) == ("MEASURED", pytest.approx(WORKERS, abs=1))
        assert said["capacity_bytes_per_s"] == decisions[-1].capacity_bytes_per_s
        assert replace(decisions[-1]) == restore(summarise(decisions[-1]))
        print(f"measured {decisions[-1].capacity_bytes_per_s:.0f}, true {true:.0f} bytes/s")


def test_a_worker_twice_as_slow_as_its_peers_ends_with_about_half_of_what_they_have(
    broker: Broker, make_topic: Callable[..., str], group: str, tmp_path: Path
) -> None:
    partitions, slow = 24, 0  # five records a second each: an even share, six, is more than the slow one's 25 a second
    topic = make_topic(partitions=partitions)
    rules = GroupRules(group=group, topics=(topic,))
    decisions: list[Decision] = []

    def held() -> dict[int, int]:
        return {c: list(decisions[-1].target.values()).count(c) for c in range(WORKERS)}

    with (
        traffic(broker, topic, per_s=5 * partitions, partitions=partitions),
        Measured(broker.connection(), (rules,), window_s=10.0) as measured,
        controlled(broker, topic, group, tmp_path / "first", environment={"SLOW_SLOT": str(slow)}) as controller,
    ):

        def cycle() -> Decision:
            decisions.append(controller.cycle(len(decisions), measured.one(), {}))
            return decisions[-1]

        def relieved(decision: Decision) -> bool:
            return bool(decision.own_bytes_per_s) and held()[slow] <= partitions // 5

        until("the slow one has less", cycle, relieved, explain=held, within_s=PATIENCE_S + 60, every_s=0.5)
        last, before = decisions[-1], next(d for d in reversed(decisions) if not d.own_bytes_per_s)
        assert list(last.own_bytes_per_s) == [slow]
        assert last.own_bytes_per_s[slow] == pytest.approx(last.capacity_bytes_per_s / 2, rel=0.2)
        assert f"consumer {slow} does" in last.detail
        assert sum(held().values()) == partitions
        assert min(count for c, count in held().items() if c != slow) >= 6, held()
        assert list(before.target.values()).count(slow) == 6
        members = {m["member"]: m for m in row(controller)["members"]}  # type: ignore[attr-defined]
        assert members[str(slow)]["capacity_bytes_per_s"] == last.own_bytes_per_s[slow]
        print(f"held {held()}, {last.detail}")
