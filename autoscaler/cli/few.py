"""Lists of names in a message, which may be long."""

from collections.abc import Collection


def few_of(names: Collection[object], most: int = 20) -> str:
    """Return the first few of many names, and how many there are besides."""
    shown = [str(name) for name in list(names)[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")
