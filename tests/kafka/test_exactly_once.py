"""Exactly once on a real broker: a copying application that is moved, killed, frozen and stopped behind its last check."""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log import publisher
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.kafka.fencing import fence
from autoscaler.adapters.workers.process_pool import ProcessPool
from autoscaler.config.settings import ProcessWorkers
from autoscaler.devtools.broker import Broker, Cluster
from autoscaler.errors import TransientError
from autoscaler.handover.records import Incarnation
from autoscaler.model import GroupState, TopicPartition
from autoscaler.ports import PlanIntent
from tests.conftest import create_topic
from tests.contracts.pool_contract import NOBODY, slots
from tests.contracts.test_pool import carrying
from tests.kafka.conftest import Produce
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, LEASE_S = 4, 3.0
pytestmark = pytest.mark.timeout(600)


@dataclass
class Copying:
    """Two workers that copy, under a controller that is looked at as a cycle does."""

    cluster: Cluster
    pool: ProcessPool
    control: KafkaControl
    group: str
    topic: str
    to: str
    hold: Path

    def until(self, what: str, wanted: Callable[[GroupState], bool]) -> GroupState:
        state = until(what, self.look, lambda seen: seen is not None and wanted(seen), explain=self.dump)
        assert state is not None
        return state

    def dump(self) -> None:
        """Let the workers write into their logs where their threads are."""
        for slot in self.pool.observe().running:
            self.signal(slot, signal.SIGUSR1)

    def look(self) -> GroupState | None:
        """Look as a cycle does; ``None`` while the cluster does not answer."""
        self.control.ended(self.pool.observe().ended)
        try:
            return self.control.observe()
        except TransientError:
            return None

    def give(self, *owners: int) -> None:
        """Give the partitions to these slots, and wait until they have arrived."""
        target = {TopicPartition(topic=self.topic, partition=n): owner for n, owner in enumerate(owners)}
        self.until("it is published", lambda _: self.published(target))

        def arrived(state: GroupState) -> bool:
            if state.orphans:  # somebody has lapsed meanwhile, and is there again under another uuid
                self.published(target)
            return not state.pending and state.owner == target

        self.until(f"{owners} hold them", arrived)

    def published(self, target: dict[TopicPartition, int]) -> bool:
        try:
            self.control.publish(PlanIntent(target=target, requested=frozenset(target.values()), summary=""))
        except TransientError:
            return False
        return True

    def start(self) -> None:
        """Start whoever of the two does not run, and wait until both may be given something."""

        def both(state: GroupState) -> bool:
            running = frozenset(self.pool.observe().running)
            self.pool.apply(slots(0, 1), expected=running, releasable=NOBODY)
            return sorted(w.slot for w in state.workers if w.phase == "active" and w.slot is not None) == [0, 1]

        self.until("both are there", both)

    def signal(self, slot: int, number: int) -> None:
        (process,) = carrying(self.pool.observe().running[slot])
        process.send_signal(number)

    def copies(self) -> Counter[str]:
        """Return how often each record has a copy, as far as a reader of committed records can see."""
        reader = Consumer({
            **self.cluster.connection(), "group.id": "copies", "isolation.level": "read_committed", "enable.partition.eof": True,
            "enable.auto.commit": False,
        })  # fmt: skip
        reader.assign([KafkaPartition(self.to, n, 0) for n in range(PARTITIONS)])
        found, ends = Counter[str](), 0
        while ends < PARTITIONS:
            for message in reader.consume(1000, 1.0):
                error = message.error()
                assert error is None or error.code() == KafkaError._PARTITION_EOF
                if error is None:
                    found[(message.value() or b"").decode()] += 1
                ends += error is not None
        reader.close()
        return found

    def all_copied(self, counts: dict[int, int]) -> Counter[str]:
        """Wait until every record has a copy."""
        wanted = {f"{p} {o}" for p, n in counts.items() for o in range(n)}
        found = Counter[str]()

        def done(_: GroupState) -> bool:
            nonlocal found
            found = self.copies()
            return wanted <= set(found)

        self.until("every record has a copy", done)
        return found


@contextmanager
def copying_on(cluster: Cluster, group: str, folder: Path, *, stop_at: str = "", lease_s: float = LEASE_S) -> Iterator[Copying]:
    """Run a group of two workers, each with two partitions."""
    topic, to = (create_topic(cluster, f"{what}-{group}", PARTITIONS) for what in ("from", "to"))
    hold = folder / "hold"
    settings = ProcessWorkers(
        command=("{python}", str(ROOT / "tests/kafka/copying_consumer.py")),
        environment={"COPY_TO": to, "COPY_S": "0.002", "STOP_AT": stop_at, "HOLD": str(hold)},
        restart_backoff_s=0.1,
    )
    environment = {
        "AUTOSCALER_BOOTSTRAP": cluster.bootstrap, "AUTOSCALER_GROUP": group, "AUTOSCALER_TOPICS": topic,
        "AUTOSCALER_LEASE_S": str(lease_s), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    clock = SystemClock()
    pool = ProcessPool(group=group, settings=settings, directory=folder / "workers", environment=environment, clock=clock)
    control = KafkaControl(
        connection=cluster.connection(), group=group, topics=(topic,), reset_policy="earliest", lease_s=lease_s,
        replication_factor=None, slot_of=pool.slot_of, clock=clock, park_after=None,
    )  # fmt: skip
    made = Copying(cluster, pool, control, group, topic, to, hold)
    try:
        made.start()
        made.give(0, 0, 1, 1)
        yield made
    finally:
        for instance in pool.observe().running.values():
            for process in carrying(instance):
                process.resume()
        pool.stop_all(10.0)
        pool.close()
        control.close()


@pytest.fixture
def stop_at() -> str:
    return ""


@pytest.fixture
def copying(broker: Broker, group: str, tmp_path: Path, stop_at: str) -> Iterator[Copying]:
    with copying_on(broker, group, tmp_path, stop_at=stop_at) as made:
        yield made


def once(counts: dict[int, int]) -> Counter[str]:
    return Counter(f"{p} {o}" for p, n in counts.items() for o in range(n))


def test_moves_kills_and_freezes_leave_every_record_copied_once(copying: Copying, produce: Produce) -> None:
    total = dict.fromkeys(range(PARTITIONS), 0)

    def more(count: int) -> None:
        produce(copying.topic, dict.fromkeys(range(PARTITIONS), count), size=100)
        total.update({p: n + count for p, n in total.items()})

    for owners in ((0, 1, 0, 1), (1, 1, 0, 0), (1, 0, 1, 0)):  # planned, under load
        more(100)
        copying.give(*owners)
    for killed in (0, 1):
        more(200)
        copying.signal(killed, signal.SIGKILL)
        copying.until("it is over", lambda s: len(s.owner) == PARTITIONS - 2)
        copying.give(*[1 - killed] * PARTITIONS)
        copying.start()
        copying.give(0, 0, 1, 1)
    more(300)
    copying.signal(0, signal.SIGSTOP)
    copying.until("it is over", lambda s: len(s.owner) == PARTITIONS - 2)
    copying.give(1, 1, 1, 1)
    copying.signal(0, signal.SIGCONT)
    copying.start()
    copying.give(0, 1, 0, 1)
    assert copying.all_copied(total) == once(total)


def a_zombie_goes_on(copying: Copying, produce: Produce) -> tuple[Counter[str], Counter[str]]:
    """Stop a worker behind its last check until somebody else has processed the same records; return copies and what is due."""
    counts = dict.fromkeys(range(PARTITIONS), 50)
    produce(copying.topic, counts, size=100)
    assert copying.all_copied(counts) == once(counts)
    copying.hold.touch()
    produce(copying.topic, counts, size=100)
    counts = dict.fromkeys(range(PARTITIONS), 100)
    state = copying.until("one has stopped and is over", lambda s: len(s.owner) == PARTITIONS - 2)
    (other,) = set(state.owner.values())
    copying.give(*[other] * PARTITIONS)
    copying.all_copied(counts)
    copying.signal(1 - other, signal.SIGCONT)
    copying.start()  # under another uuid: it has noticed
    copying.give(0, 0, 1, 1)
    produce(copying.topic, dict.fromkeys(range(PARTITIONS), 50), size=100)
    counts = dict.fromkeys(range(PARTITIONS), 150)
    return copying.all_copied(counts), once(counts)


@pytest.mark.parametrize("stop_at", ["produce", "commit"])
def test_a_zombie_behind_its_last_check_writes_nothing(copying: Copying, produce: Produce) -> None:
    found, due = a_zombie_goes_on(copying, produce)
    assert found == due


@pytest.mark.parametrize("stop_at", ["produce"])
def test_without_fencing_before_expiry_its_output_would_be_seen_twice(
    copying: Copying, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the check above sees what it is for."""
    monkeypatch.setattr(publisher, "fence", lambda _connection, _group, workers: list(workers))
    found, due = a_zombie_goes_on(copying, produce)
    assert set(found) == set(due)
    assert max(found.values()) == 2


def committed(copying: Copying) -> list[tuple[int, str]]:
    """Return the committed offsets with who committed them."""
    reader = Consumer({**copying.cluster.connection(), "group.id": copying.group})
    try:
        found = reader.committed([KafkaPartition(copying.topic, n) for n in range(PARTITIONS)], timeout=30)
        return [(tp.offset, json.loads(tp.metadata or "")[2]) for tp in found]
    finally:
        reader.close()


def test_offsets_stand_beside_the_outputs_and_an_idle_group_keeps_them(copying: Copying, produce: Produce) -> None:
    """A first owner's start is committed too, before there is anything to process."""
    copying.until("starts are committed", lambda _: all(o == 0 for o, _ in committed(copying)))
    counts = {0: 40, 2: 40}
    produce(copying.topic, counts, size=100)
    assert copying.all_copied(counts) == once(counts)
    uuids = {w.slot: w.uuid for w in copying.until("", lambda s: len(s.workers) == 2).workers}
    assert committed(copying) == [(40, uuids[0]), (0, uuids[0]), (40, uuids[1]), (0, uuids[1])]
    copying.pool.apply(NOBODY, expected=slots(0, 1), releasable=slots(0, 1))
    copying.until("both have left", lambda s: not s.workers)
    assert [o for o, _ in committed(copying)] == [40, 0, 40, 0]


def test_an_output_that_is_refused_ends_the_application_and_skips_nothing(copying: Copying, produce: Produce) -> None:
    config(AdminClient(copying.cluster.connection()), copying.to, "max.message.bytes", "50")
    produce(copying.topic, {0: 1}, size=100)
    logs = copying.hold.parent / "workers"
    said = f"an output to topic {copying.to} is refused"
    copying.until("it says why", lambda _: any(said in f.read_text(errors="replace") for f in logs.glob("*.log")))
    assert committed(copying)[0][0] == 0
    assert copying.copies() == Counter()


def test_who_cannot_be_fenced_is_said_and_left(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="autoscaler.kafka"):
        assert fence({"bootstrap.servers": "127.0.0.1:1"}, "g", (Incarnation("w-0", "u"),)) == []
    assert any("w-0 is not fenced, so it is not said to be over" in r.getMessage() for r in caplog.records)


def config(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
