"""What an operator should know of a group's workers and would otherwise not be told: one line per incarnation.

Beside the path: ``kafka_control`` and ``kafka_watch`` pass what they have read. Decides nothing, reads no client.
"""

from autoscaler.adapters.control_view import SlotOf
from autoscaler.adapters.kafka_topics import client_log
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.records import Heartbeat, Incarnation


class Remarks:
    """Says of each incarnation, once, what is odd about it.

    Args:
        group: The group's id.
        slot_of: Slot that a worker of a name fills.
        lease_s: Lease that the controller is configured with, in seconds.
    """

    def __init__(self, group: str, slot_of: SlotOf, lease_s: float) -> None:
        self._group, self._slot_of, self._lease_s = group, slot_of, lease_s
        self._said: frozenset[Incarnation] = frozenset()

    def say(self, state: ControllerState) -> None:
        """Write a line for what is new; who is over is forgotten."""
        alive = {w: b.heartbeat for w, b in state.beats.items() if w not in state.over}
        for worker in sorted(alive.keys() - self._said):
            if found := remarks(alive[worker], self._slot_of, self._lease_s):
                client_log.warning("group %s: worker %s: %s", self._group, f"{worker.name}/{worker.uuid}", "; ".join(found))
        self._said = frozenset(alive)


def remarks(said: Heartbeat, slot_of: SlotOf, lease_s: float) -> tuple[str, ...]:
    """Return what is odd about a worker, by its heartbeat."""
    found = []
    if slot_of(said.worker.name) is None:
        found.append(
            "it is given nothing, because no consumer of this group has its name; who starts it sets AUTOSCALER_WORKER_NAME "
            "to the name of a consumer, or leaves starting consumers to the job"
        )
    if said.lease_s != lease_s:
        found.append(
            f"its lease is {said.lease_s:g} s and handover.lease_s is {lease_s:g} s; it is waited for by its own, and heartbeats "
            "are kept by the setting: set AUTOSCALER_LEASE_S to the same"
        )
    return tuple(found)
