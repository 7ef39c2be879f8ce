"""Which preset and which utilisation would have taken the fewest consumer-hours at the same backlog. Part of *replay*.

Says what to simulate and judges what came out; simulates nothing itself. Pure: no clock, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from autoscaler.config.policy import PRICED, Policy, Preset
from autoscaler.simulation.outcome import Outcome

UTILISATIONS = (0.5, 0.6, 0.7, 0.8, 0.9)
_SAME = 1.1  # of the backlog and of the age: what differs by less is taken for the same
_SAME_S = 1.0  # more that the furthest partition may be behind: batches and commits take as long
_SAME_MEAN_S = 0.1
_SAME_IN_TIME = 0.001  # of the share that was read in time
_WORTH = 0.99  # of the consumer-hours: what saves less than a hundredth is not worth a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What was found.

    Attributes:
        best: Name of the settings that took the fewest consumer-hours at the same backlog; ``None``: those that hold did.
        worse: What of each is worse than with those that hold, in words; empty: the backlog is the same.
    """

    best: str | None
    worse: Mapping[str, tuple[str, ...]]


def candidates(policy: Policy) -> dict[str, Policy]:
    """Return the settings to try, each by its name: every preset, where the algorithm has them, with every utilisation.

    The first are those that hold. What an operator holds the group by is left out of all of them, lest all come out the same.
    """
    free = policy.model_copy(update={"paused": None, "pinned": None})
    found = {name_of(free): free}
    for utilisation in UTILISATIONS:
        for preset in _presets(free):
            changed = {"target_utilisation": utilisation, **({"preset": preset, "consumer_price": None} if preset else {})}
            other = free.model_copy(update=changed)
            found.setdefault(name_of(other), other)
    return found


def _presets(policy: Policy) -> tuple[Preset | None, ...]:
    """Return the presets that make a difference: a native group's partitions are not placed from here."""
    priced = policy.algorithm in PRICED and policy.assignment == "managed"
    return get_args(Preset) if priced else (None,)


def name_of(policy: Policy) -> str:
    """Return what the settings are called: ``PACE balanced, 0.8``."""
    return f"{policy.planner}, {policy.target_utilisation:g}"


def judged(found: Mapping[str, Outcome], held: Outcome, consumer_bytes_per_s: float) -> Tuned:
    """Return what took the fewest consumer-hours at the same backlog, of several the one that moved the least.

    Args:
        found: What came of each.
        held: What came of the settings that hold.
        consumer_bytes_per_s: What one consumer processes.
    """
    worse = {name: _worse(x, held, consumer_bytes_per_s) for name, x in found.items()}
    able = [(x.consumer_hours, x.r_score, name) for name, x in found.items() if not worse[name]]
    hours, _, best = min(able, default=(held.consumer_hours, 0.0, None))
    return Tuned(best=best if hours < held.consumer_hours * _WORTH else None, worse=worse)


def _worse(x: Outcome, held: Outcome, consumer_bytes_per_s: float) -> tuple[str, ...]:
    """Return what is worse: a second, or what one consumer reads in one, is noise, and a tenth is."""
    found = []
    if x.worst_backlog_bytes > max(held.worst_backlog_bytes * _SAME, held.worst_backlog_bytes + _SAME_S * consumer_bytes_per_s):
        found.append("backlog")
    if x.worst_behind_s > max(held.worst_behind_s * _SAME, held.worst_behind_s + _SAME_S):
        found.append("behind at most")
    if x.mean_behind_s > max(held.mean_behind_s * _SAME, held.mean_behind_s + _SAME_MEAN_S):
        found.append("behind on average")
    if x.in_time is not None and held.in_time is not None and x.in_time < held.in_time - _SAME_IN_TIME:
        found.append("read in time")
    return tuple(found)
