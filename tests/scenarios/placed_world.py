"""A world of one native group whose leader follows a placement: real decisions, a fake platform, a rebalance for each change."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.controller.group_controller import GroupController
from autoscaler.controller.native_actuator import NativeConsumers
from autoscaler.handover.placement_record import Placement, Seat, seated
from autoscaler.model import Decision, GroupMembers, Member, MovePartition, TopicPartition
from tests.builders import TOPIC
from tests.fakes import FakePlacements
from tests.scenarios.native_world import STARTING_S, NativeWorld

DEAF_S = 2.0  # from a change of the placement until Kafka's description shows what came of it


@dataclass
class PlacedWorld(NativeWorld):
    """A group whose members call themselves what the pool calls them."""

    listens: bool = True  # whether the leader follows the placement
    session_s: float = 0.0  # for how long a member counts that was killed
    names: Mapping[int, str] = field(default_factory=dict)  # what members call themselves instead

    def __post_init__(self) -> None:
        self.placements = FakePlacements()
        self.followed: dict[TopicPartition, str] = {}
        self.changed_at: float | None = None
        self.seats: dict[str, Seat] = {}
        self.dead: dict[str, float] = {}
        self.started_at: dict[str, float] = {}
        super().__post_init__()

    def new_controller(self, measured_bytes_per_s: float | None = None) -> GroupController:
        controller = super().new_controller(measured_bytes_per_s)
        assert isinstance(controller.actuator, NativeConsumers)
        controller.actuator.place = lambda: self.placements
        return controller

    def kill(self, slot: int) -> None:
        """Let a consumer end without a word; the platform starts it again."""
        (member,) = (m for m in self.seats if m.startswith(f"g-{slot}/") and m not in self.dead)
        self.dead[member] = self.clock.now()
        self.pool.die(slot)

    def members(self) -> None:
        now, running = self.clock.now(), self.pool.observe().running
        self.started_at = {i: self.started_at.get(i, now) for i in running.values()}
        self.dead = {m: at for m, at in self.dead.items() if now - at < self.session_s}
        joined = {f"g-{s}/{i}": s for s, i in running.items() if self.joins and now - self.started_at[i] >= STARTING_S}
        there = {m: self.names.get(s, f"g-{s}") for m, s in joined.items()}
        there |= {m: self.seats[m].name for m in self.dead}
        there |= {f"stranger-{n}": f"stranger-{n}" for n in range(self.strangers)}
        if self.listens and self.placements.owners != self.followed and self.changed_at is None:
            self.changed_at = now
        heard = self.changed_at is not None and now - self.changed_at >= DEAF_S
        if heard or set(there) != set(self.seats):
            self.rebalance(there)
        self.reader.groups["g"] = self.described()

    def rebalance(self, there: Mapping[str, str]) -> None:
        """Let the leader assign: everybody takes what it gives them."""
        self.rebalances += 1
        if self.listens:
            self.followed, self.changed_at = dict(self.placements.owners), None
        owned = {m: s.owned for m, s in self.seats.items()}
        seats = [
            Seat(member_id=m, name=name, topics=frozenset({TOPIC}), owned=owned.get(m, frozenset()))
            for m, name in sorted(there.items())
        ]
        told = {(p.topic, p.partition): name for p, name in self.followed.items()}
        everything = [(TOPIC, n) for n in range(self.partitions)]
        held = seated(Placement(group="g", valid_s=120.0, owners=told), seats, everything)
        if held is None:  # as many to each as to any other
            held = {s.member_id: set(everything[i :: len(seats)]) for i, s in enumerate(seats)}
        self.seats = {
            s.member_id: Seat(member_id=s.member_id, name=s.name, topics=s.topics, owned=frozenset(held[s.member_id]))
            for s in seats
        }

    def described(self, group_state: str | None = None) -> GroupMembers:
        members = tuple(
            Member(
                member_id=m, client_id="app", host="/h", topics=self.topics(n), name=s.name,
                assigned=frozenset(TopicPartition(*tp) for tp in s.owned),
            )
            for n, (m, s) in enumerate(sorted(self.seats.items()))
        )  # fmt: skip
        said = group_state or ("STABLE" if members else "EMPTY" if self.rebalances else "DEAD")
        values = {"state": said, "kind": "CLASSIC", "assignor": "autoscaler-plan", "members": members, "at": self.clock.now()}
        return GroupMembers(**{**values, **self.says})  # type: ignore[arg-type]

    def held(self) -> dict[str, list[int]]:
        """Return what each member holds, by name."""
        return {s.name: sorted(n for _, n in s.owned) for _, s in sorted(self.seats.items())}

    @property
    def moves(self) -> list[Decision]:
        """Return the decisions that moved something."""
        return [d for d in self.decisions if any(isinstance(a, MovePartition) for a in d.actions)]
