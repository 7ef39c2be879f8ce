"""Transactions of one group's controller on the control log; taking their id makes those of every earlier holder fail.

Knows what was sent and whether it is known to be there; ``publisher`` finds out from the log which controller is the latest.
"""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from autoscaler.adapters.kafka.control_topics import Connection, client, translated
from autoscaler.concurrency import bounded
from autoscaler.errors import TransientError
from autoscaler.handover.records import CONTROL_TOPIC

TRANSACTION_TIMEOUT_S = 5.0  # an open transaction hides everything behind it
_CALL_S = 5.0
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001  the client's name


class ControlTransactions:
    """A producer with a transactional id."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._partition = 0
        self._producer: Any = None
        self.unsure = False  # it is not known what became of the last one: take the id again and read the log before any decision
        # The id had been taken: by a successor, by a predecessor that does not know of this one, or by the coordinator, which
        # ends a transaction that takes too long.
        self.refused = False

    def take(self, transactional_id: str, partition: int) -> None:
        """Take an id for writing to a partition: what was begun with it, by this producer too, is aborted, or was complete.

        Raises:
            SettingsError: A permission is missing.
            TransientError: The cluster does not answer.
        """
        self.drop()
        self._partition = partition
        self._producer = client(Producer, self._connection, {
            "transactional.id": transactional_id, "linger.ms": 0, "acks": "all",
            "transaction.timeout.ms": int(1000 * TRANSACTION_TIMEOUT_S), "retry.backoff.ms": 20,
            "message.timeout.ms": int(1000 * TRANSACTION_TIMEOUT_S),
        })  # fmt: skip
        with translated("take over the control log"):
            self._producer.init_transactions(2 * _CALL_S)

    def drop(self) -> None:
        """Forget the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    def commit(
        self, records: Sequence[tuple[bytes, bytes | None]], kept: Sequence[TopicPartition] = (), metadata: object = None
    ) -> int:
        """Write records, or keep offsets of the group that ``metadata`` is of, and return the offset behind the last record.

        Raises:
            TransientError: It is not known whether it was written, see ``unsure``.
        """
        offsets: list[int] = []
        try:
            self._producer.begin_transaction()
            for key, value in records:
                self._producer.produce(
                    CONTROL_TOPIC, value, key, partition=self._partition,
                    on_delivery=lambda error, message: offsets.append(-1 if error else message.offset()),
                )  # fmt: skip
            if kept:
                bounded(lambda: self._producer.send_offsets_to_transaction(list(kept), metadata, _CALL_S), _CALL_S + 1.0)
            self._producer.commit_transaction(_CALL_S)
        except (KafkaException, BufferError, TimeoutError) as e:
            error = e.args[0] if e.args and isinstance(e.args[0], KafkaError) else None
            self.unsure, self.refused = True, error is not None and error.code() in _FENCED
            name = error.name() if error is not None else type(e).__name__
            raise TransientError(f"the transaction on the control log was not completed: {name}") from e
        return max((o + 1 for o in offsets), default=0)
