"""Records of one batch on their way to several threads: in order within a key, side by side otherwise.

A thread takes a record when it has time for one, so the batch hands out little more than what is being processed. A record whose
key is in work waits for that, and the thread there goes on with it. Must not know what is done with a record.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator

from confluent_kafka import Message

Key = tuple[str | None, int | None, bytes | str | None]  # topic, partition, and the key of its own


class KeyOrderedDispatch:
    """One batch, dealt to the threads that ask for records, in its order; one thread at a time is given one.

    So many records may wait for their key (``waiting``); then nothing more is dealt until one of them is in work. A batch that
    is to end early still has to finish them.
    """

    def __init__(self, records: Iterable[Message], *, waiting: int) -> None:
        self._records: Iterator[Message] = iter(records)
        self._most = waiting
        self._held = 0
        self._waiting: dict[Key, deque[Message]] = {}
        self._began: dict[Key, float] = {}  # keys in work, in the order in which their present records began
        self._changed = threading.Condition()
        self._stopped = threading.Event()

    def take(self, done: Key | None = None) -> tuple[Key, Message] | None:
        """Return the next record and its key, ``None`` if there is no more for this thread; ``done``: the key of its last."""
        with self._changed:
            if done is not None:
                del self._began[done]
                if (queue := self._waiting.get(done)) and not self._stopped.is_set():
                    self._held -= 1
                    self._changed.notify()
                    return self._begin(done, queue.popleft())
                self._waiting.pop(done, None)
            while not self._stopped.is_set():
                if self._held >= self._most:
                    self._changed.wait()
                elif (message := next(self._records, None)) is None:
                    return None
                elif (key := (message.topic(), message.partition(), message.key())) in self._began:
                    self._waiting.setdefault(key, deque()).append(message)
                    self._held += 1
                else:
                    return self._begin(key, message)
        return None

    def _begin(self, key: Key, message: Message) -> tuple[Key, Message]:
        self._began[key] = time.monotonic()
        return key, message

    def oldest_s(self) -> float:
        """Return how long the record has been in work that has been for longest."""
        with self._changed:
            now = time.monotonic()
            return now - next(iter(self._began.values()), now)

    def stop(self) -> None:
        """Deal nothing more and end every wait; what is in work goes on."""
        with self._changed:
            self._stopped.set()
            self._changed.notify_all()

    def pause(self, seconds: float) -> bool:
        """Wait that long, or until stopped; return whether to go on."""
        return not self._stopped.wait(seconds)
