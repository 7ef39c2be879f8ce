"""Rule 5, the controller's side: which committed offsets are out of range, and how long a plan says where to go on."""

from dataclasses import replace

from autoscaler.handover.planning import next_plan
from autoscaler.handover.records import Heartbeat, Incarnation, Phase, Plan, Reset, Tp
from tests.handover.controller_driver import LEASE, P0, TOPIC, A, B, G, Log, alive, intended


def beat(
    log: Log, worker: Incarnation, owned: dict[Tp, int], *, epoch: int, out_of_range: tuple[tuple[Tp, int], ...] = ()
) -> None:
    record = Heartbeat(
        group=G, worker=worker, stamp=0.0, boot_id="boot", acked=None, lease_s=LEASE, epoch=epoch, phase=Phase.ACTIVE,
        owned=owned, out_of_range=out_of_range,
    )  # fmt: skip
    log.state.fold(record, offset=log.offset, at=log.at)
    log.offset += 1


def standing() -> Log:
    """Return a group whose partition 0 stands still at A, since offset 9 is out of range."""
    log = alive(A, B)
    log.plan({P0: A})
    beat(log, A, {P0: 2}, epoch=2, out_of_range=((P0, 9),))
    return log


def planned(log: Log, resets: dict[Tp, tuple[int, int]] | None = None, owners: dict[Tp, Incarnation] | None = None) -> Plan:
    plan = next_plan(log.state, replace(intended(owners or {}), resets=resets or {}))
    log.say(plan)
    return plan


def test_what_its_planned_owner_says_is_astray() -> None:
    log = standing()
    assert log.state.out_of_range() == {P0: 9}
    log.expired(A)
    assert log.state.out_of_range() == {}


def test_what_another_than_the_planned_owner_says_counts_for_nothing() -> None:
    log = standing()
    log.plan({P0: B})
    assert log.state.out_of_range() == {}


def test_a_reset_stays_until_its_owner_stands_still_no_more() -> None:
    log = standing()
    first = planned(log, {P0: (9, 40)})
    assert first.resets == {P0: Reset(offset=9, start=40, epoch=first.epoch.number)}
    beat(log, A, {P0: 2}, epoch=first.epoch.number, out_of_range=((P0, 9),))
    assert planned(log).resets == first.resets
    beat(log, A, {P0: 2}, epoch=first.epoch.number)
    assert planned(log).resets == {}


def test_a_reset_goes_with_the_partition_to_its_next_owner() -> None:
    log = standing()
    first = planned(log, {P0: (9, 40)})
    log.expired(A)
    assert planned(log, owners={P0: B}).resets == first.resets
    assert planned(log).resets == first.resets, "B has not read it"
    beat(log, B, {P0: 4}, epoch=5)
    assert planned(log).resets == {}


def test_a_reset_of_a_topic_that_is_gone_goes_too() -> None:
    log = standing()
    planned(log, {P0: (9, 40)})
    assert next_plan(log.state, intended({}, topics={f"not-{TOPIC}": "orders"}, partitions=())).resets == {}
