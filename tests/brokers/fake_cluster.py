"""A cluster in memory: implements ``ClusterAdmin`` and ``JournalLog``, each checked against the real one by a contract."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from autoscaler.brokers.journal import Journal, decode, encode
from autoscaler.brokers.view import (
    RATES,
    Broker,
    Cancel,
    ClearThrottle,
    Command,
    Elect,
    Holders,
    Reassign,
    SetThrottle,
    Setting,
    ShortenLists,
    View,
)
from autoscaler.errors import FencedError, TransientError
from autoscaler.model import TopicPartition

MOST_BYTES = 999_000  # of a record, as Kafka's clients and brokers have it by default


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic=topic, partition=number)


def holders(*replicas: int) -> Holders:
    return Holders(replicas, frozenset(replicas), replicas[0])


@dataclass
class FakeCluster:
    """Reassignments that copy end after ``looks`` observations, when nothing throttles them."""

    partitions: dict[TopicPartition, Holders]
    brokers: Mapping[int, Broker] = field(default_factory=lambda: {n: Broker(rack=str(n), answered_s=0.01) for n in (1, 2, 3, 4)})
    sizes: Mapping[TopicPartition, float] = field(default_factory=dict)
    running: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    settings: dict[Setting, str] = field(default_factory=dict)
    looks: int = 2
    commands: list[Command] = field(default_factory=list)
    dies_after: int | None = None  # so many commands

    def __post_init__(self) -> None:
        self._left: dict[TopicPartition, int] = {}
        self._before: dict[TopicPartition, Holders] = {}

    def observe(self, topics: Collection[str]) -> View:
        for p in list(self.running):
            self._left[p] = self._left.get(p, self.looks) - 1
            if self._left[p] <= 0:
                self._end(p)
        return View(
            brokers=dict(self.brokers), partitions=dict(self.partitions), sizes=self.sizes, running=dict(self.running),
            throttles={s: v for s, v in self.settings.items() if self._is_told(s, topics)},
        )  # fmt: skip

    def _is_told(self, setting: Setting, topics: Collection[str]) -> bool:
        return int(setting.name) in self.brokers if setting.kind == "broker" else setting.name in topics

    def _end(self, p: TopicPartition) -> None:
        to, was = self.running.pop(p), self.partitions[p]
        self._left.pop(p, None)
        self.partitions[p] = Holders(to, frozenset(to), was.leader if was.leader in to else to[0])

    def execute(self, command: Command) -> Mapping[TopicPartition, str]:  # noqa: C901  a case per command
        if self.dies_after is not None:
            if self.dies_after == 0:
                raise KeyboardInterrupt  # nothing of the job catches it: as good as a kill
            self.dies_after -= 1
        self.commands.append(command)
        match command:
            case SetThrottle(values=values):
                self.settings |= {s: v if s.key in RATES else self._listed(s, v, add=True) for s, v in values.items()}
            case ShortenLists(values=values):
                self.settings |= {s: self._listed(s, v, add=False) for s, v in values.items()}
            case ClearThrottle(settings=settings):
                self.settings = {s: v for s, v in self.settings.items() if s not in settings}
            case Reassign(replicas=replicas):
                return {p: "UnknownTopicOrPartitionError" for p, to in replicas.items() if not self._begin(p, to)}
            case Cancel(partitions=partitions):
                for p in partitions & self.running.keys():
                    del self.running[p]
                    self.partitions[p] = self._before.pop(p)
            case Elect(partitions=partitions):
                for p in partitions & self.partitions.keys():
                    at = self.partitions[p]
                    self.partitions[p] = at._replace(leader=at.replicas[0] if at.replicas[0] in at.in_sync else at.leader)
        return {}

    def _listed(self, setting: Setting, value: str, *, add: bool) -> str:
        there, given = [x for x in self.settings.get(setting, "").split(",") if x], value.split(",")
        return ",".join([*there, *(x for x in given if x not in there)] if add else [x for x in there if x not in given])

    def _begin(self, p: TopicPartition, to: tuple[int, ...]) -> bool:
        if p not in self.partitions:
            return False
        was = self._before[p] = self.partitions[p]
        copies = set(to) != set(was.replicas)
        self.partitions[p] = was._replace(replicas=(*to, *(b for b in was.replicas if b not in to)))
        if copies:
            self.running[p] = to
        return True

    def close(self) -> None:
        pass


@dataclass
class FakeJournal:
    """What several jobs share; ``opened`` returns one job's view of it."""

    value: bytes | None = None
    turn: int = 0

    def opened(self) -> "FakeJournalLog":
        return FakeJournalLog(self)


@dataclass
class FakeJournalLog:
    shared: FakeJournal
    turn: int = -1

    def take(self) -> Journal:
        self.shared.turn += 1
        self.turn = self.shared.turn
        return decode(self.shared.value)

    def read(self) -> Journal:
        return decode(self.shared.value)

    def write(self, journal: Journal) -> None:
        if self.turn != self.shared.turn:
            msg = "another job balances the brokers of this cluster"
            raise FencedError(msg)
        value = encode(journal)
        if len(value) > MOST_BYTES:
            msg = "MSG_SIZE_TOO_LARGE"
            raise TransientError(msg)
        self.shared.value = value

    def close(self) -> None:
        pass
