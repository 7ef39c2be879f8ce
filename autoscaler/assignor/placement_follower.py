"""A group's latest placement, read in the background: an assignor must never wait for a broker while a group rebalances.

By the application's own client, kafka-python. The latest record counts: unlike ``LogFollower`` it need not know an end.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from autoscaler.handover.codec import partition_for
from autoscaler.handover.placement_record import Placement, decode, key_of
from autoscaler.handover.records import CONTROL_TOPIC

_log = logging.getLogger(__name__)
_POLL_MS = 500
_AGAIN_S = 2.0


class Placements:
    """Reads the control log of one group until it is closed; ``connection`` is what kafka-python's clients take to connect."""

    def __init__(self, group: str, **connection: Any) -> None:
        self.group, self._connection = group, connection
        self._key = key_of(group)
        self._known: tuple[Placement, float] | None = None  # and until when (monotonic) it counts
        self._read_to: tuple[object, int] | None = None  # which log, and the offset from which it was not read yet
        self._tell: list[Callable[[Placement], None]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"placements-{group}", daemon=True)
        self._thread.start()

    def latest(self) -> Placement | None:
        """Return the placement that counts now; ``None``: none was read yet, or the controller has not renewed it in time."""
        known = self._known
        return known[0] if known is not None and time.monotonic() < known[1] else None

    def on_change(self, tell: Callable[[Placement], None]) -> None:
        """Have a function told of every placement that is another than the one that counted until then, in the reading thread.

        That is also the same one when it counts again: meanwhile partitions may have been assigned without it.
        """
        self._tell.append(tell)

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join(10.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except Exception as e:  # noqa: BLE001  whatever it is, the thread must look again: else members wait for it for ever
                _log.warning("placements of group %s cannot be read: %s: %s", self.group, type(e).__name__, e)
                self._stop.wait(_AGAIN_S)

    def _read(self) -> None:
        consumer = KafkaConsumer(
            **self._connection, group_id=None, enable_auto_commit=False, isolation_level="read_committed",
            allow_auto_create_topics=False, auto_offset_reset="earliest",
        )  # fmt: skip
        try:
            count = len(consumer.partitions_for_topic(CONTROL_TOPIC) or ())
            if not count:
                self._stop.wait(_AGAIN_S)  # no controller has ever run here
                return
            place = TopicPartition(CONTROL_TOPIC, partition_for(self.group, count))
            consumer.assign([place])
            log = (place, consumer._cluster.topic_id(CONTROL_TOPIC))  # noqa: SLF001  kafka-python has no public call
            if self._read_to is not None and self._read_to[0] == log:
                consumer.seek(place, self._read_to[1])  # what was read before is not news; out of range: from the beginning
            else:
                consumer.seek_to_beginning(place)
            while not self._stop.is_set():
                records = consumer.poll(_POLL_MS).get(place, ())
                self._take([r.value for r in records if r.key == self._key])
                if records:
                    self._read_to = log, records[-1].offset + 1
        finally:
            consumer.close()

    def _take(self, values: Sequence[bytes | None]) -> None:
        """Take records that were read together, and tell of the last of them, not of those that it replaces."""
        before = self.latest()
        for value in values:
            self._keep(value)
        now = self.latest()
        if now is not None and (before is None or before.owners != now.owners):
            for tell in self._tell:
                tell(now)

    def _keep(self, value: bytes | None) -> None:
        """Keep one record; it counts from now on, however old it is: clocks of two machines are not compared."""
        if value is None:
            self._known = None
            return
        try:
            placement = decode(self.group, value)
        except ValueError as e:
            _log.warning("a placement of group %s is ignored: %s", self.group, e)
            return
        self._known = placement, time.monotonic() + placement.valid_s
