"""Why one decision was made and what it cost, as values for ``/api``, and what is remembered of decisions to tell it."""

import statistics
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from autoscaler.adapters.decided import decided_of
from autoscaler.adapters.http.metrics import Cycle
from autoscaler.core.load.backlog import needed_of
from autoscaler.core.why_not import Decided, WhyNot, why_not
from autoscaler.model import TopicPartition
from autoscaler.model.names import client_of, compact

_UNJUDGED = "autoscaler explain --config FILE judges it"
_Optional = Annotated[float | None, Field(description="null: not known")]
_OF_LINE = (
    "t", "reason", "limited_by", "consumers", "recommended", "consumers_now", "total_bytes_per_s", "usable_bytes_per_s",
    "algorithm", "r_score", "epoch",
)  # fmt: skip


class Cost(TypedDict):
    """What a decision's moves cost."""

    moved: Annotated[int, Field(description="partitions that it moves")]
    moved_bytes_per_s: Annotated[float | None, Field(description="log bytes/s of those; null: not all are known")]
    r_score: Annotated[float | None, Field(description="moved load over what is planned for one consumer")]
    handed_over: Annotated[int, Field(description="of these partitions, how many have changed hands so far")]
    pauses: Annotated[int, Field(description="of how many of those it was measured how long they stood still")]
    pause_median_s: _Optional
    pause_max_s: _Optional


class Held(TypedDict):
    """What one consumer held before a decision."""

    consumer: str
    load: Annotated[float | None, Field(description="log bytes/s; null: none of it is known")]
    partitions: Annotated[str, Field(description="as 0-3, 7; of several topics with their names")]


class Why(TypedDict):
    """Why one decision asked for its number of consumers, and what it cost."""

    at: float
    consumers: Annotated[int | None, Field(description="that other numbers are compared with")]
    fewer: Annotated[str | None, Field(description="what speaks against one fewer; null: there is none to compare with")]
    more: Annotated[str | None, Field(description="the same of one more")]
    outcome: Annotated[str | None, Field(description="what became of its steps; null: not known here, or it had none")]
    cost: Cost
    held: Annotated[list[Held], Field(description="who held what before it")]


@dataclass(slots=True, kw_only=True)
class Record:
    """What is kept of a decision beside what is listed of it, as small as can be: there may be fifty for each group."""

    line: Mapping[str, Any]  # without lists
    partitions: tuple[TopicPartition, ...]  # shared with the record before, where they are the same
    rates: "array[float]"  # of each, -1: not known
    holders: tuple[str | None, ...]  # of each
    needed: Mapping[TopicPartition, float] | None  # as in ``Decided``
    moving: dict[TopicPartition, float | None]
    pauses: dict[TopicPartition, float | None] = field(default_factory=dict)  # of those that have changed hands

    @classmethod
    def of(cls, cycle: Cycle, before: tuple[TopicPartition, ...]) -> "Record":
        """Return what is to be kept of a cycle; ``before``: the partitions of the record before it."""
        line, partitions = cycle.line, tuple(x.partition for x in cycle.loads)
        held = {p: w["uuid"] if w["slot"] is None else str(w["slot"]) for w in line["workers"] for p in w["partitions"]}
        rates = {x.partition: x.bytes_per_s for x in cycle.loads}
        return cls(
            line={name: line[name] for name in _OF_LINE},
            partitions=before if before == partitions else partitions,
            rates=array("d", (-1.0 if r is None else r for r in rates.values())),
            holders=tuple(held.get(str(p)) for p in partitions),
            needed=needed_of(line["backlog"], cycle.loads),
            moving={p: rates.get(p) for p in moves_of(line["actions"])},
        )

    def why(self, pauses: Mapping[TopicPartition, float | None]) -> Why:
        """Return why the decision was made, and what it cost by these pauses."""
        line = self.line
        decided = decided_of(
            line,
            {p: None if rate < 0 else rate for p, rate in zip(self.partitions, self.rates, strict=True)},
            {p: h for p, h in zip(self.partitions, self.holders, strict=True) if h is not None},
            by_assignor=False if all(h is None or h.isdecimal() for h in self.holders) else None,
            needed=self.needed,
        )
        cost = cost_of(self.moving, line["r_score"], pauses)
        return why_of(line["t"], why_not(decided), _UNJUDGED, outcome=None, cost=cost)


def why_of(at: float, judged: WhyNot, unjudged: str, *, outcome: str | None, cost: Cost) -> Why:
    """Return what was judged of a decision, and what it cost, as the page shows it; ``unjudged`` as in ``WhyNot.said``."""
    return {
        "at": at,
        "consumers": judged.decided.consumers,
        "fewer": judged.said("fewer", unjudged),
        "more": judged.said("more", unjudged),
        "outcome": outcome,
        "cost": cost,
        "held": _held(judged.decided),
    }


def _held(d: Decided) -> list[Held]:
    by: dict[str, list[TopicPartition]] = {}
    for partition, holder in sorted(d.holders.items()):
        by.setdefault(holder, []).append(partition)
    known = {h: [r for p in ps if (r := d.rates.get(p)) is not None] for h, ps in by.items()}
    return [
        {
            "consumer": f"consumer {h}" if h.isdecimal() else client_of(h),
            "load": sum(known[h]) if known[h] else None,
            "partitions": compact([*map(str, ps)]),
        }
        for h, ps in sorted(by.items(), key=lambda x: (len(x[0]), x[0]))
    ]


def moves_of(steps: Iterable[Mapping[str, Any]]) -> Iterator[TopicPartition]:
    """Return the partitions that steps move."""
    return (TopicPartition(topic=s["topic"], partition=s["partition"]) for s in steps if s["kind"] == "move")


def cost_of(
    moving: Mapping[TopicPartition, float | None], r_score: float | None, pauses: Mapping[TopicPartition, float | None]
) -> Cost:
    """Return what moves cost.

    Args:
        moving: Bytes/s of each partition that is moved.
        r_score: Of the decision.
        pauses: Of those that have changed hands, how long each stood still, in seconds; ``None``: not measured.
    """
    known = [r for r in moving.values() if r is not None]
    measured = [p for p in pauses.values() if p is not None]
    return {
        "moved": len(moving),
        "moved_bytes_per_s": sum(known) if len(known) == len(moving) else None,
        "r_score": r_score,
        "handed_over": len(pauses),
        "pauses": len(measured),
        "pause_median_s": statistics.median(measured) if measured else None,
        "pause_max_s": max(measured, default=None),
    }
