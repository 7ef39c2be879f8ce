"""The journal of what is done to brokers, in the control log: implements ``brokers.ports.JournalLog``, fenced like a plan."""

import time
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from autoscaler.adapters.control_log.transactions import ControlTransactions
from autoscaler.adapters.kafka.control_topics import Connection, admin_client, client, describe, ensure_control_topics, translated
from autoscaler.brokers.journal import NOTHING, Journal, decode, encode
from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, is_end
from autoscaler.errors import FencedError, PermanentError, TransientError
from autoscaler.handover.codec import partition_for
from autoscaler.handover.placement_record import BALANCE_KEY
from autoscaler.handover.records import CONTROL_TOPIC, LEASE_S

_OF = "__brokers"  # no group: partitions of the control log are chosen by name
_READ_S = 30.0


class KafkaJournal:
    """The journal of one cluster."""

    def __init__(self, connection: Connection, *, replication_factor: int | None = None) -> None:
        self._connection, self._replication = dict(connection), replication_factor
        self._transactions = ControlTransactions(connection)
        self._where = -1
        self._writer = uuid4().hex.encode()  # stands before what this job writes
        self._fenced = False

    def take(self) -> Journal:
        """Take the journal, see ``brokers.ports.JournalLog``."""
        found = ensure_control_topics(admin_client(self._connection), lease_s=LEASE_S, replication_factor=self._replication)
        self._where = partition_for(_OF, found[CONTROL_TOPIC].partitions)
        self._take()
        _, journal = self._read()
        self.write(journal)
        return journal

    def read(self) -> Journal:
        """Return what is begun, see ``brokers.ports.JournalLog``; nothing where no job has made the control log."""
        found = describe(admin_client(self._connection), [CONTROL_TOPIC])
        if CONTROL_TOPIC not in found:
            return NOTHING
        self._where = partition_for(_OF, found[CONTROL_TOPIC].partitions)
        return self._read()[1]

    def write(self, journal: Journal) -> None:
        """Write what is begun from now on, see ``brokers.ports.JournalLog``.

        After a write of which it is not known what became, the id is taken again: only if no other job has written since, from
        which it would be taken.
        """
        if self._transactions.unsure and not self._fenced:
            writer, _ = self._read()
            self._fenced = writer != self._writer
            if not self._fenced:
                self._take()
        if self._fenced:
            raise FencedError(_TAKEN)
        try:
            self._transactions.commit([(BALANCE_KEY, self._writer + b"\n" + encode(journal))])
        except TransientError as e:
            self._fenced = self._transactions.refused
            if self._fenced:
                raise FencedError(_TAKEN) from e
            raise

    def _take(self) -> None:
        self._transactions.take(f"{CONTROL_TOPIC}/{_OF}", self._where)
        self._transactions.unsure = False

    def close(self) -> None:
        """Release connections; what was written stays."""
        self._transactions.drop()

    def _read(self) -> tuple[bytes, Journal]:
        """Return who wrote last, and what."""
        consumer = client(Consumer, self._connection, FOLLOWER_SETTINGS)
        value, limit = b"", time.monotonic() + _READ_S
        try:
            with translated("read the journal"):
                consumer.assign([TopicPartition(CONTROL_TOPIC, self._where, OFFSET_BEGINNING)])
                while True:
                    message = consumer.poll(1.0)
                    if message is not None and is_end(message):
                        writer, _, text = value.partition(b"\n")
                        return writer, decode(text or None)
                    error = None if message is None else message.error()
                    if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        raise KafkaException(error)
                    if message is not None and error is None and message.key() == BALANCE_KEY:
                        value = message.value() or b""
                    if time.monotonic() > limit:
                        said = "no answer in time" if error is None else error.name()
                        raise TransientError(f"read the journal: {said}")
        except ValueError as e:
            raise PermanentError(f"the journal of brokers cannot be read: {e}; a newer release may have written it") from e
        finally:
            consumer.close()


_TAKEN = "another job balances the brokers of this cluster"
