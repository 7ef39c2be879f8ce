"""What the job tells Prometheus: one collector over the latest cycle of each group, made into samples when it is asked.

A number that is not known has no sample, never 0. ``autoscaler_consumers_recommended`` keeps its last value while nothing can be
measured; ``autoscaler_advice_age_seconds`` grows meanwhile. Labels are bounded by the configuration: clusters, groups, reasons,
and partitions only where the operator asks for them.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from autoscaler.model import HandoverDone, PartitionLoad
from autoscaler.ports import Clock

_STAGES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PAUSES_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_GROUP = ("cluster", "group")
_KINDS = ("add", "remove", "move", "park", "reset")  # told from the start on, so that a first step is an increase


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One group's latest cycle: its line of ``logs/cycles.jsonl``, and what was measured of each partition."""

    line: Mapping[str, Any]
    loads: tuple[PartitionLoad, ...]

    @property
    def name(self) -> str:
        """Return the group's id, which only one cluster has within a job."""
        return str(self.line["group"])

    @property
    def group(self) -> tuple[str, str]:
        """Return the labels that say which group it is: the cluster's name and the group's id."""
        return self.line["cluster"], self.name

    def age_s(self, now: float) -> float:
        """Return the seconds since it was decided."""
        return max(0.0, now - float(self.line["t"]))

    def advice_age_s(self, now: float) -> float | None:
        """Return the age of the oldest measurement that the recommended number goes by; ``None``: none was ever known."""
        if self.line["recommended"] is None:
            return None
        return self.age_s(now) + (self.line["recommended_age_s"] or 0.0)

    @property
    def utilisation(self) -> float | None:
        """Return how much of its capacity the hottest consumer needs; ``None`` where it is not known who holds what."""
        shares = [(w["bytes_per_s"], w["capacity_bytes_per_s"]) for w in self.line["workers"]]
        return max((rate / able for rate, able in shares if rate is not None and able), default=None)

    def total(self, of: Callable[[PartitionLoad], float | None]) -> float | None:
        """Return the sum over the partitions, ``None`` if one of them is not known: a part of it would read as less load."""
        known = [v for x in self.loads if (v := of(x)) is not None]
        return sum(known) if known and len(known) == len(self.loads) else None

    def most(self, of: Callable[[PartitionLoad], float | None]) -> float | None:
        """Return the largest that is known of a partition."""
        return max((v for x in self.loads if (v := of(x)) is not None), default=None)


# How many cycles wait to be written into the audit's tables, and when the oldest of them was decided (seconds since 1970)
Backlog = Callable[[], tuple[int, float | None]]


@dataclass(slots=True)
class _Totals:
    cycles: int = 0
    actions: Counter[str] = field(default_factory=Counter)


_Figure = Callable[[Cycle, float], float | None]


def _field(name: str) -> _Figure:
    def told(cycle: Cycle, _: float) -> float | None:
        value: float | None = cycle.line[name]
        return value

    return told


# Name without ``autoscaler_``, what it says, and how it is told of a cycle at a moment
GAUGES: tuple[tuple[str, str, _Figure], ...] = (
    ("consumers", "Consumers observed.", _field("consumers_now")),
    ("consumers_requested", "Consumers asked for from now on, after all guards.", _field("consumers")),
    (
        "consumers_recommended",
        "Consumers that the load takes, whatever the guards say; the last known number while nothing can be measured.",
        _field("recommended"),
    ),
    ("consumers_lower_bound", "No placement needs fewer consumers.", _field("lower_bound")),
    ("bytes_per_second", "Bytes that arrive for the group.", _field("total_bytes_per_s")),
    ("records_per_second", "Records that arrive for the group.", lambda c, _: c.total(lambda x: x.records_per_s)),
    ("capacity_bytes_per_second", "What one consumer processes.", _field("capacity_bytes_per_s")),
    ("usable_bytes_per_second", "What is planned for one consumer.", _field("usable_bytes_per_s")),
    ("utilisation_max_ratio", "Load of the hottest consumer over its capacity.", lambda c, _: c.utilisation),
    ("imbalance_ratio", "Load of the hottest consumer over the mean.", _field("imbalance")),
    ("lag_records", "Records that are not consumed.", _field("total_lag_records")),
    ("lag_records_max", "Records that are not consumed, of the worst partition.", lambda c, _: c.most(lambda x: x.lag_records)),
    ("lag_bytes", "Bytes that are not consumed.", lambda c, _: c.total(lambda x: x.lag_bytes)),
    ("lag_seconds_max", "Seconds that the worst partition is behind.", lambda c, _: c.most(lambda x: x.lag_s)),
    ("moved_ratio", "R of the latest decision: the load that moves over what is planned for one consumer.", _field("r_score")),
    ("partitions", "Partitions of the group's topics.", lambda c, _: len(c.loads)),
    ("partitions_unknown", "Partitions whose load or lag is not known.", lambda c, _: sum(not x.known for x in c.loads)),
    ("partitions_parked", "Partitions that no consumer gets before an operator acts.", lambda c, _: len(c.line["parked"])),
    ("known", "1 if all of the group is measured.", lambda c, _: float(c.line["known"])),
    ("sample_age_seconds", "Age of the latest sample.", lambda c, now: c.age_s(now) + c.line["sample_age_s"]),
    ("advice_age_seconds", "Age of the oldest measurement behind the recommended number.", lambda c, now: c.advice_age_s(now)),
    ("cycle_age_seconds", "Seconds since the group was last decided.", lambda c, now: c.age_s(now)),
)
PARTITION_GAUGES: tuple[tuple[str, str, Callable[[PartitionLoad], float | None]], ...] = (
    ("partition_bytes_per_second", "Bytes that arrive on one partition.", lambda x: x.bytes_per_s),
    ("partition_lag_records", "Records of one partition that are not consumed.", lambda x: x.lag_records),
)


class JobMetrics(Collector):
    """Takes in each cycle and tells Prometheus of them."""

    def __init__(self, clock: Clock, backlog: Backlog, *, partitions: bool = False) -> None:
        """Know nothing yet; ``partitions`` adds series for each partition, of which a large group has thousands."""
        self._clock, self._backlog, self._partitions = clock, backlog, partitions
        self._latest: dict[str, Cycle] = {}
        self._totals: dict[str, _Totals] = {}
        self._messages = _Messages()
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self._stages = Histogram(
            "autoscaler_cycle_stage_seconds", "Seconds that a stage of a cycle took.", ("stage",), buckets=_STAGES_S,
            registry=self.registry,
        )  # fmt: skip
        self._pauses = Histogram(
            "autoscaler_handover_pause_seconds", "Seconds a partition stood still as it changed hands.", _GROUP,
            buckets=_PAUSES_S, registry=self.registry,
        )  # fmt: skip

    @property
    def handler(self) -> logging.Handler:
        """Return what counts the job's log messages by level, to be added to a logger."""
        return self._messages

    def take(self, cycle: Cycle, handovers: Iterable[HandoverDone]) -> None:
        """Take in one cycle of one group, and the handovers that it saw finished; any thread may call it."""
        totals = self._totals.setdefault(cycle.name, _Totals())
        totals.cycles += 1
        totals.actions.update(step["kind"] for step in cycle.line["actions"])
        self._latest[cycle.name] = cycle
        for stage, seconds in cycle.line["stages"].items():
            self._stages.labels(stage.removesuffix("_s")).observe(seconds)
        for pause_s in (done.pause_s for done in handovers if done.pause_s is not None):
            self._pauses.labels(*cycle.group).observe(pause_s)

    def latest(self, group: str) -> Cycle | None:
        """Return the group's latest cycle; ``None`` before its first."""
        return self._latest.get(group)

    def cycles(self) -> tuple[Cycle, ...]:
        """Return the latest cycle of each group that had one."""
        return tuple(self._latest.values())

    def collect(self) -> Iterator[Metric]:
        """Yield the families, by what is known at this moment."""
        now, cycles = self._clock.now(), self.cycles()
        for name, text, figure in GAUGES:
            yield _family(name, text, _GROUP, ((c.group, figure(c, now)) for c in cycles))
        yield _family("decision_info", "1: why the latest decision was taken, and what kept it from doing more.",
            (*_GROUP, "mode", "reason", "limited_by"), ((_said(c), 1.0) for c in cycles))  # fmt: skip
        yield from self._counted(cycles)
        if self._partitions:
            yield from _of_partitions(cycles)
        waiting, since = self._backlog()
        yield _family("audit_waiting_cycles", "Cycles whose rows wait for the audit's tables.", (), [((), waiting)])
        age = 0.0 if since is None else max(0.0, now - since)
        yield _family("audit_waiting_seconds", "Age of the oldest of them, 0 if none waits.", (), [((), age)])
        messages = CounterMetricFamily("autoscaler_log_messages", "Messages of the job's log.", labels=("level",))
        for level, count in sorted(self._messages.counts().items()):
            messages.add_metric((level,), count)
        yield messages

    def _counted(self, cycles: Iterable[Cycle]) -> Iterator[Metric]:
        ran = CounterMetricFamily("autoscaler_cycles", "Cycles of the group since the job began.", labels=_GROUP)
        done = CounterMetricFamily("autoscaler_actions", "Steps decided since the job began, by kind.", labels=(*_GROUP, "kind"))
        for c in cycles:
            totals = self._totals[c.name]
            ran.add_metric(c.group, totals.cycles)
            for kind, count in {**dict.fromkeys(_KINDS, 0), **totals.actions}.items():
                done.add_metric((*c.group, kind), count)
        yield ran
        yield done


def _said(c: Cycle) -> tuple[str, ...]:
    return *c.group, c.line["mode"], c.line["reason"], c.line["limited_by"] or ""


def _family(
    name: str, text: str, labels: tuple[str, ...], samples: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"autoscaler_{name}", text, labels=labels)
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family


def _of_partitions(cycles: Iterable[Cycle]) -> Iterator[Metric]:
    labels = (*_GROUP, "topic", "partition")
    for name, text, figure in PARTITION_GAUGES:
        yield _family(name, text, labels, (
            ((*c.group, x.partition.topic, str(x.partition.partition)), figure(x)) for c in cycles for x in c.loads
        ))  # fmt: skip


class _Messages(logging.Handler):
    """Counts messages from warnings on, by level."""

    _LEVELS = ("warning", "error", "critical")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._counts: Counter[str] = Counter(dict.fromkeys(self._LEVELS, 0))
        self._guard = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        with self._guard:
            self._counts[record.levelname.lower()] += 1

    def counts(self) -> Mapping[str, int]:
        with self._guard:
            return dict(self._counts)
