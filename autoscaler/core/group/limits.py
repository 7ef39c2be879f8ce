"""What the operator asks of a group at this moment: the settings, with the windows of the calendar that are open now."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Flag, auto

from autoscaler.config.policy import Paused, Policy
from autoscaler.config.setting_paths import path_of
from autoscaler.model import Reason


class Steps(Flag):
    """What a step does to a group whose partitions all have a consumer."""

    GROW = auto()  # asks for consumers
    FILL = auto()  # moves partitions onto more of the consumers that are paid for
    MOVE = auto()  # moves partitions at the same number of consumers
    SHRINK = auto()  # takes consumers away


EVERY_STEP = Steps.GROW | Steps.FILL | Steps.MOVE | Steps.SHRINK
_NONE = Steps(0)
_HELD: dict[Paused, Steps] = {"all": EVERY_STEP, "scale_up": Steps.GROW, "scale_down": Steps.SHRINK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that hold now.

    Attributes:
        least: Consumers at least, which may be more than there are partitions.
        most: Consumers at most, not below ``least``'s due: of two windows that contradict each other the lower maximum holds.
        pinned: Both are one number, and fixed.
        fallback: Both are the number for when nothing is measured.
        paused: Steps that the group's own setting holds.
        frozen: Steps that open windows hold.
        window: The first open window that holds some, for people; empty without one.
    """

    least: int
    most: int
    pinned: bool
    paused: Steps
    frozen: Steps
    window: str
    fallback: bool = False

    @property
    def at_least(self) -> Reason:
        """Return the reason for having as many as ``least``."""
        return Reason.FALLBACK if self.fallback else Reason.PINNED if self.pinned else Reason.AT_MINIMUM

    @property
    def at_most(self) -> Reason:
        """Return the reason for having no more than ``most``."""
        return Reason.FALLBACK if self.fallback else Reason.PINNED if self.pinned else Reason.AT_MAXIMUM

    @property
    def least_setting(self) -> str:
        """Return the setting that ``least`` comes from, as the file has it."""
        return path_of("fallback" if self.fallback else "pinned" if self.pinned else "min_consumers")

    @property
    def most_setting(self) -> str:
        """Return the setting that ``most`` comes from, as the file has it."""
        return path_of("fallback" if self.fallback else "pinned" if self.pinned else "max_consumers")


def read_limits(policy: Policy, now: float) -> Limits:
    """Return what holds at a time; of several open windows the last one that names a limit sets it, and every pause counts."""
    opened = [w for w in policy.windows if w.is_open(now)]
    least = [policy.min_consumers, *(w.min_consumers for w in opened if w.min_consumers is not None)][-1]
    most = [policy.max_consumers, *(w.max_consumers for w in opened if w.max_consumers is not None)][-1]
    if policy.pinned is not None:
        least = most = policy.pinned
    freezing = [w for w in opened if w.paused is not None]
    return Limits(
        least=min(least, most),
        most=most,
        pinned=policy.pinned is not None,
        paused=_held([policy.paused]),
        frozen=_held(w.paused for w in freezing),
        window=str(freezing[0]) if freezing else "",
    )


def _held(pauses: Iterable[Paused | None]) -> Steps:
    held = _NONE
    for pause in pauses:
        held |= _HELD[pause] if pause is not None else _NONE
    return held
