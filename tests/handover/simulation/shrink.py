"""A schedule that breaks a promise, made as short as it can be: fewer faults, rounder numbers, no noise, still the same promise.

Delta debugging over the faults (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002), then one pass
after the other over everything else, until nothing makes it shorter.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from tests.handover.simulation.schedule import Fault, Schedule
from tests.handover.simulation.violation import Promise, Violation
from tests.handover.simulation.world import World

Breaks = Callable[[Schedule], Promise | None]


def broken_by(schedule: Schedule) -> Promise | None:
    """Return the promise that a schedule breaks, if any."""
    try:
        World(schedule).run()
    except Violation as e:
        return e.promise
    return None


def shrink(schedule: Schedule, breaks: Breaks = broken_by) -> Schedule:
    """Return the shortest schedule found that breaks the same promise.

    Raises:
        ValueError: It breaks none.
    """
    promise = breaks(schedule)
    if promise is None:
        raise ValueError(f"schedule {schedule.seed} breaks no promise")
    while True:
        shorter = _fewer(schedule, lambda s: breaks(s) is promise)
        for candidate in _simpler(shorter):
            if breaks(candidate) is promise:
                shorter = candidate
                break
        if shorter == schedule:
            return schedule
        schedule = shorter


def _fewer(schedule: Schedule, still: Callable[[Schedule], bool]) -> Schedule:
    size = max(1, len(schedule.faults) // 2)
    while size:
        start = 0
        while start < len(schedule.faults):
            fewer = replace(schedule, faults=schedule.faults[:start] + schedule.faults[start + size :])
            if still(fewer):
                schedule = fewer
            else:
                start += size
        size //= 2
    return schedule


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Yield schedules with one thing simpler than it is, those that say most first."""
    simplest = Schedule(seed=schedule.seed, steady=True, partitions=2)
    for name in ("steady", "spelled", "tidy", "slow", "drift", "partitions", "platform"):
        if getattr(schedule, name) != getattr(simplest, name):
            yield replace(schedule, **{name: getattr(simplest, name)})
    for i, fault in enumerate(schedule.faults):
        for rounder in _rounder(fault):
            yield replace(schedule, faults=(*schedule.faults[:i], rounder, *schedule.faults[i + 1 :]))


def _rounder(fault: Fault) -> Iterator[Fault]:
    for digits in (0, 1):
        if fault.at >= 0 and round(fault.at, digits) != fault.at:
            yield replace(fault, at=round(fault.at, digits))
        if fault.for_s and 0 < round(fault.for_s, digits) != fault.for_s:
            yield replace(fault, for_s=round(fault.for_s, digits))


def trace_of(schedule: Schedule) -> list[str]:
    """Return what happens, line by line, to the broken promise."""
    lines = list[str]()
    try:
        World(schedule, lines).run()
    except Violation as e:
        lines.append(f"broken: {e}")
    return lines


def as_code(schedule: Schedule) -> str:
    """Return the expression that makes the schedule, for a test."""
    return f"Schedule({_arguments(schedule)})"


def _arguments(value: Schedule | Fault) -> str:
    out = []
    for f in fields(value):
        given = getattr(value, f.name)
        if f.name == "faults":
            inner = "".join(f"\n        Fault({_arguments(x)})," for x in given)
            out.append(f"\n    faults=({inner}\n    ),\n")
        elif f.name == "kind":
            out.append(f"kind=Kind.{given.name}")
        elif given != f.default:
            out.append(f"{f.name}={given!r}")
    return ", ".join(out)
