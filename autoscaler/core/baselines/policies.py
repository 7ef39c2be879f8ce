"""The published latency-aware policies, exactly: how many consumers, and which partition on which, from rate and backlog.

Baselines to compare with; the default is ``decide``. Every function is pure and answers for one moment: cool-downs, start-up
times and what is under way are left to the caller, as in the papers.

- ``ll_ffd``, ``auto_scale_cg``: Ezzeddine, Migliorini, Baude, Huet 2022, "Cost-Efficient and Latency-Aware Event Consuming in
  Workload-Skewed Distributed Event Queues".
- ``tail_latency_1``, ``tail_latency_2``, ``linear``: Ezzeddine, Baude, Huet 2024, "Tail-Latency Aware and Resource-Efficient Bin
  Pack Autoscaling for Distributed Event Queues".

What they take is the same in all: ``current``, the partitions of each consumer that runs; ``rates`` and ``lags``, records (or
bytes) per second that arrive in every partition, and those that wait in it; ``mu``, what one consumer processes in a second,
in the same unit; ``wanted_latency_s``, how long a record may wait; ``up_ratio`` and ``down_ratio``, the shares of ``mu`` that
a consumer may be filled to, and to which fewer consumers may; ``rebalance_s``, how long no consumer processes anything when
partitions are handed out anew; ``assignor``, Kafka's own, which gives a number of consumers what they get of the sorted
partitions. A policy answers with the action, and the placement to have after it: ``current`` where there is nothing to do.

What is known to be wrong with them is kept, for a baseline must be what it says:

- Lag and rate are limits apart: a consumer that is full in both never drains.
- A partition above a limit is taken to be at it, so one that lags far behind is hidden among others.
- ``REASSIGN`` may pack onto fewer consumers than run, and comes again in every cycle where a rebalance takes longer than that.
- What a spike took comes back only below ``down_ratio``, far below ``up_ratio``.
- Contents are numbered as they were created, whichever consumer held them, so that more moves than has to.
- A partition without an owner is no reason to act, and without any partition there is one consumer: who runs them sees to both.
- Records in flight count as lag; all consumers are alike; how long a new one takes to start is not asked.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from math import ceil, isfinite

from autoscaler.model import TopicPartition
from autoscaler.packing.problem.assignment import P
from autoscaler.packing.research.two_dimensional import assign_2d

_EXACT = 1 - 1e-12  # a number of consumers that comes out whole is not one more for the last digit of a product

Placement = list[list[P]]  # partitions of each consumer


class Action(StrEnum):
    """What a policy says: nothing, more consumers, fewer, or as many with other partitions."""

    NONE = "NONE"
    UP = "UP"
    DOWN = "DOWN"
    REASSIGN = "REASSIGN"


def ll_ffd(rates: Mapping[P, float], lags: Mapping[P, float], *, mu: float, wanted_latency_s: float) -> Placement[P]:
    """Return partitions dealt, the fastest first, to the least loaded consumer that has room for their rate and backlog.

    Where one fits nowhere, everything is dealt anew to one consumer more (2022, appendix). Rates above ``mu`` and backlogs above
    ``mu × wanted_latency_s`` are taken to be those. The partitions of each consumer are in the order in which they were dealt.

    Raises:
        ValueError: An amount or limit is not a number that makes sense, or rates and lags are not of the same partitions.
    """
    if not rates and not lags:
        return [[]]  # the loop begins with one consumer
    plan = assign_2d(rates, lags, mu, mu * wanted_latency_s, {}, "LL-FFD")
    placed: Placement[P] = [[] for _ in range(plan.consumers)]
    for p in sorted(sorted(rates), key=lambda p: -min(rates[p], mu)):
        placed[plan.owner[p]].append(p)
    return placed


def auto_scale_cg(
    current: Placement[P], rates: Mapping[P, float], lags: Mapping[P, float], *, mu: float, wanted_latency_s: float
) -> tuple[Action, Placement[P]]:
    """Return AutoScaleCG's answer (2022): as many consumers as ``ll_ffd`` needs, up or down at once.

    Raises:
        ValueError: As of ``ll_ffd``; or ``current`` names a partition that has no rate, or one twice.
    """
    return tail_latency_1(current, rates, lags, mu=mu, wanted_latency_s=wanted_latency_s, up_ratio=1.0, down_ratio=1.0)


def tail_latency_1(
    current: Placement[P],
    rates: Mapping[P, float],
    lags: Mapping[P, float],
    *,
    mu: float,
    wanted_latency_s: float,
    up_ratio: float = 0.9,
    down_ratio: float = 0.4,
) -> tuple[Action, Placement[P]]:
    """Return algorithm 1's answer (2024): up and reassign with consumers filled to ``up_ratio``, down only to ``down_ratio``.

    Raises:
        ValueError: As of ``auto_scale_cg``.
    """
    _check(current, rates)
    packed = ll_ffd(rates, lags, mu=mu * up_ratio, wanted_latency_s=wanted_latency_s)
    if len(packed) > len(current):
        return Action.UP, packed
    fewer = ll_ffd(rates, lags, mu=mu * down_ratio, wanted_latency_s=wanted_latency_s)
    if len(fewer) < len(current):
        return Action.DOWN, fewer
    if _violates(current, rates, lags, mu=mu * up_ratio, wanted_latency_s=wanted_latency_s):
        return Action.REASSIGN, packed
    return Action.NONE, current


def tail_latency_2(
    current: Placement[P],
    rates: Mapping[P, float],
    lags: Mapping[P, float],
    *,
    mu: float,
    wanted_latency_s: float,
    rebalance_s: float,
    up_ratio: float = 0.9,
    down_ratio: float = 0.4,
) -> tuple[Action, Placement[P]]:
    """Return algorithm 2's answer (2024): algorithm 1's action, packed for the backlog that the rebalance itself will leave.

    Raises:
        ValueError: As of ``auto_scale_cg``; or ``rebalance_s`` is negative.
    """
    if not rebalance_s >= 0:
        msg = f"rebalance_s must be 0 or more seconds, not {rebalance_s}"
        raise ValueError(msg)
    action, _ = tail_latency_1(
        current, rates, lags, mu=mu, wanted_latency_s=wanted_latency_s, up_ratio=up_ratio, down_ratio=down_ratio
    )
    if action is Action.NONE:
        return action, current
    left = {p: lag + rates[p] * rebalance_s for p, lag in lags.items()}
    if action is Action.DOWN:
        fewer = ll_ffd(rates, left, mu=mu * down_ratio, wanted_latency_s=wanted_latency_s)
        return (action, fewer) if len(fewer) < len(current) else (Action.NONE, current)
    packed = ll_ffd(rates, left, mu=mu * up_ratio, wanted_latency_s=wanted_latency_s)
    return (Action.UP if len(packed) > len(current) else Action.REASSIGN), packed


def in_ranges(partitions: Sequence[P], consumers: int) -> Placement[P]:
    """Return what Kafka's range assignor gives consumers: of each topic neighbours, the first ones one partition more.

    Partitions that name no topic are those of one.
    """
    placed: Placement[P] = [[] for _ in range(consumers)]
    topics: dict[object, list[P]] = {}
    for p in partitions:
        topics.setdefault(p.topic if isinstance(p, TopicPartition) else None, []).append(p)
    for mine in topics.values():
        each, more = divmod(len(mine), consumers)
        ends = [each * n + min(n, more) for n in range(consumers + 1)]
        for held, (a, b) in zip(placed, pairwise(ends), strict=True):
            held.extend(mine[a:b])
    return placed


def linear(
    current: Placement[P],
    rates: Mapping[P, float],
    *,
    mu: float,
    up_ratio: float = 0.9,
    down_ratio: float = 0.4,
    assignor: Callable[[Sequence[P], int], Placement[P]] = in_ranges,
) -> tuple[Action, Placement[P]]:
    """Return the linear baseline's answer (2024): as many consumers as the total rate fills, whichever consumer then gets what.

    Raises:
        ValueError: As of ``auto_scale_cg``; ``mu`` or a ratio that is no number above 0, a rate that is none from 0 on.
    """
    _check(current, rates)
    for name, value in (("mu", mu), ("up_ratio", up_ratio), ("down_ratio", down_ratio)):
        if not (isfinite(value) and value > 0):
            msg = f"{name} must be a number above 0, not {value}"
            raise ValueError(msg)
    if wrong := [p for p, rate in rates.items() if not (isfinite(rate) and rate >= 0)]:
        msg = f"the rate of partition {wrong[0]} must be a number from 0 on, not {rates[wrong[0]]}"
        raise ValueError(msg)
    partitions = sorted(rates)
    total = sum(rates.values())
    count = max(1, ceil(total / (mu * up_ratio) * _EXACT))
    if count > len(current):
        return Action.UP, assignor(partitions, count)
    count = max(1, ceil(total / (mu * down_ratio) * _EXACT))
    if count < len(current):
        return Action.DOWN, assignor(partitions, count)
    return Action.NONE, current


def _violates(
    current: Placement[P], rates: Mapping[P, float], lags: Mapping[P, float], *, mu: float, wanted_latency_s: float
) -> bool:
    most = mu * wanted_latency_s
    return any(sum(lags[p] for p in held) > most or sum(rates[p] for p in held) > mu for held in current)


def _check(current: Placement[P], rates: Mapping[P, float]) -> None:
    held = [p for mine in current for p in mine]
    if len(set(held)) < len(held):
        twice = next(p for p in held if held.count(p) > 1)
        msg = f"partition {twice} is held by two consumers"
        raise ValueError(msg)
    if unknown := [p for p in held if p not in rates]:
        msg = f"partition {unknown[0]} is held and has no rate"
        raise ValueError(msg)
