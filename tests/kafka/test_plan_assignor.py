"""Three real members whose leader asks the controller: through changed placements, a leader's death, and its absence."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from operator import eq
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError

from autoscaler.adapters.control_log.placement_publisher import KafkaPlacements
from autoscaler.assignor import Placements, PlanAssignor, placement_follower
from autoscaler.devtools.broker import Broker
from autoscaler.errors import FencedError
from autoscaler.model import TopicPartition
from tests.until import let_pass, throughout, until

PARTITIONS, PATIENCE_S = 6, 150.0
ROOT = Path(__file__).resolve().parents[2]
MEMBER = Path(__file__).with_name("plan_member.py")
NAMES = ("m-0", "m-1", "m-2")


class Members:
    """Processes, and what they say."""

    def __init__(self, broker: Broker, group: str, topic: str, folder: Path, kind: str) -> None:
        self.command = [broker.bootstrap, group, topic], [str(folder), kind]
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        where, how = self.command
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (self.folder / f"{name}.err").open("ab") as err:
            command = [sys.executable, str(MEMBER), *where, name, *how]
            self.running[name] = subprocess.Popen(command, stderr=err, env=environment)

    def lines(self, name: str) -> list[dict[str, object]]:
        file = self.folder / f"{name}.log"
        whole = file.read_text(encoding="utf-8").rpartition("\n")[0] if file.exists() else ""
        return [json.loads(x) for x in whole.splitlines()]

    def held(self) -> dict[str, list[int]]:
        said = {name: [x["held"] for x in self.lines(name) if "held" in x] for name in self.running}
        return {name: held[-1] for name, held in said.items() if held}  # type: ignore[misc]

    def processed(self) -> Counter[tuple[int, int]]:
        files = self.folder.glob("*.log")
        return Counter((x["p"], x["o"]) for f in files for x in self.lines(f.stem) if "p" in x)  # type: ignore[misc]

    def wait(self, what: str, true: Callable[[], bool]) -> None:
        def explain() -> str:
            said = "\n".join(f"{n}: {(self.folder / f'{n}.err').read_text(errors='replace')[-1500:]}" for n in self.running)
            return f"{self.held()}\n{said}"

        until(what, true, explain=explain)

    def said(self, text: str) -> bool:
        return any(text in f.read_text(encoding="utf-8", errors="replace") for f in self.folder.glob("*.err"))

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait(30)


@pytest.fixture(params=["eager", "cooperative"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def members(broker: Broker, group: str, make_topic: Callable[..., str], tmp_path: Path, kind: str) -> Iterator[Members]:
    made = Members(broker, group, make_topic(partitions=PARTITIONS), tmp_path, kind)
    yield made
    made.close()


def owners(topic: str, *names: str) -> dict[TopicPartition, str]:
    return {TopicPartition(topic=topic, partition=n): name for n, name in enumerate(names)}


def as_written(*names: str) -> dict[str, list[int]]:
    return {m: [n for n, name in enumerate(names) if name == m] for m in NAMES}


def produced(broker: Broker, topic: str, count: int) -> None:
    producer = Producer({**broker.connection(), "enable.idempotence": True, "log_level": 0})
    for number in range(count * PARTITIONS):
        producer.produce(topic, b"x" * 50, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def test_members_hold_what_the_controller_wrote_through_changes_a_leaders_death_and_its_absence(
    broker: Broker, group: str, members: Members
) -> None:
    topic = members.command[0][2]
    for name in NAMES:
        members.start(name)
    members.wait("as the sticky assignor does", lambda: sorted(map(len, members.held().values())) == [2, 2, 2])
    assert members.said("assigned without the controller's placement, there is none that counts")

    placements = KafkaPlacements(broker.connection(), group)
    for names in (("m-0", "m-0", "m-0", "m-0", "m-1", "m-2"), ("m-2", "m-0", "m-0", "m-1", "m-1", "m-2"), ("m-1",) * 6):
        produced(broker, topic, 100)
        placements.publish(owners(topic, *names))
        members.wait(f"as in {names}", lambda names=names: members.held() == as_written(*names))  # type: ignore[misc]
    members.wait("worked off", lambda: set(members.processed()) == {(p, o) for p in range(PARTITIONS) for o in range(300)})
    assert set(members.processed().values()) == {1}, "nothing twice"

    (leader,) = (n for n in NAMES if [x["leads"] for x in members.lines(n) if "held" in x][-1])
    members.running[leader].send_signal(signal.SIGKILL)
    members.running.pop(leader).wait(30)
    rest = [n for n in NAMES if n != leader]
    everything = list(range(PARTITIONS))
    members.wait("the others have everything", lambda: sorted(p for h in members.held().values() for p in h) == everything)
    placements.publish(owners(topic, *[rest[n % 2] for n in range(PARTITIONS)]))
    wanted = {rest[0]: [0, 2, 4], rest[1]: [1, 3, 5]}
    members.wait("the new leader asks too", lambda: members.held() == wanted)
    produced(broker, topic, 50)
    members.wait("worked off", lambda: set(members.processed()) == {(p, o) for p in range(PARTITIONS) for o in range(350)})

    successor = KafkaPlacements(broker.connection(), group)
    with pytest.raises(FencedError):
        placements.publish(owners(topic, *[rest[0]] * PARTITIONS))
    successor.publish(owners(topic, *[rest[1]] * PARTITIONS))
    members.wait("the successor's is followed", lambda: members.held() == {rest[0]: [], rest[1]: everything})
    for name in rest:
        members.running[name].send_signal(signal.SIGTERM)
        assert members.running[name].wait(PATIENCE_S) == 0
    assert committed(broker, group, topic) == [350] * PARTITIONS
    successor.close()
    placements.close()


def committed(broker: Broker, group: str, topic: str) -> list[int]:
    reader = Consumer({**broker.connection(), "group.id": group})
    found = [tp.offset for tp in reader.committed([Position(topic, p) for p in range(PARTITIONS)], timeout=30)]
    reader.close()
    return found


def test_a_placement_that_nobody_renews_lapses(broker: Broker, group: str) -> None:
    reader = Placements(group, bootstrap_servers=broker.bootstrap)
    writer = KafkaPlacements(broker.connection(), group, valid_s=4.0)
    told: list[object] = []
    reader.on_change(told.append)
    wanted = owners("any", "x", "y")
    try:
        long_s = time.monotonic() + 10

        def renewed() -> bool:
            writer.publish(wanted)
            return time.monotonic() > long_s and reader.latest() is not None

        until("it is renewed for long", renewed, every_s=0.1)
        assert len(told) == 1, "renewed, not changed"
        until("it lapses", lambda: reader.latest() is None)
        writer.publish(wanted)
        until("it is told again: meanwhile partitions may have been assigned without it", lambda: len(told) >= 2)
        assert reader.latest() == told[0] == told[1]
    finally:
        writer.close()
        reader.close()


def test_a_log_is_read_on_where_reading_ended(broker: Broker, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[KafkaConsumer] = []

    class Fails(KafkaConsumer):  # type: ignore[misc]  # the library has no types
        failing = False

        def __init__(self, **settings: object) -> None:
            super().__init__(**settings)
            opened.append(self)

        def poll(self, *args: object) -> object:
            if Fails.failing:
                Fails.failing = False
                raise KafkaConnectionError
            return super().poll(*args)

    monkeypatch.setattr(placement_follower, "KafkaConsumer", Fails)
    writer = KafkaPlacements(broker.connection(), group, valid_s=2.0)
    reader = Placements(group, bootstrap_servers=broker.bootstrap)
    try:
        writer.publish(owners("any", "x", "y"))
        until("it is read", lambda: reader.latest() is not None)
        until("it lapses", lambda: reader.latest() is None)
        before = len(opened)
        Fails.failing = True
        until("another connection", lambda: len(opened) > before)
        throughout("no controller has written it again", reader.latest, lambda seen: seen is None, for_s=3, every_s=0.01)
        writer.publish(owners("any", "y", "y"))
        until("it is read", lambda: reader.latest() is not None)
    finally:
        writer.close()
        reader.close()


@pytest.mark.parametrize("kind", ["eager", "cooperative"])
def test_members_follow_the_same_placement_again_when_its_controller_is_back(
    broker: Broker, group: str, members: Members
) -> None:
    topic = members.command[0][2]
    placements = KafkaPlacements(broker.connection(), group, valid_s=4.0)
    names = ("m-0",) * (PARTITIONS - 1) + ("m-1",)
    try:
        for name in NAMES[:2]:
            members.start(name)
        members.wait("all is held", lambda: sorted(p for h in members.held().values() for p in h) == list(range(PARTITIONS)))
        placements.publish(owners(topic, *names))
        members.wait("as written", lambda: members.held() == {n: as_written(*names)[n] for n in NAMES[:2]})
        let_pass(6)  # no controller writes
        members.start("m-2")
        members.wait("sticky", lambda: sorted(map(len, members.held().values())) == [2, 2, 2])

        def as_before() -> bool:
            placements.publish(owners(topic, *names))
            return members.held() == as_written(*names)

        members.wait("as written, again", as_before)
        changes = sum(len(members.lines(n)) for n in NAMES)
        throughout("as before", as_before, bool, for_s=8, every_s=0.1)  # longer than it counts, if it were not written again
        assert sum(len(members.lines(n)) for n in NAMES) == changes, "it is written again and again, and asked for once"
    finally:
        placements.close()


def test_a_leader_that_polls_shortly_comes_back_when_its_topic_grows(
    broker: Broker, group: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=1)
    placements = Placements(group, bootstrap_servers=broker.bootstrap)
    assignor = PlanAssignor("alone", placements)
    consumer = assignor.attach(
        KafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=group, partition_assignment_strategy=[assignor], metadata_max_age_ms=200
        )
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        for count in (1, 2, 3, 4, 5):
            if count > 1:
                admin = AdminClient(broker.connection())
                admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)

            def assigned() -> int:
                consumer.poll(0)
                return len(consumer.assignment())

            until(f"it has {count}", assigned, partial(eq, count), within_s=PATIENCE_S / 5, every_s=0.001)
    finally:
        consumer.close()
        placements.close()
