"""A commit of an owner that is over lands late and sets the offset back: the next planned move repeats nothing all the same."""

import signal
from collections.abc import Callable
from pathlib import Path

from tests.kafka.workers import LEASE_S, Publisher, Workers, all_processed
from tests.until import let_pass, until


def test_a_planned_move_repeats_nothing_after_a_late_commit(
    control: Publisher, workers: Workers, produce: Callable[..., None], topic: str
) -> None:
    workers.start("w-1")
    workers.start("w-2")
    workers.end_leases()
    workers.script = Path(__file__).with_name("stopped_commit_consumer.py")
    workers.start("w-0")
    a, b, c = (control.incarnation(name) for name in ("w-0", "w-1", "w-2"))
    control.plan({0: a})
    control.holds(a, {0})
    (workers.folder / "armed").touch()
    produce(topic, {0: 400})
    until("it is stopped within its commit", lambda: not (workers.folder / "armed").exists())
    produce(topic, {0: 100})  # whatever it is about to commit, these are not among it
    let_pass(LEASE_S + 1)  # its lease and the margin are over
    control.expire(a)
    control.plan({0: b})
    all_processed(workers, {0: 500})
    until("all is committed", lambda: control.committed_at(0, 500))
    workers.signal("w-0", signal.SIGCONT)
    until("the offset went back", lambda: not control.committed_at(0, 500), explain=workers.said)
    before = workers.processed()
    control.plan({0: c})  # everybody is well
    control.holds(c, {0})
    until("it is committed again", lambda: control.committed_at(0, 500))
    produce(topic, {0: 10})
    until("what comes next is processed", lambda: (0, 509) in workers.processed(), explain=workers.said)
    assert {k for k, n in workers.processed().items() if n > before[k]} == {(0, 500 + n) for n in range(10)}
