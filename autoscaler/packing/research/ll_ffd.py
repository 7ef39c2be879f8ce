"""LL-FFD, the published packing by rate and backlog: a kernel on arrays, part of *pack*.

In the units of the caller, and compared as printed, without any allowance for rounding: divided by a capacity, whole numbers that
just fit or are just equal would do so no more, and another consumer than the published one would be taken.

Source: Ezzeddine, Migliorini, Baude, Huet 2022, "Cost-Efficient and Latency-Aware Event Consuming in Workload-Skewed Distributed
Event Queues", appendix.
"""

import numpy as np

from autoscaler.packing.kernels.jit import borrowing, compiled
from autoscaler.packing.vector.fill import Demand, Floats, Ints


@borrowing
def _least_loaded(load: Floats, lag_load: Floats, need: tuple[float, float], most: tuple[float, float]) -> int:
    """Return the consumer of least rate, the first on ties, that both fit on; -1 if there is none."""
    at = -1
    for c in range(load.shape[0]):
        if load[c] + need[0] <= most[0] and lag_load[c] + need[1] <= most[1] and (at < 0 or load[c] < load[at]):
            at = c
    return at


@compiled
def ll_ffd(demand: Demand, order: Ints, capacity: float, lag_capacity: float) -> Ints:
    """Deal partitions to the least loaded consumer they fit on; where one fits nowhere, start over with one consumer more.

    The published loop starts at one consumer. Starting at the sums of the demand, rounded up, is the same: below them no deal
    can succeed. ``order`` is by decreasing rate, and demands are clipped to one consumer's capacity: the loop would not end
    otherwise.
    """
    owner = np.zeros(order.shape[0], np.int64)
    consumers = max(1, int(np.ceil(max(demand.rate.sum() / capacity, demand.lag.sum() / lag_capacity) * (1 - 1e-6))))
    while True:
        load, lag_load = np.zeros(consumers), np.zeros(consumers)
        dealt = 0
        for j in order:
            c = _least_loaded(load, lag_load, (demand.rate[j], demand.lag[j]), (capacity, lag_capacity))
            if c < 0:
                break
            owner[j] = c
            load[c] += demand.rate[j]
            lag_load[c] += demand.lag[j]
            dealt += 1
        if dealt == order.shape[0]:
            return owner
        consumers += 1
