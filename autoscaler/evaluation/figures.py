"""The figures of the evaluation as Plotly figures. Colours of text and lines are the page's: it knows whether it is dark."""

from collections.abc import Collection, Iterable, Sequence
from itertools import cycle
from typing import NamedTuple

import plotly.graph_objects as go

from autoscaler.evaluation.experiments import LATER_THAN_S
from autoscaler.evaluation.published_figures import FIGURES
from autoscaler.evaluation.results import Lateness, Results
from autoscaler.evaluation.sizing import Run
from autoscaler.evaluation.workloads import FAMILIES, PUBLISHED_PARTITIONS

_GREY, _BLUE, _ORANGE, _GREEN, _RED, _VIOLET = "#8a8f98", "#3b82c4", "#e08a1e", "#2a9d6f", "#d1495b", "#8b5fbf"


class Family(NamedTuple):
    """Contenders that look alike in a figure."""

    name: str
    colour: str
    symbol: str
    members: tuple[str, ...]
    joined: bool = False


PACE = tuple(f"PACE {preset}" for preset in ("lean", "even", "balanced", "quiet"))
LOOKS = (
    Family("any fit", _GREY, "circle", ("NF", "FF", "WF", "BF")),
    Family("any fit, decreasing", _BLUE, "circle", ("NFD", "FFD", "WFD", "BFD")),
    Family("modified any fit", _ORANGE, "diamond", ("MWF", "MBF", "MWFP", "MBFP")),
    Family("MMR, HFD, GOALS", _VIOLET, "square", ("MMR", "HFD", "GOALS")),
    Family("PACE", _GREEN, "circle", PACE, joined=True),
)
_NEAR = 0.5  # percent, or capacities: names of points so near to each other cannot be read
_LABELLED = {
    "NFD": "middle right",
    "BFD": "top right",
    "MWF": "bottom center",
    "MBF": "top center",
    "MMR": "top center",
    "GOALS": "top center",
    "PACE lean": "bottom right",
    "PACE even": "bottom left",
    "PACE balanced": "bottom left",
    "PACE quiet": "bottom right",
}
_FOLLOWED = (("NFD", _BLUE), ("BFD", _GREY), ("MBF", _RED), ("MWF", _ORANGE), ("MMR", _VIOLET))
_PACE_DASHES = dict(zip(PACE, ("dot", "dash", "solid", "dashdot"), strict=True))
_LATE_SHOWN = (
    ("kd_15", _GREY, "dot"),
    ("kd_24", _GREY, "dash"),
    ("kd_30", _GREY, "solid"),
    ("BFD", _BLUE, "solid"),
    ("MWF", _ORANGE, "solid"),
    ("PACE lean", _GREEN, "dot"),
    ("PACE balanced", _GREEN, "solid"),
)

_OTHERS = (_GREY, _BLUE, _ORANGE, _RED, _VIOLET, _GREY, _GREEN)
_SYMBOLS = ("square", "diamond", "triangle-up", "triangle-down", "star", "x", "star-diamond")
_LEAST_LATE = 0.01  # percent: where none is late a point stands there, for an axis of powers has no 0


def pareto(results: Results, delta: int) -> go.Figure:
    """Return consumers against what moves at one delta; PACE's presets are joined to a front."""
    figure, names = go.Figure(), _names(results, delta)
    for family in LOOKS:
        found = [s for name in family.members if (s := results.score(name, delta, PUBLISHED_PARTITIONS))]
        figure.add_scatter(
            x=[s.cbs_percent for s in found],
            y=[s.r_score for s in found],
            mode="markers+text" + ("+lines" if family.joined else ""),
            name=family.name,
            marker={"color": family.colour, "symbol": family.symbol, "size": 9},
            line={"color": family.colour, "width": 1.5},
            text=[names.get(s.contender, "") for s in found],
            textposition=[_LABELLED.get(s.contender, "top center") for s in found],
            textfont={"size": 11},
            customdata=[s.contender for s in found],
            hovertemplate="%{customdata}<br>%{x:.2f} % above the fewest<br>Rscore %{y:.2f}<extra></extra>",
            showlegend=False,
            cliponaxis=False,
        )
    _framed(figure, "consumers above the fewest, %", "E(Rscore)", height=330)
    return figure.update_yaxes(rangemode="normal", autorangeoptions={"include": [-2]})  # room for what is written below points


def _names(results: Results, delta: int) -> dict[str, str]:
    """Return what is written beside points; of those that lie on one another the first is named, and that there are more."""
    at: dict[tuple[int, int], list[str]] = {}
    for name in (name for family in LOOKS for name in family.members if name in _LABELLED):
        if (s := results.score(name, delta, PUBLISHED_PARTITIONS)) is not None:
            at.setdefault((round(s.cbs_percent / _NEAR), round(s.r_score / _NEAR)), []).append(name)
    return {first: first.removeprefix("PACE ") + (" …" if more else "") for first, *more in at.values()}


def by_delta(results: Results, *, cost: bool) -> go.Figure:
    """Return the cardinal bin score (``cost``) or the mean Rscore of some contenders over the deltas."""
    figure = go.Figure()
    styles = [(name, colour, "solid") for name, colour in _FOLLOWED] + [(name, _GREEN, _PACE_DASHES[name]) for name in PACE]
    for name, colour, dash in styles:
        found = [s for delta in results.deltas if (s := results.score(name, delta, PUBLISHED_PARTITIONS))]
        figure.add_scatter(
            x=[s.delta for s in found],
            y=[s.cbs_percent if cost else s.r_score for s in found],
            mode="lines+markers",
            name=name,
            line={"color": colour, "dash": dash, "width": 2},
            marker={"size": 6},
        )
    return _framed(figure, "delta", "consumers above the fewest, %" if cost else "E(Rscore)", height=430, legend=True)


def against_published(results: Results, *, cost: bool) -> go.Figure:
    """Return what is regenerated against what is printed: on the diagonal they are equal."""
    figure = go.Figure()
    ends = [0.0, 0.0]
    for delta, colour, symbol in ((5, _BLUE, "circle"), (25, _ORANGE, "diamond")):
        pairs = [
            (name, (p.cbs_percent, s.cbs_percent) if cost else (p.r_score, s.r_score))
            for name, p in FIGURES[delta].items()
            if (s := results.score(name, delta, PUBLISHED_PARTITIONS))
        ]
        ends[1] = max([ends[1], *(1.05 * max(pair) for _, pair in pairs)])
        figure.add_scatter(
            x=[pair[0] for _, pair in pairs],
            y=[pair[1] for _, pair in pairs],
            mode="markers",
            name=f"delta {delta}",
            marker={"color": colour, "symbol": symbol, "size": 9},
            customdata=[name for name, _ in pairs],
            hovertemplate="%{customdata}<br>published %{x:.2f}<br>here %{y:.2f}<extra></extra>",
        )
    figure.add_scatter(
        x=ends, y=ends, mode="lines", name="equal", line={"color": _GREY, "width": 1, "dash": "dash"}, hoverinfo="skip"
    )
    what = "CBS, %" if cost else "E(Rscore)"
    return _framed(figure, f"{what}, published", f"{what}, here", height=400, legend=True).update_xaxes(rangemode="tozero")


def later_than(rows: Sequence[Lateness]) -> go.Figure:
    """Return which part of the bytes is later than so many seconds, for some placements."""
    figure = go.Figure()
    found = {row.contender: row for row in rows}
    for name, colour, dash in _LATE_SHOWN:
        if name not in found:
            continue
        points = [(s, share) for s, share in zip(LATER_THAN_S, found[name].later_ratio, strict=True) if share > 0]
        figure.add_scatter(
            x=[s for s, _ in points],
            y=[100 * share for _, share in points],
            mode="lines",
            name=name,
            line={"color": colour, "dash": dash, "width": 2},
            hovertemplate=f"{name}<br>%{{y:.3g}} % of the bytes<br>later than %{{x:.3g}} s<extra></extra>",
        )
    _framed(figure, "seconds", "bytes later than that, %", height=430, legend=True)
    figure.update_xaxes(type="log", dtick=1)
    return figure.update_yaxes(type="log", dtick=1)


def cost_of_lateness(rows: Sequence[Lateness]) -> go.Figure:
    """Return consumers against the part of the bytes that is late: placements that never change are a line.

    Where no byte is late there is no point: the scale is logarithmic.
    """
    figure = go.Figure()
    rows = [row for row in rows if row.late_ratio > 0]
    static = sorted((row for row in rows if row.contender.startswith("kd_")), key=lambda row: row.consumers)
    figure.add_scatter(
        x=[row.consumers for row in static],
        y=[100 * row.late_ratio for row in static],
        mode="lines+markers",
        name="kd_n (never changes)",
        line={"color": _GREY, "width": 1.5, "dash": "dot"},
        marker={"size": 6},
        customdata=[row.contender for row in static],
        hovertemplate="%{customdata}<br>%{y:.2f} % late<extra></extra>",
    )
    found = {row.contender: row for row in rows}
    for family in LOOKS:
        points = [found[name] for name in family.members if name in found]
        figure.add_scatter(
            x=[row.consumers for row in points],
            y=[100 * row.late_ratio for row in points],
            mode="markers" + ("+lines" if family.joined else ""),
            name=family.name,
            marker={"color": family.colour, "symbol": family.symbol, "size": 9},
            line={"color": family.colour, "width": 1.5},
            customdata=[row.contender for row in points],
            hovertemplate="%{customdata}<br>%{x:.2f} consumers<br>%{y:.2f} % late<extra></extra>",
        )
    _framed(figure, "mean consumers", "late bytes, %", height=430, legend=True)
    return figure.update_yaxes(type="log", dtick=1)


def two_dimensions(results: Results) -> go.Figure:
    """Return consumers above the lower bound by family, one bar per algorithm."""
    figure = go.Figure()
    colours: Iterable[str] = (_GREEN, _ORANGE, _VIOLET, _GREY)
    for name, colour in zip(sorted({p.algorithm for p in results.packed}), colours, strict=False):
        found = {p.family: p for p in results.packed if p.algorithm == name}
        families = [f for f in FAMILIES if f in found]
        figure.add_bar(
            x=families,
            y=[100 * (found[f].over_bound - 1) for f in families],
            name=name,
            marker={"color": colour},
            hovertemplate=f"{name}<br>%{{x}}: %{{y:.1f}} % above the bound<extra></extra>",
        )
    return _framed(figure, "", "consumers above the lower bound, %", height=400, legend=True)


def share_and_cost(runs: Sequence[Run], joined: Collection[str]) -> go.Figure:
    """Return the share that is late against consumer minutes: targets of our sizing joined to a curve, the others as points."""
    figure = go.Figure()
    ours = [r for r in runs if r.policy in joined]
    _points(figure, ours, "by rates, at each target", _GREEN, "circle", mode="markers+text+lines")
    for run, look in zip((r for r in runs if r.policy not in joined), cycle(zip(_OTHERS, _SYMBOLS, strict=True)), strict=False):
        _points(figure, [run], run.policy, *look, mode="markers")
    _framed(figure, "consumer minutes", "late records, %", height=430, legend=True)
    return figure.update_yaxes(type="log", dtick=1, rangemode="normal")


def _points(figure: go.Figure, runs: Sequence[Run], name: str, colour: str, symbol: str, *, mode: str) -> None:
    figure.add_scatter(
        x=[r.consumer_min for r in runs],
        y=[max(100 * (1 - r.in_time), _LEAST_LATE) for r in runs],
        mode=mode,
        name=name,
        marker={"color": colour, "symbol": symbol, "size": 9},
        line={"color": colour, "width": 1.5},
        text=[r.policy.removeprefix("rates ") for r in runs],
        textposition="top center",
        textfont={"size": 10},
        customdata=[r.policy for r in runs],
        hovertemplate="%{customdata}<br>%{x:.1f} consumer minutes<br>%{y:.2f} % late<extra></extra>",
    )


def _framed(figure: go.Figure, x: str, y: str, *, height: int, legend: bool = False) -> go.Figure:
    axis: dict[str, object] = {"automargin": True, "zeroline": False}
    title: dict[str, object] = {"standoff": 8, "font": {"size": 12}}
    return figure.update_layout(
        height=height,
        margin={"l": 8, "r": 14, "t": 14, "b": 8},
        font={"size": 12},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis=axis | {"title": title | {"text": x}},
        yaxis=axis | {"title": title | {"text": y}, "rangemode": "tozero"},
        showlegend=legend,
        legend={"orientation": "h", "yref": "container", "y": 1, "yanchor": "top", "x": 0, "xanchor": "left"},
        hovermode="closest",
        dragmode=False,
    )
