"""What a bucket is given: one read of its partitions, and how to count it."""

from dataclasses import dataclass

from autoscaler.streaming.state import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How to count."""

    window_s: float = 30.0  # span that a rate covers, ending at the last good sample
    known_for_s: float = 3.0  # a sample older than this is not fresh
    default_record_bytes: float = 1000.0  # log bytes per record before any were learnt
    min_span_s: float = 0.9  # no rate over less than this
    forget_s: float = 10.0  # a partition that is neither read nor reported as failed for so long is deleted
    # Bytes per record that differ from the mean by more than this factor are not believed at once, of at least
    # ``plausible_records``; fewer teach no size that differs so much. Less (a compaction or deletion may hide in it) is counted
    # as records times the mean. More is held: the interval is counted so too, and judged again together with the next one (ends
    # and sizes are read one after the other), and what is then believed counts with every byte …
    plausible: float = 3.0
    plausible_records: int = 50
    rejections: int = 3  # … but only so often in a row; then the new size is believed
    # What brokers take by default (``max.message.bytes``). A single growth that would need larger records is no arrival, whatever
    # the size says; if it goes on, records are larger.
    largest_record_bytes: float = 2**20
    slots: int = 60  # the window keeps about this many samples to subtract from, however short the trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One read of some partitions, as arrays of one length; -1 is unknown (``size``: the broker does not say).

    ``topic`` indexes ``topics`` and ``topic_ids``; ``failed`` marks rows that carry an error instead of values.
    """

    topics: tuple[str, ...]
    topic_ids: tuple[str, ...]
    topic: Array
    partition: Array
    ts: Array
    leader: Array
    epoch: Array
    start: Array
    end: Array
    stable: Array
    size: Array
    failed: Array
