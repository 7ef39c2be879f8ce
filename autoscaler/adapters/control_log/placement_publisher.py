"""Writes a native group's placement into the control log, for ``autoscaler.assignor`` to read: fenced like a plan.

A placement is written again before it lapses, so that assignors notice when the controller stops.
"""

import time
from collections.abc import Mapping

from autoscaler.adapters.control_log.transactions import ControlTransactions
from autoscaler.adapters.kafka.control_topics import Connection, admin_client, ensure_control_topics
from autoscaler.errors import FencedError, TransientError
from autoscaler.handover.codec import partition_for
from autoscaler.handover.placement_record import Placement, encode, key_of
from autoscaler.handover.records import CONTROL_TOPIC, LEASE_S
from autoscaler.model import TopicPartition

_RENEWALS = 4.0  # within the time for which a placement counts


class KafkaPlacements:
    """Publishes the placement of one group; members follow it for ``valid_s`` unless it is written again.

    ``writer`` is the id of the job, by which ``others`` tells its former life from another job.

    Raises:
        TransientError: The brokers do not answer right now.
        SettingsError: They refuse.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        *,
        writer: str = "",
        replication_factor: int | None = None,
        valid_s: float = 120.0,
    ) -> None:
        self._group, self._writer, self._valid_s = group, writer, valid_s
        self._fenced = ""  # why nothing is written any more: a client that was refused once says something else from then on
        self._admin = admin_client(connection)
        found = ensure_control_topics(self._admin, lease_s=LEASE_S, replication_factor=replication_factor)
        self._where = partition_for(group, found[CONTROL_TOPIC].partitions)
        self._transactions = ControlTransactions(connection)
        self._take()
        self._written: tuple[Mapping[TopicPartition, str], float] | None = None

    def publish(self, owners: Mapping[TopicPartition, str]) -> None:
        """Write who is to hold what, see ``ports.PlacementPublisher``."""
        if self._fenced:
            raise FencedError(self._fenced)
        now = time.monotonic()
        if self._written is not None and self._written[0] == owners and now - self._written[1] < self._valid_s / _RENEWALS:
            return
        if self._transactions.unsure and not self._transactions.refused:
            self._take()
        named = {(p.topic, p.partition): name for p, name in owners.items()}
        placement = Placement(group=self._group, valid_s=self._valid_s, owners=named, writer=self._writer)
        try:
            self._transactions.commit([(key_of(self._group), encode(placement))])
        except TransientError as e:
            if self._transactions.refused:
                self._fenced = f"another controller writes placements of group {self._group}"
                raise FencedError(self._fenced) from e
            raise
        self._written = dict(owners), now

    def _take(self) -> None:
        self._transactions.take(f"{CONTROL_TOPIC}/{self._group}/placement", self._where)
        self._transactions.unsure = False

    def close(self) -> None:
        """Release connections; the placement stays until it lapses."""
        self._transactions.drop()
