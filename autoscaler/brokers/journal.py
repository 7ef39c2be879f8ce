"""What a job has begun and not yet ended, as it is written ahead for the one that comes after it. Part of *brokers*."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.brokers.view import Setting
from autoscaler.model import TopicPartition

_VERSION = 1
_MOST_BYTES = 480_000  # brokers take records of 1 MB; that a batch may double later: each of its partitions can be doubted


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One reassignment: the replicas before and after it, the preferred leader first."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def copies(self) -> bool:
        """Say whether a broker gets a replica that it does not have."""
        return not set(self.after) <= set(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A batch.

    Attributes:
        batch: Its id; empty: nothing has been begun.
        moves: What of it has not ended.
        throttle: What was set for it, and nothing that another tool had set.
        elections: How often preferred leaders were asked for.
        doubted: Partitions that were found elsewhere at the last look; at the next one that counts.
        waits_since: When it was seen first that some of it cannot get on, in seconds since 1970; 0: all of it does.
    """

    batch: str = ""
    moves: Mapping[TopicPartition, Move] = field(default_factory=dict)
    throttle: Mapping[Setting, str] = field(default_factory=dict)
    elections: int = 0
    doubted: frozenset[TopicPartition] = frozenset()
    waits_since: float = 0.0

    @property
    def topics(self) -> frozenset[str]:
        """Return the topics that it has anything of."""
        return frozenset({p.topic for p in self.moves} | {s.name for s in self.throttle if s.kind == "topic"})


NOTHING = Journal()


def encode(journal: Journal) -> bytes:
    """Return a journal as it is written."""
    fields = {
        "v": _VERSION,
        "batch": journal.batch,
        "moves": [[p.topic, p.partition, m.before, m.after] for p, m in sorted(journal.moves.items())],
        "throttle": [[*s, value] for s, value in sorted(journal.throttle.items())],
        "elections": journal.elections,
        "doubted": sorted(journal.doubted),
        "waits_since": journal.waits_since,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def can_be_written(journal: Journal) -> bool:
    """Say whether Kafka takes the journal of a batch that begins, whatever comes of it."""
    return len(encode(journal)) <= _MOST_BYTES


def decode(value: bytes | None) -> Journal:
    """Return what was written; ``None``: nothing ever was.

    Raises:
        ValueError: It is no journal, or of a version that this one does not know.
    """
    if value is None:
        return NOTHING
    try:
        fields = json.loads(value)
        if fields["v"] != _VERSION:
            raise ValueError(f"version {fields['v']}, this release knows {_VERSION}")
        return Journal(
            batch=str(fields["batch"]),
            moves={
                TopicPartition(topic=str(t), partition=int(p)): Move(before=tuple(map(int, a)), after=tuple(map(int, b)))
                for t, p, a, b in fields["moves"]
            },
            throttle={Setting(str(k), str(n), str(key)): str(v) for k, n, key, v in fields["throttle"]},
            elections=int(fields["elections"]),
            doubted=frozenset(TopicPartition(topic=str(t), partition=int(p)) for t, p in fields["doubted"]),
            waits_since=float(fields.get("waits_since", 0.0)),  # a release before this one wrote none
        )
    except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as e:
        raise ValueError(f"no journal: {type(e).__name__}: {e}") from e
