"""The figures of docs/decisions/0019: placing on unequal consumers and by two limits, against best fit, PACE and one number.

Run with ``python -m tests.bench.uneven``; takes about half a minute.
"""

import time
from collections.abc import Callable
from random import Random

from autoscaler.model import TopicPartition
from autoscaler.packing import DriftEstimator, Gauge, Uneven, best_uneven, fewest_by_size, fit_count, fit_uneven
from tests.builders import rates, tp

LIMIT = 100.0
Loads = dict[TopicPartition, float]
Draw = Callable[[], tuple[float, float]]  # bytes/s, and what the records count for


def ask(loads: Loads, counts: Loads, owner: dict[TopicPartition, int] | None = None) -> Uneven:
    """Return a question about consumers that are alike."""
    held = owner or {}
    return Uneven(rates=loads, gauge=Gauge(counts=counts), previous=held, consumers=sorted(set(held.values())))


def slack(loads: Loads) -> Loads:
    """Return records that fill nobody."""
    return {p: rate * 1e-6 for p, rate in loads.items()}


def against_best_fit(chance: Random) -> None:
    """Print how many consumers more than best-fit decreasing it takes where one dimension matters."""
    families: dict[str, Callable[[], float]] = {
        "0-100": lambda: chance.uniform(0, 100),
        "0-30": lambda: chance.uniform(0, 30),
        "exponential": lambda: min(95.0, chance.expovariate(1 / 20)),
        "two kinds": lambda: chance.choice([chance.uniform(45, 60), chance.uniform(5, 15)]),
    }
    for name, draw in families.items():
        more = []
        for _ in range(60):
            loads = rates(*[draw() for _ in range(200)])
            placed = fit_uneven(ask(loads, slack(loads)), LIMIT, at_least=1, at_most=200).plan.consumers
            more.append(placed - fewest_by_size(loads.values(), LIMIT))
        print(f"one dimension, {name}: {min(more)} to {max(more)} more than best-fit decreasing")


def against_one_number(chance: Random) -> None:
    """Print what two limits take, what bounds them, and what the larger of both per partition takes."""

    def alike() -> tuple[float, float]:
        rate = chance.uniform(0, 30)
        return rate, rate * chance.uniform(0.8, 1.2)

    families: dict[str, Draw] = {
        "alike": alike,
        "independent": lambda: (chance.uniform(0, 30), chance.uniform(0, 30)),
        "small and large records": lambda: chance.choice(
            [(chance.uniform(10, 30), chance.uniform(0, 3)), (chance.uniform(0, 3), chance.uniform(10, 30))]
        ),
    }
    for name, draw in families.items():
        two, bound, one = 0, 0, 0
        for _ in range(30):
            drawn = [draw() for _ in range(200)]
            asked = ask(rates(*[d[0] for d in drawn]), rates(*[d[1] for d in drawn]))
            two, bound = two + asked.fewest(LIMIT), bound + asked.least(LIMIT)
            one += fewest_by_size([max(d) for d in drawn], LIMIT)
        print(f"{name}: one number {one / 30:.1f}, two limits {two / 30:.1f}, bound {bound / 30:.1f}")


def against_pace(width: int) -> None:
    """Print consumers and R of both as they follow rates that drift, neither being asked to shrink."""
    chance, pace, uneven, drift = Random(3), {}, {}, DriftEstimator()  # type: ignore[var-annotated]
    loads = {tp(i): float(chance.randint(0, 100)) for i in range(200)}
    sums = [0.0] * 4
    for step in range(60):
        if step:
            loads = {p: min(100.0, max(0.0, r + chance.randint(-width, width))) for p, r in loads.items()}
        drift = drift.update(loads)
        a = fit_count(loads, LIMIT, pace, "PACE", at_least=1, at_most=200, preset="balanced", drift=drift).plan
        b = fit_uneven(ask(loads, slack(loads), uneven), LIMIT, at_least=1, at_most=200).plan
        if step:
            sums = [s + x for s, x in zip(sums, (a.consumers, a.r_score, b.consumers, b.r_score), strict=True)]
        pace, uneven = dict(a.owner), dict(b.owner)
    mean = [s / 59 for s in sums]
    print(f"drift {width}: PACE {mean[0]:.0f} consumers, R {mean[1]:.1f}; UNEVEN {mean[2]:.0f}, R {mean[3]:.1f}")


def after_a_change(count: int, chance: Random) -> None:
    """Print what packing anew and mending move after a change of rates, and how long it takes."""
    loads = rates(*[chance.uniform(0, 20) for _ in range(count)])
    counts = {p: chance.uniform(0, 20) for p in loads}
    before = dict(fit_uneven(ask(loads, counts), LIMIT, at_least=1, at_most=count).plan.owner)
    asked = ask({p: rate * chance.uniform(0.9, 1.15) for p, rate in loads.items()}, counts, before)
    anew, began = best_uneven(asked, LIMIT), time.perf_counter()
    kept = fit_uneven(asked, LIMIT, at_least=1, at_most=count).plan
    took = time.perf_counter() - began
    print(
        f"{count} partitions: anew {anew.consumers} consumers, R {anew.r_score:.1f}; "
        f"kept {kept.consumers}, R {kept.r_score:.1f}, {took:.2f} s"
    )


if __name__ == "__main__":
    against_best_fit(Random(1))
    against_one_number(Random(1))
    against_pace(5)
    against_pace(25)
    for partitions in (1000, 5000):
        after_a_change(partitions, Random(1))
