"""Which share of the records each way of sizing has read in time, and what its consumers cost: workloads, policies, one run.

The published workloads, and others that no policy was tuned on. Published policies and this project's decide by ``core.decide``
on a simulated group; none is given anything that differs between workloads but what a consumer processes, the age that records
may reach, and what the papers vary themselves. Other autoscalers are tuned to each workload.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoscaler.config.policy import Policy
from autoscaler.evaluation.peers import FlinkRule, KedaHpa
from autoscaler.model import TopicPartition
from autoscaler.simulation.group import Sizer, simulate, simulate_native
from autoscaler.simulation.outcome import Outcome
from autoscaler.simulation.world import Load, World

Floats = NDArray[np.float64]

RECORD_BYTES = 100.0  # every one: what counts is how many there are
SHARE = 0.99  # that is to be read in time, for the lower bound
TRACES = ("chindanonda_10min", "nyc_taxi_2h_x40")  # files that are looked for, with the columns second, events_per_s
NAMES = (
    "W-skew", "table 2", "table 2, skewed", "table 2, t_r 2 s", "table 3",
    "diurnal", "step", "flash crowd", "sawtooth", "drifting skew", "batches",
)  # fmt: skip
TARGETS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # utilisations of sizing by rates
_HANDOVER_S, _START_S, _TICK_S = 0.1, 1.0, 0.05
_AUTO_COMMIT_S = 5.0  # what Kafka's consumers commit by, unless told otherwise
_MADE_S, _MADE_PARTITIONS = 1800, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What arrives, and what holds while it does.

    Attributes:
        name: How tables call it.
        about: Where it is from, in a few words.
        rates: Records/s of each second: ``float64[seconds, partitions]``.
        capacity: Records/s that one consumer processes.
        planned: Records/s that a policy is told that it processes.
        within_s: How old a record may be as it is read.
        at_once: Whether the records of a second come in one instant.
        measured_s: How long after that instant they are measured and decided on.
        rebalance_s: For which a published policy's whole group stands still when something moves.
        cooldown_s: Between two actions of a published policy.
    """

    name: str
    about: str
    rates: Floats
    capacity: float
    planned: float
    within_s: float
    at_once: bool = False
    measured_s: float = 0.05
    rebalance_s: float = 0.05
    cooldown_s: float = 10.0


class Run(NamedTuple):
    """One policy on one workload."""

    workload: str
    about: str  # of the workload
    least_consumer_min: float  # that is needed for ``SHARE``, as if the future were known
    policy: str
    settings: str  # that were the best, of a policy that is tuned to the workload
    in_time: float  # share of the records that were read in time
    consumer_min: float  # consumers times minutes
    most: int  # consumers at once
    scalings: int  # changes of their number
    moves: int  # partitions that changed hands


# --- workloads --------------------------------------------------------------------------------------------------------


def workloads(traces: Mapping[str, Floats]) -> tuple[Workload, ...]:
    """Return the workloads in the order of ``NAMES``; those of recorded loads only where these are given, by ``TRACES``."""
    skewed = Workload(
        name="W-skew",
        about="5 partitions that grow one after the other, W 5 s; Ezzeddine et al. 2022, section 4.1",
        rates=_skew(),
        capacity=100.0,
        planned=95.0,
        within_s=5.0,
        rebalance_s=0.5,
    )
    return (skewed, *_of_traces(traces), *_made())


def _skew() -> Floats:
    """Return the skewed load: five partitions of 15 a second, of which four grow to 60, and all are back at eight minutes."""
    rates = np.full((600, 5), 15.0)
    for partition, begin in ((0, 120), (1, 120), (2, 240), (3, 360)):
        rates[begin:480, partition] = np.minimum(15.0 + np.arange(480 - begin), 60.0)
    return rates


def _of_traces(traces: Mapping[str, Floats]) -> Iterator[Workload]:
    even, half = np.full(5, 0.2), np.array([0.25, 0.25, *[0.5 / 7] * 7])
    if (told := traces.get("chindanonda_10min")) is not None:
        yield _tail("table 2", "ten minutes of a recorded load, 5 equal partitions", told, even)
        yield _tail("table 2, skewed", "ten minutes of a recorded load, 9 partitions, half of it on two", told, half)
        about = "ten minutes of a recorded load, 5 equal partitions, a rebalance takes 2 s"
        yield _tail("table 2, t_r 2 s", about, told, even, rebalance_s=2.0)
    if (told := traces.get("nyc_taxi_2h_x40")) is not None:
        yield _tail("table 3", "two hours of taxi rides, 5 equal partitions", told, even)


def _tail(name: str, about: str, told: Floats, shares: Floats, *, rebalance_s: float = 0.05) -> Workload:
    """Return a workload of the paper on tail latency: W 0.5 s, what a second brings comes at once."""
    return Workload(
        name=name,
        about=f"{about}; each second's records come at once, W 0.5 s; Ezzeddine et al. 2024",
        rates=told[:, None] * shares,
        capacity=200.0,
        planned=200.0,
        within_s=0.5,
        at_once=True,
        rebalance_s=rebalance_s,
    )


def _made() -> Iterator[Workload]:
    """Yield loads that no policy was tuned on, each between one and about fifteen consumers."""
    second = np.arange(_MADE_S)
    weights = np.linspace(0.5, 1.5, _MADE_PARTITIONS) / _MADE_PARTITIONS
    noise = np.clip(1 + 0.05 * np.random.default_rng(1).standard_normal((_MADE_S, _MADE_PARTITIONS)), 0, None)
    turns = 1 + 0.8 * np.sin(2 * math.pi * (second[:, None] / 900 + np.arange(_MADE_PARTITIONS) / _MADE_PARTITIONS))
    crowd = np.full(_MADE_S, 300.0)
    crowd[600:] += 900 * np.exp(-np.arange(_MADE_S - 600) / 240)
    totals = {
        "diurnal": ("a day in half an hour", 700 - 500 * np.cos(2 * math.pi * second / _MADE_S)),
        "step": ("three times as much from one second to the next, and back", np.repeat([400.0, 1200.0, 400.0], 600)),
        "flash crowd": ("four times as much at once, then slowly less", crowd),
        "sawtooth": ("grows for five minutes, falls at once", 200 + 1000 * (second % 300) / 300),
        "drifting skew": ("as much in all, on other partitions by and by", np.full(_MADE_S, 800.0)),
        "batches": ("ten seconds of twenty times as much every minute", np.tile(np.repeat([2400.0, 120.0], [10, 50]), 30)),
    }
    for name, (about, total) in totals.items():
        rates = total[:, None] * weights * noise * (turns if name == "drifting skew" else 1.0)
        about_all = f"{about}; 20 partitions, W 2 s"
        yield Workload(name=name, about=about_all, rates=rates, capacity=200.0, planned=200.0, within_s=2.0)


# --- policies ---------------------------------------------------------------------------------------------------------

PUBLISHED = ("LINEAR", "AUTO_SCALE_CG", "TAIL_LATENCY_1", "TAIL_LATENCY_2")
PEERS = ("KEDA+HPA", "Flink")
BY_RATES = tuple(f"rates {target:.0%}" for target in TARGETS)
PROMISE = "promise"
POLICIES = (*PUBLISHED, *PEERS, *BY_RATES, PROMISE)


def policy_of(name: str, workload: Workload) -> Policy:
    """Return a policy for a workload.

    LINEAR is told how much of a second's records a consumer can read in time where they come at once: so do its authors.

    Raises:
        ValueError: It is none that decides by ``core.decide``.
    """
    common = {"group": "simulated", "topics": ("t",), "mode": "act", "capacity_bytes_per_s": workload.planned * RECORD_BYTES}
    if name not in {*PUBLISHED, *BY_RATES, PROMISE}:
        raise ValueError(f"{name!r} is no policy; there are {', '.join((*PUBLISHED, *BY_RATES))}")
    if name == PROMISE:
        return Policy.model_validate(common | {"promise_within_s": workload.within_s, "promise_share": SHARE})
    if name in BY_RATES:
        return Policy.model_validate(common | {"target_utilisation": TARGETS[BY_RATES.index(name)]})
    said: dict[str, object] = {"sizing": name, "cooldown_s": workload.cooldown_s}
    if name == "LINEAR":
        part = min(1.0, workload.within_s) if workload.at_once else 1.0
        said |= {"up_ratio": 0.9, "down_ratio": 0.9, "capacity_bytes_per_s": workload.planned * part * RECORD_BYTES}
    else:
        said["wanted_latency_s"] = workload.within_s
    if name.startswith("TAIL_LATENCY"):
        said |= {"up_ratio": 0.9, "down_ratio": 0.4}
    if name == "TAIL_LATENCY_2":
        said["rebalance_s"] = workload.rebalance_s
    return Policy.model_validate(common | said)


def run(name: str, workload: Workload) -> Run:
    """Return what a policy does with a workload, beginning with one consumer that holds all; a peer at its best settings."""
    if name in PEERS:
        found, settings = _best(name, workload)
    else:
        found, settings = played(name, workload, policy_of(name, workload)), ""
    figures = (_in_time(found), found.consumer_hours * 60, found.most, found.scalings, found.moves)
    return Run(workload.name, workload.about, least_consumer_min(workload), name, settings, *figures)


def played(name: str, workload: Workload, policy: Policy) -> Outcome:
    """Return what settings do with a workload, in the world of the policy of this name."""
    return simulate(_load(workload), policy, _world(workload, name))


def _world(workload: Workload, name: str) -> World:
    ours = name in {*BY_RATES, PROMISE}
    return World(
        consumer_bytes_per_s=workload.capacity * RECORD_BYTES,
        usable_bytes_per_s=workload.planned * RECORD_BYTES,
        start_s=_START_S,
        pause_s=_HANDOVER_S if ours else workload.rebalance_s,
        stops_all=not ours,
        window_s=1.0 if name in {*PUBLISHED, PROMISE} else 5.0,
        at_once=workload.at_once,
        decide_s=1.0,
        within_s=workload.within_s,
        commit_s=_AUTO_COMMIT_S if name in PEERS else 0.0,
        tick_s=_TICK_S,
    )


def _in_time(found: Outcome) -> float:
    return 1.0 if found.in_time is None else found.in_time


def _best(name: str, workload: Workload) -> tuple[Outcome, str]:
    """Return the cheapest run of a peer that has enough in time, with its settings; where none has, the one that has most."""

    def better(found: tuple[Outcome, str]) -> tuple[bool, float]:
        enough = _in_time(found[0]) >= SHARE
        return not enough, found[0].consumer_hours if enough else -_in_time(found[0])

    load, world = _load(workload), _world(workload, name)
    return min(((simulate_native(load, sizer, world), said) for sizer, said in _tunings(name, workload)), key=better)


def _tunings(name: str, workload: Workload) -> Iterator[tuple[Sizer, str]]:
    """Yield a peer with each of the settings that are tried, and these in words."""
    capacity = workload.planned * RECORD_BYTES
    if name == "KEDA+HPA":
        for seconds, window_s in product((0.5, 1.0, 1.5, 2.0, 3.0), (0.0, 60.0, 300.0)):
            said = f"lag threshold {workload.planned * seconds:.0f}, down window {window_s:.0f} s"
            yield KedaHpa(seconds * capacity, window_s), said
        return
    for target, window_s, catch_up_s in product((0.3, 0.5, 0.7, 0.8), (15.0, 60.0), (10.0, 60.0)):
        said = f"target {target}, window {window_s:.0f} s, catch-up {catch_up_s:.0f} s"
        yield FlinkRule(capacity, target=target, window_s=window_s, catch_up_s=catch_up_s, restart_s=_START_S), said


def _load(workload: Workload) -> Load:
    """Return the load; if it comes at once, a quiet moment comes first, and each second begins so long before a decision."""
    seconds, count = workload.rates.shape
    before = 1 - workload.measured_s if workload.at_once else 0.0
    quiet = np.zeros((int(workload.at_once), count))
    return Load(
        times=np.concatenate([np.zeros(len(quiet)), np.arange(seconds + 1) + before]),
        partitions=tuple(TopicPartition(topic="t", partition=p) for p in range(count)),
        rates=np.concatenate([quiet, workload.rates, workload.rates[-1:]]) * RECORD_BYTES,
        record_bytes=np.full(count, RECORD_BYTES),
        owner=np.zeros(count, np.int64),
    )


def least_consumer_min(workload: Workload, share: float = SHARE) -> float:
    """Return a lower bound on consumer minutes: of a policy that knows the future, moves for nothing and can split partitions.

    There is always one consumer. One more for a second reads what it can of that second's records, where most is gained first,
    until the share is reached. Where records may wait for longer than a second, it is a bound only as far as that does not help:
    as long as the load changes slowly beside it.
    """
    reads = workload.capacity * (min(1.0, workload.within_s) if workload.at_once else 1.0)
    arriving = workload.rates.sum(axis=1)
    needed = share * float(arriving.sum()) - float(np.minimum(arriving, reads).sum())
    rest = np.clip(arriving - reads, 0, None)
    gains = np.concatenate([np.full(int(x // reads), reads) for x in rest] + [rest % reads])
    gains = -np.sort(-gains[gains > 0])
    more = int(np.searchsorted(np.cumsum(gains), needed - 1e-9) + 1) if needed > 0 else 0
    return (len(arriving) + min(more, len(gains))) / 60
