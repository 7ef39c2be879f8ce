"""Writes records that could not be processed to another topic, with where they came from and why in their headers.

Sent while the batch goes on and waited for at its end: a batch whose letters are not all acknowledged does not count. Where the
consumer is exactly once they go into the batch's transaction, unless they go to another cluster.
"""

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from autoscaler.errors import PermanentError, SettingsError
from autoscaler.handover.records import NO_AUTO_CREATION
from autoscaler.worker.delivery import Batch
from autoscaler.worker.error_policy import DeadLetter
from autoscaler.worker.settings import WorkerSettings

_LONGEST_S = 30.0  # until a letter that is not acknowledged has failed
_LOOK_S = 10.0
_LARGEST = 100_000_000  # bytes; the broker decides
_LONGEST_TEXT = 1000  # characters of an error


class DeadLetters:
    """The producer of one process, used by several threads.

    Raises:
        SettingsError: There is no such topic, or it may not be seen. Whether it may be written shows with the first letter.
    """

    def __init__(self, policy: DeadLetter, settings: WorkerSettings) -> None:
        self._topic, self._worker = policy.topic, settings.name
        self._in_transaction = settings.exactly_once and policy.connection is None
        self._failed: list[tuple[Message, str]] = []
        self._producer = Producer(
            {
                "message.max.bytes": _LARGEST,
                **(settings.connection if policy.connection is None else policy.connection),
                **NO_AUTO_CREATION,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": int(_LONGEST_S * 1000),
                "log_level": 0,
            }
        )
        self._look()

    def _look(self) -> None:
        try:
            found = self._producer.list_topics(self._topic, _LOOK_S).topics[self._topic]
        except KafkaException:
            return  # no broker answers: the consumer waits for one, too
        if found.error is not None:
            refused = found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            do = "consumers need Write on it" if refused else "create it first"
            raise SettingsError((f"dead-letter topic {self._topic}: {found.error.str()}; {do}",))

    def send(self, message: Message, batch: Batch, error: Exception, attempts: int) -> None:
        """Hand a record over with its key, value and headers, and ``dead-letter.…`` of ours; ``flush`` says what became of it.

        Raises:
            KafkaException: The client refuses it.
            BufferError: Too many are on their way.
        """
        ours = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "error-type": f"{type(error).__module__}.{type(error).__qualname__}",
            "error": str(error)[:_LONGEST_TEXT],
            "worker": self._worker,
            "attempts": attempts,
        }
        theirs = _headers(message)
        if theirs is None:
            ours["headers"] = "left out: their names are no UTF-8"
        headers = [*(theirs or ()), *((f"dead-letter.{k}", str(v).encode()) for k, v in ours.items())]
        if self._in_transaction:
            batch.produce(self._topic, message.value(), key=message.key(), headers=headers)
            return
        done = self._noting(message)
        self._producer.produce(self._topic, message.value(), message.key(), headers=headers, on_delivery=done)

    def flush(self) -> list[tuple[Message, str]]:
        """Wait until everything sent has its answer; return the records that were not written, and why."""
        self._producer.flush()  # ends by itself: a letter fails after _LONGEST_S
        failed, self._failed = self._failed, []
        return failed

    def close(self) -> None:
        """Forget what has not been sent: its batch does not count."""
        self._producer.purge()
        self._producer.flush()

    def _noting(self, message: Message) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _letter: Message) -> None:
            if error is not None:
                self._failed.append((message, error.str()))

        return delivered


def _headers(message: Message) -> list[tuple[str, str | bytes | None]] | None:
    """Return a record's headers, ``None`` where the client cannot: brokers take any bytes as a name, the client UTF-8 only."""
    try:
        found = message.headers() or ()
    except (SystemError, UnicodeDecodeError):
        return None
    return list(found.items() if isinstance(found, dict) else found)


class DeadLetterError(PermanentError):
    """Records that could not be processed could not be written to the dead-letter topic either; they come again."""
