"""Balances the brokers of one cluster by goals: advises, or moves leaderships and replicas; docs/tasks/balance.md says how.

``./spark-submit.sh --job jobs/balance_brokers.py -- --config FILE [--cluster NAME]`` runs until it is told to stop. With
``--cancel``, which needs no Spark, it ends what a job has begun: what still copies goes back, no throttle is left.

Exit codes: 0 told to stop, or cancelled; 1 it failed; 77 another job balances this cluster now; 78 the settings are wrong.
"""

import argparse
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.balance_journal import KafkaJournal
from autoscaler.adapters.control_log.watch import ControlLogs, KafkaWatch
from autoscaler.adapters.kafka.cluster_admin import KafkaClusterAdmin
from autoscaler.balancing import Balancer, World
from autoscaler.brokers.journal import NOTHING
from autoscaler.brokers.measured import ALL_TOPICS, Rate
from autoscaler.brokers.ports import Entry
from autoscaler.cli.few import few_of
from autoscaler.config.clusters import Cluster
from autoscaler.config.settings import Group, Settings, load
from autoscaler.core.messages import many, text_of
from autoscaler.errors import AutoscalerError, Exit, FencedError, PermanentError, SettingsError, TransientError
from autoscaler.model import Finding, LoadSnapshot, TopicPartition, What
from autoscaler.ports import Clock

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from autoscaler.adapters.audit.balance_table import BalanceTable

log = logging.getLogger("balance")

MEASURED = "balance-brokers"  # the group as which all topics are measured; no consumer is in it
_AGAIN_S = 5.0
_END_S = 30.0
_END_AGAIN_S = 1.0
_NAMED = 5


class Rates:
    """The latest measurement; written by the query's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest: LoadSnapshot | None = None
        self._groups: dict[str, LoadSnapshot] = {}

    def take(self, _batch: int, snapshots: Mapping[str, LoadSnapshot], _seconds: Mapping[str, float]) -> None:
        """Take a batch, see ``streaming.query.start``."""
        groups = {n: s for n, s in snapshots.items() if n != MEASURED}
        self._groups, self._latest = {**self._groups, **groups}, snapshots.get(MEASURED, self._latest)

    def now(self) -> dict[TopicPartition, Rate]:
        """Return the rates that are known, with their age now."""
        if self._latest is None:
            return {}
        lag = self._lag()
        since_s = max(0.0, self._clock.now() - self._latest.sample_ts)
        known = (x for x in self._latest.loads if x.bytes_per_s is not None)
        return {x.partition: Rate(x.bytes_per_s or 0.0, since_s + x.age_s, lag(x.partition)) for x in known}

    def _lag(self) -> Callable[[TopicPartition], float | None]:
        """Return what tells what all groups have not read of a partition; ``None`` where no group is measured."""
        found = dict[TopicPartition, float]()
        for x in (x for s in self._groups.values() for x in s.loads):
            found[x.partition] = found.get(x.partition, 0.0) + (math.nan if x.lag_bytes is None else x.lag_bytes)
        return lambda p: found.get(p, 0.0) if self._groups else None


def _any_slot(_name: str) -> int | None:
    """Take every worker for one of the group: which it is matters to its controller only."""
    return 0


class Consumers:
    """Which topics' consumers are just handed over, in managed groups of this configuration."""

    def __init__(self, cluster: Cluster, groups: Sequence[Group], lease_s: float, clock: Clock) -> None:
        self._logs = ControlLogs(cluster.connection)
        self._watches = [
            KafkaWatch(
                logs=self._logs, group=g.group, topics=g.topics, lease_s=lease_s, slot_of=_any_slot, clock=clock
            )
            for g in groups
            if g.assignment == "managed" and g.mode == "act"
        ]  # fmt: skip

    def busy(self) -> frozenset[str]:
        """Return the topics.

        Raises:
            TransientError: It cannot be read right now.
        """
        states = [watch.observe() for watch in self._watches]
        return frozenset(p.topic for s in states if s is not None for p in s.pending | s.orphans)

    def close(self) -> None:
        """Release connections."""
        for watch in self._watches:
            watch.close()
        self._logs.close()


def measuring(settings: Settings, cluster: Cluster) -> Settings:
    """Return settings by which all topics of one cluster are measured, with a state directory of its own.

    The configuration's groups are measured with them where lag counts.
    """
    group = Group(group=MEASURED, topics=ALL_TOPICS, cluster=cluster.name)
    by_lag = "lag" in {*cluster.balance.goals, *cluster.balance.limits}
    consumers = tuple(g for g in settings.groups if by_lag and settings.cluster_of(g) is cluster)
    root = settings.root / "brokers" / quote(cluster.name, safe="")
    alone = {"clusters": (cluster,), "groups": (group, *consumers), "state_dir": str(root), "checkpoint": None, "tables": None}
    return settings.model_copy(update=alone)


def chosen(settings: Settings, name: str | None) -> Cluster:
    """Return the cluster that is meant.

    Raises:
        SettingsError: There are several and none is named, or there is none of this name.
    """
    there = [c.name for c in settings.clusters]
    if name is None and len(there) > 1:
        raise SettingsError((f"clusters: name one by --cluster: {', '.join(there)}",))
    found = next((c for c in settings.clusters if name in {None, c.name}), None)
    if found is None:
        raise SettingsError((f"clusters: there is no cluster {name!r}; there are {', '.join(there)}",))
    return found


def watched(balancer: Balancer, stop: threading.Event, table: "BalanceTable | None" = None) -> int:
    """Look again and again until told to stop; then leave nothing that copies and no throttle. Return the exit code."""
    code, pause = 0, 0.0
    taken = not balancer.acts
    while not stop.wait(pause):
        try:
            if not taken:
                balancer.take_over()
                taken = True
            pause = balancer.look()
        except FencedError as e:
            log.error("%s: this one ends, and changes nothing any more", e)  # noqa: TRY400  as below
            return Exit.FENCED
        except TransientError as e:
            log.warning("%s; trying again", e)
            pause = _AGAIN_S
        except (PermanentError, SettingsError) as e:
            log.error("%s", e)  # noqa: TRY400  the stack tells an operator nothing
            code = Exit.SETTINGS if isinstance(e, SettingsError) else Exit.FAILED
            break
        if table is not None:
            table.flush()
    return ended(balancer) or code if balancer.acts and taken else code


def ended(balancer: Balancer, within_s: float = _END_S) -> int:
    """Cancel what runs and clean up, trying again for a while where brokers do not answer or refuse."""
    limit, why = time.monotonic() + within_s, "brokers have not put it back yet"
    log.info("ending what is begun, batch %s", balancer.journal.batch or "none")
    while True:
        try:
            if balancer.end():
                break
        except FencedError as e:
            log.error("%s: that one ends what is begun", e)  # noqa: TRY400  as above
            return Exit.FENCED
        except TransientError as e:
            why = str(e)
        except (PermanentError, SettingsError) as e:
            log.error("%s; %s", e, _left(balancer))  # noqa: TRY400  as above
            return Exit.FAILED
        if time.monotonic() > limit:
            log.error("%s; %s", why, _left(balancer))
            return Exit.FAILED
        time.sleep(_END_AGAIN_S)
    if balancer.journal == NOTHING:
        return 0
    log.error("brokers do not answer; %s", _left(balancer))
    return Exit.FAILED


def _left(balancer: Balancer) -> str:
    """Say what is not cleaned up, and what does it."""
    moves, throttle = sorted(balancer.journal.moves), sorted({f"{s.kind} {s.name}" for s in balancer.journal.throttle})
    copies = f"{many(len(moves), 'partition')} may still be reassigned ({few_of(moves, _NAMED)})" if moves else ""
    limited = f"the throttle may be left on {few_of(throttle, _NAMED)}" if throttle else ""
    return f"{' and '.join(filter(None, (copies, limited)))}: the next start in mode act, or --cancel, goes on with it"


def follow(stream: "StreamingQuery", stop: threading.Event, lost: threading.Event) -> None:
    """Say so, and stop, when the query or the JVM that it runs in has ended, by whatever."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  --cancel needs no Spark
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415  as above

    try:
        with suppress(Py4JError, OSError):
            stream.awaitTermination()
    except StreamingQueryException as e:
        log.error("the measurement has failed: %s", e)  # noqa: TRY400  the stack tells an operator nothing
    finally:
        if not stop.is_set():
            lost.set()
            stop.set()


def run(settings: Settings, cluster: Cluster) -> int:
    """Run until SIGTERM, SIGINT or a failure, and return the exit code."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  --cancel needs no Spark
    from pyspark.sql import SparkSession  # noqa: PLC0415  as above

    from autoscaler.adapters.audit.balance_table import WANTED, BalanceTable, of_brokers, row  # noqa: PLC0415  as above
    from autoscaler.adapters.audit.delta_audit import SparkTables  # noqa: PLC0415  as above
    from autoscaler.streaming import query  # noqa: PLC0415  as above

    stop, lost = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    spark = SparkSession.builder.appName("balance-brokers").getOrCreate()
    measured = measuring(settings, cluster)
    query.prepare(spark, measured.model_copy(update={"tables": settings.tables_place}))
    clock = SystemClock()
    tables = SparkTables(spark, of_brokers(settings.tables_place), clock, WANTED)
    tables.check()
    rates, table = Rates(clock), BalanceTable(tables)
    groups = [g for g in settings.groups if settings.cluster_of(g) is cluster]
    consumers = Consumers(cluster, groups, settings.handover.lease_s, clock)
    mode = cluster.balance.mode

    def record(entries: Sequence[Entry]) -> None:
        table.add([row(e, cluster=cluster.name, mode=mode, detail=text_of(said(e))) for e in entries])

    admin, journal = KafkaClusterAdmin(cluster.connection), _journal(settings, cluster)
    world = World(admin=admin, journal=journal, rates=rates.now, busy=consumers.busy, record=record, clock=clock)
    stream = query.start(spark, measured, rates.take)

    threading.Thread(target=follow, args=(stream, stop, lost), name="query", daemon=True).start()
    log.info("%s the brokers of cluster %s", "balancing" if mode == "act" else "advising on", cluster.name)
    code = watched(Balancer(cluster.balance, world), stop, table)
    if lost.is_set():
        log.error("the measurement has ended by itself")
        return code or Exit.FAILED
    with suppress(Py4JError, OSError):
        table.close()
        query.stop(stream)
        spark.stop()
    for thing in (consumers, admin, journal):
        thing.close()
    return code


def said(entry: Entry) -> tuple[Finding, ...]:
    """Return what is written of a row in words: loads of brokers stand in its findings."""
    return tuple(f for f in entry.findings if f.what is not What.BROKER_LOADS)


def _journal(settings: Settings, cluster: Cluster) -> KafkaJournal:
    return KafkaJournal(cluster.connection, replication_factor=settings.handover.replication_factor)


def cancelled(settings: Settings, cluster: Cluster) -> int:
    """Take over from a job that runs, which ends, end what it has begun, and say what became of it."""
    rows = list[Entry]()
    admin, journal = KafkaClusterAdmin(cluster.connection), _journal(settings, cluster)
    world = World(admin=admin, journal=journal, rates=dict, busy=frozenset, record=rows.extend, clock=SystemClock())
    balancer = Balancer(cluster.balance, world)
    balancer.take_over()
    begun = balancer.journal
    code = ended(balancer)
    _record(settings, cluster, rows)
    if begun != NOTHING:
        print(f"batch {begun.batch}: {became(rows)}{'' if code else '; no throttle is left'}")
    elif not code:
        print("nothing was begun")
    return code


def _record(settings: Settings, cluster: Cluster, entries: Sequence[Entry]) -> None:
    """Write down what a command has done, where that can be done without Spark; what is done stays done."""
    if not entries:
        return
    from autoscaler.adapters.audit import balance_table  # noqa: PLC0415  where nothing was begun, nothing is written

    rows = [balance_table.row(e, cluster=cluster.name, mode="act", detail=text_of(said(e))) for e in entries]
    try:
        balance_table.append(settings.tables_place, rows)
    except AutoscalerError as e:
        log.warning("explain and the page do not know of this: %s", e)


_BECAME = {
    "cancelled": "put back",
    "moved": "had moved, and stay",
    "not_led": "had moved without their leader, and stay",
    "changed": "left as another tool has put them",
    "gone": "deleted meanwhile",
}


def became(rows: Sequence[Entry]) -> str:
    """Say what became of the partitions of a batch."""
    of = {s: sorted(e.partition for e in rows if e.partition is not None and e.status == s) for s in _BECAME}
    return "; ".join(f"{_BECAME[s]}: {len(p)} ({few_of(p, _NAMED)})" for s, p in of.items() if p) or "no partition was put back"


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, run, and turn errors into messages."""
    parser = argparse.ArgumentParser(prog="balance_brokers.py", description="Balance the brokers of a cluster by goals.")
    parser.add_argument("--config", required=True, help="configuration file; clusters.balance says how")
    parser.add_argument("--cluster", help="which one, where the file has several")
    parser.add_argument("--cancel", action="store_true", help="end what a job has begun, take its throttle away, and end")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # otherwise a line per call
    try:
        settings = load(args.config)
        cluster = chosen(settings, args.cluster)
        return cancelled(settings, cluster) if args.cancel else run(settings, cluster)
    except SettingsError as e:
        sys.stderr.write("\n".join(f"{args.config}: {p}" for p in e.problems) + "\n")
        return Exit.SETTINGS
    except AutoscalerError as e:
        log.error("%s", e)  # noqa: TRY400  the stack tells an operator nothing
        return Exit.FAILED


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # client threads that wait for an absent broker must not keep the process
