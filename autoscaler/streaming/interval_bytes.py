"""What came to each partition between two reads: records by the end offsets, bytes by the sizes, where these are to be believed.

Pure: numpy in, numpy out. A size is a log's, not an arrival's: it falls with what is deleted or compacted, it is another one on
another broker, and it is read a moment after the ends, so that it may show records which they do not show yet. Where it is not
believed, bytes are records times their mean size.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autoscaler.streaming.state import Array
from autoscaler.streaming.window_inputs import Facts, Rules

_UNEVEN = 1.5  # times the mean, and more: records of very different sizes were among them
_UNEVEN_WINDOWS = 4  # until the window's mean holds nothing of the large records any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What came, per partition."""

    records: Array  # records since the read before
    bytes: Array  # bytes to count for them, and for what was held till now
    measured: Array  # they are what the size has grown by; otherwise records times their mean
    since: Array  # records that were judged: since the read before, or since more began to be held
    growth: Array  # bytes that the size has grown by meanwhile
    another: Array  # the bytes per record are believed to be others than before from now on
    judgement: Mapping[str, Array]  # new values of the columns of a ``ROW`` that carry the judgement to the next read


def arrived(was: Array, facts: Facts, counted: Array, rules: Rules) -> Arrived:
    """Judge one interval per partition, of good facts only.

    ``was`` is each one's ``ROW`` as the read before left it; ``counted`` says where there was such a read, of the same log.
    """
    held = was["held"] > 0
    held_end, held_size = np.where(held, was["held_end"], was["end"]), np.where(held, was["held_size"], was["size"])
    records, since = np.where(counted, facts.end - was["end"], 0), np.where(counted, facts.end - held_end, 0)
    growth, owed = (facts.size - held_size).astype(float), np.where(held, was["owed"], 0.0)
    expected = records * np.where(np.isnan(was["mean"]), rules.default_record_bytes, was["mean"])
    untouched = (facts.start == was["start"]) & (facts.leader == was["leader"]) & (facts.epoch == was["epoch"])
    clean = counted & ~was["error"] & untouched & (was["size"] >= 0) & (facts.size >= was["size"])
    shown = growth + was["ahead"]  # by now and by the read before, for the records of this interval
    clean &= (since == 0) | (growth > 0) | (shown * rules.plausible >= since * was["mean"])
    low, high = _odd(was, facts.ts, since, growth, shown, clean, rules=rules)
    often = was["held"] >= rules.rejections
    goes_on = facts.size - was["size"] > rules.plausible * expected
    possible = (since > 0) & (goes_on | (growth <= since * rules.largest_record_bytes))
    believed = (low & (was["rejected"] >= rules.rejections)) | (high & often & possible)
    measured = clean & (~(low | high) | believed)
    hold = high & ~often
    uneven = ~(growth <= _UNEVEN * since * was["mean"])  # otherwise it has been held for what came too early
    return Arrived(
        records=records,
        bytes=np.where(measured, np.maximum(growth - owed, 0.0), expected),
        measured=measured,
        since=since,
        growth=growth,
        another=believed & (low | goes_on),  # records have become larger or smaller; otherwise a few of them are large
        judgement={
            "rejected": np.where(low & ~believed, was["rejected"] + 1, np.where(measured & (since > 0), 0, was["rejected"])),
            "held": np.where(hold, was["held"] + 1, 0),
            "held_end": held_end,
            "held_size": held_size,
            "owed": np.where(hold, owed + expected, 0.0),
            "ahead": np.where(hold, was["ahead"], np.where(measured & (since > 0), _ahead(was, since, growth), 0.0)),
            "uneven_until": np.where(measured & held & uneven, facts.ts + _UNEVEN_WINDOWS * rules.window_s, was["uneven_until"]),
        },
    )


def _ahead(was: Array, since: Array, growth: Array) -> Array:
    """Return by how many bytes the sizes are ahead of the ends that were read before them; it is what has come last."""
    beyond = was["ahead"] + growth - since * was["mean"]
    return np.where(np.isnan(beyond), 0.0, np.clip(beyond, 0.0, np.maximum(growth, 0.0)))


def _odd(  # noqa: PLR0917  (columns)
    was: Array, ts: Array, since: Array, growth: Array, shown: Array, clean: Array, *, rules: Rules
) -> tuple[Array, Array]:
    """Return where the size has grown by too little for the records that came, and where by too much (or before they came).

    Where records were just seen to be of very different sizes, the mean holds a few large ones, and too little is none.
    """
    judged = clean & ~np.isnan(was["mean"])
    mean = np.where(judged, was["mean"], rules.default_record_bytes)
    low = judged & (since >= rules.plausible_records) & (shown * rules.plausible < since * mean) & (ts > was["uneven_until"])
    high = judged & (growth > rules.plausible * mean * np.maximum(since, rules.plausible_records))
    return low, high | (clean & (since == 0) & (growth > 0))
