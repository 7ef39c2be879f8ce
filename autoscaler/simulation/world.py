"""What a simulated group is given: what arrives, and what holds whatever is decided."""

from dataclasses import dataclass
from itertools import pairwise

from autoscaler.model import TopicPartition
from autoscaler.simulation.queues import Floats, Ints

_GAP_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What arrives.

    Attributes:
        times: When the rates begin, seconds since the Unix epoch, ascending; the last is the end: ``float64[steps]``.
        partitions: In order.
        rates: Bytes/s from then on: ``float64[steps, partitions]``.
        record_bytes: Of each partition's records, on average: ``float64[partitions]``.
        owner: Consumer that holds each partition at the beginning, -1 for none: ``int64[partitions]``.
    """

    times: Floats
    partitions: tuple[TopicPartition, ...]
    rates: Floats
    record_bytes: Floats
    owner: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What holds whatever the policy is.

    Attributes:
        consumer_bytes_per_s: What one consumer processes when it never waits.
        usable_bytes_per_s: What is planned to be put on one: moves are counted in these.
        start_s: From asking for a consumer until it is there.
        pause_s: For which a partition stands still as it changes hands.
        stops_all: Whether all partitions of the group do, as in a classic rebalance, whatever moves.
        window_s: What is measured is the mean rate of that many seconds before; 0: the rate that begins now, which is right for
            a recorded load, because that was measured over a window already.
        at_once: Whether all that arrives in a step of the load comes as it begins, as from a producer that sends in bursts.
        decide_s: Time from one decision to the next; 0: one for each step of the load.
        within_s: Age that a record shall not pass before it is read; ``None``: that is not asked.
        commit_s: Time between two commits of a partition; the measurement sees what is committed.
        tick_s: How exact time is.
    """

    consumer_bytes_per_s: float
    usable_bytes_per_s: float
    start_s: float
    pause_s: float
    stops_all: bool = False
    window_s: float = 0.0
    at_once: bool = False
    decide_s: float = 0.0
    within_s: float | None = None
    commit_s: float = 0.0
    tick_s: float = 0.25


def steps_s(times: Floats) -> list[float]:
    """Return how long each step of a load lasts; of a longer gap between two measurements, a minute counts."""
    return [min(b - a, _GAP_S) for a, b in pairwise(times.tolist())]
