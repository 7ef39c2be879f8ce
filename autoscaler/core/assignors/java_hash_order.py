"""In which order Java's hash maps go through their keys: some assignors give spare partitions to who comes first.

Only what assignors use: strings, small integers and topic ids as keys. Keys that share a bucket come in the order given: that
in which they were put in.
"""

import base64
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

K = TypeVar("K")

_LEAST = 16  # buckets of an empty HashMap
_FULL = 0.75
_BITS = 0xFFFFFFFF
_BITS_64 = 0xFFFFFFFFFFFFFFFF
_GOLDEN = -7046029254386353131
_ID_BYTES = 16


@lru_cache(maxsize=4096)  # forecasts ask for the same members thousands of times a cycle
def string_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned number."""
    value = 0
    data = text.encode("utf-16-be")
    for i in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[i : i + 2], "big")) & _BITS
    return value


def topic_id_hash(text: str) -> int:
    """Return ``Uuid.hashCode`` of a topic id as it is written: 22 characters of base64, or of hexadecimals with hyphens."""
    plain = text.replace("-", "")
    data = bytes.fromhex(plain) if len(plain) == 2 * _ID_BYTES else base64.urlsafe_b64decode(text + "==")
    both = int.from_bytes(data[:8], "big") ^ int.from_bytes(data[8:_ID_BYTES], "big")
    return ((both >> 32) ^ both) & _BITS


def spread_hash(text: str) -> int:
    """Return what the coordinator's own table of members is ordered by: the hash code times 2^64 over the golden ratio."""
    code = string_hash(text)
    return (code - (code >> 31 << 32)) * _GOLDEN & _BITS_64


def hashed(keys: Iterable[K], hash_code: Callable[[K], int]) -> list[K]:
    """Return keys in the order of a HashMap or HashSet that they were put into one after the other."""
    given = list(keys)
    buckets = _LEAST
    while len(given) > buckets * _FULL:
        buckets *= 2
    spread = {i: (h ^ (h >> 16)) & (buckets - 1) for i, h in enumerate(map(hash_code, given))}
    return [given[i] for i in sorted(spread, key=lambda i: spread[i])]
