"""Packed measurements: the same comes back, to the last bit, whatever was measured."""

import struct
from dataclasses import fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.adapters.audit.encoding import pack, unpack
from autoscaler.model import PartitionLoad, RateSource, TopicPartition
from tests import builders as b

spans = st.sampled_from((0.0, 5.0, 5.037461, 30.000124))
counted = st.builds(lambda n, span: n / (span or 1.0), st.integers(0, 1 << 40), spans)
numbers = st.none() | counted | st.floats(allow_nan=False) | st.builds(lambda n: n / 1000, st.integers(0, 10**9))
offsets = st.none() | st.integers(-1, (1 << 62) - 1)
measurements = st.builds(
    PartitionLoad,
    partition=st.builds(TopicPartition, topic=st.sampled_from(("orders", "ä,{}", "")), partition=st.integers(0, (1 << 31) - 1)),
    topic_id=st.text(max_size=5),
    bytes_per_s=numbers,
    records_per_s=numbers,
    lag_records=offsets,
    lag_bytes=numbers,
    lag_s=numbers,
    committed=offsets,
    log_start=offsets,
    log_end=offsets,
    known=st.booleans(),
    age_s=st.floats(allow_nan=False),
    window_s=spans,
    rate_source=st.sampled_from(RateSource),
    error=st.none() | st.text(max_size=8),
)


def bits(load: PartitionLoad) -> list[object]:
    """Return the fields, floats as bytes: 0.0 and -0.0 are equal and not the same."""
    values = (getattr(load, f.name) for f in fields(load))
    return [struct.pack("<d", v) if isinstance(v, float) else (type(v), v) for v in values]


@given(st.lists(measurements, max_size=12))
@example([b.load(b.tp(0), 1.0, lag_s=-0.0), b.load(b.tp(1), -0.0)])
def test_what_was_packed_comes_back_to_the_last_bit(loads: list[PartitionLoad]) -> None:
    found, _ = unpack(pack(loads, {}))
    assert [bits(x) for x in found] == [bits(x) for x in loads]


def test_owners_come_back_as_text_and_nobody_as_none() -> None:
    loads = [b.load(b.tp(n), 1.0) for n in range(3)]
    _, owners = unpack(pack(loads, {b.tp(0): 7, b.tp(2): "consumer-1-abc"}))
    assert owners == ("7", None, "consumer-1-abc")


def test_another_version_is_refused_with_a_reason() -> None:
    blob = pack([], {})
    other = blob[:4] + blob[4:].replace(b"[1,", b"[9,", 1)
    with pytest.raises(ValueError, match="version 9; this release reads version 1"):
        unpack(other)


def test_rates_over_one_window_take_a_few_bytes_each() -> None:
    loads = [b.load(b.tp(n), 36_000 / 5.037461 + n / 5.037461, window_s=5.037461) for n in range(1000)]
    assert len(pack(loads, {x.partition: x.partition.partition % 8 for x in loads})) < 20_000
