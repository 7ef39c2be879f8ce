"""What is recorded of a decision, as ``core.why_not`` judges it: of a row of ``decisions`` and of a cycle's line alike."""

from collections.abc import Mapping
from typing import Any

from autoscaler.core.why_not import Decided
from autoscaler.model import TopicPartition


def decided_of(
    record: Mapping[str, Any], rates: Mapping[TopicPartition, float | None], holders: Mapping[TopicPartition, str], **known: Any
) -> Decided:
    """Return what is recorded of a decision.

    Args:
        record: A row of ``decisions``, or the same of a cycle's line.
        rates: Bytes/s of each partition.
        holders: Who held each partition before.
        known: Whatever else of ``Decided`` is known here.
    """
    return Decided(
        rates=rates,
        holders=holders,
        total_bytes_per_s=record["total_bytes_per_s"],
        usable_bytes_per_s=record["usable_bytes_per_s"],
        algorithm=record["algorithm"],
        consumers=record["consumers"] or record["recommended"] or record["consumers_now"] or None,
        reason=record["reason"],
        limited_by=record["limited_by"],
        **known,
    )
