"""One rule's answer."""

from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 5  # cases of what broke a rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's answer."""

    rule: str
    ok: bool | None  # it holds; ``None`` for a number that cannot be wrong
    measured: str
    numbers: Mapping[str, float | int | None]  # what was counted, for ``check.json``
    evidence: tuple[str, ...] = ()  # the first few cases that broke it
