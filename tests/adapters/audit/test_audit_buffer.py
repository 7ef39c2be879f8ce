"""What the audit's buffer drops when tables cannot be written for long, and what it never drops."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.audit.buffer import DECISION_EVERY_S, Batch, Buffer
from autoscaler.adapters.audit.rows import Cycle
from autoscaler.model import Reason
from tests.adapters.audit import audit_cases as cases

REASONS = (Reason.WITHIN_TARGET, Reason.STALE_INPUT)


def idle(at: float, reason: Reason = REASONS[0]) -> Cycle:
    d, s, state = cases.calm(at)
    return Cycle(decision=replace(d, reason=reason), snapshot=s, outcomes=(), handovers=(), owner=state.owner)


def acting(at: float) -> Cycle:
    d, s, state = cases.hot(at)
    return Cycle(decision=d, snapshot=s, outcomes=cases.outcomes(d), handovers=(), owner=state.owner)


def taken(buffer: Buffer) -> Batch:
    batch = buffer.take()
    assert batch is not None
    return batch


def test_decisions_stay_when_there_is_no_room_for_measurements() -> None:
    cycles = [idle(cases.T0 + n * DECISION_EVERY_S, REASONS[n % 2]) for n in range(5)]
    buffer = Buffer(max_partitions=40)
    for n, cycle in enumerate(cycles):
        buffer.add(cycle)
        for second in range(1, 10):
            buffer.add(idle(cases.T0 + n * DECISION_EVERY_S + second, REASONS[n % 2]))
    kept = [e for e in taken(buffer).entries if e.due]
    assert [e.cycle.decision.decision_id for e in kept] == [c.decision.decision_id for c in cycles]
    assert buffer.dropped.decisions == 0
    assert buffer.dropped.measurements > 0


def test_a_decision_that_says_what_the_one_before_said_goes_before_one_that_is_news() -> None:
    buffer = Buffer(max_partitions=40)
    news = [idle(cases.T0, REASONS[0]), idle(cases.T0 + 1, REASONS[1])]
    for cycle in [*news, *(idle(cases.T0 + 1 + n * DECISION_EVERY_S, REASONS[1]) for n in range(1, 100))]:
        buffer.add(cycle)
    kept = [e.cycle.decision.decision_id for e in taken(buffer).entries]
    assert kept[:2] == [c.decision.decision_id for c in news]
    assert idle(cases.T0 + 1 + 99 * DECISION_EVERY_S).decision.decision_id == kept[-1], "the oldest go first"
    assert buffer.dropped.decisions == 101 - len(kept)


@given(
    st.lists(st.tuples(st.sampled_from(["idle", "other", "acting"]), st.sampled_from([1.0, 11.0])), max_size=60),
    st.integers(1, 200),
)
def test_what_is_dropped_is_within_the_bound_counted_and_nothing_that_acted(told: list[tuple[str, float]], bound: int) -> None:
    buffer, at, cycles = Buffer(max_partitions=bound), cases.T0, []
    for kind, after in told:
        at += after
        cycles.append(acting(at) if kind == "acting" else idle(at, REASONS[kind == "other"]))
        buffer.add(cycles[-1])
    batch = buffer.take()
    entries = batch.entries if batch else ()
    dropped = batch.dropped if batch else ()
    assert {c.decision.decision_id for c in cycles if c.acted} <= {
        e.cycle.decision.decision_id for e in entries if e.measurements
    }
    held = [e for e in entries if not e.kept]
    assert sum(e.decisions for e in held) <= bound
    if sum(e.measurements for e in held):
        assert sum(e.measurements for e in entries) <= bound
    without = len(cycles) - sum(1 for e in entries if e.measurements)
    assert buffer.dropped.measurements == without
    assert sum(dropped) in ({without} if any(e.measurements for e in entries) else {0})
    assert (buffer._measurements, buffer._decisions) == (0, 0)
