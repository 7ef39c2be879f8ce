"""What an operator should know of a group's workers and would otherwise not be told: one line per incarnation.

Beside the path: ``publisher`` and ``watch`` pass what they have read. Decides nothing, reads no client.
"""

from collections.abc import Mapping

from autoscaler.adapters.control_log.group_view import SlotOf
from autoscaler.adapters.kafka.control_topics import client_log
from autoscaler.handover.controller_state import Beat, ControllerState
from autoscaler.handover.records import Heartbeat, Incarnation

DRIFT_OVER_S = 600.0  # the brokers' times carry the seconds that a heartbeat may be on its way
_DRIFT_RATIO = 0.95  # half of what the margin allows


class WorkerWarnings:
    """Says of each incarnation, once, what is odd about it; ``lease_s`` is the one that the controller is configured with."""

    def __init__(self, group: str, slot_of: SlotOf, lease_s: float) -> None:
        self._group, self._slot_of, self._lease_s = group, slot_of, lease_s
        self._said: frozenset[Incarnation] = frozenset()
        self._first: dict[Incarnation, Beat] = {}
        self._slow: set[Incarnation] = set()

    def say(self, state: ControllerState) -> None:
        """Write a line for what is new; workers that are over are forgotten."""
        alive = {w: b.heartbeat for w, b in state.beats.items() if w not in state.over}
        for worker in sorted(alive.keys() - self._said):
            if found := warnings(alive[worker], self._slot_of, self._lease_s):
                client_log.warning("group %s: worker %s: %s", self._group, f"{worker.name}/{worker.uuid}", "; ".join(found))
        self._said = frozenset(alive)
        self._say_slow({w: state.beats[w] for w in alive})

    def _say_slow(self, beats: Mapping[Incarnation, Beat]) -> None:
        self._first = {w: self._first.get(w, b) for w, b in beats.items()}
        self._slow &= beats.keys()
        for worker in sorted(beats.keys() - self._slow):
            if (ratio := clock_ratio(self._first[worker], beats[worker])) is not None and ratio < _DRIFT_RATIO:
                self._slow.add(worker)
                client_log.warning(
                    "group %s: the clock of worker %s has gone %.0f %% as fast as the brokers', and a lease's margin covers a "
                    "tenth: look at that machine's clock, unless the brokers' was set",
                    self._group, f"{worker.name}/{worker.uuid}", 100 * ratio,
                )  # fmt: skip


def clock_ratio(first: Beat, last: Beat) -> float | None:
    """Return how fast a worker's clock went beside the broker's between two heartbeats; ``None`` where they lie too near.

    To be said only: nothing is decided by a broker's clock.
    """
    passed_s = last.at - first.at
    return (last.heartbeat.stamp - first.heartbeat.stamp) / passed_s if passed_s >= DRIFT_OVER_S else None


def warnings(said: Heartbeat, slot_of: SlotOf, lease_s: float) -> tuple[str, ...]:
    """Return what is odd about a worker, by its heartbeat."""
    found = []
    if slot_of(said.worker.name) is None:
        found.append(
            "ignored: no slot of this group has its name; start it with AUTOSCALER_WORKER_NAME set to the name of one, or let "
            "the job start the workers"
        )
    if said.lease_s != lease_s:
        found.append(
            f"its lease is {said.lease_s:g} s and handover.lease is {lease_s:g} s: set AUTOSCALER_LEASE_S to the same; until "
            "then its own holds for it, and heartbeats are kept by the setting"
        )
    return tuple(found)
