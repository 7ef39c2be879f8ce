"""What members make of a control log that comes and goes, and of members that missed a rebalance."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from autoscaler.assignor import CooperativePlanAssignor, Placements, PlanAssignor, placement_follower
from autoscaler.handover.placement_record import Placement, encode, key_of
from tests.until import let_pass, until

FIRST, SECOND = {("a", 0): "m0", ("a", 1): "m0"}, {("a", 0): "m0", ("a", 1): "m1"}
PATIENCE_S = 20.0
Owners = Mapping[tuple[str, int], str]


class Log:
    """A control log of one partition, and the clients that read it as kafka-python's consumer does."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, bytes | None]] = []
        self.topic_id = "one"
        self.fails: Exception | None = None
        self.read_up = threading.Event()
        self.opened = 0

    def write(self, owners: Owners | None, valid_s: float = 60.0, group: str = "g") -> None:
        value = None if owners is None else encode(Placement(group=group, valid_s=valid_s, owners=owners))
        self.written.append((key_of(group), value))

    def anew(self) -> None:
        """Delete the topic and make it again."""
        self.written.clear()
        self.topic_id += "'"

    def settle(self) -> None:
        """Wait until all that was written has been read and told."""
        for _ in range(2):  # a poll that began before the last write may end meanwhile
            self.read_up.clear()
            assert self.read_up.wait(PATIENCE_S)

    def lose(self, error: Exception) -> None:
        """Let the connection be lost, and wait until another client reads."""
        before, self.fails = self.opened, error
        until("another client reads", lambda: self.opened != before, every_s=0.001)
        self.settle()

    def client(self, **settings: object) -> "Client":
        assert settings["auto_offset_reset"] == "earliest"
        self.opened += 1
        return Client(self)


class Client:
    def __init__(self, log: Log) -> None:
        self.log, self.at = log, -1
        self._cluster = SimpleNamespace(topic_id=lambda _: log.topic_id)

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def assign(self, places: list[object]) -> None:
        (self.place,) = places

    def seek_to_beginning(self, _: object) -> None:
        self.at = 0

    def seek(self, _: object, offset: int) -> None:
        self.at = offset

    def poll(self, _: int) -> dict[object, list[SimpleNamespace]]:
        error, self.log.fails = self.log.fails, None
        if error is not None:
            raise error
        if self.at > len(self.log.written):
            self.at = 0  # out of range
        new = list(enumerate(self.log.written))[self.at :]
        self.at += len(new)
        if not new:
            self.log.read_up.set()
            let_pass(0.001)
        return {self.place: [SimpleNamespace(offset=n, key=k, value=v) for n, (k, v) in new]}

    def close(self) -> None:
        pass


class Coordinator:
    """As kafka-python's: what was asked for counts until members have joined."""

    rejoin_needed = False

    def request_rejoin(self) -> None:
        self.rejoin_needed = True


class Leader:
    """Two members of which the first leads, and reads a control log that a test writes."""

    def __init__(self, kind: type[PlanAssignor] = PlanAssignor) -> None:
        self.placements, self.coordinator = Placements("g"), Coordinator()
        self.members = [kind(name, self.placements) for name in ("m0", "m1")]
        self.members[0].attach(SimpleNamespace(_coordinator=self.coordinator))
        self.told: list[Placement] = []
        self.placements.on_change(self.told.append)
        self.rebalances = 0

    def rebalance(self) -> dict[str, list[int]]:
        said = [SimpleNamespace(member_id=f"id{n}", metadata=m.metadata(["a"])) for n, m in enumerate(self.members)]
        return self.assign(said)

    def assign(self, said: list[SimpleNamespace]) -> dict[str, list[int]]:
        cluster = SimpleNamespace(partitions_for_topic=lambda _: {0, 1}, topics=lambda: {"a"})
        assigned = self.members[0].assign(cluster, said)
        self.coordinator.rejoin_needed = False
        self.rebalances += 1
        for n, m in enumerate(self.members):
            m.on_assignment(assigned[f"id{n}"], self.rebalances)
        return {k: _partitions(v) for k, v in assigned.items()}


def _partitions(assignment: ConsumerProtocolAssignment) -> list[int]:
    return sorted(p.partition for p in assignment.partitions())


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(placement_follower, "KafkaConsumer", made.client)
    monkeypatch.setattr(placement_follower, "_AGAIN_S", 0.001)
    return made


@pytest.fixture
def lead(log: Log) -> Iterator[Callable[..., Leader]]:
    made: list[Leader] = []

    def start(kind: type[PlanAssignor] = PlanAssignor) -> Leader:
        made.append(Leader(kind))
        log.settle()
        return made[-1]

    yield start
    for leader in made:
        leader.placements.close()


def lapses(leader: Leader) -> None:
    until("the placement lapses", leader.placements.latest, lambda found: found is None)


def test_a_controller_that_comes_back_with_the_same_placement_is_followed_again(log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    log.write(FIRST, valid_s=0.5)
    log.settle()
    assert leader.rebalance() == {"id0": [0, 1], "id1": []}
    lapses(leader)
    assert leader.rebalance() != {"id0": [0, 1], "id1": []}, "a member came or went meanwhile: sticky"
    log.write(FIRST)
    log.settle()
    assert leader.coordinator.rejoin_needed, "else nobody ever holds what the controller says, and it waits for that for ever"
    assert leader.rebalance() == {"id0": [0, 1], "id1": []}
    assert not leader.coordinator.rejoin_needed


def test_a_controller_that_comes_back_before_anything_was_assigned_without_it_moves_nothing(
    log: Log, lead: Callable[..., Leader]
) -> None:
    leader = lead()
    log.write(FIRST, valid_s=0.5)
    log.settle()
    leader.rebalance()
    lapses(leader)
    log.write(FIRST)
    log.settle()
    assert leader.placements.latest() is not None
    assert not leader.coordinator.rejoin_needed


def test_a_placement_that_is_written_again_in_time_is_told_once(log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    for _ in range(5):
        log.write(FIRST)
        log.settle()
    assert [p.owners for p in leader.told] == [FIRST]


def test_a_controller_that_takes_its_placement_back_and_writes_it_again_is_told_of(log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    for owners in (FIRST, None, FIRST):
        log.write(owners)
        log.settle()
    assert [p.owners for p in leader.told] == [FIRST, FIRST]


@pytest.mark.parametrize("error", [KafkaConnectionError("away"), TypeError("a defect"), OSError("no route")])
def test_a_connection_that_was_lost_asks_for_no_rebalance(error: Exception, log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    for owners in (FIRST, SECOND):
        log.write(owners)
        log.settle()
    leader.rebalance()
    log.lose(error)
    assert not leader.coordinator.rejoin_needed
    assert [p.owners for p in leader.told] == [FIRST, SECOND]
    log.write(FIRST)
    log.settle()
    assert leader.coordinator.rejoin_needed, "it is read on"


def test_a_connection_that_was_lost_does_not_bring_a_lapsed_placement_back(log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    log.write(FIRST, valid_s=0.3)
    log.write(SECOND, group="another")  # of the same partition
    log.settle()
    lapses(leader)
    log.lose(KafkaConnectionError("away"))
    assert leader.placements.latest() is None, "no controller has written it again"


def test_what_was_written_while_the_connection_was_lost_is_taken(log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    log.write(FIRST)
    log.settle()
    log.fails = KafkaConnectionError("away")
    log.write(SECOND)
    log.settle()
    log.settle()
    assert [p.owners for p in leader.told] == [FIRST, SECOND]


@pytest.mark.parametrize("others", [0, 7])
def test_a_log_that_was_made_anew_is_read_from_its_beginning(others: int, log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    for _ in range(3):
        log.write(FIRST)
    log.settle()
    log.anew()
    log.write(SECOND)
    for _ in range(others):  # with these it is longer than the one before it
        log.write(FIRST, group="another")
    log.lose(KafkaConnectionError("away"))
    latest = leader.placements.latest()
    assert latest is not None
    assert latest.owners == SECOND


def test_a_log_that_lost_its_end_is_read_from_its_beginning(log: Log, lead: Callable[..., Leader]) -> None:
    leader = lead()
    for owners in (FIRST, FIRST, SECOND):
        log.write(owners)
    log.settle()
    leader.rebalance()
    del log.written[1:]
    log.lose(KafkaConnectionError("away"))
    latest = leader.placements.latest()
    assert latest is not None
    assert latest.owners == FIRST
    assert leader.coordinator.rejoin_needed


def test_of_many_placements_that_are_read_together_only_the_last_is_told(log: Log, lead: Callable[..., Leader]) -> None:
    for owners in (FIRST, SECOND) * 10:
        log.write(owners)
    leader = lead()
    log.write(SECOND)
    log.settle()
    assert [p.owners for p in leader.told] in ([], [SECOND]), "none, if all were read before somebody wanted to be told"


@pytest.mark.parametrize("stale_last", [False, True])
def test_what_a_member_claims_from_an_older_generation_is_withheld(
    log: Log, lead: Callable[..., Leader], *, stale_last: bool
) -> None:
    leader = lead(CooperativePlanAssignor)
    log.write({("a", 0): "m1", ("a", 1): "m1"})
    log.settle()
    holds = SimpleNamespace(member_id="id0", metadata=claims("m0", 7))  # got it when the other one was away
    missed = SimpleNamespace(member_id="id1", metadata=claims("m1", 3))
    assert leader.assign([holds, missed] if stale_last else [missed, holds]) == {"id0": [], "id1": [1]}
    assert leader.rebalance() == {"id0": [], "id1": [0, 1]}


@pytest.mark.parametrize("stale_last", [False, True])
def test_without_a_placement_a_partition_stays_with_the_newest_generation(
    lead: Callable[..., Leader], *, stale_last: bool
) -> None:
    leader = lead(CooperativePlanAssignor)
    holds = SimpleNamespace(member_id="id1", metadata=claims("m1", 7))
    missed = SimpleNamespace(member_id="id0", metadata=claims("m0", 3))
    assert leader.assign([holds, missed] if stale_last else [missed, holds]) == {"id0": [1], "id1": [0]}


def claims(name: str, generation: int) -> ConsumerProtocolSubscription:
    said = {"name": name, "owned": {"a": [0]}, "generation": generation}
    return ConsumerProtocolSubscription(version=1, topics=["a"], user_data=json.dumps(said).encode(), owned_partitions=[])
