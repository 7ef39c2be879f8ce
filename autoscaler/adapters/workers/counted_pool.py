"""Consumers of which only the number is set, elsewhere: implements ``ports.WorkerPool`` for native groups.

What sets and reads the number back is a ``ConsumerNumber``; here stand the precondition, the back-off, and the refusal while
another one sets it. Slots are counted: so many of those asked for run, and which process is which is not known.
"""

import logging
from concurrent.futures import Future, wait
from itertools import count, islice

from autoscaler.concurrency import started
from autoscaler.errors import AnotherWriterError, AutoscalerError, TransientError
from autoscaler.model import Hindered, Hindrance
from autoscaler.ports import Clock, ConsumerNumber, PoolState

log = logging.getLogger(__name__)
_PATIENCE_S = 0.5  # for which a cycle waits for the number to be set; what takes longer is told by a later one
_BACKOFF_S = (1.0, 60.0)  # after the number could not be set: the first pause, and the longest


class CountedPool:
    """The consumers of one native group, by their number alone."""

    def __init__(self, *, group: str, number: ConsumerNumber, clock: Clock) -> None:
        self._group, self._number, self._clock = group, number, clock
        self._requested: frozenset[int] = frozenset()
        self._looked: frozenset[int] = frozenset()  # ran at the last look
        self._writing: Future[None] | None = None
        self._failed: AutoscalerError | None = None  # why it could not be set the last time
        self._pause_s, self._not_before = _BACKOFF_S[0], 0.0

    def slot_of(self, worker_name: str) -> int | None:  # noqa: ARG002
        """Return ``None``: which process fills a slot is not known."""
        return None

    def observe(self) -> PoolState:
        """Return how many run, as so many slots.

        Raises:
            TransientError: It is not known now.
            PermanentError: It cannot be known before an operator changes something; says what.
        """
        now = self._number.read()
        slots = self._slots(max(now.wanted, now.running))
        running, missing = slots[: now.running], slots[now.running : now.wanted]
        self._looked = frozenset(running)
        why = [*now.hindered, *[Hindered(why=Hindrance.PENDING)] * len(missing)]
        return PoolState(
            running={slot: f"{self._group}-{slot}" for slot in running},
            ended=frozenset(),
            restarting=dict.fromkeys(missing, 0.0),
            draining=frozenset(slots[now.wanted : now.running]),
            hindered=dict(zip(missing, why, strict=False)),
        )

    def apply(self, requested: frozenset[int], *, expected: frozenset[int], releasable: frozenset[int]) -> None:
        """Have as many run as are requested, or still hold something.

        Raises:
            TransientError: Others run than expected, or the number was not set and is tried again after a pause; says why.
            PermanentError: Another one sets it, or it cannot be set before an operator changes something; says what.
        """
        if not self._settled():
            return
        now = self._number.read()
        running = frozenset(self._slots(now.running))
        if others := (running & self._looked) - expected:
            raise TransientError(f"slots {sorted(others)} of group {self._group} run and were not expected to")
        asked = requested | (running - releasable)
        self._number.check(now)
        if now.ours and now.wanted not in now.ours:
            raise AnotherWriterError(now.writers, self._number.name, now=now.wanted, wrote=max(now.ours))
        if len(asked) != now.wanted:
            self._write(len(asked), now.wanted)
        self._requested = asked

    def close(self) -> None:
        """Forget the consumers; they go on, and so does their number."""
        self._number.close()

    def _slots(self, many: int) -> list[int]:
        """Return so many slots, those asked for first."""
        asked = sorted(self._requested)
        return list(islice((*asked, *islice((n for n in count() if n not in self._requested), many)), many))

    def _write(self, wanted: int, known: int) -> None:
        left_s = self._not_before - self._clock.monotonic()
        if left_s > 0:
            raise TransientError(f"{self._failed}; tried again in {left_s:.0f} s")
        log.info("group %s: the number of %s is set to %d, was %d", self._group, self._number.name, wanted, known)
        self._writing = started(lambda: self._number.write(wanted, known=known), f"sets the number of {self._group}")
        self._settled()

    def _settled(self) -> bool:
        """Say whether nothing is being set any more, and raise what kept it from being set."""
        if self._writing is None:
            return True
        if not wait([self._writing], _PATIENCE_S).done:
            return False
        done, self._writing = self._writing, None
        try:
            done.result()
        except AutoscalerError as e:
            self._failed, self._not_before = e, self._clock.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _BACKOFF_S[1])
            raise
        self._failed, self._pause_s, self._not_before = None, _BACKOFF_S[0], 0.0
        return True
