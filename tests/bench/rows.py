"""Figures beside their aims: what the planner's bench gives, as lines for a terminal and as a table for the docs."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured thing, often at several settings side by side.

    Attributes:
        what: What was measured.
        how: Under which conditions, the preset above all.
        figures: One per setting.
        aims: One per figure, or none.
        at_least: Whether a figure may be above its aim; below it otherwise.
        digits: Decimals that are shown, and that an aim is compared in.
        unit: What stands behind the figures.
        beside: What must be known to read them: consumers beside moves, bounds beside both.
    """

    what: str
    figures: tuple[float, ...]
    how: str = ""
    aims: tuple[float, ...] = ()
    at_least: bool = False
    digits: int = 2
    unit: str = ""
    beside: str = ""

    def text(self, values: Iterable[float]) -> str:
        """Return values as the table shows them."""
        return " / ".join(f"{v:,.{self.digits}f}" for v in values) + (f" {self.unit}" if self.unit else "")

    @property
    def measured(self) -> str:
        """Return the figures as text."""
        return self.text(self.figures)

    @property
    def aim(self) -> str:
        """Return the aims as text, with the side on which they are kept."""
        return f"{'≥' if self.at_least else '≤'} {self.text(self.aims)}" if self.aims else ""

    @property
    def verdict(self) -> str:
        """Say for each figure whether it meets its aim, or how much it is short."""
        if not self.aims:
            return ""
        lacks = [round(a, self.digits) - round(f, self.digits) for f, a in zip(self.figures, self.aims, strict=True)]
        lacks = [lack if self.at_least else -lack for lack in lacks]
        half = 0.5 * 10.0**-self.digits
        parts = ["met" if lack < half else f"short by {lack:,.{self.digits}f}" for lack in lacks]
        return parts[0] if len(set(parts)) == 1 else " / ".join(parts)

    def line(self) -> str:
        """Return everything in one line, ``what: figures``."""
        more = [self.aim and f"aim {self.aim}", self.verdict, self.how, self.beside]
        return f"{self.what}: {self.measured}" + "".join(f"; {m}" for m in more if m)


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a table in Markdown."""
    out = ["| what | measured | aim | | how, and what stands beside it |", "|---|---|---|---|---|"]
    for row in rows:
        beside = "; ".join(x for x in (row.how, row.beside) if x)
        out.append(f"| {row.what} | {row.measured} | {row.aim} | {row.verdict} | {beside} |")
    return "\n".join(out)


def put(file: Path, name: str, text: str) -> None:
    """Put a text between ``<!-- name -->`` and ``<!-- /name -->`` of a page, in place of what stands there.

    Raises:
        ValueError: The page lacks the markers.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    page = file.read_text(encoding="utf-8")
    if begin not in page or end not in page:
        msg = f"{file} has no place for {name}: it needs {begin.strip()} and {end}"
        raise ValueError(msg)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    file.write_text(f"{before}{begin}{text.strip()}\n{end}{after}", encoding="utf-8")
