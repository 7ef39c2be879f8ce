"""A signal's handler raises while the next batch is being fetched, and the application goes on: nothing is skipped."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.kafka.workers import PATIENCE_S, Publisher, Workers, until

TEARS, EACH = 6, 300


def test_an_exception_of_a_signals_handler_skips_nothing(
    control: Publisher, workers: Workers, produce: Callable[..., None], topic: str
) -> None:
    workers.script = Path(__file__).with_name("torn_consumer.py")
    workers.start("w-0")
    me = control.incarnation("w-0")
    gone = frozenset({me})
    for tear in range(1, TEARS + 1):
        control.plan({0: me, 1: me})
        control.holds(me, {0, 1})
        (workers.folder / "armed").touch()
        deadline = time.monotonic() + PATIENCE_S
        while (workers.folder / "armed").exists():
            produce(topic, {0: 5, 1: 5})
            assert time.monotonic() < deadline
        produce(topic, {0: EACH, 1: EACH})
        me = control.incarnation("w-0", other_than=gone)
        gone |= {me}
        assert len(gone) == tear + 1
    control.plan({0: me, 1: me})
    control.holds(me, {0, 1})
    produce(topic, {0: 1, 1: 1})
    last = {p: max(o for q, o in workers.processed() if q == p) for p in (0, 1)}
    until("all is committed", lambda: all(control.committed(p).offset > last[p] for p in (0, 1)))
    workers.signal("w-0", signal.SIGTERM)
    assert workers.ended("w-0") == 0
    done = set(workers.processed())
    for partition in (0, 1):
        end = control.committed(partition).offset
        assert end > TEARS * EACH
        assert {(partition, o) for o in range(end)} <= done
