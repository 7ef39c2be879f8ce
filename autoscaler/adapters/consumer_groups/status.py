"""What the status of a ConsumerGroup says of its resource and of the group's latest decision. Pure: values in, JSON out."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autoscaler.config.consumer_groups import Declaration
from autoscaler.model import Decision, Reason
from autoscaler.model.findings import What

Json = Mapping[str, Any]
REFUSED, NOT_CARRIED_OUT, NOT_MEASURED = "Refused", "NOT_CARRIED_OUT", "NOT_MEASURED"
_NOT_READY = frozenset({Reason.NOT_READY, Reason.STALE_INPUT, Reason.FALLBACK})
_MOST_TEXT = 1000
_DIGITS = 2  # of a number that never rests: it is not worth a request to tell it better
_RESTLESS = ("lag", "rate", "capacity")
_FIGURES = re.compile(r"\d[\d.,]*")
_TIMES_AND_TEXTS = ("at", "message", "lastTransitionTime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one resource.

    Attributes:
        refused: Why it does not hold as it is; ``None`` if it does.
        decision: The latest of its group; ``None`` before the first, and of a resource that has no group.
    """

    one: Declaration
    refused: str | None = None
    decision: Decision | None = None


def status_of(known: Known, before: Json, at: float) -> dict[str, Any]:
    """Return the status ``at`` a time in seconds since the epoch; ``before`` is the one that was written last."""
    group, decision = known.one.group, known.decision
    said: dict[str, Any] = {"observedGeneration": known.one.generation, "mode": None if group is None else group.mode}
    if decision is not None:
        said |= {
            "mode": decision.mode,
            "consumers": decision.consumers_now,
            "wanted": decision.consumers or None,
            "lag": None if decision.total_lag_records is None else int(rounded(decision.total_lag_records)),
            "rate": None if decision.total_bytes_per_s is None else rounded(decision.total_bytes_per_s),
            "capacity": rounded(decision.capacity_bytes_per_s),
            "decision": _decided(decision, before),
        }
    earlier = {c["type"]: c for c in before.get("conditions") or ()}
    conditions = [
        {
            "type": kind,
            "status": holds,
            "observedGeneration": known.one.generation,
            "lastTransitionTime": c["lastTransitionTime"] if (c := earlier.get(kind, {})).get("status") == holds else _time(at),
            "reason": reason,
            "message": short(message),
        }
        for kind, holds, reason, message in _conditions(known)
    ]
    return {**{name: value for name, value in said.items() if value is not None}, "conditions": conditions}


def rounded(value: float) -> float:
    """Return a number with its first digits only, which stay while it trembles."""
    return float(f"{value:.{_DIGITS}g}")


def substance(status: Json) -> object:
    """Return what of a status is worth to be told at once: no time, no number that never rests, texts only of what is wrong."""
    wrong = [_FIGURES.sub("#", c["message"]) for c in status.get("conditions") or () if c["status"] != "True"]
    return [_without({name: value for name, value in status.items() if name not in _RESTLESS}), wrong]


def numbers(status: Json) -> object:
    """Return what of a status never rests, and can wait to be told."""
    return [status.get(name) for name in _RESTLESS]


def _without(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: _without(v) for k, v in value.items() if k not in _TIMES_AND_TEXTS}
    return [_without(x) for x in value] if isinstance(value, list) else value


def _conditions(known: Known) -> Iterator[tuple[str, str, str, str]]:
    """Yield type, status, reason and message of each condition."""
    decision = known.decision
    if known.refused is not None:
        yield "Accepted", "False", REFUSED, known.refused
    else:
        yield "Accepted", "True", "Accepted", "the group is looked after as the resource says"
    if decision is None and known.refused is not None:
        yield "Ready", "False", REFUSED, known.refused
    elif decision is None:
        yield "Ready", "Unknown", NOT_MEASURED, "the group is about to be measured for the first time"
    elif any(f.what is What.NOT_CARRIED_OUT for f in decision.findings):
        yield "Ready", "False", NOT_CARRIED_OUT, decision.detail
    else:
        yield "Ready", str(decision.reason not in _NOT_READY), decision.reason.value, decision.detail


def _decided(decision: Decision, before: Json) -> dict[str, Any]:
    """Return a decision with the time from which on it has been the same."""
    limit = None if decision.limited_by is None else decision.limited_by.value
    said = {"reason": decision.reason.value} | ({"limit": limit} if limit else {})
    then = before.get("decision") or {}
    same = {k: v for k, v in then.items() if k in {"reason", "limit"}} == said and before.get("wanted") == (
        decision.consumers or None
    )
    return {"at": then["at"] if same and "at" in then else _time(decision.at), **said, "message": short(decision.detail)}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def short(text: str) -> str:
    """Return a text that is not longer than an event's may be."""
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
