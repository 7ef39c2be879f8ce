"""What decisions are judged by where consumers are not alike, or records/s are limited: read off what a cycle sees."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.busy_throughput import Busy
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.cycle.utilisation import read_gauge
from autoscaler.core.decide import decide, hold
from autoscaler.core.group.history import History
from autoscaler.core.load.group_load import read_load
from autoscaler.model import (
    CapacitySource,
    Finding,
    GroupState,
    LoadSnapshot,
    MovePartition,
    Observation,
    Reason,
    Retention,
    WorkerPhase,
)
from autoscaler.model.findings import What
from autoscaler.packing import Gauge
from tests.builders import T0, TOPIC, load, moment, observation, owned, policy, rates, says, snapshot, state, tp

SLOW = Busy(speeds={"g-1-1": 0.5})  # what the builders call the worker of slot 1
MEASURED = Capacity(bytes_per_s=100.0, source=CapacitySource.MEASURED, samples=9, at=T0)
UNCONFIGURED = {"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": 100.0}
TWO = owned([0, 1], [2, 3])


def gauge(seen: LoadSnapshot, there: GroupState | None, rules: Policy, capacity: Capacity = MEASURED, **changes: object) -> Gauge:
    found = read_load(seen, rules.topics, rules.stale_after_s, **changes)  # type: ignore[arg-type]
    workers = there.workers if there is not None else ()
    return read_gauge(seen, workers, found, busy=SLOW, capacity=capacity, policy=rules.with_capacity(capacity.bytes_per_s))


@pytest.mark.parametrize(
    ("rules", "capacity", "there", "speeds", "why"),
    [
        (UNCONFIGURED, MEASURED, state(TWO), {1: 0.5}, "measured"),
        ({}, replace(MEASURED, source=CapacitySource.CONFIGURED), state(TWO), {}, "what is configured holds for all"),
        (UNCONFIGURED, replace(MEASURED, source=CapacitySource.PRIOR), state(TWO), {}, "nothing is measured"),
        (UNCONFIGURED, MEASURED, None, {}, "a native group"),
        ({**UNCONFIGURED, "sizing": "LINEAR"}, MEASURED, state(TWO), {}, "a published policy knows equal consumers"),
        ({**UNCONFIGURED, "capacity_bounds_ratio": 1.25}, MEASURED, state(TWO), {1: 0.8}, "the bound"),
    ],
)
def test_which_consumers_differ(
    rules: dict[str, object], capacity: Capacity, there: GroupState | None, speeds: Mapping[int, float], why: str
) -> None:
    assert gauge(snapshot(rates(10, 10, 10, 10)), there, policy(**rules), capacity).speeds == speeds, why


def test_of_two_workers_of_a_slot_the_active_one_counts() -> None:
    there = state(TWO)
    ending = replace(there.workers[1], phase=WorkerPhase.DRAINING)
    new = replace(there.workers[1], uuid="new")
    rules = policy(**UNCONFIGURED)
    assert gauge(snapshot(rates(1, 1, 1, 1)), replace(there, workers=(there.workers[0], ending, new)), rules).speeds == {}


def test_what_records_count_for() -> None:
    """A hundred bytes/s or twenty records/s of one consumer: a record counts five bytes."""
    rules = policy(capacity_records_per_s=20.0)
    seen = snapshot([
        load(tp(0), 10.0, records_per_s=4.0),
        load(tp(1), 10.0, records_per_s=1.0),
        load(tp(2), 10.0, records_per_s=None),
        load(tp(3), 10.0, records_per_s=float("nan")),
    ])  # fmt: skip
    assert gauge(seen, state(TWO), rules).counts == {tp(0): 20, tp(1): 5, tp(2): 12.5, tp(3): 12.5}
    assert gauge(seen, None, rules).counts == gauge(seen, state(TWO), rules).counts, "advice is placed by it too"
    assert gauge(snapshot(rates(10, 10)), state(TWO), rules).counts == {}, "no more than their bytes: one limit is enough"


def test_who_stands_still_has_no_records_to_do_either() -> None:
    rules = policy(capacity_records_per_s=20.0)
    seen = snapshot([load(tp(n), 10.0, records_per_s=4.0) for n in range(4)])
    assert gauge(seen, state(TWO), rules, stalled=[tp(0)]).counts == {tp(0): 0, tp(1): 20, tp(2): 20, tp(3): 20}


def test_a_lost_workers_partitions_do_not_go_to_a_slow_one_that_would_be_too_full() -> None:
    there = state(owned([0], [1]), live=[0, 1, 2], orphans=frozenset({tp(2)}))
    seen = observation(rates(20.0, 30.0, 20.0), there)
    decision, _ = decide(seen, History(busy=SLOW, capacity=MEASURED), policy(**UNCONFIGURED), moment(T0))
    assert decision.reason is Reason.WORKER_LOST
    assert decision.target[tp(2)] in {0, 2}


def test_relieving_a_slow_worker_is_worth_what_it_has_too_much() -> None:
    """It carries 45 of the 40 bytes/s that it may have; by the group's 80 nobody would have too much."""
    values = [10.0] * 4 + [9.0] * 5
    seen = observation(rates(*values), state(owned(range(4), range(4, 9))))
    decision, _ = decide(seen, History(busy=SLOW, capacity=MEASURED), policy(**UNCONFIGURED, max_consumers=2), moment(T0))
    assert (decision.reason, decision.limited_by) == (Reason.RATE_ABOVE_CAPACITY, None)
    assert [a.source for a in decision.actions if isinstance(a, MovePartition)] == [1]


def test_a_cycle_that_failed_outside_says_what_workers_are_taken_for_too() -> None:
    history = History(busy=SLOW, capacity=MEASURED)
    why = Finding.of(What.FAILED, error="no broker")
    seen = observation(rates(1, 1, 1, 1), state(TWO))
    held = hold(seen, history, policy(**UNCONFIGURED), moment(T0), Reason.NOT_READY, why)
    assert held.own_bytes_per_s == {1: 50}
    assert says(held, What.OWN_CAPACITY, consumers=(1,), own_bytes_per_s=50, capacity_bytes_per_s=100)


def test_records_that_must_be_read_before_they_are_deleted_fill_a_consumer_too() -> None:
    """Bytes alone would let one consumer read both partitions in time; their records do not."""
    rules = policy(capacity_records_per_s=20.0, tolerance_ratio=0.0)
    behind = {"records_per_s": 2.0, "lag_records": 400, "lag_bytes": 400.0, "lag_s": 240.0, "committed": 100, "log_end": 500}
    seen = snapshot([load(tp(n), 2.0, **behind) for n in range(2)])
    kept = {TOPIC: Retention(seconds=260.0, bytes=1e12)}
    watched = Observation(group="g", snapshot=seen, state=state(dict.fromkeys(rates(1, 1), 0)), retention=kept)
    decision, _ = decide(watched, History(), rules, moment(T0))
    assert decision.reason is Reason.RETENTION_AT_RISK
    assert len(decision.requested) == 2


def test_advice_to_a_group_without_a_control_log_counts_its_records() -> None:
    seen = snapshot([load(tp(i), 10.0, records_per_s=10.0) for i in range(8)])
    watched = Observation(group="g", snapshot=seen, state=None)
    decision, _ = decide(watched, History(), policy(mode="advise", capacity_records_per_s=20.0), moment(T0))
    assert (decision.recommended, decision.lower_bound) == (8, 8)
    assert says(decision, What.FIRST_PLACEMENT, needed=8, usable_bytes_per_s=80, usable_records_per_s=16)
    assert says(decision, What.PLACED_BY_LOAD, planned=8, usable_bytes_per_s=80, usable_records_per_s=16)
    plain, _ = decide(watched, History(), policy(mode="advise"), moment(T0))
    assert (plain.recommended, "records/s" in plain.detail) == (1, False)
