"""What a group has committed, as far as it concerns its controller.

That is: where partitions begin, at which offset their owners were lost, and offsets that no worker keeps alive. Asks the
brokers and remembers what the latest plan does not say yet; which owners are lost and which partitions poisonous is decided in
``handover/``.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from autoscaler.adapters.control_log.transactions import ControlTransactions
from autoscaler.adapters.kafka.control_topics import EARLIEST, LATEST, Connection, client_log, offsets_retention_s, retried
from autoscaler.adapters.kafka.offsets import GroupOffsets, edges
from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.poison_partitions import Reached, counted, poisonous, uncounted
from autoscaler.handover.records import RECOMMIT_S, Loss, Plan, Tp, recommit_s

_CALL_S = 5.0
_LOOK_S = 2.0

Names = Mapping[str, str]  # topic id -> name
Committed = Mapping[Tp, TopicPartition]


class ControlOffsets:
    """Offsets of one group.

    Partitions without a committed offset begin by ``reset_policy`` when the group is adopted; later ones begin at their start.
    After ``park_after`` owners in a row that were lost at one committed offset a partition is parked; ``None``: never.
    """

    def __init__(
        self, connection: Connection, group: str, *, reset_policy: Literal["earliest", "latest"], park_after: int | None
    ) -> None:
        self._group, self._reset_policy, self._park_after = group, reset_policy, park_after
        self._offsets = GroupOffsets(connection, group)
        self._admin: AdminClient | None = None
        self._again_at = 0.0
        self.losses: dict[Tp, Loss] = {}  # that the latest plan does not count yet
        self.recommit_s: float | None = None  # between two commits of an offset that stands still, where brokers say it

    def begin(self, admin: AdminClient) -> None:
        """Forget what was found out, and ask the cluster with this client from now on.

        Raises:
            TransientError: The cluster does not answer.
        """
        self._admin = admin
        self.losses.clear()
        retention_s = offsets_retention_s(admin)
        self.recommit_s = None if retention_s is None else recommit_s(retention_s)

    def close(self) -> None:
        """Release the connection; the next call makes another."""
        self._offsets.close()

    def committed(self, tps: Sequence[Tp], names: Names) -> Committed:
        """Return what is committed of which partitions.

        Raises:
            TransientError: The coordinator does not answer.
        """
        return retried(partial(self._offsets.committed, tps, names), for_s=_CALL_S) if tps else {}

    def starts(self, tps: Sequence[Tp], names: Names, committed: Committed, plan: Plan | None) -> dict[Tp, int]:
        """Return a numeric start for each partition of which nothing is committed (rule 5).

        Asked anew for every plan: an operator may delete a group's offsets, and a late commit on a topic that is no more may hide
        one on the topic that is.

        Raises:
            TransientError: The cluster does not answer.
        """
        open_ = [tp for tp in tps if tp not in committed]
        carried = {tp: plan.starts[tp] for tp in open_ if plan is not None and tp in plan.starts}
        new = [tp for tp in open_ if tp not in carried]
        latest = plan is None and self._reset_policy == "latest"
        return carried | retried(partial(edges, self._admin, new, names, LATEST if latest else EARLIEST), for_s=_CALL_S)

    def count_losses(self, state: ControllerState, names: Names) -> None:
        """Count owners that were lost since the latest plan (rule 9); where offsets cannot be read, nothing is counted.

        No partition waits for it: a new owner would have to read the same offsets.
        """
        lost = state.lost()
        self.losses = {tp: x for tp, x in self.losses.items() if tp in lost and lost[tp].epoch == x.epoch}
        unread = sorted(tp for tp in uncounted(state) - frozenset(self.losses) if tp.topic_id in names)
        if self._park_after is None or not unread:
            return
        try:
            committed = self._offsets.committed(unread, names, timeout_s=_LOOK_S)
            ends = edges(self._admin, unread, names, LATEST)
        except TransientError as e:
            client_log.warning("group %s: at which offsets workers were lost is not known: %s", self._group, e)
            return
        reached = {tp: Reached(committed=committed[tp].offset if tp in committed else -1, end=ends[tp]) for tp in unread}
        self.losses |= counted(state, reached)

    def poison(self) -> dict[Tp, Loss]:
        """Return the partitions whose owners have been lost too often, and how often."""
        parked = poisonous(self.losses, self._park_after)
        return {tp: x for tp, x in self.losses.items() if tp in parked}

    def commit_again(self, state: ControllerState, names: Names, transactions: ControlTransactions) -> None:
        """Commit again, as it stands, what no worker can (rule 10), or the broker forgets it; a failure is said and tried again.

        No worker is granted these partitions now, and the plan that grants them is published by this thread later. In the fenced
        transaction: the commit of a controller that stood still meanwhile could put back what a new owner has committed.
        """
        tps = sorted(tp for tp in state.unattended() if tp.topic_id in names)
        every_s = self.recommit_s or RECOMMIT_S
        if not tps:
            self._again_at = time.monotonic() + every_s / 4  # what is about to be placed can do without
        if time.monotonic() < self._again_at:
            return
        self._again_at = time.monotonic() + every_s / 4
        try:
            found = self._offsets.committed(tps, names, timeout_s=_LOOK_S)
            if found:
                transactions.commit((), list(found.values()), self._offsets.metadata())
        except AutoscalerError as e:
            client_log.warning("group %s: offsets of partitions that no worker holds are not kept: %s", self._group, e)
            return
        self._again_at = time.monotonic() + every_s
