"""How long plans take: rows of the planner's bench that are medians of times, or of ratios of times taken in turn."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from autoscaler.core.decide import decide
from autoscaler.core.group.history import History
from autoscaler.evaluation.workloads import bounded_walk
from autoscaler.model import Decision, Observation, Reason, TopicPartition
from autoscaler.packing import assign, assign_arrays
from autoscaler.packing.kernels.drift import DriftEstimator
from tests.bench.replays import CAPACITY, Floats, Labels
from tests.bench.rows import Row
from tests.builders import T0, moment, observation, policy, snapshot, state

MILLION = 1_000_000
DELTA = 5  # percent of a capacity that a rate changes by between two measurements, at most


def seconds(call: Callable[[], object]) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def million(seed: int, repeats: int) -> list[Row]:
    """Return the rows at a million partitions, each beside a sort of the same array, taken in turn."""
    rng = np.random.default_rng(seed)
    rates, nobody = rng.random(MILLION), np.full(MILLION, -1, np.int64)
    later = np.clip(rates + rng.uniform(-DELTA / 100, DELTA / 100, MILLION), 0.0, 1.0)
    before = assign_arrays(rates, 1.0, nobody, "BFD", quantised=True)
    return [
        _beside_sort("1,000,000 partitions: BFD / np.sort of the same array", rates, nobody, "BFD", aim=0.40, repeats=repeats),
        _beside_sort("1,000,000 partitions: sticky plan (home fit) / np.sort", later, before, "HFD", aim=1.0, repeats=repeats),
    ]


def _beside_sort(what: str, rates: Floats, before: Labels, algorithm: str, *, aim: float, repeats: int) -> Row:
    def plan() -> Labels:
        return assign_arrays(rates, 1.0, before, algorithm, quantised=True)

    owner = plan()  # the first call may compile
    sorting, planning = [], []
    for _ in range(repeats):
        sorting.append(seconds(lambda: np.sort(rates)))
        planning.append(seconds(plan))
    moved = rates[(before >= 0) & (before != owner)].sum() / max(len(np.unique(before)), 1)
    consumers = len(np.unique(owner))
    plain = _plain_sort()
    beside = (
        f"{np.median(planning) * 1e3:.0f} ms, sort {np.median(sorting) * 1e3:.0f} ms (with {_vector_instructions() or 'none'}), "
        f"without vector instructions {plain * 1e3:.0f} ms: {np.median(planning) / plain:.2f}; {consumers:,} consumers"
    )
    if (before >= 0).any():
        fewest = len(np.unique(assign_arrays(rates, 1.0, before, "BFD", quantised=True)))
        beside += f", {consumers / fewest:.4f} of BFD's, {moved:.3f} of a capacity moved per consumer"
    ratio = float(np.median(np.array(planning) / np.array(sorting)))
    return Row(what=what, figures=(ratio,), aims=(aim,), how=f"median of {repeats}", beside=beside)


def _vector_instructions() -> str:
    """Name those that numpy uses here and not on every processor: its sort takes a sixth of the time with the latest of them."""
    numbers = np._core._multiarray_umath  # type: ignore[attr-defined]
    return " ".join(x for x in numbers.__cpu_dispatch__ if numbers.__cpu_features__.get(x))


def _plain_sort() -> float:
    """Return the seconds of the same sort in a process whose numpy does without them."""
    timing = (
        "import numpy as np, time\n"
        f"rates, times = np.random.default_rng(0).random({MILLION}), []\n"
        "for _ in range(9):\n"
        "    began = time.perf_counter(); np.sort(rates); times.append(time.perf_counter() - began)\n"
        "print(np.median(times))"
    )
    without = {**os.environ, "NPY_DISABLE_CPU_FEATURES": _vector_instructions()}
    return float(subprocess.run([sys.executable, "-c", timing], env=without, check=True, capture_output=True, text=True).stdout)


def pace(seed: int, repeats: int) -> list[Row]:
    """Return the row about one plan of PACE from a placement that is one measurement old."""
    sizes = (200, 10_000, 100_000)
    times = []
    for size in sizes:
        count = repeats if size < MILLION / 10 else max(3, repeats // 3)
        times.append(float(np.median(list(_plans(size, seed, count)))) * 1e3)
    return [
        Row(
            what="PACE, one plan at " + " / ".join(f"{n:,}" for n in sizes) + " partitions",
            figures=tuple(times), aims=(2.0, 50.0, 500.0), digits=1, unit="ms", how="balanced, two partitions to a consumer",
        )
    ]  # fmt: skip


def _plans(partitions: int, seed: int, count: int) -> Iterator[float]:
    """Give the seconds of plans that follow one another, the first two left out."""
    before, drift = np.full(partitions, -1, np.int64), DriftEstimator()
    for number, rates in enumerate(bounded_walk(delta=10, seed=seed, partitions=partitions, measurements=count + 2)):
        drift = drift.update(dict(enumerate(rates.tolist())))
        began = time.perf_counter()
        before = assign_arrays(rates, CAPACITY, before, "PACE", drift=drift)
        if number > 1:
            yield time.perf_counter() - began


def cycle(seed: int, repeats: int) -> list[Row]:
    """Return the rows about planning inside the controller's loop: ten partitions to a consumer, one second to a cycle."""
    rows = []
    for partitions in (1_000, 10_000):
        rest, moving, planning = (np.median(x) * 1e3 for x in zip(*_cycles(partitions, seed, repeats), strict=True))
        rows.append(
            Row(
                what=f"part of a 1 s cycle that a plan takes, {partitions:,} partitions",
                figures=(planning / 10,), digits=2, unit="%", how="PACE balanced, mappings in and out",
                beside=f"the plan {planning:.1f} ms; decide with it {moving:.1f} ms, at rest {rest:.1f} ms",
            )
        )  # fmt: skip
    return rows


def _cycles(partitions: int, seed: int, repeats: int) -> Iterator[tuple[float, float, float]]:
    """Give seconds of a cycle at rest, of one that relieves an overload, and of the plan alone."""
    rng = np.random.default_rng(seed)
    keys = [TopicPartition(topic="orders", partition=p) for p in range(partitions)]
    asked = policy(max_consumers=partitions, cooldown_s=0)
    usable = asked.usable_bytes_per_s
    for _ in range(repeats):
        rates = rng.random(partitions) * usable / 5
        loads = dict(zip(keys, rates.tolist(), strict=True))
        owner = assign(loads, usable, {}, "BFD").owner
        group = state(owner)
        later = dict(zip(keys, (rates * rng.uniform(0.7, 1.3, partitions)).tolist(), strict=True))
        calm, risen = observation(snapshot(loads), group), observation(snapshot(later, at=T0 + 1), group)
        at_rest, (_, history) = _timed(calm, History(), T0)
        moving, (decision, _) = _timed(risen, history, T0 + 1)
        if decision.reason != Reason.RATE_ABOVE_CAPACITY:
            msg = f"the bench meant to overload a consumer, and the decision was {decision.reason}: {decision.detail}"
            raise RuntimeError(msg)
        drift = DriftEstimator().update(loads).update(later)
        planning = seconds(lambda: assign(later, usable, owner, "PACE", drift=drift))  # noqa: B023  called at once
        yield at_rest, moving, planning


def _timed(seen: Observation, history: History, now: float) -> tuple[float, tuple[Decision, History]]:
    asked = policy(max_consumers=len(seen.snapshot.loads), cooldown_s=0)
    began = time.perf_counter()
    answer = decide(seen, history, asked, moment(now))
    return time.perf_counter() - began, answer
