"""What a cluster showed of its consumer groups at some times, for ``core.survey``, and what only several looks show together.

Beside the path: no cycle asks this.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from autoscaler.model import GroupMembers, Span, TopicPartition

SETTLED = frozenset({"STABLE", "EMPTY"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """First and next offset of a partition's log."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """One group in one look: who is in it, and what it has committed; ``at`` in monotonic seconds."""

    at: float
    members: GroupMembers
    committed: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a cluster showed.

    Attributes:
        at: When logs' ends were read, in monotonic seconds.
        groups: By id; or why a group could not be read.
        ends: Of all partitions of the topics that groups consume.
        unread: Why topics' ends could not be read, by topic.
        sizes: Bytes of each partition's log; empty where they may not be read.
    """

    at: float
    groups: Mapping[str, GroupLook | str]
    ends: Mapping[TopicPartition, Ends]
    unread: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, float] = field(default_factory=dict)


def rebalances(seen: Sequence[GroupLook]) -> int:
    """Return between how many looks at a group who holds what changed, or was being dealt out."""
    return sum(not _same(first, second) for first, second in pairwise(seen))


def _same(first: GroupLook, second: GroupLook) -> bool:
    one, two = ({m.member_id: m.assigned for m in look.members.members} for look in (first, second))
    return one == two and {first.members.state, second.members.state} <= SETTLED


def at_rest(
    looks: Sequence[Look], stuck: Mapping[str, Collection[TopicPartition]]
) -> Mapping[str, Mapping[TopicPartition, Span]]:
    """Return what is unread, by group, of partitions that seem stuck and to which nothing came: perhaps no record at all."""
    ends = {p: e.end for p, e in looks[-1].ends.items() if all(p in x.ends and x.ends[p].end == e.end for x in looks)}
    rests: dict[str, dict[TopicPartition, Span]] = {}
    for name, partitions in stuck.items():
        seen = looks[-1].groups.get(name)
        committed = seen.committed if isinstance(seen, GroupLook) else {}
        for p in partitions:
            if p in ends and p in committed:
                rests.setdefault(name, {})[p] = Span(max(committed[p], looks[-1].ends[p].start), ends[p])
    return rests


def read_to_the_end(looks: Sequence[Look], spans: Mapping[str, Mapping[TopicPartition, Span]]) -> list[Look]:
    """Return the looks with these partitions as committed to their end, for what is unread of them holds no record."""
    return [replace(x, groups={name: _read(g, spans.get(name, {})) for name, g in x.groups.items()}) for x in looks]


def _read(group: GroupLook | str, spans: Mapping[TopicPartition, Span]) -> GroupLook | str:
    if isinstance(group, str):
        return group
    return replace(group, committed={**group.committed, **{p: span.end for p, span in spans.items()}})
