"""What an algorithm may be asked besides loads and capacity: the options of *pack*, checked once, and the shape of a planner.

``Given`` is what a caller writes as keywords; ``Options`` is what a planner gets: complete, checked and in units of the capacity.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias, TypedDict, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from autoscaler.packing.problem.validation import number_of, shown

Floats: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.int64]

PUBLISHED = ("NF", "FF", "WF", "BF", "NFD", "FFD", "WFD", "BFD", "MWF", "MBF", "MWFP", "MBFP")  # Landau et al. 2024
AS_GIVEN = frozenset({"NF", "FF", "WF", "BF"})  # take partitions in the order given: the others sort them


@runtime_checkable
class Drift(Protocol):
    """Whatever knows how far rates go from one measurement to the next, a ``DriftEstimator`` for one."""

    @property
    def sigma(self) -> float:
        """Return the spread of one partition's rate increment, in bytes per second."""
        ...


class Given(TypedDict, total=False):
    """Options as a caller writes them; every algorithm refuses those that it does not take.

    Attributes:
        preset: A name in ``PRESETS``: consumer price, drift weight and horizon together. A value given beside it wins.
        consumer_price: What one consumer costs for one step, in units of the R-score (lambda).
        paid_for: How many consumers cost nothing, because they run in any case: emptying one of them saves nothing.
        drift_weight: What the expected moves of the coming measurements count against moves now (gamma).
        horizon: How many measurements ahead the placement should hold (H).
        drift: Spread of the rate increments in bytes per second, or an estimator of it (sigma).
        fill_ratio: Up to which part of the capacity moved partitions are placed (alpha).
        drain_limit: What emptying one consumer may cost, in units of the R-score (D).
        time_limit_s: When the search for something better ends, in seconds.
        open_first: Consumer 0 is open before the first partition, which goes there, as in the published runs of NF and NFD.
        quantised: Sizes in 252,000ths of the capacity, rounded up: a million partitions in less time than they could be sorted.
            HFD takes the fullest consumer with room where home has none, and does not bring home what was moved.
    """

    preset: str
    consumer_price: float
    paid_for: int
    drift_weight: float
    horizon: float
    drift: "float | Drift"
    fill_ratio: float
    drain_limit: float
    time_limit_s: float
    open_first: bool
    quantised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a planner gets: as ``Given``, complete, with ``sigma`` in units of the capacity in place of ``drift``."""

    consumer_price: float = 0.7
    paid_for: float = 0.0
    drift_weight: float = 1.0
    horizon: float = 1.0
    sigma: float = 0.0
    fill_ratio: float = 1.0
    drain_limit: float = 1.0
    time_limit_s: float = 4.0
    open_first: bool = False
    quantised: bool = False


class Planned(NamedTuple):
    """What a planner gives."""

    # int64[n], the consumer of every partition: a label below ``k`` is the previous consumer of that label, any other a consumer
    # newly opened
    labels: Labels
    proven: bool | None = None  # whether nothing better exists; ``None`` where the planner does not know


class ArrayPlanner(Protocol):
    """An algorithm on arrays, in units of one consumer's capacity."""

    def __call__(self, e: Floats, cost: Floats, home: Labels, options: Options, /) -> Planned:
        """Place every partition.

        ``e`` is what it takes of a consumer (its rate, at most 1), ``cost`` what moving it costs (its rate, at most a billion).
        ``home`` is the label 0 … k-1 of the consumer that holds it now, -1 for none; every label occurs. Partitions stand in the
        order of their keys, which breaks ties. The arrays are not written to.
        """
        ...


TAKES: Mapping[str, frozenset[str]] = {
    "NF": frozenset({"open_first"}),
    "NFD": frozenset({"open_first"}),
    "BFD": frozenset({"quantised"}),
    "HFD": frozenset({"quantised"}),
    "MMR": frozenset({"fill_ratio", "drain_limit"}),
    "PACE": frozenset({"preset", "consumer_price", "paid_for", "drift_weight", "horizon", "drift"}),
    "EXACT": frozenset({"paid_for", "time_limit_s"}),
}  # the others take none; EXACT knows no price: any consumer beyond those paid for is worth more than all moves
KNOWS_PAID_FOR = frozenset(name for name, takes in TAKES.items() if "paid_for" in takes)  # for them a bound is so many paid for

PRESETS: Mapping[str, Mapping[str, float]] = {
    "lean": {"consumer_price": 100.0, "drift_weight": 0.0, "horizon": 1.0},
    "even": {"consumer_price": 2.0, "drift_weight": 1.0, "horizon": 1.0},
    "balanced": {"consumer_price": 0.7, "drift_weight": 1.0, "horizon": 1.0},
    "quiet": {"consumer_price": 0.35, "drift_weight": 1.0, "horizon": 1.0},
}
DEFAULT_PRESET = "balanced"

_ABOVE_0 = math.ulp(0.0)
_HIGHEST = 1e6  # above this a price drowns in rounding what is moved, which is measured in capacities
_RANGES: Mapping[str, tuple[float, float]] = {
    "consumer_price": (0.0, _HIGHEST),
    "paid_for": (0.0, math.inf),
    "drift_weight": (0.0, _HIGHEST),
    "horizon": (_ABOVE_0, _HIGHEST),
    "drift": (0.0, math.inf),
    "fill_ratio": (_ABOVE_0, 1.0),
    "drain_limit": (0.0, math.inf),
    "time_limit_s": (_ABOVE_0, math.inf),
}


def read_options(algorithm: str, given: Given, capacity: float) -> Options:
    """Return the options of a known algorithm complete, checked and in units of the capacity, by which ``drift`` is divided.

    Raises:
        ValueError: The algorithm does not take an option, the preset is unknown, or a value makes no sense; the message says
            which and what.
    """
    takes = TAKES.get(algorithm, frozenset())
    if strange := sorted(set(given) - takes):
        raise ValueError(f"{algorithm} does not take {', '.join(strange)}; it takes {', '.join(sorted(takes)) or 'no options'}")
    preset = given.get("preset", DEFAULT_PRESET)
    if preset not in tuple(PRESETS):  # which compares: a list could not be looked up
        raise ValueError(f"preset {preset!r} is unknown; choose one of {', '.join(PRESETS)}")
    numbers = {name: checked_option(name, value) for name, value in given.items() if name in _RANGES and name != "drift"}
    drift = given.get("drift", 0.0)
    sigma = checked_option("drift", drift if isinstance(drift, int | float) or not isinstance(drift, Drift) else drift.sigma)
    return replace(
        Options(**(dict(PRESETS[preset]) | numbers)),  # type: ignore[arg-type]
        sigma=min(sigma / capacity, 1e9),
        open_first=_flag("open_first", given.get("open_first", False)),
        quantised=_flag("quantised", given.get("quantised", False)),
    )


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name} must be true or false, not {shown(value)}")


def checked_option(name: str, value: object) -> float:
    """Return the value of an option that is a number.

    Raises:
        ValueError: It is no finite number in the option's range; the message says which option and what it is.
    """
    lowest, highest = _RANGES[name]
    if lowest <= (number := number_of(value)) <= highest:
        return number
    span = ("above 0" if lowest else "from 0") + ("" if math.isinf(highest) else f" to {highest:g}")
    raise ValueError(f"{name} must be a finite number {span}, not {shown(value)}")
