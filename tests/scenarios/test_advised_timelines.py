"""Groups that are only advised: consumers come and go by hand, brokers go away, and what is told of it is what there was."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from autoscaler.adapters.audit import rows
from autoscaler.adapters.audit.cycle_log import cycle_record
from autoscaler.config.policy import Policy
from autoscaler.controller.actuator import Actuator
from autoscaler.controller.group_controller import GroupController
from autoscaler.errors import TransientError
from autoscaler.model import Decision, GroupState, Observation, PartitionLoad, Reason
from tests.builders import CAPACITY, TOPIC, load, members, snapshot, tp
from tests.fakes import FakeAudit, FakeClock, FakeReader

PARTITIONS = 12
READ_FOR_S = 10  # for so long the latest membership is told after it could be read last


class Watch:
    """A control log that knows nothing of the group, or cannot be read."""

    away = False

    def observe(self) -> GroupState | None:
        if self.away:
            msg = "the control log could not be read for 5 s"
            raise TransientError(msg)
        return None

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Advised:
    """A group whose consumers somebody starts by hand.

    Attributes:
        hands: How many run.
        rate: Bytes/s of a partition.
    """

    assignment: str
    hands: int = 3
    rate: float = 15.0
    clock: FakeClock = field(default_factory=FakeClock)
    audit: FakeAudit = field(default_factory=FakeAudit)
    reader: FakeReader = field(default_factory=FakeReader)
    watch: Watch = field(default_factory=Watch)
    away_s: int | None = None  # for how long no broker has answered
    seen: float | None = None
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.controller = self.new_controller()

    def new_controller(self) -> GroupController:
        policy = Policy.model_validate({
            "group": "g", "topics": (TOPIC,), "mode": "advise", "assignment": self.assignment,
            "capacity_bytes_per_s": CAPACITY, "target_utilisation": 0.8,
        })  # fmt: skip
        return GroupController(
            policy=policy, actuator=Actuator(watch=self.watch, native=self.assignment == "native"), reader=self.reader,
            audit=self.audit, clock=self.clock, sink=lambda **_: None,
        )  # fmt: skip

    def run(self, seconds: int) -> list[Decision]:
        return [self._tick() for _ in range(seconds)]

    def outage(self, seconds: int) -> list[Decision]:
        """Let no broker answer for so long."""
        self.away_s, self.watch.away = 0, True
        found = self.run(seconds)
        self.away_s, self.watch.away = None, False
        return found

    def _tick(self) -> Decision:
        self._look()
        decision = self.controller.cycle(len(self.decisions), snapshot(self._loads(), at=self.clock.now()), {})
        self.decisions.append(decision)
        self.clock.advance(1.0)
        self.away_s = None if self.away_s is None else self.away_s + 1
        return decision

    def _look(self) -> None:
        self.reader.failures.pop("g", None)
        if self.away_s is None:
            self.reader.groups["g"] = members(*(range(n, PARTITIONS, self.hands) for n in range(self.hands)))
            return
        self.reader.failures["g"] = "no broker answers at broker:9092"
        if self.away_s > READ_FOR_S:
            self.reader.groups.pop("g", None)

    def _loads(self) -> Iterable[PartitionLoad]:
        partitions = [tp(p) for p in range(PARTITIONS)]
        if self.away_s is None:
            self.seen = self.rate
            return [load(p, self.rate) for p in partitions]
        age_s, failed = self.away_s + 1.0, "no broker answers at broker:9092"
        return [load(p, self.seen, known=False, age_s=age_s, error=failed, lag_records=None) for p in partitions]


def told(decision: Decision) -> object:
    """Return how many consumers the audit and the line of the cycle say are asked for."""
    seen = Observation(group="g", snapshot=snapshot({}), state=None)
    cycle = rows.Cycle(decision=decision, snapshot=seen.snapshot, outcomes=(), handovers=(), owner={})
    (row,) = rows.decisions([cycle]).to_pylist()
    record = cycle_record(cluster="c", cycle=1, decision=decision, snapshot=seen.snapshot, observation=seen, stages={})
    names = ("consumers", "recommended", "recommended_age_s", "lower_bound", "consumers_now")
    assert {n: row[n] for n in names} == {n: record[n] for n in names}
    return row["consumers"]


KINDS = pytest.mark.parametrize("assignment", ["managed", "native"])


@KINDS
def test_consumers_that_are_started_by_hand_are_observed_as_they_are(assignment: str) -> None:
    group = Advised(assignment, rate=35.0)
    group.run(20)
    group.hands = 5
    group.run(20)
    assert {d.consumers_now for d in group.decisions[:20]} == {3}
    assert {d.consumers_now for d in group.decisions[20:]} == {5}
    assert {d.recommended for d in group.decisions[2:]} == {6}


@KINDS
def test_in_an_outage_the_advice_keeps_its_last_known_number_with_its_age(assignment: str) -> None:
    group = Advised(assignment)
    before = group.run(20)[-1]
    assert (before.consumers_now, before.recommended, before.recommended_age_s) == (3, 3, 0.0)
    dark = group.outage(60)
    assert {d.recommended for d in dark} == {3}
    assert [d.recommended_age_s for d in dark] == [float(n) for n in range(1, 61)]
    (after,) = group.run(1)
    assert (after.recommended, after.recommended_age_s) == (3, 0.0)


@KINDS
def test_in_an_outage_nothing_reads_as_no_consumers(assignment: str) -> None:
    group = Advised(assignment)
    group.run(20)
    dark = group.outage(60)
    assert {d.consumers_now for d in dark} == {3, None}
    assert {told(d) for d in dark} == {3, None}
    assert 0 not in {d.lower_bound for d in dark}
    assert {d.reason for d in dark[READ_FOR_S + 1 :]} == {Reason.NOT_READY}
    assert all(not d.actions for d in dark), "nothing is advised to somebody of whom nothing is known"
    assert {(d.consumers_now, d.consumers) for d in group.run(5)} == {(3, 3)}


@KINDS
def test_an_outage_is_blamed_on_what_failed(assignment: str) -> None:
    group = Advised(assignment)
    group.run(20)
    last = group.outage(30)[-1]
    assert "no broker answers at broker:9092" in last.detail
    assert "control log" not in last.detail
    assert "not been read yet" not in last.detail


@KINDS
def test_a_start_in_an_outage_knows_no_number_at_all(assignment: str) -> None:
    group = Advised(assignment)
    group.reader.groups.clear()
    group.away_s = READ_FOR_S + 1
    group.watch.away = True
    (first,) = group.run(1)
    assert (told(first), first.consumers_now, first.lower_bound) == (None, None, None)
    assert (first.recommended, first.recommended_age_s) == (None, None)


@KINDS
def test_a_controller_that_is_started_anew_in_an_outage_goes_by_the_rates_that_are_carried(assignment: str) -> None:
    group = Advised(assignment)
    group.run(20)
    group.outage(30)
    group.away_s, group.watch.away = 30, True
    group.controller = group.new_controller()
    (first,) = group.run(1)
    assert (told(first), first.consumers_now, first.recommended, first.recommended_age_s) == (None, None, 3, 31.0)


@KINDS
def test_of_a_group_that_is_seen_to_be_empty_none_consume_and_as_many_are_advised_as_the_load_takes(assignment: str) -> None:
    group = Advised(assignment)
    group.run(5)
    group.hands = 0
    group.reader.groups["g"] = members(group_state="EMPTY")
    group._look = lambda: None  # type: ignore[method-assign]
    last = group.run(5)[-1]
    assert (last.consumers_now, last.recommended) == (0, 3)
    assert told(last) != 0


def test_a_native_group_without_members_is_known_to_have_none_whatever_the_control_log_says() -> None:
    group = Advised("native")
    group.reader.groups["g"] = members(group_state="EMPTY")
    group._look = lambda: None  # type: ignore[method-assign]
    group.watch.away = True
    (only,) = group.run(1)
    assert only.consumers_now == 0
    assert "control log" not in only.detail


def test_while_a_native_group_rebalances_the_advice_stays_that_of_its_assignor() -> None:
    group = Advised("native", rate=35.0)
    group.run(5)
    settled = group.decisions[-1].recommended
    group.reader.groups["g"] = members([], [], [], group_state="COMPLETING_REBALANCING")
    group._look = lambda: None  # type: ignore[method-assign]
    dark = group.run(5)
    assert {d.consumers_now for d in dark} == {3}
    assert {d.recommended for d in dark} == {settled}
    assert [d.recommended_age_s for d in dark] == [1.0, 2.0, 3.0, 4.0, 5.0]


@KINDS
def test_after_an_outage_members_that_join_anew_are_not_counted_beside_their_former_selves(assignment: str) -> None:
    """Kafka lists both for as long as a session lasts."""
    group = Advised(assignment)
    group.run(5)
    group.reader.groups["g"] = members(*[[]] * 6, group_state="PREPARING_REBALANCING")
    look, group._look = group._look, lambda: None  # type: ignore[method-assign]
    joining = group.run(5)
    assert {(d.consumers_now, told(d), d.recommended, d.reason) for d in joining} == {(None, None, 3, Reason.NOT_READY)}
    assert all("rebalancing (PREPARING_REBALANCING)" in d.detail for d in joining)
    group._look = look  # type: ignore[method-assign]
    assert {(d.consumers_now, d.consumers) for d in group.run(5)} == {(3, 3)}
