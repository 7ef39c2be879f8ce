"""A world of one native group that acts: real decisions, a fake platform, and members that get what their assignor gives them."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from autoscaler.config.policy import Policy
from autoscaler.controller.group_controller import GroupController
from autoscaler.controller.native_actuator import NativeConsumers
from autoscaler.core.assignors.group_model import Assignor, Client, Consumer, NativeGroup
from autoscaler.core.assignors.simulate import assign
from autoscaler.model import (
    AddWorkers,
    Decision,
    GroupMembers,
    LoadSnapshot,
    Member,
    PartitionLoad,
    RemoveWorkers,
    TopicPartition,
)
from tests.builders import CAPACITY, TOPIC, load, rates, snapshot
from tests.fakes import FakeAudit, FakeClock, FakePool, FakeReader

Loads = Mapping[TopicPartition, float | None] | Iterable[PartitionLoad]
STARTING_S = 2  # from the start of a consumer until Kafka counts it


@dataclass
class NativeWorld:
    """A group whose consumers run in a pool and take what Kafka's assignor gives them."""

    assignor: Assignor = Assignor.COOPERATIVE_STICKY
    partitions: int = 16
    changes: Mapping[str, object] = field(default_factory=dict)
    static: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    audit: FakeAudit = field(default_factory=FakeAudit)
    joins: bool = True  # whether what is started becomes a member
    strangers: int = 0  # members that nobody here has started
    topics: Callable[[int], frozenset[str] | None] = lambda _slot: frozenset({TOPIC})
    says: Mapping[str, object] = field(default_factory=dict)  # what Kafka's description of the group says instead
    hidden: bool = False  # whether it cannot be read at all

    def __post_init__(self) -> None:
        self.reader = FakeReader()
        self.pool = FakePool(group="g", clock=self.clock)
        self.consumers: dict[str, Consumer] = {}
        self.seen_since: dict[int, float] = {}
        self.rebalances = 0
        self.decisions: list[Decision] = []
        self.controller = self.new_controller()

    def policy(self) -> Policy:
        settings = {"group": "g", "topics": (TOPIC,), "mode": "act", "assignment": "native", "capacity_bytes_per_s": CAPACITY}
        quick = {"shrink_stabilisation_s": 20, "shrink_cooldown_s": 10, "worker_start_timeout_s": 10}
        return Policy.model_validate({**settings, **quick, **self.changes})

    def set(self, **changes: object) -> None:
        """Change settings while the job runs."""
        self.changes = {**self.changes, **changes}
        self.controller.policy = self.policy()

    def new_controller(self, measured_bytes_per_s: float | None = None) -> GroupController:
        return GroupController(
            policy=self.policy(),
            actuator=NativeConsumers(group="g", start=lambda: self.pool),
            reader=self.reader,
            audit=self.audit,
            clock=self.clock,
            sink=lambda **_: None,
            measured_bytes_per_s=measured_bytes_per_s,
        )

    def tick(self, loads: Loads, seconds: float = 1.0) -> Decision:
        return self.measured(snapshot(loads, at=self.clock.now()), seconds)

    def measured(self, seen: LoadSnapshot, seconds: float = 1.0) -> Decision:
        self.members()
        decision = self.controller.cycle(len(self.decisions), seen, {})
        self.decisions.append(decision)
        self.clock.advance(seconds)
        return decision

    def run(self, loads: Loads, seconds: int) -> Decision:
        for _ in range(seconds - 1):
            self.tick(loads)
        return self.tick(loads)

    def members(self) -> None:
        """Let the assignor act on who is there now."""
        now, running = self.clock.now(), self.pool.observe().running
        self.seen_since = {s: self.seen_since.get(s, now) for s in running}
        there = {f"g-{s}" for s, since in self.seen_since.items() if self.joins and now - since >= STARTING_S}
        there |= {f"stranger-{n}" for n in range(self.strangers)}
        if there != set(self.consumers):
            self.rebalances += 1
            consumers = tuple(self.consumers.get(m) or Consumer(member_id=m, topics=frozenset({TOPIC})) for m in sorted(there))
            held = assign(
                NativeGroup(assignor=self.assignor, consumers=consumers, partitions={TOPIC: self.partitions}), Client.JAVA
            )
            assert held is not None
            self.consumers = {
                m: Consumer(member_id=m, topics=frozenset({TOPIC}), owned=frozenset(held[m])) for m in sorted(there)
            }
        if self.hidden:
            self.reader.groups.pop("g", None)
        else:
            self.reader.groups["g"] = self.described()

    def described(self, group_state: str | None = None) -> GroupMembers:
        members = tuple(
            Member(
                member_id=m, client_id=m, host="/h", assigned=c.owned, topics=self.topics(n), library="java",
                instance=m if self.static else None,
            )
            for n, (m, c) in enumerate(sorted(self.consumers.items()))
        )  # fmt: skip
        said = group_state or ("STABLE" if members else "EMPTY" if self.rebalances else "DEAD")
        seen = GroupMembers(state=said, kind="CLASSIC", assignor=self.assignor, members=members, at=self.clock.now())
        return replace(seen, **self.says)  # type: ignore[arg-type]

    @property
    def scalings(self) -> list[tuple[int, int]]:
        """Return every decision that changed the number of consumers, as (cycle, consumers)."""
        acted = (AddWorkers, RemoveWorkers)
        return [(n, d.consumers) for n, d in enumerate(self.decisions) if any(isinstance(a, acted) for a in d.actions)]


def even(world: NativeWorld, total: float) -> dict[TopicPartition, float]:
    return rates(*[total / world.partitions] * world.partitions)


@dataclass(slots=True, kw_only=True)
class Work:
    """What arrives for a native group and what its consumers commit, second by second.

    Attributes:
        rates: Bytes/s of every partition; ten bytes are a record.
        downstream: Records/s that what the consumers write to takes in all.
        stuck: Partitions whose offset does not advance whoever holds them.
        commits_every_s: Seconds between two commits.
        able: Bytes/s that one consumer processes, whatever its configured capacity.
    """

    world: NativeWorld
    rates: Mapping[TopicPartition, float]
    downstream: float = 1e9
    stuck: Container[TopicPartition] = ()
    commits_every_s: int = 1
    able: float = CAPACITY
    seconds: int = 0
    arrived: dict[TopicPartition, float] = field(default_factory=dict)
    done: dict[TopicPartition, float] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)

    def run(self, seconds: int) -> list[Decision]:
        """Let seconds pass, a decision each, and return these decisions."""
        return [self.world.tick(self._pass()) for _ in range(seconds)]

    def _pass(self) -> list[PartitionLoad]:
        able = min(self.downstream, len(self.world.consumers) * self.able / 10) / len(self.rates)
        self.seconds += 1
        for p, rate in self.rates.items():
            self.arrived[p] = self.arrived.get(p, 100.0) + rate / 10
            done = self.done.get(p, 100.0)
            self.done[p] = done if p in self.stuck else min(self.arrived[p], done + able)
            if self.seconds % self.commits_every_s == 0:
                self.committed[p] = int(self.done[p])
        return [self._measured(p, rate) for p, rate in self.rates.items()]

    def _measured(self, p: TopicPartition, rate: float) -> PartitionLoad:
        committed, end = self.committed.get(p, 100), int(self.arrived[p]) + 1
        behind = 0.0 if rate == 0 else (self.arrived[p] - committed) / (rate / 10)
        return load(p, rate, committed=committed, log_end=end, lag_records=end - committed, lag_s=behind)
