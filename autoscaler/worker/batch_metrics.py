"""What is told about each batch, for metrics."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """One batch, after its last record.

    Attributes:
        records: Those that were ended, the skipped and dead-lettered among them. payload_bytes: their keys' and values' sizes.
        seconds: From the first record to the last. busy_s: what all handlers together took of it, pauses before retries left out.
        errors: How often the handler raised. skipped: records given up. dead_lettered: records written to the dead-letter topic.
        oldest_s: Seconds from the append of the oldest record to the end of the batch; ``None`` if no record says when it was.
        partitions: How many partitions this worker holds.
    """

    records: int
    payload_bytes: int
    seconds: float
    busy_s: float
    errors: int
    skipped: int
    dead_lettered: int
    oldest_s: float | None
    partitions: int


Metrics = Callable[[BatchReport], None]


@dataclass(slots=True)
class Tally:
    """What one thread has done of a batch."""

    records: int = 0
    payload_bytes: int = 0
    busy_s: float = 0.0
    errors: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    oldest_ms: float = float("inf")

    def ended(self, size: int, stamped_ms: int) -> None:
        """Count a record; ``stamped_ms`` is not above 0 where it is not known."""
        self.records += 1
        self.payload_bytes += size
        if 0 < stamped_ms < self.oldest_ms:
            self.oldest_ms = stamped_ms


def report(tallies: list[Tally], *, seconds: float, now: float, partitions: int) -> BatchReport:
    """Join what the threads have done; ``now`` is the wall clock's."""
    oldest_ms = min(t.oldest_ms for t in tallies)
    return BatchReport(
        records=sum(t.records for t in tallies),
        payload_bytes=sum(t.payload_bytes for t in tallies),
        seconds=seconds,
        busy_s=sum(t.busy_s for t in tallies),
        errors=sum(t.errors for t in tallies),
        skipped=sum(t.skipped for t in tallies),
        dead_lettered=sum(t.dead_lettered for t in tallies),
        oldest_s=None if oldest_ms == float("inf") else max(0.0, now - oldest_ms / 1000),
        partitions=partitions,
    )
