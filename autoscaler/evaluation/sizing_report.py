"""The comparison of sizing policies told: a table and a figure for each workload, as a page and as a document."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from autoscaler.evaluation.figures import share_and_cost
from autoscaler.evaluation.report import Report, Section, Shown
from autoscaler.evaluation.sizing import BY_RATES, NAMES, POLICIES, PROMISE, SHARE, Run
from autoscaler.evaluation.tables import Table

_ABSENT = "–"


class Printed(NamedTuple):
    """What was printed of a policy on a workload."""

    percent: float  # of the records that were read in time
    consumer_min: float  # consumers times minutes


PRINTED: Mapping[tuple[str, str], Printed] = {
    ("W-skew", "AUTO_SCALE_CG"): Printed(100.0, 18.0),
    ("table 2", "LINEAR"): Printed(94.7, 25.5),
    ("table 2", "TAIL_LATENCY_2"): Printed(97.4, 30.21),
    ("table 2, skewed", "LINEAR"): Printed(84.7, 25.5),
    ("table 2, skewed", "TAIL_LATENCY_2"): Printed(98.9, 29.8),
    ("table 2, t_r 2 s", "TAIL_LATENCY_1"): Printed(85.4, 34.16),
    ("table 2, t_r 2 s", "TAIL_LATENCY_2"): Printed(99.4, 44.7),
    ("table 3", "LINEAR"): Printed(95.4, 325.7),
    ("table 3", "TAIL_LATENCY_2"): Printed(98.9, 402.9),
}

_ABOUT = (
    "How many of the records each way of sizing a group has read in time, and what its consumers cost: the published "
    "experiments (Ezzeddine et al. 2022 and 2024) and loads that no policy was tuned on, on a simulated group whose decisions "
    "are made by the controller's own code."
)
_CONDITIONS = (
    "A record is in time if it is read before it is as old as W. Consumers process 200 records/s (W-skew: 100, of which "
    "policies are told 95), take 1 s to start, and there is one at first. A decision is made every second; published policies "
    "see the last second's rate and the backlog, their whole group stands still for the time of a rebalance (50 ms; W-skew "
    "0.5 s) when anything moves, and they wait 10 s between two actions. LINEAR is told what part of a second's records a "
    "consumer can read in time where they come at once. `rates N%` is this project's default sizing at a target utilisation of "
    "N %: it sees rates over 5 s, and only what moves stands still, for 0.1 s. `promise` is told W and 99 % and nothing else; it "
    "sees rates over 1 s, as published policies do. All other settings are the defaults. KEDA+HPA "
    "and Flink's rule ask for a number, Kafka's range assignor deals the partitions, the whole group stands still as above, and "
    "consumers commit every 5 s; the best of 15 and of 16 settings on each workload is shown: the cheapest that has 99 % in "
    "time, or the one that has most. The recorded loads are `chindanonda_10min.csv` and `nyc_taxi_2h_x40.csv` in DIR, with the "
    "columns second and events_per_s."
)
_COLUMNS = ("policy", "in time", "printed", "consumer minutes", "printed", "at most", "changes", "partitions moved")


def sizing_report(runs: Sequence[Run], command: str, made: str) -> Report:
    """Return what the page shows."""
    of_each = _by_workload(runs)
    sections = (*_promise(of_each), *(_section(r) for r in of_each))
    return Report(title="Sizing groups, evaluated", about=_ABOUT, command=command, made=made, sections=sections)


def sizing_document(report: Report) -> str:
    """Return the tables as Markdown, with how to make them again."""
    again = f"`{report.command}` made these tables and the page with the figures, `.run/evaluation/sizing.html`. {report.made}"
    parts = ["# Sizing, evaluated", report.about, again, "## How", _CONDITIONS]
    for section in report.sections:
        parts += [f"## {section.title}", section.text, *(table.markdown() for table in section.tables)]
    return "\n\n".join(parts) + "\n"


def _by_workload(runs: Sequence[Run]) -> list[list[Run]]:
    inside = sorted(runs, key=lambda r: (NAMES.index(r.workload), POLICIES.index(r.policy)))
    return [list(some) for _, some in groupby(inside, key=lambda r: r.workload)]


def _promise(of_each: list[list[Run]]) -> tuple[Section, ...]:
    """Return what the promise has kept and cost on every workload, beside KEDA at its best; nothing without both."""
    rows, ratios = [], []
    for runs in of_each:
        by_policy = {r.policy: r for r in runs}
        ours, peer = by_policy.get(PROMISE), by_policy.get("KEDA+HPA")
        if ours is None or peer is None:
            continue
        ratios.append(ours.consumer_min / peer.consumer_min)
        costs = (f"{ours.consumer_min:.1f}", f"{peer.consumer_min:.1f}", f"{ratios[-1]:.2f}", f"{ours.least_consumer_min:.1f}")
        rows.append((ours.workload, f"{ours.in_time * 100:.2f} %", f"{peer.in_time * 100:.2f} %", *costs))
    if not rows:
        return ()
    note = (
        f"A promise of {SHARE:.0%} within W, one configuration for all workloads; KEDA+HPA with its best settings for each. "
        f"The mean ratio of consumer minutes is {sum(ratios) / len(ratios):.2f}."
    )
    header = ("workload", "promise: in time", "KEDA+HPA: in time", "consumer minutes", "KEDA+HPA", "ratio", "at least")
    table = Table(title="The promise beside KEDA+HPA", note=note, header=header, rows=tuple(rows))
    return (Section(title="A promise", text="What a promise keeps, and what that costs.", figures=(), tables=(table,)),)


def _section(runs: list[Run]) -> Section:
    first = runs[0]
    note = f"{SHARE:.0%} in time takes at least {first.least_consumer_min:.1f} consumer minutes, were the future known."
    rows = tuple(_row(r) for r in runs)
    table = Table(title=f"Policies on {first.workload}", note=note, header=_COLUMNS, rows=rows)
    figure = Shown(
        figure=share_and_cost(runs, BY_RATES),
        caption=f"{first.workload}: share that is late, by consumer minutes; further left and lower is better.",
    )
    return Section(title=first.workload, text=f"{first.about[0].upper()}{first.about[1:]}.", figures=(figure,), tables=(table,))


def _row(run: Run) -> tuple[str, ...]:
    printed = PRINTED.get((run.workload, run.policy))
    share = _ABSENT if printed is None else f"{printed.percent:.1f} %"
    cost = _ABSENT if printed is None else f"{printed.consumer_min:.1f}"
    found = (f"{run.in_time * 100:.2f} %", share, f"{run.consumer_min:.1f}", cost)
    return (
        f"{run.policy} ({run.settings})" if run.settings else run.policy,
        *found,
        str(run.most),
        str(run.scalings),
        str(run.moves),
    )
