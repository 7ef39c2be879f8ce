"""A world of one native group that acts: real decisions, a fake platform, and members that get what their assignor gives them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from autoscaler.adapters.decision_summary import summarise
from autoscaler.controller import GroupController
from autoscaler.core.native.assignors import assign
from autoscaler.core.native.values import Assignor, Client, Consumer, NativeGroup
from autoscaler.model import AddWorkers, Decision, GroupMembers, LoadSnapshot, Member, PartitionLoad, RemoveWorkers, TopicPartition
from autoscaler.policy import Policy
from autoscaler.testing import FakeAudit, FakeClock, FakePool, FakeReader
from tests.builders import CAPACITY, TOPIC, rates, snapshot

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

    def __post_init__(self) -> None:
        self.reader = FakeReader()
        self.pool = FakePool(group="g", clock=self.clock)
        self.consumers: dict[str, Consumer] = {}
        self.seen_since: dict[int, float] = {}
        self.rebalances = 0
        self.decisions: list[Decision] = []
        self.controller = self.new_controller()

    def new_controller(self) -> GroupController:
        settings = {"group": "g", "topics": (TOPIC,), "mode": "act", "assignment": "native", "capacity_bytes_per_s": CAPACITY}
        quick = {"shrink_stabilisation_s": 20, "shrink_cooldown_s": 10, "worker_start_timeout_s": 10}
        return GroupController(
            policy=Policy.model_validate({**settings, **quick, **self.changes}),
            connect=None,
            reader=self.reader,
            audit=self.audit,
            clock=self.clock,
            summarise=summarise,
            sink=lambda **_: None,
            start=lambda: self.pool,
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
        return GroupMembers(state=said, kind="CLASSIC", assignor=self.assignor, members=members, at=self.clock.now())

    @property
    def scalings(self) -> list[tuple[int, int]]:
        """Return every decision that changed the number of consumers, as (cycle, consumers)."""
        acted = (AddWorkers, RemoveWorkers)
        return [(n, d.consumers) for n, d in enumerate(self.decisions) if any(isinstance(a, acted) for a in d.actions)]


def even(world: NativeWorld, total: float) -> dict[TopicPartition, float]:
    return rates(*[total / world.partitions] * world.partitions)
