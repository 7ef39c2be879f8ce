"""What a controller takes from workers' heartbeats of the ages of their records."""

from autoscaler.adapters.control_log.group_view import Latencies
from autoscaler.handover.records import AGE_BOUNDS_S, Incarnation

A, B = Incarnation("a", "1"), Incarnation("b", "2")


def counts(**at: int) -> tuple[int, ...]:
    """Return counts at places, such as ``p3=7``, of which all others are 0."""
    told = {int(place[1:]): count for place, count in at.items()}
    return tuple(told.get(i, 0) for i in range(len(AGE_BOUNDS_S) + 1))


def test_what_is_told_since_the_look_before_is_told_once() -> None:
    seen = Latencies()
    seen.note(A, 1.0, counts(p0=5))
    assert seen.fresh(A) == (), "how old what was counted before is, is not known"
    seen.note(A, 2.0, counts(p0=6, p3=2))
    seen.note(A, 3.0, counts(p0=9, p3=4))
    assert seen.fresh(A) == ((0, 4), (3, 4))
    assert seen.fresh(A) == ()
    assert seen.fresh(B) == ()


def test_a_worker_of_an_earlier_release_tells_none_and_one_that_is_gone_is_forgotten() -> None:
    seen = Latencies()
    for at, ages in ((1.0, ()), (2.0, ()), (3.0, counts(p1=3))):
        seen.note(A, at, ages)
        assert seen.fresh(A) == (((1, 3),) if ages else ())
    seen.keep([B])
    seen.note(A, 4.0, counts(p1=9))
    assert seen.fresh(A) == ()
