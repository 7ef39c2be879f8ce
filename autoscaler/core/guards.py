"""*guard*: may the group shrink now? One ordered table; growing is never held by any of these.

A new guard is a new row. The first row that objects is what the decision reports.
"""

from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.core.history import History
from autoscaler.core.load import GroupLoad
from autoscaler.core.present import Present
from autoscaler.model import Reason
from autoscaler.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """May the group shrink from the present number of consumers?

    Attributes:
        floor: Consumers that stay in any case.
        calm: Consumers that would do now.
    """

    load: GroupLoad
    present: Present
    history: History
    policy: Policy
    now: float
    floor: int
    calm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One row.

    Attributes:
        reason: Reported as ``limited_by``.
        hard: It must hold for the step to be right; a soft one only prefers to wait.
        objection: Answers with half a sentence if shrinking must wait, or ``None``.
    """

    name: str
    reason: Reason
    hard: bool
    objection: Callable[[Question], str | None]


def _minimum(q: Question) -> str | None:
    if len(q.present.slots) > q.floor:
        return None
    return f"min_consumers {q.policy.min_consumers} keeps {len(q.present.slots)}"


def _measured(q: Question) -> str | None:
    if q.load.absent:
        return f"topic {q.load.absent[0]} is not measured right now"
    if not q.load.unknown:
        return None
    first = q.load.unknown[0]
    return f"{len(q.load.unknown)} of {len(q.load.partitions)} partitions are not measured right now (first {first})"


def _settled(q: Question) -> str | None:
    if away := sorted(q.present.holders - q.present.ready):
        return f"consumer {away[0]} holds partitions and is about to end"
    return None


def _backlog(q: Question) -> str | None:
    if aged := q.load.behind_since_unknown:
        return f"{aged[0]} has records to go that are older than what is remembered, so nobody knows how far it is behind"
    if q.load.lag_s is None or q.load.lag_s <= q.policy.backlog_s:
        return None
    return f"{q.load.furthest_behind} is {q.load.lag_s:.1f} s behind, more than {q.policy.backlog_s:g} s"


def _stabilised(q: Question) -> str | None:
    window = q.policy.shrink_stabilisation_s
    if not q.history.window_full(q.now, window):
        since = q.now - q.history.recommendations[0][0] if q.history.recommendations else 0.0
        return f"fewer would do for {since:.0f} s of {window:g} s at most"
    if q.history.peak() >= len(q.present.slots):
        return f"{q.history.peak()} were needed within the last {window:g} s"
    return None


def _cooled_down(q: Question) -> str | None:
    last = q.history.last_scale_at
    if last is None or q.now - last >= q.policy.shrink_cooldown_s:
        return None
    return f"the last change of their number is {q.now - last:.0f} s of {q.policy.shrink_cooldown_s:g} s ago"


SHRINK_GUARDS: tuple[Guard, ...] = (
    Guard(name="minimum", reason=Reason.AT_MINIMUM, hard=True, objection=_minimum),
    Guard(name="measured", reason=Reason.STALE_INPUT, hard=True, objection=_measured),
    Guard(name="settled", reason=Reason.NOT_READY, hard=True, objection=_settled),
    Guard(name="backlog", reason=Reason.BACKLOG, hard=False, objection=_backlog),
    Guard(name="stabilised", reason=Reason.STABILISING, hard=False, objection=_stabilised),
    Guard(name="cooled down", reason=Reason.COOLING_DOWN, hard=False, objection=_cooled_down),
)


def first_objection(question: Question) -> tuple[Guard, str] | None:
    """Return the first guard that objects and what it says, or ``None`` if the group may shrink."""
    for guard in SHRINK_GUARDS:
        if said := guard.objection(question):
            return guard, said
    return None
