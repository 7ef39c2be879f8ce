"""How tests and benches wait: they look again and again until something is there, and say what they saw last.

No test sleeps otherwise, and lint sees to it (benches pace what they measure): who waits for something says what (``until``), who
shows that something stays as it is looks all the time (``throughout``), and where time itself is the subject that is said too
(``let_pass``).
"""

import time
from collections.abc import Callable
from typing import TypeVar, overload

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]
PATIENCE_S = 150.0  # what comes at once on an idle machine takes its time on a busy one


@overload
def until(
    what: str,
    look: Callable[[], T | None],
    *,
    explain: Callable[[], object] = ...,
    passing: Errors = ...,
    within_s: float = ...,
    every_s: float = ...,
) -> T: ...
@overload
def until(
    what: str,
    look: Callable[[], T],
    holds: Callable[[T], object],
    *,
    explain: Callable[[], object] = ...,
    passing: Errors = ...,
    within_s: float = ...,
    every_s: float = ...,
) -> T: ...
def until(
    what: str,
    look: Callable[[], T],
    holds: Callable[[T], object] = lambda seen: seen is not None and seen is not False,
    *,
    explain: Callable[[], object] = str,
    passing: Errors = (),
    within_s: float = PATIENCE_S,
    every_s: float = 0.02,
) -> T:
    """Look until what is seen holds, and return it.

    Args:
        what: What is waited for, for the message.
        look: Returns what there is now.
        holds: Whether that is what is waited for; by default anything but ``None`` and ``False`` is.
        explain: Returns what else to say where it never comes, such as the last lines of a log.
        passing: Errors of ``look`` that mean: not yet.
        within_s: How long to go on.
        every_s: Pause between two looks.

    Raises:
        AssertionError: It did not come in time; with what was seen last.
    """
    limit = time.monotonic() + within_s
    while True:
        try:
            found = look()
        except passing as e:
            last = repr(e)
        else:
            if holds(found):
                return found
            last = str(found)
        if time.monotonic() > limit:
            msg = f"{what}: did not come within {within_s:.0f} s; last seen: {last}\n{explain()}"
            raise AssertionError(msg)
        time.sleep(every_s)


def throughout(
    what: str, look: Callable[[], T], holds: Callable[[T], object] = lambda _: True, *, for_s: float, every_s: float = 0.02
) -> None:
    """Look for so long, and at least once: what is seen holds each time.

    Args:
        what: What is to hold, for the message.
        look: Returns what there is now, or asserts it itself.
        holds: Whether that is as it should be.
        for_s: How long to look.
        every_s: Pause between two looks.

    Raises:
        AssertionError: Once it did not hold; with what was seen and when.
    """
    began = time.monotonic()
    while True:
        seen = look()
        at_s = time.monotonic() - began
        assert holds(seen), f"{what}: no more after {at_s:.1f} s of {for_s:.0f}; seen: {seen}"
        if at_s >= for_s:
            return
        time.sleep(every_s)


def let_pass(seconds: float) -> None:
    """Let time pass where that is the subject: a lease that ends, an outage, an application that is slow."""
    time.sleep(seconds)
