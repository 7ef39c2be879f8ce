"""A recorded load as arrays."""

from autoscaler.replay.what_if import load_of
from tests import builders as b


def test_measurements_become_arrays_and_what_was_not_measured_goes_on() -> None:
    first = [b.load(b.tp(0), 100.0), b.load(b.tp(1), None)]
    later = [b.load(b.tp(0), None), b.load(b.tp(1), 40.0), b.load(b.tp(2), 0.0)]
    found = load_of([1.0, 2.0], [first, later], {b.tp(0): "b", b.tp(1): "a"})
    assert found.partitions == (b.tp(0), b.tp(1), b.tp(2))
    assert found.rates.tolist() == [[100.0, 0.0, 0.0], [100.0, 40.0, 0.0]]
    assert found.record_bytes.tolist() == [10.0, 10.0, 100.0]
    assert found.owner.tolist() == [1, 0, -1]
