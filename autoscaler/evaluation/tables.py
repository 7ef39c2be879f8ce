"""The tables of the evaluation, once as values: the page and the document show the same rows."""

import html
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autoscaler.evaluation import algorithms_compared
from autoscaler.evaluation.published_figures import (
    CBS_TOLERANCE_PERCENT,
    FIGURES,
    HEADLINE_TOLERANCE,
    HEADLINES,
    LATENCIES,
    LATENCY_TOLERANCE_RATIO,
    R_SCORE_TOLERANCE_RATIO,
)
from autoscaler.evaluation.results import Lateness, Results, Score
from autoscaler.evaluation.workloads import FAMILIES, PUBLISHED_PARTITIONS

_ABSENT = "–"
_TOLERATED = 8  # streams for which the tolerances are: means over fewer of them scatter with the root of their number
_WHOLE = 100  # seconds from which fractions of one say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with a title and a line about what it says."""

    title: str  # what it is
    note: str  # how to read it; plain text
    header: tuple[str, ...]  # names of the columns; the first column is text, the others are figures
    rows: tuple[tuple[str, ...], ...]  # as many cells as the header

    def markdown(self) -> str:
        """Return it as Markdown, title and note included."""
        lines = [f"### {self.title}", "", self.note, "", _row(self.header), _row(("---", *["---:"] * (len(self.header) - 1)))]
        return "\n".join([*lines, *(_row(cells) for cells in self.rows)])

    def html(self) -> str:
        """Return it as HTML without title and note; it scrolls by itself where the page is narrow."""
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.header)
        body = "".join(
            f'<tr><th scope="row">{html.escape(first)}</th>{"".join(f"<td>{html.escape(c)}</td>" for c in rest)}</tr>'
            for first, *rest in self.rows
        )
        label = html.escape(self.title)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )


def _wider(results: Results) -> float:
    """Return by what the tolerances are wider here, because there are fewer streams."""
    return max(1.0, math.sqrt(_TOLERATED / _streams(results)))


def _over(results: Results) -> str:
    streams = _streams(results)
    few = f", wider than over {_TOLERATED} by the root of what there are fewer" if streams < _TOLERATED else ""
    return f"over {streams} stream{'' if streams == 1 else 's'}{few}"


def _streams(results: Results) -> int:
    """Return how many streams a score beside a published figure is the mean of."""
    return min((s.seeds for s in results.scores if s.partitions == PUBLISHED_PARTITIONS), default=1)


def headline(results: Results) -> Table:
    """Return the paper's two claims about MWF beside what comes out here."""
    rows, tolerance = [], HEADLINE_TOLERANCE * _wider(results)
    for delta, claim in HEADLINES.items():
        mwf, nfd = (results.score(name, delta, PUBLISHED_PARTITIONS) for name in ("MWF", "NFD"))
        if mwf is None or nfd is None:
            continue
        found = 100 * (mwf.r_score / nfd.r_score - 1)
        rows.append(_compared(f"delta {delta}: Rscore of MWF against NFD, %", claim.r_score_against_nfd, found, tolerance))
        rows.append(
            _compared(
                f"delta {delta}: consumers of MWF above the fewest, %", claim.consumers_above_fewest, mwf.cbs_percent, tolerance
            )
        )
    return Table(
        title="The published claims",
        note="Modified worst fit against next fit decreasing for what moves, and against the fewest consumers that any of the "
        f"twelve used at a time for what it costs. Tolerance: {tolerance:.2g} points, {_over(results)}.",
        header=("claim", "published", "here", "difference", "within"),
        rows=tuple(rows),
    )


def published(results: Results, delta: int) -> Table:
    """Return the twelve at one delta beside their printed figures."""
    rows, wider = [], _wider(results)
    for name, printed in FIGURES[delta].items():
        found = results.score(name, delta, PUBLISHED_PARTITIONS)
        if found is None:
            continue
        cost, moved = found.cbs_percent - printed.cbs_percent, found.r_score / printed.r_score - 1
        within = abs(cost) <= CBS_TOLERANCE_PERCENT * wider and abs(moved) <= R_SCORE_TOLERANCE_RATIO * wider
        rows.append(
            (
                name,
                f"{printed.cbs_percent:.2f}",
                f"{found.cbs_percent:z.2f}",
                f"{cost:+z.2f}",
                f"{printed.r_score:.2f}",
                f"{found.r_score:.2f}",
                f"{100 * moved:+z.1f} %",
                f"{found.r_score_spread:.2f}" if found.seeds > 1 else _ABSENT,
                _yes(within),
            )
        )
    return Table(
        title=f"The twelve, delta {delta}",
        note=f"CBS: consumers above the fewest of the twelve, mean, in percent. E(R): mean Rscore. Tolerance: CBS "
        f"{CBS_TOLERANCE_PERCENT * wider:.2g} points, E(R) {100 * R_SCORE_TOLERANCE_RATIO * wider:.2g} %, {_over(results)}; the "
        "spread is the standard deviation of E(R) from stream to stream.",
        header=(
            "algorithm",
            "CBS published",
            "CBS here",
            "difference",
            "E(R) published",
            "E(R) here",
            "difference",
            "spread",
            "within",
        ),
        rows=tuple(rows),
    )


def by_delta(results: Results, title: str, note: str, value: Callable[[Score], str]) -> Table:
    """Return one figure of every contender at every delta, for the published number of partitions."""
    return Table(
        title=title,
        note=note,
        header=("algorithm", *(f"delta {delta}" for delta in results.deltas)),
        rows=tuple(_lines(results, [(delta, PUBLISHED_PARTITIONS) for delta in results.deltas], value)),
    )


def consumers(results: Results) -> Table:
    """Return the mean number of consumers of every contender at every delta."""
    return by_delta(results, "Mean consumers", "The number itself.", lambda s: f"{s.consumers:.1f}")


def by_size(results: Results, delta: int) -> Table:
    """Return cost and movement of every contender at every number of partitions; movement per partition's mean rate."""
    return Table(
        title=f"Other numbers of partitions, delta {delta}",
        note="CBS in percent / E(R) as a part of all that arrives, so that groups of different sizes compare.",
        header=("algorithm", *(f"{n} partitions" for n in results.sizes)),
        rows=tuple(
            _lines(
                results,
                [(delta, n) for n in results.sizes],
                lambda s: f"{s.cbs_percent:z.2f} / {100 * s.r_score / (s.partitions / 2):.1f} %",
            )
        ),
    )


def lateness(rows: tuple[Lateness, ...], title: str, note: str) -> Table:
    """Return the latency model's figures."""
    return Table(
        title=title,
        note=note,
        header=("placement", "consumers", "E(R)", "late bytes", "p90 of late, s", "p90 of all, s", "p99 of all, s"),
        rows=tuple(
            (
                row.contender,
                f"{row.consumers:.2f}",
                f"{row.r_score:.2f}",
                f"{100 * row.late_ratio:.2f} %",
                _seconds(row.p90_of_late_s),
                _seconds(row.p90_s),
                _seconds(row.p99_s),
            )
            for row in rows
        ),
    )


def recorded(rows: tuple[Lateness, ...]) -> Table:
    """Return the latency model on the authors' stream beside what they print."""
    found = {row.contender: row for row in rows}
    lines: list[tuple[str, ...]] = []
    for claim in LATENCIES:
        if claim.placement not in found:
            continue
        value = getattr(found[claim.placement], claim.figure)
        scale = 100 if claim.figure == "late_ratio" else 1
        what = f"{claim.placement}: {claim.says}"
        if claim.value is None or value is None:
            lines.append((what, _seconds(claim.value), _seconds(value), _ABSENT, _yes(claim.value is None and value is None)))
        else:
            lines.append(_compared(what, claim.value, scale * value, LATENCY_TOLERANCE_RATIO * claim.value, digits=3))
    return Table(
        title="The latency model on the recorded stream",
        note="The authors' own stream of 32 partitions and 100 measurements, which is not part of this project. Tolerance: "
        f"{100 * LATENCY_TOLERANCE_RATIO:g} % of the printed figure.",
        header=("figure", "published", "here", "difference", "within"),
        rows=tuple(lines),
    )


def two_dimensions(results: Results) -> Table:
    """Return consumers over the lower bound by family, and against LL-FFD."""
    families = [f for f in FAMILIES if any(p.family == f for p in results.packed)]
    found = {(p.algorithm, p.family): p for p in results.packed}
    base = [found["LL-FFD", f].consumers for f in families]
    rows = []
    for name in sorted({p.algorithm for p in results.packed}):
        mine = [found[name, f] for f in families]
        against = sum(p.consumers / b for p, b in zip(mine, base, strict=True)) / len(families)
        bound = sum(p.over_bound for p in mine) / len(families)
        rows.append((name, *(f"{p.over_bound:.3f}" for p in mine), f"{bound:.3f}", f"{against:.3f}"))
    return Table(
        title="Rate and backlog together",
        note="Consumers over the lower bound of either dimension, by how rate and backlog go together; the last column is "
        "consumers over those of LL-FFD (Ezzeddine et al. 2022), mean of the families.",
        header=("algorithm", *families, "mean", "of LL-FFD"),
        rows=tuple(rows),
    )


def _lines(results: Results, places: list[tuple[int, int]], value: Callable[[Score], str]) -> Iterator[tuple[str, ...]]:
    for c in algorithms_compared.contenders():
        found = [results.score(c.name, delta, partitions) for delta, partitions in places]
        if any(found):
            yield c.name, *(_ABSENT if s is None else value(s) for s in found)


def _compared(what: str, printed: float, found: float, tolerance: float, *, digits: int = 1) -> tuple[str, ...]:
    off = found - printed
    return (what, f"{printed:.{digits}f}", f"{found:.{digits}f}", f"{off:+z.{digits}f}", _yes(abs(off) <= tolerance))


def _yes(within: bool) -> str:  # noqa: FBT001  it is the cell's content
    return "yes" if within else "no"


def _seconds(value: float | None) -> str:
    if value is None:
        return _ABSENT
    return f"{value:.0f}" if value == 0 or value >= _WHOLE else f"{value:.3g}"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
