"""How far plans are from what is proven possible: rows of the planner's bench that the exact solver has a part in."""

from collections.abc import Iterator, Sequence

import numpy as np

from autoscaler.evaluation.workloads import bounded_walk
from autoscaler.packing import assign
from tests.bench.packing_quality import DELTAS, DELTAS_TEXT, LEAN
from tests.bench.replays import CAPACITY, held
from tests.bench.rows import Row

SMALL = 32  # partitions: most answers are proven within a second
_SECONDS = 4.0


def distance(seeds: Sequence[int], looks: int) -> list[Row]:
    """Return the rows at 32 partitions: consumers, and the moves of the leanest preset, over the proven least.

    Args:
        seeds: Of the streams.
        looks: How many measurements of each stream are looked at.
    """
    consumers, moved, beside = [], [], []
    for delta in DELTAS:
        found = np.array([look for seed in seeds for look in _looks(delta, seed, looks)])
        proven = found[found[:, 4] > 0]
        consumers.append(100 * (proven[:, 0].sum() / proven[:, 1].sum() - 1))
        moved.append(proven[:, 2].sum() / proven[:, 3].sum())
        beside.append(f"{len(proven)} of {len(found)}")
    text = "proven: " + " / ".join(beside)
    return [
        Row(
            what=f"consumers above the proven fewest, {SMALL} partitions, {DELTAS_TEXT}", figures=tuple(consumers),
            aims=(0.1, 0.1, 0.1), digits=2, unit="%", how=LEAN.name, beside=text,
        ),
        Row(
            what=f"R over the least R of one step at the fewest consumers, {SMALL} partitions, {DELTAS_TEXT}",
            figures=tuple(moved), digits=2, how=LEAN.name, beside=f"CP-SAT from the same placement; {text}",
        ),
    ]  # fmt: skip


def _looks(delta: int, seed: int, count: int) -> Iterator[tuple[float, ...]]:
    """Give consumers and R-score of PACE and of EXACT from the same placement, and whether the latter are proven."""
    stream = bounded_walk(delta=delta, seed=seed, partitions=SMALL)
    owners = held(LEAN, stream)
    for k in np.linspace(1, len(stream) - 1, count).astype(int):
        rates, before = stream[k], owners[k - 1]
        loads, previous = dict(enumerate(rates.tolist())), dict(enumerate(before.tolist()))
        best = assign(loads, CAPACITY, previous, "EXACT", preset="lean", time_limit_s=_SECONDS)
        moved = float(rates[owners[k] != before].sum()) / CAPACITY
        yield len(np.unique(owners[k])), best.consumers, moved, best.r_score, float(bool(best.proven))
