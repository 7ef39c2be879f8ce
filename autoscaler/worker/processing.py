"""Batches through a handler: on several threads, in order within a key, with a policy for records that cannot be processed.

A layer on ``ManagedConsumer``: the next batch is asked for when every record of this one has ended, so that only what is
processed without a gap is ever committed, and nothing is fetched while handlers are slow.
"""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import assert_never

from confluent_kafka import Message

from autoscaler.worker.batch_metrics import Metrics, Tally, report
from autoscaler.worker.clock import wall
from autoscaler.worker.consumer import ManagedConsumer
from autoscaler.worker.dead_letters import DeadLetterError, DeadLetters
from autoscaler.worker.delivery import Batch
from autoscaler.worker.error_policy import DeadLetter, Fail, OnError, RefusedError, Skip
from autoscaler.worker.key_ordered_dispatch import KeyOrderedDispatch

_SAY_S = 0.1  # between two looks at how long records have been in work
_log = logging.getLogger(__name__)

Handler = Callable[[Message, Batch], None]


def process(
    consumer: ManagedConsumer,
    handler: Handler,
    *,
    threads: int = 1,
    on_error: OnError | None = None,
    metrics: Metrics | None = None,
) -> None:
    """Give every record to the handler until the consumer is told to end.

    Records of one key, and records without a key of one partition, come one after the other in their order. A batch counts as
    processed when all that was handed out of it has ended: handled, skipped or written to the dead-letter topic. Nothing is given
    to the handler once the lease is over. A record that takes longer than ``max_batch_s``, with all its tries, counts as stuck,
    however many others end meanwhile.

    Args:
        consumer: Used by this function alone while it runs.
        handler: Called with a record and its batch, which knows the fencing token. What it returns is ignored.
        threads: How many records are in work at once. With one the handler is called by the calling thread, with more it must be
            safe to call from several.
        on_error: What happens when the handler raises an ``Exception``; ``Fail()`` if ``None``.
        metrics: Called after each batch, by the calling thread. What it raises is logged once and changes nothing.

    Raises:
        SettingsError: The dead-letter topic is not there.
        DeadLetterError: The dead-letter topic could not be written.
        RefusedError: The handler raised it although the lease is valid; ``on_error`` is not asked.
        Exception: With ``Fail()``, what the handler raised. What it raises that is no ``Exception`` (``KeyboardInterrupt``)
            leaves in any case. Other records in work end first; the batch does not count.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    policy = Fail() if on_error is None else on_error
    dead = closing(DeadLetters(policy, consumer.settings)) if isinstance(policy, DeadLetter) else nullcontext()
    tell = _Teller(metrics)
    with dead as letters, _pool(threads) as pool:
        for batch in consumer:
            began = time.perf_counter()
            tallies = _Work(consumer, handler, policy, letters, batch, threads).run(pool)
            tell.about(tallies, time.perf_counter() - began, len(consumer.partitions))


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor | None]:
    """Give threads, and wait for them whatever happens: what a handler still works on must not be released."""
    if threads == 1:
        yield None
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="autoscaler-handler")
    try:
        yield pool
    finally:
        interrupted = False
        while True:
            try:
                if interrupted:
                    _log.warning("waiting for the records in work: their partitions are released when they have ended")
                pool.shutdown()
                break
            except KeyboardInterrupt:
                interrupted = True


@dataclass(slots=True)
class _Teller:
    """Tells the hook about batches, if there is one."""

    metrics: Metrics | None
    failed: bool = False

    def about(self, tallies: list[Tally], seconds: float, partitions: int) -> None:
        if self.metrics is None:
            return
        try:
            self.metrics(report(tallies, seconds=seconds, now=wall(), partitions=partitions))
        except Exception:  # noqa: BLE001  (whatever it is, records matter more)
            if not self.failed:
                _log.exception("the metrics hook failed; said once, processing goes on")
            self.failed = True


@dataclass(slots=True, eq=False)
class _Work:
    """One batch in the hands of the threads."""

    consumer: ManagedConsumer
    handler: Handler
    policy: OnError
    letters: DeadLetters | None
    batch: Batch
    threads: int
    dispatch: KeyOrderedDispatch = field(init=False)
    _say_at: float = 0.0

    def __post_init__(self) -> None:
        self.dispatch = KeyOrderedDispatch(self._records(), waiting=self.threads)

    def run(self, pool: ThreadPoolExecutor | None) -> list[Tally]:
        """Process the batch and return when no record of it is in work any more."""
        if pool is None:
            tallies = [self._work()]
        else:
            try:
                futures = [pool.submit(self._work) for _ in range(min(self.threads, len(self.batch)))]
                wait(futures)
            except BaseException:
                self.dispatch.stop()
                raise
            tallies = [f.result() for f in futures]
        self._post()
        return tallies

    def _records(self) -> Iterator[Message]:
        """Hand out the batch; told to end, what is in work is the last."""
        for message in self.batch:
            yield message
            if self.consumer.stopping:
                return

    def _work(self) -> Tally:
        """Process record after record, as one thread."""
        tally = Tally()
        taken = self.dispatch.take()
        while taken is not None:
            key, message = taken
            self._keep_alive()
            try:
                if not self._ended(message, tally):
                    self.dispatch.stop()
                    break
            except BaseException as e:
                self.dispatch.stop()
                if isinstance(e, Exception):
                    self.batch.failed_in(message.topic(), message.partition())
                raise
            tally.ended(len(message), message.timestamp()[1])
            taken = self.dispatch.take(key)
        return tally

    def _keep_alive(self) -> None:
        """Let the batch count as begun when the oldest record in work did: one that is stuck is not hidden by the others."""
        if (now := time.monotonic()) >= self._say_at:
            self._say_at = now + _SAY_S
            self.consumer.keep_alive(self.dispatch.oldest_s())

    def _ended(self, message: Message, tally: Tally) -> bool:
        """Bring one record to an end; ``False`` if the batch is over before that."""
        for attempt in range(1, self.policy.retries + 2):
            if not self.consumer.valid():
                return False
            began = time.perf_counter()
            try:
                self.handler(message, self.batch)
            except RefusedError:
                if self.consumer.valid():
                    raise
                return False
            except Exception as e:  # noqa: BLE001  (the application's: the policy says what it means)
                tally.errors += 1
                if attempt > self.policy.retries:
                    return self._give_up(message, e, attempt, tally)
                _log.warning("%s, try %d: %r", _where(message), attempt, e)
            else:
                return True
            finally:
                tally.busy_s += time.perf_counter() - began
            if not self.dispatch.pause(self.policy.pause_s):
                break
        return False

    def _give_up(self, message: Message, error: Exception, attempts: int, tally: Tally) -> bool:
        match self.policy:
            case Skip(errors=kinds) if isinstance(error, kinds):
                _log.error("%s is skipped after %d tries", _where(message), attempts, exc_info=error)
                tally.skipped += 1
            case DeadLetter(topic=topic, errors=kinds) if isinstance(error, kinds):
                if self.letters is None or not self.consumer.valid():
                    return False
                _log.error("%s goes to %s after %d tries", _where(message), topic, attempts, exc_info=error)
                self.letters.send(message, self.batch, error, attempts)
                tally.dead_lettered += 1
            case Fail() | Skip() | DeadLetter():
                _log.error("%s failed after %d tries", _where(message), attempts)
                raise error
            case _:
                assert_never(self.policy)
        return True

    def _post(self) -> None:
        """Wait for the dead letters of this batch; it must not count without them."""
        failed = self.letters.flush() if self.letters is not None else []
        for message, _ in failed:
            self.batch.failed_in(message.topic(), message.partition())
        if failed and self.consumer.valid():  # else it does not count anyway, and the worker joins anew
            said = "; ".join(f"{_where(m)}: {why}" for m, why in failed[:3])
            raise DeadLetterError(f"{len(failed)} records could not be written to the dead-letter topic: {said}")


def _where(message: Message) -> str:
    return f"{message.topic()}-{message.partition()} at {message.offset()}"
