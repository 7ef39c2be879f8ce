"""How many consumers plans take and how much they move: rows of the planner's bench that no clock has a part in.

The preset of a row is the same for all its settings, and was chosen on other seeds than those it is measured on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autoscaler.evaluation.planner_runs import Contender
from autoscaler.evaluation.workloads import FAMILIES, PUBLISHED_MEASUREMENTS, PUBLISHED_PARTITIONS, two_demands
from autoscaler.packing import PRESETS, Given
from autoscaler.packing.research.two_dimensional import assign_2d
from tests.bench.replays import NAIVE, Floats, Outcome, outcomes
from tests.bench.rows import Row

DELTAS = (5, 10, 25)


def priced(consumer_price: float, drift_weight: float = 1.0, horizon: float = 1.0) -> Contender:
    """Return PACE at these prices."""
    options: Given = {"consumer_price": consumer_price, "drift_weight": drift_weight, "horizon": horizon}
    return Contender(name=f"PACE ({consumer_price:g}, {drift_weight:g}, {horizon:g})", algorithm="PACE", options=options)


MWF, BFD, MMR, HFD, GOALS = (Contender(name=a, algorithm=a, options={}) for a in ("MWF", "BFD", "MMR", "HFD", "GOALS"))
LEAN, EVEN, BALANCED, QUIET = (Contender(name=f"PACE {p}", algorithm="PACE", options={"preset": p}) for p in PRESETS)
AS_MANY_AS_MWF = priced(0.72)  # uses as many consumers as MWF, so that moves can be compared
AS_FEW_AS_BFD = priced(100.0, 0.2)
AS_RESTLESS = priced(2.5)  # moves as much as MWF, so that consumers can be compared
DENSER = priced(5.0)  # between AS_RESTLESS and AS_FEW_AS_BFD
AHEAD = Contender(name="PACE balanced, H = 10", algorithm="PACE", options={"preset": "balanced", "horizon": 10.0})  # the job's
AS_CALM = priced(0.31, 0.5, 4.0)  # uses as many consumers as the naive policy
_CALMER = (1.5, 1.5, 1.5)
DELTAS_TEXT = "deltas " + " / ".join(map(str, DELTAS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One planner against another over the same streams, one figure per delta: medians over seeds of ratios."""

    runs: Mapping[tuple[str, int], Outcome]
    one: Contender
    other: Contender

    def _medians(self, ratio: Callable[[Outcome, Outcome], Floats]) -> tuple[float, ...]:
        pairs = [(self.runs[self.one.name, d], self.runs[self.other.name, d]) for d in DELTAS]
        return tuple(float(np.median(ratio(one, other))) for one, other in pairs)

    def moved(self) -> tuple[float, ...]:
        """Return R of the one over R of the other."""
        return self._medians(lambda one, other: one.r_scores / other.r_scores)

    def consumers(self) -> tuple[float, ...]:
        """Return consumers of the one over consumers of the other."""
        return self._medians(lambda one, other: one.consumers / other.consumers)

    def beside(self) -> str:
        """Say the mean R-scores of the one, which stand behind the ratios."""
        return "R " + " / ".join(f"{self.runs[self.one.name, d].r_scores.mean():.2f}" for d in DELTAS)


def moves(seeds: Sequence[int]) -> list[Row]:
    """Return the rows about one dimension at 200 partitions."""
    shown = (BFD, MWF, MMR, HFD, GOALS, NAIVE, LEAN, EVEN, BALANCED, AHEAD, QUIET)
    size = {"partitions": PUBLISHED_PARTITIONS, "measurements": PUBLISHED_MEASUREMENTS}
    runs = outcomes((*shown, AS_MANY_AS_MWF, AS_FEW_AS_BFD, AS_RESTLESS, DENSER, AS_CALM), DELTAS, seeds, **size)

    def over(one: Contender, other: Contender) -> Compared:
        return Compared(runs=runs, one=one, other=other)

    restless, equal = over(AS_RESTLESS, MWF), _at_equal_moves(runs)
    return [
        _moved("R of MWF / R of PACE with no more consumers", over(MWF, AS_MANY_AS_MWF), (6.0, 3.5, 2.2)),
        _moved("R of BFD / R of PACE with as many consumers", over(BFD, AS_FEW_AS_BFD), (2.2, 1.8, 1.6)),
        Row(
            what=f"consumers of PACE / of MWF where PACE moves no more, {DELTAS_TEXT}",
            figures=restless.consumers(), aims=(0.90, 0.92, 0.945), digits=3, how=AS_RESTLESS.name,
            beside=f"{_text('R, PACE / MWF', restless.moved())}; {_text('between prices, where R is equal', equal)}",
        ),
        _moved("R of “drain the hottest, close the coldest” / R of PACE with no more consumers", over(NAIVE, AS_CALM), _CALMER),
        *(
            Row(
                what=f"{c.name}: consumers / BFD's, {DELTAS_TEXT}", figures=over(c, BFD).consumers(), digits=3,
                beside=over(c, BFD).beside(),
            )
            for c in shown
        ),
    ]  # fmt: skip


def _at_equal_moves(runs: Mapping[tuple[str, int], Outcome]) -> tuple[float, ...]:
    """Return consumers of PACE over MWF's where both move as much, between the prices that were run; one figure per delta."""
    found = []
    for delta in DELTAS:
        curve = [runs[c.name, delta] for c in (EVEN, AS_RESTLESS, DENSER, AS_FEW_AS_BFD)]  # by increasing R
        mwf = runs[MWF.name, delta]
        consumers = [
            np.interp(moved, [x.r_scores[i] for x in curve], [x.consumers[i] for x in curve])
            for i, moved in enumerate(mwf.r_scores)
        ]
        found.append(float(np.median(np.array(consumers) / mwf.consumers)))
    return tuple(found)


def _moved(what: str, pair: Compared, aims: tuple[float, ...]) -> Row:
    fewer = tuple(1.0 / ratio for ratio in pair.consumers())
    return Row(
        what=f"{what}, {DELTAS_TEXT}", figures=pair.moved(), aims=aims, at_least=True, how=pair.other.name,
        beside=_text("consumers, PACE / other", fewer),
    )  # fmt: skip


def _text(what: str, figures: Sequence[float]) -> str:
    return f"{what}: " + " / ".join(f"{f:.3f}" for f in figures)


def two_dimensions(seeds: Sequence[int], partitions: int = 200) -> list[Row]:
    """Return the row about rate and backlog together: mean consumers over the lower bound, over those of LL-FFD.

    Means, because LL-FFD is at times several times worse than usual; the median of the ratios stands beside them.
    """
    above = {family: np.array([_both(family, partitions, seed) for seed in seeds]) for family in FAMILIES}
    ours, theirs = np.mean([plans.mean(axis=0) for plans in above.values()], axis=0).tolist()
    families = ", ".join(f"{family} {plans[:, 0].mean() / plans[:, 1].mean():.3f}" for family, plans in above.items())
    usual = np.mean([np.median(plans[:, 0] / plans[:, 1]) for plans in above.values()])
    what = f"rate and backlog: consumers / LL-FFD's, {partitions} partitions, six families"
    beside = f"consumers over the lower bound, means of {len(seeds)} seeds: {ours:.3f} and {theirs:.3f} ({families}); "
    beside += f"median of the ratios, mean of the families: {usual:.3f}"
    return [Row(what=what, figures=(ours / theirs,), aims=(0.84,), digits=3, beside=beside)]


def _both(family: str, partitions: int, seed: int) -> tuple[float, float]:
    rate, lag = (dict(enumerate(x.tolist())) for x in two_demands(family, partitions, seed))
    ours, theirs = (assign_2d(rate, lag, 1.0, 1.0, {}, algorithm=a) for a in ("DOT", "LL-FFD"))
    return ours.consumers / ours.lower_bound, theirs.consumers / ours.lower_bound
