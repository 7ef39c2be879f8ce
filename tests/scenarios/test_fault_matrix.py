"""Every input that fails or makes no sense, while the group should grow, rest or shrink: what is done, and that it recovers.

docs/reference/fault-matrix.md shows this as a table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autoscaler.model import LoadSnapshot, PartitionLoad, Reason, Retention, TopicPartition
from tests.builders import TOPIC, policy, rates, tp
from tests.scenarios.world import World, moves, scalings

BEGINS, CHANGES, ENDS, LASTS = 35, 40, 75, 75 + 60
LEVELS = {"growing": (20.0, 40.0), "steady": (20.0, 20.0), "shrinking": (20.0, 4.0)}
NEEDED = {"growing": 8, "steady": 4, "shrinking": 1}  # of 16 partitions, 80 bytes/s to a consumer
Fault = Callable[[PartitionLoad], PartitionLoad]


@dataclass(slots=True, kw_only=True)
class FaultyWorld(World):
    """A world in which some of what is measured is not what it should be, for a while."""

    fault: Fault
    here: frozenset[TopicPartition] = field(default_factory=lambda: frozenset(map(tp, range(16))))

    def _measure(self, now: float) -> LoadSnapshot:
        measured = World._measure(self, now)
        if not BEGINS <= self.t < ENDS:
            return measured
        loads = tuple(self.fault(x) if x.partition in self.here else x for x in measured.loads)
        return replace(measured, loads=loads, known=all(x.known for x in loads))


def unread(load: PartitionLoad) -> PartitionLoad:
    """Return what is known of a partition whose broker does not answer: its last value, ever older."""
    return replace(load, bytes_per_s=20.0, known=False, age_s=15.0, error="broker 1 does not answer")


def never_read(load: PartitionLoad) -> PartitionLoad:
    """Return what is known of a partition that was never measured."""
    return replace(load, bytes_per_s=None, lag_records=None, lag_s=None, known=False, age_s=15.0, error="no leader")


def no_commits(load: PartitionLoad) -> PartitionLoad:
    """Return what is known where the coordinator does not answer: rates, and no lag."""
    return replace(load, committed=None, lag_records=None, lag_bytes=None, lag_s=None, known=False, error="coordinator away")


def beyond_the_end(load: PartitionLoad) -> PartitionLoad:
    """Return what is known where somebody has committed more than there is."""
    return replace(load, committed=10**9, lag_records=None, lag_bytes=None, lag_s=None, known=False)


def without(**values: float | None) -> Fault:
    return lambda load: replace(load, **values)  # type: ignore[arg-type]


ONE, ALL = frozenset({tp(5)}), frozenset(map(tp, range(16)))
FAULTS: Mapping[str, tuple[Fault, frozenset[TopicPartition]]] = {
    "every broker is away": (unread, ALL),
    "one partition's broker is away": (unread, ONE),
    "a partition was never measured": (never_read, ONE),
    "commits cannot be read": (no_commits, ALL),
    "an offset lies beyond the end": (beyond_the_end, ONE),
    "a rate is not a number": (without(bytes_per_s=float("nan")), ONE),
    "a rate is negative": (without(bytes_per_s=-1e9), ONE),
    "a rate is infinite": (without(bytes_per_s=float("inf")), ONE),
    "a rate of records is missing": (without(records_per_s=None), ALL),
    "a rate of records is not a number": (without(records_per_s=float("nan")), ONE),
    "a lag is missing": (without(lag_records=None, lag_bytes=None, lag_s=None), ONE),
    "a lag is not a number": (without(lag_s=float("nan")), ONE),
    "a lag is negative": (without(lag_records=-5, lag_bytes=-5e3, lag_s=-1.0), ONE),
    "a lag is infinite": (without(lag_s=float("inf"), lag_bytes=float("inf")), ONE),
    "an age is not a number": (without(age_s=float("nan"), known=True), ONE),
    "the retention cannot be read": (lambda load: load, ALL),
}
UNREADABLE = "the retention cannot be read"
KEPT = {TOPIC: Retention(seconds=7 * 86400.0, bytes=1e12)}
GROWS_MEANWHILE = set(FAULTS) - {"every broker is away"}  # then the new rates are known to nobody


def test_the_page_has_a_row_for_each() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "fault-matrix.md").read_text(encoding="utf-8")
    assert [name for name in FAULTS if f"| {name} |" not in page] == []


@pytest.mark.parametrize("phase", LEVELS)
@pytest.mark.parametrize("name", FAULTS)
def test_no_input_that_fails_or_makes_no_sense_leads_to_a_wrong_step(name: str, phase: str) -> None:
    before, after = LEVELS[phase]
    fault, here = FAULTS[name]
    world = FaultyWorld(
        policy=policy(shrink_stabilisation_s=20, shrink_cooldown_s=5, move_payback_s=None),
        traffic=lambda t: rates(*[before if t < CHANGES else after] * 16), fault=fault, here=here,
        retention=lambda t: {} if name == UNREADABLE and BEGINS <= t < ENDS else KEPT,
    )  # fmt: skip
    calm, faulty, healed = world.run(BEGINS), world.run(ENDS - BEGINS), world.run(LASTS - ENDS)
    assert calm[-1].consumers == 4
    counts = scalings([calm[-1], *faulty])
    if name != UNREADABLE:
        assert all(b > a for a, b in zip([4, *counts], counts, strict=False)), "it never shrinks on what it does not know"
    if phase == "growing":
        assert (faulty[-1].consumers == NEEDED[phase]) == (name in GROWS_MEANWHILE), "what is known is enough to grow by"
    elif name == UNREADABLE and phase == "shrinking":
        assert counts == [1], "the load is known"
    else:
        assert counts == []
        assert moves(faulty) == []
    assert healed[-1].consumers == NEEDED[phase]
    assert healed[-1].reason is Reason.WITHIN_TARGET
    assert max(world.loads().values()) <= 88
    assert not [d for d in healed[-20:] if d.actions], "and rests"
