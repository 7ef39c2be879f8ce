"""Lists of names in a message, which may be long."""

from collections.abc import Collection

_FEW = 20


def few_of(names: Collection[str]) -> str:
    """Return the first few of many names, and how many there are besides."""
    shown = list(names)[:_FEW]
    return ", ".join(shown) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")
