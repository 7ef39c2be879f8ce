"""The client that commits and reads a group's offsets: it fetches nothing, and a commit of it ends with the right to commit."""

import logging
import queue
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_POLL_S = 0.001  # while an answer is expected at once: brokers take a millisecond or two
_SLOW_POLL_S = 0.02
_SOON = 50  # polls
_log = logging.getLogger(__name__)

OnCommit = Callable[[KafkaError | None, Sequence[TopicPartition]], None]


class CommitClient:
    """Commits that are waited for as long as they may be made.

    librdkafka (2.16.0) has no time for a commit: one that was under way when its broker went away is sent again once that
    broker is reached, be it hours later, or never returns where it cannot be reached any more, as with a certificate that is
    over; nor does closing the client. Only a client that is gone sends nothing (docs/decisions/0022). ``make`` makes the
    client, which tells the answers to commits to what it is given.
    """

    def __init__(self, make: Callable[[OnCommit], Consumer]) -> None:
        self._make = make
        self._client: Consumer | None = None
        self._answers: queue.SimpleQueue[tuple[KafkaError | None, Sequence[TopicPartition]]] = queue.SimpleQueue()

    @property
    def client(self) -> Consumer:
        """Return the client, made now if there is none; do not keep it."""
        if self._client is None:
            self._client = self._make(self._answered)
        return self._client

    def commit(self, offsets: Sequence[TopicPartition], may: Callable[[], bool]) -> Sequence[TopicPartition] | None:
        """Commit and return what was answered of each; ``None`` if that had not come when it was no longer allowed to.

        What is not answered by then is not sent any more; a broker that has it already may still take it.

        Raises:
            KafkaException: None of it is committed.
        """
        self.client.commit(offsets=list(offsets), asynchronous=True)
        polls = 0
        while self._answers.empty():
            if not may():
                self._client = None  # the only reference: it is gone now, and with it what it would have sent
                _log.warning("a commit was not answered while it was allowed: it is not sent any more")
                return None
            self.client.poll(_POLL_S if polls < _SOON else _SLOW_POLL_S)
            polls += 1
        error, answered = self._answers.get()
        if error is not None:
            raise KafkaException(error)
        return answered

    def close(self) -> None:
        """Close the client; the next call makes another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _answered(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        self._answers.put((error, offsets))
