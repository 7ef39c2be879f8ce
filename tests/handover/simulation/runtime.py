"""Simulated time: an agenda, processes whose threads are generators, messages that may be lost, late or unanswered.

A thread yields a number (sleep that long) or an ``Answer`` (wait for it). Between two yields it runs alone, so every yield, and
every step that a process announces with ``reach``, is a place where it can be paused or end.
"""

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.handover.simulation.world import World

Thread = Generator["float | Answer", object, None]
TIMED_OUT = None


class EndedError(Exception):
    """The process ends here and now."""


class Answer:
    """What a thread waits for; the first one to fill it counts."""

    __slots__ = ("_waiting", "filled", "value")

    def __init__(self) -> None:
        self.filled = False
        self.value: object = None
        self._waiting: Callable[[object], None] | None = None

    def fill(self, value: object) -> None:
        if not self.filled:
            self.filled, self.value = True, value
            if self._waiting is not None:
                self._waiting(value)

    def then(self, resume: Callable[[object], None]) -> None:
        if self.filled:
            resume(self.value)
        else:
            self._waiting = resume


class Agenda:
    """What happens next."""

    def __init__(self, seed: int) -> None:
        self.t = 0.0
        self.rng = random.Random(seed)
        self.random: Callable[[], float] = self.rng.random
        self._order = 0
        self._heap: list[tuple[float, int, Callable[[], object]]] = []

    def later(self, delay: float, what: Callable[[], object]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.t + delay, self._order, what))

    def run_until(self, end: float) -> None:
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] < end:
            self.t, _, what = pop(heap)
            what()
        self.t = end


@dataclass(eq=False)
class Process:
    """A worker's or a controller's process: a pause makes it late for everything, a crash ends it."""

    world: "World"
    name: str
    rate: float
    alive: bool = True
    paused_until: float = 0.0
    cut_until: float = 0.0  # off from the brokers, and otherwise as lively as ever
    sent_until: dict[str, float] = field(default_factory=dict)  # a producer keeps the order of what it sends to a partition

    def clock(self) -> float:
        """Return the process's own time: nobody else's runs at this rate, nor began when this one did."""
        return self.world.t * self.rate

    def spawn(self, thread: Thread, delay: float = 0.0) -> None:
        self.world.later(delay, partial(self._advance, thread, None))

    def _advance(self, thread: Thread, value: object) -> None:
        world = self.world
        if not self.alive:
            return
        if world.t < self.paused_until:  # the threads of a process that goes on do so in no order
            world.later(self.paused_until - world.t + world.random() * 0.01, partial(self._advance, thread, value))
            return
        try:
            wanted = thread.send(value)
        except (StopIteration, EndedError):
            return
        if isinstance(wanted, Answer):
            wanted.then(lambda v: world.later(0.002 * world.random(), partial(self._advance, thread, v)))
        else:
            world.later(wanted, partial(self._advance, thread, None))

    def deliver(self, what: Callable[[], None]) -> None:
        """Do something in this process as soon as it runs."""
        world = self.world
        if not self.alive:
            return
        if world.t < self.paused_until:
            world.later(self.paused_until - world.t + world.random() * 0.01, partial(self.deliver, what))
            return
        try:
            what()
        except EndedError:
            return

    def end(self) -> None:
        self.alive = False

    def reach(self, site: str) -> None:
        """Announce a step; it may be the last one."""
        self.world.visit(self, site)
        if not self.alive:
            raise EndedError

    def send(self, site: str, land: Callable[[], object], *, to: str, timeout_s: float, ordered: bool = False) -> Answer:
        """Send a request: it lands at the broker sooner or later or never, whatever becomes of the sender meanwhile.

        Returns:
            What ``land`` returned; ``TIMED_OUT`` if no answer came in time, whether it has landed, will, or never does.
        """
        answer = Answer()
        if (held := self.paused_until - self.world.t) > 0:  # paused between deciding and sending
            self.world.later(held, partial(self._sent, site, land, to, timeout_s, answer, ordered=ordered))
        else:
            self._sent(site, land, to, timeout_s, answer, ordered=ordered)
        return answer

    def _sent(self, site: str, land: Callable[[], object], to: str, timeout_s: float, answer: Answer, *, ordered: bool) -> None:
        world = self.world
        if not self.alive:
            return
        fate = world.fate(self, site)
        there, back = fate.late_s or world.delay(), world.delay()
        at = max(world.t + there, self.cut_until + 0.02, world.away_until.get(to, 0.0) + 0.02)
        if ordered:
            at = self.sent_until[to] = max(at, self.sent_until.get(to, 0.0))
        if fate.lost or at > world.t + timeout_s:
            world.later(timeout_s, partial(self._answered, answer, TIMED_OUT))
            # A producer's last try is on its way when it gives up; any other request may lie in a queue for longer.
            if fate.lost or at > world.t + timeout_s + (0.5 if ordered else timeout_s):
                return
            world.reached("late landing")
        world.later(at - world.t, lambda: self._landed(land, answer, back, answered=not fate.unanswered))
        if fate.unanswered:
            world.later(timeout_s, partial(self._answered, answer, TIMED_OUT))

    def _landed(self, land: Callable[[], object], answer: Answer, back: float, *, answered: bool) -> None:
        value = land()
        if answered:
            cut_s = self.cut_until - self.world.t  # the answer is lost, and asked for again
            self.world.later(back + max(0.0, cut_s), partial(self._answered, answer, value))

    def _answered(self, answer: Answer, value: object) -> None:
        self.deliver(partial(answer.fill, value))


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a message."""

    lost: bool = False
    unanswered: bool = False
    late_s: float = 0.0


FINE = Fate()
