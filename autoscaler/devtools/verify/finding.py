"""One rule's answer."""

from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 5  # cases of what broke a rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's answer.

    Attributes:
        ok: It holds; ``None`` for a number that cannot be wrong.
        numbers: What was counted, for ``check.json``.
        evidence: The first few cases that broke it.
    """

    rule: str
    ok: bool | None
    measured: str
    numbers: Mapping[str, float | int | None]
    evidence: tuple[str, ...] = ()
