"""Why a decision asked for its number of consumers: what speaks against one fewer and one more, in words.

Beside the path: read by ``autoscaler explain``, by the report and by the page, whatever keeps the record of the decision.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.assignors.group_model import NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable
from autoscaler.core.messages import text_of
from autoscaler.core.sizing.other_counts import Recorded, judge_count
from autoscaler.core.sizing.raised_load import faster
from autoscaler.model import Finding, Reason, TopicPartition
from autoscaler.model.findings import What

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What is recorded of a decision.

    Attributes:
        rates: Bytes/s of each partition, ``None`` where it was not measured; empty where nothing is recorded.
        holders: Who held each partition before: a slot or a member id, as text.
        total_bytes_per_s: What the decision went by.
        usable_bytes_per_s: What one consumer could be given.
        algorithm: What placed, as the audit names it.
        consumers: The number that others are compared with: asked for, advised, or there; ``None`` or 0: not known.
        reason: Why that number.
        limited_by: What kept it from another one.
        by_assignor: One of Kafka's own assignors places; ``None``: that is not known.
        tolerance_ratio: The group's setting then; ``None``: that is not known.
        needed: Bytes/s at which partitions had to be read whose backlog was given a time; ``None``: which is not known.
        group: As its assignor saw it, where that places, or why it cannot be followed; ``None``: that is not recorded.
    """

    rates: Mapping[TopicPartition, float | None]
    holders: Mapping[TopicPartition, str]
    total_bytes_per_s: float | None
    usable_bytes_per_s: float
    algorithm: str
    consumers: int | None
    reason: str
    limited_by: str | None
    by_assignor: bool | None
    tolerance_ratio: float | None = None
    needed: Mapping[TopicPartition, float] | None = field(default_factory=dict)
    group: NativeGroup | Unpredictable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """What one consumer fewer and one more would have meant; empty where there is none to compare with."""

    decided: Decided
    fewer: tuple[Finding, ...]
    more: tuple[Finding, ...]

    def said(self, which: str, unjudged: str) -> str | None:
        """Return what speaks against ``fewer`` or ``more``, ``None`` where there is none to compare with.

        Where nothing does by load, what held the decision is said, or ``unjudged``: why it is not known how much must be left to
        spare.
        """
        findings = self.fewer if which == "fewer" else self.more
        return _against(self.decided, findings, which, unjudged) if findings else None


def why_not(decided: Decided) -> WhyNot:
    """Judge one consumer fewer and one more than a decision asked for."""
    consumers = decided.consumers
    if not consumers:
        return WhyNot(decided=decided, fewer=(), more=())
    record = _recorded(decided, consumers)
    fewer = judge_count(record, consumers - 1) if consumers > 1 else ()
    return WhyNot(decided=decided, fewer=fewer, more=judge_count(record, consumers + 1))


def _recorded(d: Decided, consumers: int) -> Recorded:
    known = {p: r for p, r in d.rates.items() if r is not None}
    total = math.fsum(known.values())
    mean = total / len(known) if known else 0.0
    rates = {p: mean if r is None else r for p, r in d.rates.items()} if known else {}
    index = {name: n for n, name in enumerate(sorted(set(d.holders.values())))}
    return Recorded(
        rates={**rates, **faster(rates, d.needed or {}, d.usable_bytes_per_s)},
        complete=d.needed is not None and math.isclose(total, d.total_bytes_per_s or 0.0, rel_tol=_ROUNDING, abs_tol=1.0),
        owner={p: int(o) if o.isdecimal() else index[o] for p, o in d.holders.items() if p in d.rates},
        usable_bytes_per_s=d.usable_bytes_per_s,
        calm_bytes_per_s=None if d.tolerance_ratio is None else d.usable_bytes_per_s * (1 - d.tolerance_ratio),
        algorithm=d.algorithm,
        consumers=consumers,
        by_assignor=d.by_assignor,
        group=d.group,
    )


def _against(d: Decided, findings: Sequence[Finding], which: str, unjudged: str) -> str:
    said = text_of(tuple(findings))
    if [f.what for f in findings] not in ([What.WOULD_HOLD], [What.DEALT_OUT_WITHIN]):
        return said
    shrinking = d.reason == Reason.UNDERUSED
    if d.limited_by and d.limited_by != Reason.ADVISORY and shrinking == (which == "fewer"):
        return f"{said}; {d.limited_by} held it, see above"
    if which == "fewer" and d.tolerance_ratio is None:
        return f"{said}; how much must be left to spare is not judged: {unjudged}"
    return said
