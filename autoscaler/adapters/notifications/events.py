"""Which cycles are worth telling: a change, a limit that holds for long, something that an operator should see. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoscaler.config.notify import FIELDS, Kind, Notify
from autoscaler.model import Reason

# What a group does not come out of by itself, or loses records by
ATTENTION = frozenset({
    Reason.STUCK_PARTITION, Reason.RETENTION_AT_RISK, Reason.OFFSET_OUT_OF_RANGE, Reason.SCALING_DID_NOT_HELP, Reason.FALLBACK,
    Reason.PARTITION_EXCEEDS_CAPACITY, Reason.FLAPPING, Reason.GROUP_DIFFERS,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What is told of a group.

    Attributes:
        kind: Which kind of event it is.
        at: Seconds since the Unix epoch.
        cycle: Number of the cycle that it is of.
        fields: What its message may have in it, by the names of ``config.notify.FIELDS``.
        others: How many of the same kind and group came since the one that was told before.
    """

    kind: Kind
    at: float
    cycle: int
    fields: Mapping[str, object]
    others: int = 0


@dataclass(slots=True)
class _Spell:
    """A limit that holds a group."""

    limit: str | None = None
    since: float = 0.0
    told: bool = False


@dataclass(slots=True)
class Watch:
    """Looks at one group's cycles, one after the other, as lines of ``cycles.jsonl``."""

    settings: Notify
    _spell: _Spell = field(default_factory=_Spell)
    _advised: int | None = None
    _seen: dict[str, float] = field(default_factory=dict)  # when a reason was there last
    _sent: dict[Kind, float] = field(default_factory=dict)
    _waiting: dict[Kind, Event] = field(default_factory=dict)  # the latest of each kind that came too soon

    def take(self, line: Mapping[str, Any]) -> Sequence[Event]:
        """Return what is to be told after a cycle; what comes too soon after another of its kind is told later, the latest."""
        at = float(line["t"])
        for kind in self._kinds(line, at):
            others = self._waiting[kind].others + 1 if kind in self._waiting else 0
            fields = {name: line.get(name) for name in FIELDS} | {"kind": kind}
            self._waiting[kind] = Event(kind=kind, at=at, cycle=int(line["cycle"]), fields=fields, others=others)
        due = [k for k in self._waiting if at >= self._sent.get(k, -float("inf")) + self.settings.every_s]
        self._sent |= dict.fromkeys(due, at)
        return [self._waiting.pop(k) for k in due]

    def _kinds(self, line: Mapping[str, Any], at: float) -> Iterator[Kind]:
        found = {"changed": self._changed(line), "held": self._held(line, at), "attention": self._attention(line, at)}
        yield from (kind for kind in self.settings.kinds if found[kind])

    def _changed(self, line: Mapping[str, Any]) -> bool:
        """Say whether something is carried out, or another number is advised than before."""
        if line.get("mode") != "advise":
            return bool(line.get("actions"))
        advised, before = line.get("consumers"), self._advised
        if not line.get("known") or advised is None:
            return False
        self._advised = advised
        return before is not None and advised != before

    def _held(self, line: Mapping[str, Any], at: float) -> bool:
        limit, spell = line.get("limited_by"), self._spell
        if limit != spell.limit:
            self._spell = _Spell(limit=limit, since=at)
            return False
        if limit in {None, Reason.ADVISORY} or spell.told or at - spell.since < self.settings.held_for_s:
            return False
        spell.told = True
        return True

    def _attention(self, line: Mapping[str, Any], at: float) -> bool:
        """Say whether something has begun: what was there a short while ago goes on."""
        there = {x for x in (line.get("reason"), line.get("limited_by")) if x in ATTENTION}
        there |= {f"parked {p}" for p in line.get("parked", ())}
        new = [x for x in there if at - self._seen.get(x, -float("inf")) > self.settings.held_for_s]
        self._seen |= dict.fromkeys(there, at)
        return bool(new)
