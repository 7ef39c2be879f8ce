"""``autoscaler advise``: one look over all consumer groups of a cluster, with nothing configured; it changes nothing."""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from autoscaler.adapters.kafka.cluster_looks import ClusterLooks
from autoscaler.clients.secrets import naming
from autoscaler.config.settings import load
from autoscaler.console.words import count, lasted, plain, rate
from autoscaler.core.looks import Look, at_rest, read_to_the_end
from autoscaler.core.messages import many
from autoscaler.core.survey import MEASURE_S, STILL_S, Sizing, Trouble, Verdict, survey
from autoscaler.errors import SettingsError, TransientError
from autoscaler.model import TopicPartition
from autoscaler.model.names import compact

if TYPE_CHECKING:
    from autoscaler.adapters.kafka.control_topics import Connection
    from autoscaler.config.settings import Settings

_EVERY_S = 10.0  # between two looks
_SHOWN = 5  # partitions or topics in a line
_ASSUMED = (
    "Counted on: 80% of what one consumer handles, fewer only with a tenth of that to spare, unless --config says otherwise.",
    "What one handles is what a consumer drains that has ten seconds of work waiting in every look; others may handle more.",
    "Looked at while less arrives than usual it counts too few: look in the busy hour, or let the job advise for longer.",
)
_WORDS = {
    Trouble.LOST: "RECORDS LOST", Trouble.RETENTION: "RETENTION AT RISK", Trouble.STUCK: "STUCK",
    Trouble.REBALANCING: "REBALANCING", Trouble.UNKNOWN: "NOT KNOWN",
    Trouble.UNDER: "UNDER-PROVISIONED", Trouble.NO_CONSUMERS: "NO CONSUMERS", Trouble.UNEVEN: "UNEVEN",
    Trouble.OVER: "OVER-PROVISIONED", Trouble.FINE: "nothing to do",
}  # fmt: skip


class Cluster(Protocol):
    """What is looked at."""

    def look(self) -> Look:
        """Return what is there now."""
        ...


def advise(args: argparse.Namespace) -> int:
    """Look at a cluster for a while, and print what is to be said of its groups.

    Raises:
        SettingsError: The configuration is wrong, names no such cluster, or its connection cannot be used.
        TransientError: The cluster does not answer.
    """
    settings = None if args.config is None else load(args.config)
    name, connection = _cluster(args, settings)
    groups = settings.groups if settings is not None else ()
    sizings = {
        g.group: Sizing(capacity_bytes_per_s=g.capacity_bytes_per_s, target=g.target_utilisation, tolerance=g.tolerance_ratio)
        for g in groups
        if settings is not None and settings.cluster_of(g).name == name
    }
    with naming(name), ClusterLooks(connection) as cluster:
        looks, failed = looked(cluster, args.seconds)
        try:
            kept = cluster.retention({p.topic for p in looks[-1].ends})
        except TransientError as e:
            kept, failed = {}, (*failed, f"how long topics keep records: {e}")
        rests = at_rest(looks, {v.group: v.stuck for v in survey(looks, kept, sizings)})
        empty = {name: {p: spans[p] for p in cluster.without_record(spans)} for name, spans in rests.items()}
    found, seconds = survey(read_to_the_end(looks, empty), kept, sizings), looks[-1].at - looks[0].at
    if args.json:
        sys.stdout.write(as_json(name, seconds, found, failed))
    else:
        sys.stdout.writelines(f"{plain(line)}\n" for line in lines(name, found, seconds, failed))
    return 0


def _cluster(args: argparse.Namespace, settings: "Settings | None") -> "tuple[str, Connection]":
    if args.bootstrap is not None:
        return args.bootstrap, {"bootstrap.servers": args.bootstrap}
    if settings is None:
        raise SettingsError(("name the cluster's address by --bootstrap HOST:PORT, or its configuration by --config FILE",))
    clusters = {c.name: c.connection for c in settings.clusters}
    name = args.cluster or (next(iter(clusters)) if len(clusters) == 1 else None)
    if name not in clusters:
        asked = "several clusters: name one of" if name is None else f"no cluster {name!r}; there are"
        raise SettingsError((f"clusters: {asked} {', '.join(clusters)}",))
    return name, clusters[name]


def looked(cluster: Cluster, seconds: float) -> tuple[list[Look], tuple[str, ...]]:
    """Look at the beginning, at the end, and every ten seconds between; and return why later looks failed, those left out.

    Raises:
        TransientError: The cluster does not answer, or answered only once.
    """
    looks, failed = [cluster.look()], list[str]()
    if sys.stderr.isatty():
        sys.stderr.write(f"looking for {lasted(seconds)}\n")
    began = time.monotonic()  # behind the first look: what is seen spans all of the time asked for
    while (left := began + seconds - time.monotonic()) > 0:
        time.sleep(min(left, _EVERY_S))
        try:
            looks.append(cluster.look())
        except TransientError as e:
            failed.append(str(e))
    if len(looks) == 1:
        raise TransientError(f"the cluster answered once and then no more, and one look says nothing of rates: {failed[-1]}")
    return looks, tuple(failed)


def lines(cluster: str, found: Sequence[Verdict], seconds: float, failed: Sequence[str] = ()) -> Iterator[str]:
    """Return what a person reads."""
    asking = sum(v.troubles[0] < Trouble.FINE for v in found)
    saved = sum(v.saves for v in found if Trouble.OVER in v.troubles)
    asks = f"{asking} asks" if asking == 1 else f"{asking} ask"
    yield f"{cluster}: {many(len(found), 'consumer group')} looked at for {lasted(seconds)}; {asks} for something" + (
        f"; {many(saved, 'consumer')} could be saved" if saved else ""
    )
    if failed:
        yield f"{many(len(failed), 'question')} failed, the last one: {failed[-1]}; what follows is of those that were answered"
    for v in found:
        yield ""
        yield f"{v.group}: {', '.join(_WORDS[t] for t in v.troubles)}"
        yield from (f"  {line}" for line in _said(v))
    if found:
        yield ""
        yield from _assumed(found, seconds)


def _said(v: Verdict) -> Iterator[str]:
    yield from (f"not known: {why}" for why in v.why_unknown)
    if v.consumers is None:
        return
    protocol = f" ({', '.join(x for x in (v.kind.lower(), v.assignor) if x)})" if v.consumers else ""
    yield f"{many(v.consumers, 'consumer')}{protocol} on {many(v.partitions, 'partition')} of {_some(v.topics)}"
    grown = f", {count(abs(v.grown))} {'more' if v.grown > 0 else 'fewer'} than {lasted(v.seconds)} before" if v.grown else ""
    uncommitted = f"; {many(v.uncommitted, 'partition')} without a commit, whose lag is not known" if v.uncommitted else ""
    arriving = "it is not known how much arrives" if v.arriving is None else f"{_rate(v, v.arriving)} arrive"
    yield f"{arriving}, {_rate(v, v.consumed)} are consumed; {_records(v.lag)} behind{grown}{uncommitted}"
    if not v.consumers and v.consumed:
        yield "commits come and the group has no members: its consumers assign partitions to themselves"
    if v.at_risk:
        lost = "were deleted before they were read" if Trouble.LOST in v.troubles else "may be deleted before they are read"
        yield f"records {lost}: {_names(v.at_risk)}"
    if v.stuck:
        yield f"no commit for {lasted(v.seconds)} although records wait: {_names(v.stuck)}"
    if v.rebalances:
        changed = "once" if v.rebalances == 1 else f"{v.rebalances} times"
        yield f"who holds what changed, or was being dealt out, {changed} in {lasted(v.seconds)}" + (
            ": look in the consumers' logs for restarts, and for polls further apart than max.poll.interval.ms"
            if Trouble.REBALANCING in v.troubles
            else ""
        )
    if v.hottest is not None and v.hottest[1] > 0 and v.consumers > 1:
        yield f"the hottest consumer, {v.hottest[0]}, has {_rate(v, v.hottest[1])}, {_times(v)}"
    if v.idle:
        yield f"{v.idle} of them {'hold' if v.idle > 1 else 'holds'} no partition"
    if v.consumers:
        yield _counted(v)


def _counted(v: Verdict) -> str:
    if v.capacity is None:
        return "how many it takes is not known: no consumer held the same partitions all the time and had something to read"
    source = "configured" if v.configured else "one keeps up with it" if v.at_least else "as one that is behind shows"
    handles = f"one consumer handles {'at least ' if v.at_least else ''}{_rate(v, v.capacity)} ({source})"
    if v.takes is None:
        return f"{handles}; how many it takes is not known"
    if v.at_least:
        return f"{handles}: the load takes {v.takes} at most" + (f"; it could do with {v.saves} fewer" if v.saves else "")
    by_load = f", {v.takes_by_load} if partitions were placed by load" if v.takes_by_load != v.takes else ""
    large = f"; each of {_names(v.oversized)} has more than is planned for one, which no number changes" if v.oversized else ""
    saved = f"; it could do with {many(v.saves, 'consumer')} fewer" if v.saves else ""
    return f"{handles}: the load takes {v.takes}{by_load}{large}{saved}"


def _assumed(found: Sequence[Verdict], seconds: float) -> Iterator[str]:
    yield from _ASSUMED
    if any(not v.by_bytes for v in found if v.consumers is not None):
        yield "Rates are in records where log sizes may not be read (it takes Describe on the cluster): records differ in size."
    if any(v.at_least for v in found):
        yield "Where no consumer is behind, one may handle more than is said: capacity.bytes_per_s in a --config says how much."
    if seconds < STILL_S:
        yield f"In less than {lasted(STILL_S)} it does not show whether a partition stands still: --for 60s."
    elif seconds < MEASURE_S:
        yield f"In less than {lasted(MEASURE_S)} it does not show what a consumer handles: --for 60s."


def _rate(v: Verdict, value: float | None) -> str:
    if v.by_bytes:
        return rate(value)
    return "?" if value is None else f"{value:,.1f} records/s"


def _records(value: int | None) -> str:
    return f"{count(value)} record" if value == 1 else f"{count(value)} records"


def _times(v: Verdict) -> str:
    mean = v.arriving / v.consumers if v.arriving and v.consumers else 0.0
    return f"{v.hottest[1] / mean:.1f} times the mean" if mean and v.hottest is not None else "the mean is not known"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more topics" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "no topic that is known"


def _names(partitions: Sequence[TopicPartition]) -> str:
    named = compact([*map(str, partitions)])
    if len(partitions) == 1:
        return str(partitions[0])
    return named if len({p.topic for p in partitions}) > 1 else f"{partitions[0].topic} {named}"


def as_json(cluster: str, seconds: float, found: Sequence[Verdict], failed: Sequence[str] = ()) -> str:
    """Return the same as JSON; rates are per second, of log bytes where ``by_bytes`` says so and else of records."""
    values = {"cluster": cluster, "seconds": round(seconds, 3), "failed": [*failed], "groups": [_values(v) for v in found]}
    return json.dumps(values, indent=2) + "\n"


def _values(v: Verdict) -> Mapping[str, object]:
    named = {name: [*map(str, getattr(v, name))] for name in ("stuck", "at_risk", "oversized")}
    return {**asdict(v), "troubles": [t.name for t in v.troubles], **named}
