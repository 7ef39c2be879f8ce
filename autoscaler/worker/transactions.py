"""One incarnation's transactions: what a batch brought forth and the offsets that it came from, all or nothing.

Nothing is sent before a batch has ended: a transaction is open for as long as it takes to write it, whatever the application
does, so that a worker that dies holds up no reader for longer than the coordinator needs to notice. Knows no lease and no
partition; ``effect_loop.py`` says what is committed and when.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from autoscaler.concurrency import bounded
from autoscaler.errors import PermanentError
from autoscaler.handover.commit_metadata import transactional_id
from autoscaler.worker.settings import Connection, Setting

_log = logging.getLogger(__name__)
_COORDINATOR_S = 15.0
_SLICE_S = 1.0  # of a wait, after which the lease is looked at again
_BACKOFF_MS = (
    20  # a coordinator refuses the next transaction until it has done with the last: each would wait for the client's 100
)
_SENT_WITHIN = 0.6  # of a transaction's longest time: what cannot be sent is given up before the coordinator fences it
_REFUSED = frozenset({
    KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD, KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
})  # fmt: skip

Value = bytes | str | None
Headers = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A record to be produced; ``partition`` ``None``: the producer's partitioner says."""

    topic: str
    value: Value
    key: Value = None
    partition: int | None = None
    headers: Headers = None


class Outcome(Enum):
    """What became of a transaction."""

    COMMITTED = auto()
    ABORTED = auto()  # of offsets alone; another one may be tried
    OVER = auto()  # the producer completes none any more; what became of this one is known once its id has been taken


class Transactions:
    """The transactional producer of one incarnation.

    A transaction may be open for ``timeout_s``; then its coordinator ends it and fences the producer. ``metadata`` is the
    group's, as the consumer of manually assigned partitions gives it.

    Outputs that were given up may still become visible with a later transaction of the same producer, and so may a request that
    was sent twice because its connection was lost (docs/decisions/0030): then nothing more is written here, see ``over``.
    """

    def __init__(
        self, connection: Connection, group: str, uuid: str, *, timeout_s: float, metadata: Callable[[], object]
    ) -> None:
        self._timeout_s = timeout_s
        self._until = 0.0
        self.why = "the lease was over before its transaction"
        self.failure: KafkaError | None = None  # what the last transaction was aborted for
        self.over = False  # it writes nothing any more, whatever became of its last transaction
        self._exposed = False  # a connection that is lost now may leave a request that comes late
        self._aborted_outputs = False  # before their offsets were sent: offsets alone may follow
        self._metadata = metadata
        self._failed: list[tuple[str, int]] = []
        client_log = logging.Logger("librdkafka")  # noqa: LOG001  (none of the application's)
        client_log.addFilter(self._client_says)
        sent_within_ms = max(1, int(timeout_s * 1000 * _SENT_WITHIN))
        self._producer = Producer(
            {
                "linger.ms": 5,
                "retry.backoff.ms": _BACKOFF_MS,
                **_producer(connection, group, uuid),
                "transaction.timeout.ms": int(timeout_s * 1000),
                "message.timeout.ms": sent_within_ms,
                "topic.metadata.propagation.max.ms": sent_within_ms // 2,  # then a topic that is not there is refused, not late
                "request.timeout.ms": max(500, int(timeout_s * 300)),
                "reconnect.backoff.max.ms": 1000,
                "log_level": 6,
            },
            logger=client_log,
        )

    def open(self, timeout_s: float) -> None:
        """Take the transactional id; once, before any other knows the incarnation: later it would undo its own fencing.

        Raises:
            KafkaException: Not taken; use another incarnation.
        """
        self._producer.init_transactions(timeout_s)

    def write(self, outputs: Sequence[Output], offsets: Sequence[TopicPartition], valid: Callable[[], bool]) -> Outcome:
        """Write outputs, in order, and the next offsets of the partitions that they came from, in one transaction.

        ``valid`` says whether the incarnation may still act; it is asked before anything is sent, and between tries.

        Raises:
            PermanentError: An output is refused and would be again; nothing of the transaction is in the log.
        """
        self._failed.clear()
        self.failure, self._exposed = None, False
        if self.over or not valid() or (outputs and self._aborted_outputs):
            return Outcome.OVER
        begun = committing = False
        self._until = time.monotonic() + self._timeout_s
        try:
            self._producer.begin_transaction()
            begun = True
            for output in outputs:
                self._produce(output)
            if failure := self._flushed(valid):
                return self._gave_up(failure, outputs, valid)
            self._producer.poll(0)
            self._exposed = True  # brokers tell outputs that come again by their numbers, but not what follows
            if offsets:
                self._persist(lambda: self._send(offsets), valid)
            committing = True
            self._persist(lambda: self._producer.commit_transaction(_SLICE_S), valid)
        except (TimeoutError, SystemError) as e:  # a client that hangs, or fails in itself
            self.why = f"its transaction was given up: {e}"
            return Outcome.OVER
        except KafkaException as e:
            error = _error(e)
            may_abort = begun and (error.txn_requires_abort() or not committing)  # or else it may be committed
            return self._gave_up(error, outputs, valid) if may_abort else self._over(error)
        self._producer.poll(0)  # for the client's log
        return Outcome.COMMITTED

    def close(self) -> None:
        """Drop what is queued; a transaction that is open is ended by the next owner of the id."""
        with suppress(KafkaException):
            self._producer.purge(in_flight=True)

    def _produce(self, output: Output) -> None:
        headers: list[tuple[str, str | bytes | None]] | None = None
        if output.headers is not None:
            headers = list(output.headers.items() if isinstance(output.headers, Mapping) else output.headers)
        partition = -1 if output.partition is None else output.partition

        def delivered(error: KafkaError | None, _message: Message | None) -> None:
            if error is not None and not self._failed:
                self._failed.append((output.topic, error.code()))

        while True:
            try:
                self._producer.produce(output.topic, output.value, output.key, partition, on_delivery=delivered, headers=headers)
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as e:
                self._failed.append((output.topic, _error(e).code()))
                raise
            else:
                return

    def _flushed(self, valid: Callable[[], bool]) -> KafkaError | None:
        """Wait until every output is written, and return what one of them failed by."""
        while self._producer.flush(_SLICE_S) > 0 and valid():
            pass  # each is given up in time
        return KafkaError(self._failed[0][1]) if self._failed else None

    def _send(self, offsets: Sequence[TopicPartition]) -> None:
        """Each try finds the group's coordinator anew, which takes longer than a look at the lease where brokers have ended."""
        timeout_s = min(_COORDINATOR_S, self._timeout_s / 3)
        bounded(
            lambda: self._producer.send_offsets_to_transaction(list(offsets), self._metadata(), timeout_s), timeout_s + _SLICE_S
        )

    def _persist(self, call: Callable[[], object], valid: Callable[[], bool]) -> None:
        """Call again as long as the client says that it may, and neither the lease nor the transaction's time is over."""
        while True:
            try:
                call()
            except KafkaException as e:
                error = _error(e)
                if not error.retriable() or error.fatal() or error.txn_requires_abort() or not valid():
                    raise
                if time.monotonic() > self._until:
                    raise
                _log.info("transaction: %s, tried again", error.str())
            else:
                return

    def _gave_up(self, error: KafkaError, outputs: Sequence[Output], valid: Callable[[], bool]) -> Outcome:
        """Abort, so that other offsets can be tried; the end of this producer if that cannot be, or if outputs are to come again.

        Those are not aborted here: taking the id does, and has brokers refuse what of them is still under way.
        """
        refused = next((f for f in self._failed if f[1] in _REFUSED), None)
        self.failure = error
        if error.fatal() or not valid() or (outputs and refused is None):
            return self._over(error)
        self._until = time.monotonic() + self._timeout_s
        try:
            self._persist(lambda: self._producer.abort_transaction(_SLICE_S), valid)
        except KafkaException as e:
            return self._over(_error(e))
        if refused is not None:
            self._aborted_outputs, self.why = True, "an output of it was refused"
            topic, code = refused
            raise PermanentError(f"an output to topic {topic} is refused: {KafkaError(code).str()}")
        self._producer.poll(0)
        _log.warning("transaction aborted, its offsets are committed again: %s: %s", error.name(), error.str())
        return Outcome.ABORTED

    def _client_says(self, record: logging.LogRecord) -> bool:
        """Note a lost connection, which the client tells nowhere but in its log; nothing of that is logged."""
        if self._exposed and (said := record.getMessage()).startswith(("FAIL", "REQTMOUT")):
            self.over, self.why = True, f"a connection was lost while it committed: {said}"
        return False

    def _over(self, error: KafkaError) -> Outcome:
        self.why = f"its transactions are over: {error.name()}"
        return Outcome.OVER


def fence(connection: Connection, group: str, uuid: str, timeout_s: float) -> None:
    """Take an incarnation's transactional id from it: what it had open is aborted, and it completes no transaction any more.

    Raises:
        KafkaException: Not taken.
    """
    producer = Producer(_producer(connection, group, uuid))
    producer.init_transactions(timeout_s)


def _producer(connection: Connection, group: str, uuid: str) -> dict[str, Setting]:
    return {**connection, "transactional.id": transactional_id(group, uuid), "acks": "all", "log_level": 0}


def _error(e: KafkaException) -> KafkaError:
    error: KafkaError = e.args[0]
    return error
