"""Measure balance by goals: how good, how fast, how steady, how little copied, each beside its aim.

``python -m tests.bench.goals`` takes a minute or two; ``--write`` puts the table into docs/concepts/goals.md. Times are
processor time of whole plans, from the snapshot to the actions with the check, the best of three.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from autoscaler.evaluation.algorithms_compared import contender
from autoscaler.evaluation.planner_runs import owners, trace
from autoscaler.evaluation.workloads import PUBLISHED_CAPACITY, bounded_walk
from autoscaler.goals import (
    GOALS,
    Band,
    Memory,
    MoveReplica,
    Name,
    Outcome,
    Plan,
    Settings,
    Snapshot,
    State,
    Strategy,
    balance,
    decide,
    difference,
    estimate,
    loads_of,
    problem_of,
    ranked,
    weighted,
)
from autoscaler.goals.problem import Problem, model_of
from autoscaler.goals.score import Floats
from autoscaler.goals.snapshot import Ints
from tests.bench.__main__ import ROOT, machine
from tests.bench.goals_order import in_order
from tests.bench.rows import Row, put, table
from tests.goals.clusters import BYTES_IN, MIB, drawn, of_rates

PAGE = ROOT / "docs" / "concepts" / "goals.md"
GREEDY = Strategy.GREEDY
ROUNDS = 6  # of the greedy way, which gets on a little in each
SKEW = 0.25


def worked() -> list[Row]:
    """Compare with the worked values of the published score."""
    away = [abs(found - said) for found, said in _worked()]
    return [
        Row(what="worked values: greatest difference", figures=(max(away),), aims=(0.0,), digits=6, beside=f"{len(away)} values")
    ]


def _worked() -> Iterator[tuple[float, float]]:
    load = np.array([40.0, 80.0, 120.0]) * MIB
    band = Band(mean=80 * MIB, ratio=0.2, width=100 * MIB)
    yield from zip(band.score(load).tolist(), (0.784, 1.0, 0.784), strict=True)
    yield _action(band, load[2], load[0], 40 * MIB), 0.608
    yield _action(band, load[0], load[1], 40 * MIB), 0.32
    yield _action(band, load[1], load[0], 40 * MIB), 0.5
    load = np.array([600.0, 900.0, 0.0]) * MIB
    band = Band(mean=500 * MIB, ratio=0.15, width=50 * MIB)
    yield from zip(band.score(load).round(6).tolist(), (0.55, 0.094142, 0.093095), strict=True)
    yield round(_action(band, load[0], load[2], 50 * MIB), 6), 0.500246
    band = Band(mean=40 * MIB, ratio=0.2, width=100 * MIB)
    for (x, y), mean in (((45, 20), 0.545), ((35, 40), 0.5)):
        scores = [_action(band, 80 * MIB, 0.0, x * MIB), _action(band, 40 * MIB, 40 * MIB, y * MIB)]
        yield float(weighted(np.array(scores), np.ones(2))), mean


def _action(band: Band, a: float, b: float, x: float) -> float:
    return float(band.action((np.array([a]), np.array([b])), (np.array([a - x]), np.array([b + x])))[0])


def stuck() -> list[Row]:
    """Balance the example in which the published greedy way gets stuck."""
    snapshot = of_rates([50, 40, 30, 20, 10], [30, 30], [20, 10])
    ends = [_mib(balance(snapshot, replace(BYTES_IN, strategy=s))) for s in (Strategy.BEST_FIT, GREEDY)]
    greedy = " / ".join(f"{x:.0f}" for x in ends[1])
    return [
        Row(
            what="{50,40,30,20,10} {30,30} {20,10}",
            figures=tuple(ends[0]),
            aims=(80.0, 80.0, 80.0),
            digits=0,
            beside=f"greedy {greedy}",
        )
    ]


def _mib(plan: Plan) -> list[float]:
    return [float(x) for x in loads_of(plan.problem, plan.after)[:, 0] / MIB]


def sixty(seeds: range) -> list[Row]:
    """Balance ten brokers with six partitions each, of 1 to 10 MiB/s at random."""
    cases = [of_rates(*np.random.default_rng(s).uniform(1, 10, (10, 6))) for s in seeds]
    plans = [balance(c, BYTES_IN) for c in cases]
    beside = [_rounds(c) for c in cases]
    how = f"{len(cases)} draws, 1 to 10 MiB/s, six on each broker"
    greedy = f"greedy {_percent(b for b, _ in beside):.0f} %, {np.mean([n for _, n in beside]):.1f} in {ROUNDS} rounds"
    return [
        Row(
            what="10 × 60 random: balanced in one round, %",
            figures=(_percent(p.becomes.balanced for p in plans),),
            aims=(100.0,),
            at_least=True,
            digits=0,
            how=how,
            beside=greedy,
        ),
        Row(what="10 × 60 random: moves", figures=(float(np.mean([len(p.actions) for p in plans])),), aims=(3.8,), how=how),
    ]


def _percent(flags: Iterator[bool]) -> float:
    return 100.0 * float(np.mean(list(flags)))


def _rounds(snapshot: Snapshot) -> tuple[bool, int]:
    """Return whether the greedy way balances within some rounds, and how many actions it takes."""
    actions = 0
    for _ in range(ROUNDS):
        plan = balance(snapshot, replace(BYTES_IN, strategy=GREEDY))
        actions += len(plan.actions)
        snapshot = replace(snapshot, state=plan.after)
        if not plan.actions:
            break
    return plan.becomes.balanced, actions


def speed() -> list[Row]:
    """Time whole plans by all goals."""
    rows = []
    for what, brokers, partitions, replication, racks, aim in (
        ("20 brokers × 100,000 partitions, one replica each, s", 20, 100_000, 1, 20, 1.0),
        ("20 brokers × 100,000 partitions, three replicas each, s", 20, 100_000, 3, 5, None),
        ("200 brokers × 1,000,000 replicas, s", 200, 333_334, 3, 10, 30.0),
    ):
        snapshot = drawn(1, brokers=brokers, partitions=partitions, replication=replication, racks=racks, skew=SKEW)
        took, plan = _timed(snapshot)
        outside = [sum(x.outside for x in st.spreads.values()) for st in (plan.was, plan.becomes)]
        rows.append(
            Row(
                what=what,
                figures=(took,),
                aims=() if aim is None else (aim,),
                beside=f"{len(plan.actions):,} actions; outside bands before {outside[0]}, after {outside[1]}"
                f" of {5 * brokers:,} (broker, goal)",
            )
        )
    return rows


def _timed(snapshot: Snapshot, repeats: int = 3) -> tuple[float, Plan]:
    balance(drawn(0, brokers=5, partitions=20), Settings())  # loads the machine code
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()  # the machine may do other things besides
        plan = balance(snapshot, Settings())
        best = min(best, time.process_time() - began)
    return float(best), plan


def noise(seeds: range) -> list[Row]:
    """Measure a balanced cluster once a minute for an hour, each rate with ten per cent of noise."""
    steady = [_moves_under_noise(s, BYTES_IN) for s in seeds]
    bare = replace(BYTES_IN, smoothing_s=0.0, confidence=0.0, rounds=1, cooldown_s=0.0)
    without = [_moves_under_noise(s, bare) for s in seeds]
    return [
        Row(
            what="ten per cent of noise for an hour: moves",
            figures=(float(np.sum(steady)),),
            aims=(0.0,),
            digits=0,
            how=f"{len(seeds)} clusters, 10 brokers, 400 partitions, once a minute",
            beside=f"without smoothing, rounds, confidence and cool-down {np.mean(without):.1f} in each",
        )
    ]


def _moves_under_noise(seed: int, settings: Settings) -> int:
    g = np.random.default_rng(seed)
    snapshot = of_rates(*[g.lognormal(1.0, 1.0, 40) for _ in range(10)])
    snapshot = replace(snapshot, state=balance(snapshot, settings).after)
    true, memory, moves = snapshot.bytes_in, Memory(), 0
    assert true is not None
    for minute in range(60):
        measured = replace(snapshot, bytes_in=true * g.normal(1.0, 0.1, 400).clip(0))
        cycle = decide(measured, memory, settings, 60.0 * minute)
        memory = cycle.memory
        if cycle.outcome is Outcome.ACT and cycle.plan is not None:
            moves += len(cycle.plan.actions)
            snapshot = replace(snapshot, state=cycle.plan.after)
    return moves


def copied(seeds: range, spread: float) -> list[Row]:
    """Count the bytes that are copied until as little is outside the bands as where another way ends.

    ``spread`` is the standard deviation of the logarithm of rates and sizes.
    """
    ratios: dict[str, list[tuple[float, float]]] = {"greedy": [], "goals in order": []}
    short = 0
    for seed in seeds:
        snapshot = drawn(seed, brokers=12, partitions=600, skew=SKEW, spread=spread)
        ours = balance(snapshot, Settings(inner=1.0))  # the others aim at the ends of bands too
        for name, after in (("greedy", _greedy(snapshot)), ("goals in order", _in_order(snapshot))):
            theirs = estimate(difference(snapshot, snapshot.state, after)).copied_bytes
            target = _outside(ours.problem, loads_of(ours.problem, after))
            mine, reached = _bytes_until(ours, target)
            short += not reached
            ratios[name].append((mine, theirs))
    return [
        Row(
            what=f"bytes copied to the same balance, spread {spread:g}, beside {name}",
            figures=(sum(mine for mine, _ in found) / sum(theirs for _, theirs in found),),
            aims=(0.6,),
            how=f"{len(seeds)} clusters, 12 brokers, 600 partitions, three replicas, all goals",
            beside=f"most {_most(found):.2f}; less balanced at its end in {short} of {2 * len(seeds)}",
        )
        for name, found in ratios.items()
    ]


def _most(found: list[tuple[float, float]]) -> float:
    return max(mine / theirs for mine, theirs in found if theirs)


def _greedy(snapshot: Snapshot) -> State:
    return balance(snapshot, Settings(strategy=GREEDY)).after


def _in_order(snapshot: Snapshot) -> State:
    problem = problem_of(snapshot, Settings())
    model = model_of(problem, None, 1.0)
    in_order(problem, model)
    return State(broker=model.broker, leader=model.leader)


def _outside(problem: Problem, loads: Floats) -> float:
    """Return how far brokers are outside their bands: squares over the squared means, by weight."""
    total = 0.0
    for g, (goal, band) in enumerate(zip(problem.goals, problem.bands, strict=True)):
        load = loads[:, g]
        away = np.where(band.holds(load), 0.0, load - np.clip(load, *band.limits()))
        total += goal.weight * float((away**2).sum()) / band.mean**2
    return total


def _bytes_until(plan: Plan, target: float) -> tuple[float, bool]:
    """Return what the first actions copy until no more is outside than that, and whether they get there."""
    problem, loads, total = plan.problem, loads_of(plan.problem, plan.before), 0.0
    for action in plan.actions:
        if _outside(problem, loads) <= target + 1e-9:
            return total, True
        p, a, b = action.partition, action.source, action.target  # ids are positions here
        x = problem.follow[p] + problem.lead[p] * action.leads if isinstance(action, MoveReplica) else problem.lead[p]
        loads[a] -= x
        loads[b] += x
        total += action.size_bytes if isinstance(action, MoveReplica) else 0.0
    return total, _outside(problem, loads) <= target + 1e-9


def priority(seeds: range) -> list[Row]:
    """Let each of the five goals be the first in turn, where not all can be had, and look how far outside it ends."""
    names, ends = [g.name for g in GOALS], list[list[float]]()
    for seed in seeds:
        snapshot = drawn(seed, brokers=8, partitions=100, skew=0.4)
        alike = balance(snapshot, Settings(goals=tuple(replace(g, weight=1.0) for g in GOALS)))
        for k in range(len(names)):
            plan = balance(snapshot, Settings(goals=ranked(names[k:] + names[:k])))
            ends.append([x for p in (plan, alike) for x in (*_outside_of(p, names[k]), estimate(p.actions).copied_bytes)])
    first, others, copied, first_alike, others_alike, copied_alike = np.array(ends).sum(axis=0)
    return [
        Row(
            what="the first of five goals: how far outside its band, beside goals that count alike",
            figures=(float(first / first_alike),),
            how=f"{len(seeds)} clusters, 8 brokers, 100 partitions, three replicas, each goal the first in turn",
            beside=f"the others {others / others_alike:.2f}, bytes copied {copied / copied_alike:.2f}",
        )
    ]


def _outside_of(plan: Plan, first: Name) -> tuple[float, float]:
    """Return how far outside its band a goal ends, and the others in the mean."""
    others = [s.excess for name, s in plan.becomes.spreads.items() if name != first]
    return plan.becomes.spreads[first].excess, float(np.mean(others))


def consumers(seeds: range) -> list[Row]:
    """Place 200 partitions on consumers of the walk's fivefold capacity, by GOALS and beside it."""
    rows = []
    for name in ("GOALS", "PACE balanced", "MWF", "BFD"):
        counts, moves, hottest = list[float](), list[float](), list[float]()
        for seed in seeds:
            stream = bounded_walk(delta=5, seed=seed, partitions=200, measurements=60)
            held = owners(contender(name), stream, 5 * PUBLISHED_CAPACITY)
            found = trace(held, stream, 5 * PUBLISHED_CAPACITY)
            counts.append(float(found.consumers.mean()))
            moves.append(float(found.r_scores.mean()))
            hottest += [_hottest(h, rates) for h, rates in zip(held, stream, strict=True)]
        rows.append(
            Row(
                what=f"consumers by {name}: how many / R / hottest over mean",
                figures=(float(np.mean(counts)), float(np.mean(moves)), float(np.mean(hottest))),
                how=f"{len(seeds)} walks of 200 partitions, delta 5, some ten partitions each",
            )
        )
    return rows


def _hottest(owner: Ints, rates: Floats) -> float:
    loads = np.bincount(np.unique(owner, return_inverse=True)[1], rates)
    return float(loads.max() / loads.mean())


PARTS: dict[str, Callable[[], list[Row]]] = {
    "worked": worked,
    "stuck": stuck,
    "sixty": lambda: sixty(range(500)),
    "speed": speed,
    "noise": lambda: noise(range(20)),
    "copied": lambda: [*copied(range(50), 1.0), *copied(range(50), 1.5)],
    "priority": lambda: priority(range(50)),
    "consumers": lambda: consumers(range(4)),
}


def main() -> int:
    """Measure, print and, if asked, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="some of it")
    parser.add_argument("--write", action="store_true", help="put the table into docs/concepts/goals.md")
    args = parser.parse_args()
    rows = list[Row]()
    for part in args.parts:
        found = PARTS[part]()
        rows += found
        for row in found:
            sys.stdout.write(f"{row.line()}\n")
            sys.stdout.flush()
    if args.write:
        put(PAGE, "goals", f"`python -m tests.bench.goals` on {machine()}:\n\n{table(rows)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
