"""The evaluation told: sections of text, tables and figures in one order, as a page to look at and as a document to keep."""

from dataclasses import dataclass

import plotly.graph_objects as go

from autoscaler.evaluation import figures, tables
from autoscaler.evaluation.experiments import LATENCY_MEASUREMENTS, LATENCY_PARTITIONS
from autoscaler.evaluation.published_figures import FIGURES
from autoscaler.evaluation.results import Results
from autoscaler.evaluation.tables import Table

QUICK = "make evaluate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A figure with what it shows, which stands below it and in its text alternative."""

    figure: go.Figure
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page."""

    title: str
    text: str
    figures: tuple[Shown, ...] = ()  # in a grid, in this order
    tables: tuple[Table, ...] = ()  # below the figures
    legend: bool = False  # the looks of ``figures.LOOKS`` are explained above the figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A page."""

    title: str
    about: str  # what was compared, in a sentence or two
    command: str  # what makes it again
    made: str  # where and when it was made
    sections: tuple[Section, ...]


def placement_report(results: Results) -> Report:
    """Return what the page of the placing algorithms shows."""
    return Report(
        title="Placing partitions, evaluated",
        about="The published experiments, run again with the published algorithms and with this project's.",
        command=results.command,
        made=results.made,
        sections=sections(results),
    )


def sections(results: Results) -> tuple[Section, ...]:
    """Return everything there is to show, leaving out what was not run."""
    return tuple(s for s in (_claims(results), _pareto(results), _scores(results), _latency(results), _both(results)) if s.tables)


def document(results: Results) -> str:
    """Return the tables as Markdown, with how to make them again."""
    intro = (
        "The published experiments on placing partitions (Landau et al. 2024, arXiv 2402.06085; Ezzeddine et al. 2022), run "
        "again with the published algorithms and with this project's, by a Spark job that spreads algorithms × streams over its "
        "workers. [algorithms.md](algorithms.md) says what the algorithms do."
    )
    quick = "" if results.command == QUICK else f"; `{QUICK}` does the same with one stream per delta in a minute or two"
    place = "`.run/evaluation/evaluation.html`"
    again = f"`{results.command}` made these tables and the page with the figures, {place}{quick}. {results.made}"
    parts = ["# The evaluation", intro, again, "![The page that make evaluate writes](../images/evaluation.png)"]
    for section in sections(results):
        parts += [f"## {section.title}", section.text, *(table.markdown() for table in section.tables)]
    return "\n\n".join(parts) + "\n"


def _claims(results: Results) -> Section:
    found = [tables.headline(results), *(tables.published(results, delta) for delta in FIGURES if delta in results.deltas)]
    return Section(
        title="Published and regenerated",
        text="Streams as published: 200 partitions, whole rates from 0 to 100 at a capacity of 100, steps uniform in [-delta, "
        "delta] "
        "and held inside these bounds, 501 measurements, each listing the partitions in an order of its own. Next fit opens "
        "consumer 0 "
        "before the first partition, as in the published runs. The streams are drawn anew, so figures differ by what they "
        "differ from "
        "stream to stream.",
        figures=(
            Shown(figure=figures.against_published(results, cost=False), caption="Mean Rscore of the twelve."),
            Shown(figure=figures.against_published(results, cost=True), caption="Cardinal bin score of the twelve."),
        ),
        tables=tuple(t for t in found if t.rows),
    )


def _pareto(results: Results) -> Section:
    return Section(
        title="What a consumer saved costs in moves",
        text="Every algorithm at every delta: to the left are fewer consumers, below is less that moves. PACE takes a price "
        "per consumer; "
        "its presets lean, even, balanced and quiet are joined.",
        figures=tuple(Shown(figure=figures.pareto(results, delta), caption=f"delta {delta}") for delta in results.deltas),
        tables=_by_delta(results),
        legend=True,
    )


def _by_delta(results: Results) -> tuple[Table, ...]:
    cost = tables.by_delta(
        results,
        "Consumers by delta",
        "CBS: mean of consumers above the fewest that any of the published twelve used at that measurement, in percent; below "
        "0 is "
        "fewer than all of them.",
        lambda s: f"{s.cbs_percent:z.2f}",
    )
    moved = tables.by_delta(
        results,
        "Moves by delta",
        "E(Rscore): what moves per measurement, in capacities of one consumer.",
        lambda s: f"{s.r_score:.2f}",
    )
    return tuple(t for t in (cost, moved) if t.rows)


def _scores(results: Results) -> Section:
    sizes = tuple(tables.by_size(results, delta) for delta in results.deltas if delta in FIGURES and len(results.sizes) > 1)
    return Section(
        title="By delta and by size",
        text="How both figures grow with the speed at which rates change, and whether they depend on the number of partitions.",
        figures=(
            Shown(figure=figures.by_delta(results, cost=False), caption="What moves, by delta."),
            Shown(figure=figures.by_delta(results, cost=True), caption="Consumers above the fewest, by delta."),
        ),
        tables=tuple(t for t in sizes or (tables.consumers(results),) if t.rows),
    )


def _latency(results: Results) -> Section:
    own = tables.lateness(
        results.lateness,
        "The latency model",
        f"{LATENCY_PARTITIONS} partitions, {LATENCY_MEASUREMENTS} measurements 30 s apart, delta 5; a rebalance takes 5 s, a "
        f"consumer planned "
        "for 100 takes 133 bytes/s, one sample per byte. kd_n: dealt once onto n consumers and never changed.",
    )
    theirs = tables.lateness(
        results.recorded, "Every placement on the recorded stream", "The same model, of which only the figures above are printed."
    )
    return Section(
        title="How late bytes are",
        text="The model of Landau et al. 2024, section VI-C. The 90th percentile of the late bytes is a constant of the "
        "model: every byte "
        "that moves waits about as long. What differs is how many bytes are late, so percentiles over all bytes stand beside it.",
        figures=(
            Shown(
                figure=figures.cost_of_lateness(results.lateness),
                caption="Part of the bytes that is late, by consumers paid for.",
            ),
            Shown(figure=figures.later_than(results.lateness), caption="Part of the bytes that is later than so many seconds."),
        ),
        tables=tuple(t for t in (own, tables.recorded(results.recorded), theirs) if t.rows),
    )


def _both(results: Results) -> Section:
    return Section(
        title="Rate and backlog together",
        text="A consumer must take the rate of its partitions and hold their backlog. LL-FFD is the published packing "
        "(Ezzeddine et al. "
        "2022); DOT fills one consumer at a time with what goes best with the room left in both (after Panigrahy et al. 2011) "
        "and then "
        "tries to empty consumers.",
        figures=(Shown(figure=figures.two_dimensions(results), caption="Consumers above the lower bound."),),
        tables=(tables.two_dimensions(results),) if results.packed else (),
    )
