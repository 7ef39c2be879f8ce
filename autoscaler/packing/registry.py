"""Every algorithm of *pack* under its name, on mappings and on arrays.

Here names and options are checked, and partitions and consumer indices become positions and labels and come back; what an
algorithm does stands in its own module, which is imported when the algorithm is first asked.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Unpack, cast

import numpy as np

from autoscaler.packing.problem.assignment import Assignment, P, assignment
from autoscaler.packing.problem.labels import dense, indices_of, near
from autoscaler.packing.problem.options import AS_GIVEN, PUBLISHED, ArrayPlanner, Floats, Given, Labels, Options, read_options
from autoscaler.packing.problem.validation import checked_capacity, checked_loads, checked_previous

_PLAIN_UP_TO = 50  # partitions: from there on arrays are faster, 20 times so at 1000 with first fit
_LEAST = float(np.finfo(np.float64).tiny)  # of a capacity: what has traffic is not mistaken for what has none
_MOST = 1e9  # consumers' capacities that one partition counts for at most: sums stay finite


PLANNERS: Mapping[str, str] = {  # modules
    "MMR": "simple.mmr",
    "HFD": "simple.hfd",
    "GOALS": "simple.goals",
    "PACE": "pace.pace",
    "EXACT": "exact.exact",
}
ALGORITHMS: tuple[str, ...] = (*PUBLISHED, *PLANNERS)


def assign(
    loads: Mapping[P, float], capacity: float, previous: Mapping[P, int], algorithm: str = "MWF", **options: Unpack[Given]
) -> Assignment[P]:
    """Place every partition on a consumer.

    No consumer is above the capacity unless it holds one partition with traffic alone. The order of ``loads`` matters for NF, FF,
    WF and BF only, which take partitions as given.

    Args:
        loads: Bytes per second of every partition, measured now.
        capacity: Bytes per second that one consumer may be given.
        previous: Consumer index that holds a partition now; may be empty or partial, and partitions that are gone are ignored.
        algorithm: One of ``ALGORITHMS``.
        options: Those that the algorithm takes.

    Raises:
        ValueError: A rate, the capacity, a previous owner, the algorithm's name or an option makes no sense; the message says
            which.
    """
    _check_algorithm(algorithm)
    loads, capacity, previous = checked_loads(loads), checked_capacity(capacity), checked_previous(previous)
    chosen = read_options(algorithm, options, capacity)
    if algorithm in PUBLISHED and len(loads) <= _PLAIN_UP_TO and not chosen.quantised:
        from autoscaler.packing.published import reference  # noqa: PLC0415  as every algorithm

        owner = reference.place(loads, capacity, previous, algorithm, open_first=chosen.open_first)
        return assignment(owner, loads, capacity, previous, algorithm)
    partitions = list(loads) if algorithm in AS_GIVEN else sorted(loads)
    rates = np.array([loads[p] for p in partitions], np.float64)
    home = np.array([previous.get(p, -1) for p in partitions], np.int64)
    indices, proven = _place(rates, capacity, home, algorithm, chosen)
    owner = dict(zip(partitions, indices.tolist(), strict=True))
    return assignment(owner, loads, capacity, previous, algorithm, proven=proven)


def assign_arrays(rates: Floats, capacity: float, previous: Labels, algorithm: str = "MWF", **options: Unpack[Given]) -> Labels:
    """Return the consumer index of every partition, for groups too large for mappings.

    The same placement as ``assign`` gives for keys in the order of the arrays; -1 in ``previous`` is for none. BFD and HFD take
    ``quantised=True`` for a million partitions: see ``large/quantised.py`` for what that changes.

    Raises:
        ValueError: As ``assign``, with the position in place of the partition; or the arrays do not belong together.
    """
    _check_algorithm(algorithm)
    capacity = checked_capacity(capacity)
    rates, previous = _check_arrays(rates, previous)
    chosen = read_options(algorithm, options, capacity)
    return _place(rates, capacity, previous, algorithm, chosen)[0]


def _place(rates: Floats, capacity: float, previous: Labels, algorithm: str, options: Options) -> tuple[Labels, bool | None]:
    """Return the consumer index of every partition, and whether nothing better exists."""
    if not rates.size:
        return previous, None
    if options.quantised:
        from autoscaler.packing.large.quantised import place_quantised  # noqa: PLC0415  as every algorithm

        home, index = near(previous)
        labels = place_quantised(rates, capacity, home, sticky=algorithm != "BFD")
        return labels if index is None else index[labels], None
    if algorithm in PUBLISHED:
        from autoscaler.packing.published.reference_arrays import place_arrays  # noqa: PLC0415  as every algorithm

        return place_arrays(rates, capacity, previous, algorithm, open_first=options.open_first), None
    home, known = dense(previous)
    with np.errstate(over="ignore"):
        cost = np.where(rates > 0, np.clip(rates / capacity, _LEAST, _MOST), 0.0)
    planned = _planner(algorithm)(np.minimum(cost, 1.0), cost, home, options)
    return indices_of(planned.labels, known), planned.proven


def _planner(algorithm: str) -> ArrayPlanner:
    """Return the function that is called as its module is, and as the algorithm in small letters."""
    module = import_module(f"autoscaler.packing.{PLANNERS[algorithm]}")
    return cast("ArrayPlanner", getattr(module, algorithm.lower()))


def _check_algorithm(algorithm: str) -> None:
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm {algorithm!r} is unknown; choose one of {', '.join(ALGORITHMS)}")


def _check_arrays(rates: Floats, previous: Labels) -> tuple[Floats, Labels]:
    """Return the arrays as the kernels read them, refusing what cannot be packed.

    They are not written to, but for read-only arrays the kernels would be compiled anew: those are copied.
    """
    rates, previous = np.asarray(rates), np.asarray(previous)
    if rates.dtype.kind not in "iuf":
        raise ValueError(f"rates must hold numbers, not {rates.dtype}")
    rates = np.require(rates, np.float64, ["C", "W"])
    if rates.ndim != 1 or previous.shape != rates.shape:
        raise ValueError(f"rates and previous must be of one length, not of shapes {rates.shape} and {previous.shape}")
    if previous.size and not np.issubdtype(previous.dtype, np.integer):
        raise ValueError(f"previous must hold whole numbers, not {previous.dtype}")
    if rates.size:
        _check_values(rates, previous)
    return rates, cast("Labels", np.require(previous, np.int64, ["C", "W"]))


def _check_values(rates: Floats, previous: Labels) -> None:
    """Refuse what is no rate or no owner; where it stands is looked for only when something is there."""
    if not (rates.min() >= 0 and rates.max() < np.inf):
        bad = np.flatnonzero(~((rates >= 0) & (rates < np.inf)))[0]
        msg = f"rate at {bad} must be a finite number of bytes per second that is not negative, not {float(rates[bad])!r}"
        raise ValueError(msg)
    with np.errstate(over="ignore"):
        total = float(rates.sum())
    if not np.isfinite(total):
        raise ValueError(f"the rates of {rates.size} partitions add up to more than can be counted")
    if previous.max() > np.iinfo(np.int64).max:
        bad = np.flatnonzero(previous > np.iinfo(np.int64).max)[0]
        raise ValueError(f"previous owner at {bad} must be an index below 2**63, not {int(previous[bad])}")
    if previous.min() < -1:
        bad = np.flatnonzero(previous < -1)[0]
        raise ValueError(f"previous owner at {bad} must be an index from 0, or -1 for none, not {int(previous[bad])}")
