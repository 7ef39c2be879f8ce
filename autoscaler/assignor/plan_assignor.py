"""kafka-python assignors that follow the controller's placement.

The leader of a group asks for it, as Ezzeddine et al. 2022 let it ("the leader asks the controller").

A placement is taken from memory; while there is none that counts, partitions are assigned as the sticky assignor does, and the
log says so. When the controller changes it, the leader asks the group to rebalance.
"""

import json
import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignmentExecutor, StickyAssignorMemberMetadataV1
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from autoscaler.assignor.placement_follower import Placements
from autoscaler.handover.placement_record import Placement, Seat, Tp, holders, introduced, seated, withheld

_log = logging.getLogger(__name__)
_SECOND_ROUND_S = 5.0  # after the first, if what was withheld has not been asked for by then


class PlanAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # the library has no types
    """Assigns as the controller's placement says; every member gives up everything at a rebalance (eager).

    ``name`` is what this member is called in placements: stable over restarts, different for each member.
    """

    name = "autoscaler-plan"
    version = 0

    def __init__(self, name: str, placements: Placements) -> None:
        self._me, self._placements = name, placements
        self._owned: frozenset[Tp] = frozenset()
        self._generation = -1
        self._looked_at: Placement | None = None  # the placement that this member, as leader, assigned by or in spite of
        self._leads = False
        self._round = 0
        self._consumer: Any = None
        placements.on_change(self._changed)

    def attach(self, consumer: Any) -> Any:
        """Give it the consumer that it works for, so that the leader can ask for a rebalance; returns the consumer."""
        self._consumer = consumer
        return consumer

    @property
    def leads(self) -> bool:
        """Say whether this member made the latest assignment."""
        return self._leads

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return how members rebalance."""
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return what this member says of itself when it joins."""
        self._leads = False  # the broker is about to say which member leads from now on
        said = {"name": self._me, "owned": _by_topic(self._owned), "generation": self._generation}
        return ConsumerProtocolSubscription(self.version, sorted(topics), json.dumps(said).encode())

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:
        """Assign, as the leader."""
        self._leads = True
        self._rejoin()  # else a poll that ends before this is answered takes the group for joined, and never asks for the answer
        seats = [_seat(m) for m in members]
        topics = sorted({t for s in seats for t in s.topics})
        partitions = [(t, p) for t in topics for p in sorted(cluster.partitions_for_topic(t) or ())]
        self._looked_at = placement = self._placements.latest()
        held = seated(placement, seats, partitions)
        if held is None:
            why = "there is none that counts" if placement is None else "it names no member that is here"
            _log.warning("group %s: assigned without the controller's placement, %s: sticky", self._placements.group, why)
            held = _sticky(cluster, members, seats)
        now = self._now(held, seats)
        self._round += 1
        if now != held:
            self._ask_again(self._round)
        return {m: ConsumerProtocolAssignment(self.version, _pairs(tps), b"") for m, tps in now.items()}

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Remember what this member holds."""
        self._owned = frozenset((tp.topic, tp.partition) for tp in assignment.partitions())
        self._generation = generation
        latest = self._placements.latest()
        if latest is not None:
            self._changed(latest)  # one that came while members joined: what was asked for then is forgotten now

    def _now(self, wanted: Mapping[str, set[Tp]], seats: Sequence[Seat]) -> Mapping[str, set[Tp]]:
        """Return what of the wanted is assigned in this round: all of it, because no member holds anything any more."""
        del seats
        return wanted

    def _ask_again(self, this_round: int) -> None:
        """Ask for the second round if no other member does: members that gave something up now and then forget to."""

        def ask() -> None:
            if self._leads and self._round == this_round:
                self._rejoin()

        timer = threading.Timer(_SECOND_ROUND_S, ask)
        timer.daemon = True
        timer.start()

    def _changed(self, placement: Placement) -> None:
        """Ask for a rebalance, as the leader, when a placement says something else than was assigned by, or none was."""
        looked_at = self._looked_at.owners if self._looked_at is not None else None
        if self._leads and placement.owners != looked_at:
            self._rejoin()

    def _rejoin(self) -> None:
        if self._consumer is not None:
            self._consumer._coordinator.request_rejoin()  # noqa: SLF001  kafka-python has no public call; its version is pinned


class CooperativePlanAssignor(PlanAssignor):
    """The same with members that keep what stays theirs: what moves is assigned in a second round (KIP-429)."""

    name = "autoscaler-plan-cooperative"
    version = 1

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return how members rebalance."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return what this member says of itself when it joins."""
        self._leads = False
        kind = ConsumerProtocolSubscription.TopicPartition
        owned = [kind(topic=t, partitions=ps) for t, ps in _by_topic(self._owned).items()]
        said = {"name": self._me, "owned": _by_topic(self._owned), "generation": self._generation}
        return ConsumerProtocolSubscription(
            version=self.version, topics=sorted(topics), user_data=json.dumps(said).encode(), owned_partitions=owned
        )

    def _now(self, wanted: Mapping[str, set[Tp]], seats: Sequence[Seat]) -> Mapping[str, set[Tp]]:
        return withheld(wanted, seats)


def _seat(member: Any) -> Seat:
    """Return a member as it presents itself."""
    name, owned, generation = introduced(member.metadata.user_data)
    topics = frozenset(member.metadata.topics)
    return Seat(member_id=member.member_id, name=name, topics=topics, owned=owned, generation=generation)


def _sticky(cluster: Any, members: Sequence[Any], seats: Sequence[Seat]) -> dict[str, set[Tp]]:
    holds = holders(seats)
    held = {s.member_id: [TopicPartition(*tp) for tp in sorted(s.owned) if holds[tp] == s.member_id] for s in seats}
    known = {
        s.member_id: StickyAssignorMemberMetadataV1(
            subscription=sorted(s.topics),
            partitions=held[s.member_id],
            generation=-1,  # of one claim each, all are the newest
        )
        for s in seats
    }
    executor = StickyAssignmentExecutor(cluster, known)
    executor.perform_initial_assignment()
    executor.balance()
    return {m.member_id: {(t, p) for t, ps in executor.get_final_assignment(m.member_id) for p in ps} for m in members}


def _by_topic(tps: Iterable[Tp]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(tps):
        found[topic].append(partition)
    return dict(found)


def _pairs(tps: Iterable[Tp]) -> list[tuple[str, list[int]]]:
    return sorted(_by_topic(tps).items())
