"""Names of consumers and partitions as people read them; a job that shows nothing loads none of it."""

import re
from collections.abc import Sequence

_UUID = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # that a client id is made a member id with


def client_of(member_id: str) -> str:
    """Return the client id that a member id was made of, as far as it shows one; else the member id."""
    return _UUID.sub("", member_id) or member_id


def compact(names: Sequence[str]) -> str:
    """Return partitions compactly: ``0-3, 7`` for one topic, ``orders 0-3 · bills 1`` for several."""
    topics: dict[str, list[int]] = {}
    for name in names:
        topic, _, number = name.rpartition("-")
        if number.isdigit():
            topics.setdefault(topic, []).append(int(number))
        else:
            topics.setdefault(name, [])
    if len(topics) == 1:
        return ranges(next(iter(topics.values())))
    return " · ".join(f"{topic} {ranges(numbers)}".strip() for topic, numbers in sorted(topics.items()))


def ranges(numbers: Sequence[int]) -> str:
    """Return whole numbers compactly: ``0-3, 7``."""
    out: list[list[int]] = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)
