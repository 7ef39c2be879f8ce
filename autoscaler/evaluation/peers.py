"""Other autoscalers as rules for the number of consumers, as their documentation describes them: what this project stands beside.

They see what they would see, and Kafka deals the partitions. Each takes the settings that their users tune.
"""

import math
from collections import deque

from autoscaler.simulation.queues import Floats

_TOLERANCE = 0.1  # of the ratio of a metric to its target: the HPA leaves the number alone within it
_SYNC_S = 15.0  # between two looks of the HPA
_MOST_PODS, _PERIOD_S = 4, 15.0  # the HPA at most doubles, or adds four, in a period


class KedaHpa:
    """KEDA's kafka trigger on a Kubernetes HPA: so many consumers that the backlog is ``lag_threshold`` each, on average.

    The HPA looks every 15 s, at once asks for more (at most twice as many or four more in 15 s), and for fewer as soon as no look
    within ``down_window_s`` wanted more (https://keda.sh/docs/latest/scalers/apache-kafka,
    https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale).
    """

    def __init__(self, lag_threshold: float, down_window_s: float) -> None:
        """Take the threshold in bytes, and the window for scaling down (by default 300 s)."""
        self.lag_threshold, self.down_window_s = lag_threshold, down_window_s
        self._due = -math.inf
        self._wanted: deque[tuple[float, int]] = deque()

    def __call__(self, at: float, *, rates: Floats, lags: Floats, consumers: int) -> int:
        """Return the number of consumers; the rates are not looked at."""
        if at < self._due:
            return consumers
        self._due = at + _SYNC_S
        total = float(lags.sum())
        ratio = total / (self.lag_threshold * consumers)
        wanted = consumers if abs(ratio - 1) <= _TOLERANCE else math.ceil(total / self.lag_threshold)
        wanted = max(1, min(wanted, len(rates)))  # never more than there are partitions
        self._wanted.append((at, wanted))
        while self._wanted[0][0] < at - self.down_window_s:
            self._wanted.popleft()
        if wanted > consumers:
            return min(wanted, max(2 * consumers, consumers + _MOST_PODS))
        return min(consumers, max(n for _, n in self._wanted))


class FlinkRule:
    """The rule of Flink's autoscaler, on consumers in place of subtasks.

    Of the mean rate over ``window_s``: ``rate / target + (backlog + rate × restart_s) / catch_up_s`` must be processed, where the
    present number is left alone while its utilisation is within ``boundary`` of the target and the backlog is worked off in time;
    and for ``stabilisation_s`` after each change
    (https://nightlies.apache.org/flink/flink-kubernetes-operator-docs-stable/docs/custom-resource/autoscaler).
    """

    def __init__(
        self, capacity: float, *, target: float, window_s: float, catch_up_s: float, restart_s: float, boundary: float = 0.3,
        stabilisation_s: float = 60.0,
    ) -> None:  # fmt: skip
        """Take what one consumer processes, in bytes/s, and the settings."""
        self.capacity, self.target, self.boundary = capacity, target, boundary
        self.window_s, self.catch_up_s, self.restart_s, self.stabilisation_s = window_s, catch_up_s, restart_s, stabilisation_s
        self._seen: deque[tuple[float, float]] = deque()
        self._rests_until = -math.inf

    def __call__(self, at: float, *, rates: Floats, lags: Floats, consumers: int) -> int:
        """Return the number of consumers."""
        self._seen.append((at, float(rates.sum())))
        while self._seen[0][0] < at - self.window_s:
            self._seen.popleft()
        if at < self._rests_until:
            return consumers
        rate, lag = sum(r for _, r in self._seen) / len(self._seen), float(lags.sum())
        has = consumers * self.capacity
        low, high = rate / min(1.0, self.target + self.boundary), rate / max(0.01, self.target - self.boundary)
        if low + lag / self.catch_up_s <= has <= high + lag / self.catch_up_s:
            return consumers
        must = rate / self.target + (lag + rate * self.restart_s) / self.catch_up_s
        wanted = max(1, min(math.ceil(must / self.capacity), len(rates)))
        if wanted != consumers:
            self._rests_until = at + self.stabilisation_s
        return wanted
