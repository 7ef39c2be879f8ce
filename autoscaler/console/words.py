"""Numbers, names and bars as people read them, for every view of the terminal.

Beside the path: values in, text out; it reads nothing. What is not known is ``?``, never 0.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import pairwise

from rich.text import Text

_LEVELS = "▁▂▃▄▅▆▇█"


def rate(bytes_per_s: float | None) -> str:
    """Return a rate for people: ``1.24 MB/s``; ``?`` if unknown."""
    return "?" if bytes_per_s is None else f"{_scaled(bytes_per_s)}B/s"


def count(value: int | None) -> str:
    """Return a count with thousands marked, ``?`` if unknown."""
    return "?" if value is None else f"{value:,}"


def consumers_text(
    observed: int | None,
    *,
    requested: int | None = None,
    advised: int | None = None,
    recommended: int | None = None,
    recommended_age_s: float | None = None,
) -> str:
    """Return how many consume (``?``: unknown), and how many are asked for or advised where that is another number.

    A group that acts has ``requested``, one that is only advised ``advised``; where none is advised now, the number that was
    ``recommended`` last is said with its age.
    """
    if requested is not None and requested != observed:
        return f"{count(observed)} → {requested}"
    if advised is not None and advised != observed:
        return f"{count(observed)}, advised {advised}"
    if advised is None and recommended is not None:
        return f"{count(observed)}, advised {recommended} {seconds(recommended_age_s)} ago"
    return count(observed)


def seconds(value: float | None) -> str:
    """Return a duration in the unit that suits it, ``?`` if unknown."""
    if value is None:
        return "?"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def bar(value: float, limit: float, capacity: float, width: int) -> Text:
    """Return a bar of ``width`` cells from 0 to ``capacity`` with a mark at ``limit``.

    Green up to the limit, yellow up to the capacity, red beyond it.
    """
    if capacity <= 0 or width < 1:
        return Text(" " * max(0, width))
    halves = round(min(1.0, max(0.0, value / capacity)) * width * 2)
    filled = "━" * (halves // 2) + "╸" * (halves % 2)
    style = "green" if value <= limit else "yellow" if value <= capacity else "red"
    text = Text.assemble((filled, style), ("─" * (width - len(filled)), "dim"))
    mark = int(limit / capacity * width)
    if mark < width:
        sign = ("┿", style) if mark < len(filled) else ("┼", "")
        text = Text.assemble(text[:mark], sign, text[mark + 1 :])
    return text


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the values as ``width`` columns at most, each the mean of its share, scaled from 0 to the greatest."""
    if not values or width < 1:
        return ""
    top = max(values) or 1.0
    columns = min(width, len(values))
    edges = [round(i * len(values) / columns) for i in range(columns + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    return "".join(_LEVELS[min(7, int(m / top * 7.999))] for m in means)


def lasted(value_s: float) -> str:
    """Return an age or a duration in one whole unit, as it is said: ``43 s``, ``16 min``, ``5 h``, ``3 days``."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if value_s >= 2 * size:
            return f"{value_s / size:.0f} {unit}"
    return f"{max(0.0, value_s):.0f} s"


def clock(at: float, zone: tzinfo | None = None, *, day: bool = False) -> str:
    """Return the time of day of seconds since the Unix epoch, on this machine's clocks or a zone's; with ``day`` the date too."""
    return f"{datetime.fromtimestamp(at, zone):{'%m-%d ' if day else ''}%H:%M:%S}"


def shortened(text: str, width: int) -> str:
    """Return a name in ``width`` columns at most, its middle left out: names of consumers mostly differ at their ends."""
    if len(text) <= width:
        return text
    kept = max(1, width - 1)
    return f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2) :]}"[:width]


def _scaled(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size * 0.9995:
            return f"{value / size:.2f} {unit}" if value < size * 10 else f"{value / size:.0f} {unit}"
    return f"{value:.0f} "


def plain(text: str) -> str:
    """Return a line with control characters spelt out: names of groups and clients may hold what moves or colours a cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
