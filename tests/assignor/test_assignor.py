"""What a leader asks for while its members join: kafka-python forgets it when they have."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import TopicPartition

from autoscaler.assignor import CooperativePlanAssignor, PlanAssignor
from autoscaler.handover.placement_record import Placement
from tests.until import throughout, until


class Written:
    """Placements of a group, as a test writes them."""

    group = "g"

    def __init__(self) -> None:
        self.now: Placement | None = None
        self.tell: list[Callable[[Placement], None]] = []

    def latest(self) -> Placement | None:
        return self.now

    def on_change(self, tell: Callable[[Placement], None]) -> None:
        self.tell.append(tell)

    def write(self, **owners: str) -> None:
        self.now = Placement(group="g", valid_s=60, owners={("a", int(k[1:])): name for k, name in owners.items()})
        for tell in self.tell:
            tell(self.now)


class Coordinator:
    """As kafka-python's: what was asked for counts until members have joined."""

    def __init__(self) -> None:
        self.rejoin_needed = True

    def request_rejoin(self) -> None:
        self.rejoin_needed = True


class Group:
    """Two members of which the first leads."""

    def __init__(self, kind: type[PlanAssignor]) -> None:
        self.written = Written()
        self.coordinator = Coordinator()
        self.members = [kind(name, self.written) for name in ("m0", "m1")]  # type: ignore[arg-type]
        self.members[0].attach(SimpleNamespace(_coordinator=self.coordinator))

    def assigned(self) -> Mapping[str, ConsumerProtocolAssignment]:
        said = [SimpleNamespace(member_id=f"id{n}", metadata=m.metadata(["a"])) for n, m in enumerate(self.members)]
        cluster = SimpleNamespace(partitions_for_topic=lambda _: {0, 1}, topics=lambda: {"a"})
        return self.members[0].assign(cluster, said)

    def joined(self, assigned: Mapping[str, ConsumerProtocolAssignment]) -> None:
        self.coordinator.rejoin_needed = False
        self.members[0].on_assignment(assigned["id0"], 1)


@pytest.fixture(params=[PlanAssignor, CooperativePlanAssignor])
def members(request: pytest.FixtureRequest) -> Group:
    return Group(request.param)


def test_a_placement_that_comes_while_members_join_is_asked_for_when_they_have(members: Group) -> None:
    members.written.write(a0="m0", a1="m0")
    assigned = members.assigned()
    members.written.write(a0="m0", a1="m1")
    members.joined(assigned)
    assert members.coordinator.rejoin_needed
    members.joined(members.assigned())
    assert not members.coordinator.rejoin_needed


def test_a_placement_that_names_nobody_here_is_not_asked_for_again_and_again(members: Group) -> None:
    members.written.write(a0="x", a1="y")
    members.joined(members.assigned())
    assert not members.coordinator.rejoin_needed


def test_until_members_have_joined_the_leader_is_still_joining(members: Group) -> None:
    members.joined(members.assigned())
    assigned = members.assigned()
    assert members.coordinator.rejoin_needed, "a poll that ends now must go on with the join"
    members.joined(assigned)
    assert not members.coordinator.rejoin_needed


def test_what_was_withheld_is_asked_for_if_no_member_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.assignor.plan_assignor._SECOND_ROUND_S", 0.05)
    members = Group(CooperativePlanAssignor)
    members.written.write(a0="m0", a1="m0")
    members.joined(members.assigned())
    coordinator = members.coordinator
    throughout("nothing is withheld, nothing asked for", lambda: coordinator.rejoin_needed, lambda asked: not asked, for_s=0.3)
    members.written.write(a0="m0", a1="m1")
    first = members.assigned()
    assert first["id1"].partitions() == [], "m0 holds it still"
    members.joined(first)
    until("the second round is asked for", lambda: coordinator.rejoin_needed)
    second = members.assigned()
    assert second["id1"].partitions() == [TopicPartition("a", 1)]
