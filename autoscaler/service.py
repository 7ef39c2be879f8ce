"""The job's life: wires settings, Spark, the control log, the workers and the audit together, and runs until it is told to stop.

Composes everything; ``jobs/autoscale.py`` parses the command line and calls ``run``, whose exit codes stand there.
"""

import gc
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from autoscaler import turn
from autoscaler.adapters import kernels
from autoscaler.adapters.audit.cycle_log import CycleLog, cycle_record
from autoscaler.adapters.audit.decision_json import restore, summarise
from autoscaler.adapters.audit.delta_audit import DeltaAudit
from autoscaler.adapters.audit.upkeep import Keeper
from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.publisher import KafkaControl
from autoscaler.adapters.control_log.watch import ControlLogs, KafkaWatch
from autoscaler.adapters.kafka.circuit_breaker import CircuitBreaker
from autoscaler.adapters.kafka.control_topics import probe
from autoscaler.adapters.kafka.membership import KafkaGroupReader
from autoscaler.adapters.kafka.retention import KafkaRetention
from autoscaler.adapters.kafka.transaction_markers import KafkaMarkers
from autoscaler.adapters.workers import registry
from autoscaler.clients.secrets import naming, of_cluster
from autoscaler.config import places
from autoscaler.config.clusters import Cluster
from autoscaler.config.hot_reload import FollowedFile
from autoscaler.config.settings import Group, Settings
from autoscaler.controller.actuator import Actuator
from autoscaler.controller.cluster_executor import ClusterExecutor, Waits
from autoscaler.controller.group_controller import GroupController
from autoscaler.controller.managed_actuator import ManagedConsumers
from autoscaler.errors import Exit, FencedError, PermanentError, SettingsError, TransientError
from autoscaler.model import Decision, LoadSnapshot, Observation
from autoscaler.ports import Clock, PlanPublisher, WorkerPool, unlimited
from autoscaler.streaming import file_systems, query
from autoscaler.streaming.checkpoint_files import HadoopFiles
from autoscaler.streaming.checkpoint_guard import has_run
from autoscaler.streaming.trigger_times import ProgressLog
from autoscaler.streaming.watchdog import Watchdog
from autoscaler.topic_selection import names, subscribed

if TYPE_CHECKING:
    from autoscaler.adapters.consumer_groups.watch import ConsumerGroups
    from autoscaler.adapters.control_log.placement_publisher import KafkaPlacements
    from autoscaler.adapters.http.endpoint import Endpoint
    from autoscaler.adapters.job_log import DecisionLog
    from autoscaler.adapters.lease import Lease
    from autoscaler.adapters.notifications.sender import Notifications

_CLOSE_S = 5.0
_HEARD_S = 5.0  # that groups of resources are waited for before the job begins with those of the file
_LOOK_S = 0.5  # between two looks whether there is a group by now
_WAITS_S = 5.0  # a cycle that takes longer keeps its cluster's groups from decisions that may be missed

log = logging.getLogger("autoscale")


class Site:
    """What the job has of one cluster: those who read it in the background, for all of its groups."""

    def __init__(self, cluster: Cluster, groups: Sequence[Group], clock: Clock) -> None:
        """Begin to read.

        Raises:
            SettingsError: The connection block cannot be used; named after the cluster.
        """
        self.cluster, self.groups = cluster, tuple(groups)
        self.connection = cluster.connection  # references are read by each new client: a changed password holds at once
        with naming(cluster.name):
            self.reader = KafkaGroupReader(connection=self.connection, groups=[g.group for g in groups], clock=clock)
            self.retention = KafkaRetention(self.connection, [g.topics for g in groups])
        self.markers = {x: KafkaMarkers(self.connection, read_committed=x) for x in (False, True)}
        self.control_logs, self.breaker = ControlLogs(self.connection), CircuitBreaker()

    def close(self) -> None:
        """Read no more."""
        for markers in self.markers.values():
            markers.close()
        self.control_logs.close()
        self.reader.close()
        self.retention.close()


class Job:
    """Everything that lives until the process ends, or until groups come, go or are made of something else.

    Args:
        settings: What it is made of.
        spark: The session, which outlives it.
        followed: The configuration file, which does too.
        stop: The process is to end.
        job_id: What it is called in placements that it writes.
        declared: Groups that are declared as resources, which are told what becomes of them; ``None`` if none may be.
        lease: What this job must have to change consumers; ``None`` if nothing.
    """

    def __init__(
        self,
        settings: Settings,
        spark: SparkSession,
        followed: FollowedFile,
        stop: threading.Event,
        *,
        job_id: str,
        declared: "ConsumerGroups | None" = None,
        lease: "Lease | None" = None,
    ) -> None:
        """Connect nothing yet but the audit and what reads in the background; each group connects at its first cycle."""
        self.settings, self.may_act = settings, unlimited if lease is None else lease.may_act
        self.followed, self.declared, self.job_id = followed, declared, job_id
        self.changed: dict[str, Group] = {}  # what the configuration file says of groups that have not had a cycle since
        self.clock = SystemClock()
        self.stop = stop
        self.exit_code = 0
        root = settings.root
        of = {g.group: cluster.name for cluster, groups in settings.served for g in groups}
        tables, flush_s = settings.tables_place, settings.audit.flush_s
        self.audit = DeltaAudit(spark, tables, flush_s=flush_s, clock=self.clock, cluster_of=of, journal=root / "journal")
        keep_days, check_turn = settings.audit.keep_days, self.audit.check_turn
        self.upkeep = Keeper(spark, tables, self.clock, keep_days=keep_days, check_turn=check_turn)
        native = [g.group for g in settings.groups if g.assignment == "native" and g.capacity_bytes_per_s is None]
        self.measured = self.audit.measured(native)
        self.lines = CycleLog(root / "logs" / "cycles.jsonl", clock=self.clock)
        self.endpoint = self._endpoint()
        self.decided = self._decided()
        self.notifications = self._notifications()
        self.names: list[WorkerPool] = []  # of groups that are only advised
        self.sites = tuple(Site(cluster, groups, self.clock) for cluster, groups in settings.served)
        self.controllers = {g.group: self._controller(g, site) for site in self.sites for g in site.groups}
        self.clusters = ClusterExecutor(patience_s=settings.measure.trigger_s / 2)
        self.waits = Waits(_WAITS_S)
        self.watchdog = Watchdog(settings.measure.watchdog_s, jvm_pid=os.getppid())

    def _decided(self) -> "DecisionLog | None":
        """Return what logs decisions; ``None`` unless the log is JSON."""
        if self.settings.log.format != "json":
            return None
        from autoscaler.adapters.job_log import DecisionLog  # noqa: PLC0415  as below

        return DecisionLog()

    def _endpoint(self) -> "Endpoint | None":
        """Return what answers over HTTP; ``None`` if the configuration names no address."""
        if (address := self.settings.http.address) is None:
            return None
        from autoscaler.adapters.http.endpoint import Endpoint  # noqa: PLC0415  a job that opens no port loads none of it

        return Endpoint(self.settings, address, self.clock, self.audit.waiting, self._plans, self.may_act)

    def _plans(self) -> list[Mapping[str, Any]]:
        """Return rows of what is planned for brokers, none where no job has balanced them.

        Raises:
            SettingsError: They cannot be read, or by Spark only.
            TransientError: They were rewritten meanwhile.
        """
        from autoscaler.adapters.audit.decision_reader import DecisionTables  # noqa: PLC0415  only where the page is asked

        return DecisionTables(self.settings.tables_place).plans(datetime.fromtimestamp(self.clock.now(), UTC))

    def _notifications(self) -> "Notifications | None":
        """Return what tells elsewhere what is decided; ``None`` if the configuration names no address."""
        if self.settings.notify.url is None:
            return None
        from autoscaler.adapters.notifications.sender import Notifications  # noqa: PLC0415  as above

        return Notifications(self.settings.notify)

    def _controller(self, group: Group, site: Site) -> GroupController:
        return GroupController(
            policy=group,
            actuator=self._actuator(group, site),
            reader=site.reader,
            audit=self.audit,
            clock=self.clock,
            restore=restore,
            sink=partial(self._line, site.cluster.name),
            markers=site.markers[group.read_committed].of(group.group),
            retention=site.retention,
            measured_bytes_per_s=self.measured.get(group.group),
        )

    def _actuator(self, group: Group, site: Site) -> Actuator:
        """Return what sees and changes a group's consumers: the one place where its kind is looked at."""
        match group.mode, group.assignment:
            case "act", "managed":
                connect = partial(site.breaker.connect, partial(self._connect, group, site))
                return ManagedConsumers(connect=connect, summarise=summarise)
            case "act", _:
                from autoscaler.controller.native_actuator import NativeConsumers  # noqa: PLC0415  loaded only where a group needs it

                return NativeConsumers(
                    group=group.group,
                    start=partial(self._pool, group, site),
                    place=partial(self._placements, group, site),
                    watch=self._watch(group, site),
                )
            case _:
                return Actuator(watch=self._watch(group, site), native=group.assignment == "native")

    def _watch(self, group: Group, site: Site) -> KafkaWatch:
        return KafkaWatch(
            logs=site.control_logs,
            group=group.group,
            topics=group.topics,
            lease_s=self.settings.handover.lease_s,
            slot_of=self._names(group, site).slot_of,
            clock=self.clock,
        )

    def _pool(self, group: Group, site: Site) -> WorkerPool:
        if group.workers is None:  # refused by the settings; keeps the type checker and the reader sure
            raise SettingsError((f"groups.{group.group}: mode act needs workers",))
        return registry.pool_of(group.workers, self._place(group, site))

    def _names(self, group: Group, site: Site) -> WorkerPool:
        """Return what tells the slots of workers' names, of a group whose pool is not run."""
        try:
            names = registry.names_of(group.workers, self._place(group, site))
        except PermanentError as e:  # of a group that is only advised: said, and who consumes is not told by slot
            log.warning("group %s: %s", group.group, e)
            names = registry.names_of(None, self._place(group, site))
        self.names.append(names)
        return names

    def _place(self, group: Group, site: Site) -> registry.Place:
        return registry.Place(
            group=group.group,
            directory=self.settings.root / "workers" / group.group,
            environment={
                "AUTOSCALER_CONNECTION": json.dumps(site.connection),
                "AUTOSCALER_GROUP": group.group,
                "AUTOSCALER_TOPICS": ",".join(subscribed(group.topics)),
                "AUTOSCALER_LEASE_S": str(self.settings.handover.lease_s),
            },
            clock=self.clock,
            may_act=self.may_act,
        )

    def _placements(self, group: Group, site: Site) -> "KafkaPlacements":
        from autoscaler.adapters.control_log.placement_publisher import KafkaPlacements  # noqa: PLC0415  as above

        factor = self.settings.handover.replication_factor
        return KafkaPlacements(site.connection, group.group, writer=self.job_id, replication_factor=factor)

    def _connect(self, group: Group, site: Site) -> tuple[PlanPublisher, WorkerPool]:
        pool = self._pool(group, site)
        try:
            publisher = KafkaControl(
                connection=site.connection,
                group=group.group,
                topics=group.topics,
                reset_policy=group.reset_policy,
                lease_s=self.settings.handover.lease_s,
                replication_factor=self.settings.handover.replication_factor,
                slot_of=pool.slot_of,
                clock=self.clock,
                park_after=self.settings.handover.park_after,
            )
        except BaseException:
            pool.close()
            raise
        return publisher, pool

    def on_snapshots(self, batch: int, snapshots: Mapping[str, LoadSnapshot], measured: Mapping[str, float]) -> None:
        """Run one cycle of every group, by what the configuration file says by now; called once per micro-batch.

        Clusters are looked after side by side: one that is waited for keeps the groups of the others from nothing.
        """
        self.changed.update(self.followed.look())
        self._say(self.clusters.run({s.cluster.name: partial(self._cycles, s, batch, snapshots, measured) for s in self.sites}))
        if self.clusters.busy_s < self.settings.measure.watchdog_s:
            self.watchdog.alive()

    def _say(self, busy: frozenset[str]) -> None:
        """Say once which clusters' groups are not decided because a cycle of theirs has not come to an end, and when they are."""
        began, over = self.waits.news(busy, self.clock.monotonic())
        groups = {s.cluster.name: len(s.groups) for s in self.sites}
        for name in sorted(began):
            log.warning("cluster %s: a cycle waits for it still; its groups (%d) are not decided meanwhile", name, groups[name])
        for name, lasted_s in over.items():
            log.warning("cluster %s: its groups (%d) are decided again, after %.0f s", name, groups[name], lasted_s)

    def _cycles(self, site: Site, batch: int, snapshots: Mapping[str, LoadSnapshot], measured: Mapping[str, float]) -> None:
        try:
            for name in (g.group for g in site.groups):
                controller, snapshot = self.controllers[name], snapshots.get(name)
                controller.policy = self.changed.pop(name, controller.policy)
                if snapshot is None:
                    snapshot = LoadSnapshot(group=name, sample_ts=self.clock.now(), loads=(), known=False, error="not measured")
                try:
                    controller.cycle(batch, snapshot, measured)
                except FencedError as e:
                    log.error("group %s: %s", name, e)  # noqa: TRY400  the stack tells an operator nothing
                    self.exit_code = Exit.FENCED
                    self.stop.set()
                    return
        finally:
            self.lines.flush()

    def _line(
        self,
        cluster: str,
        *,
        cycle: int,
        decision: Decision,
        snapshot: LoadSnapshot,
        observation: Observation,
        stages: Mapping[str, float],
    ) -> None:
        line = cycle_record(
            cluster=cluster, cycle=cycle, decision=decision, snapshot=snapshot, observation=observation, stages=stages
        )
        self.lines.write(line)
        if self.declared is not None:
            self.declared.take(decision)
        if self.decided is not None:
            self.decided.take(line)
        if self.notifications is not None:
            self.notifications.take(line)
        if self.endpoint is not None:
            self.endpoint.take(line, snapshot.loads, observation.state.completed if observation.state else ())

    def _leave(self, site: Site) -> None:
        for group in site.groups:
            self.controllers[group.group].close()
        site.close()

    def close(self) -> None:
        """Write what is left and let go; workers go on. What could not be written is told by the exit code."""
        self.watchdog.stop()
        if self.endpoint is not None:
            self.endpoint.close()
        if self.notifications is not None:
            self.notifications.close()
        self.upkeep.close()
        self.clusters.close(_CLOSE_S)
        with ThreadPoolExecutor(len(self.sites) or 1) as beside:  # to let go of a cluster that is away takes its time
            list(beside.map(self._leave, self.sites))
        for pool in self.names:
            pool.close()
        if self.audit.close() and not self.exit_code:
            self.exit_code = Exit.UNWRITTEN
        self.lines.close()


def greet(settings: Settings, spark: Callable[[], SparkSession] | None = None) -> None:
    """Look whether the clusters answer and have the topics, all at the same time, and say what to do if not.

    A job that starts for the first time stops at a wrong name; one that has run before goes on, because a topic that is away for
    a while must not keep it from looking after the other groups. A cluster that does not answer never stops it.

    Args:
        settings: The whole file.
        spark: Waits for the session; where state lies elsewhere it is asked whether the job has run before.

    Raises:
        SettingsError: At a first start: topics that do not exist, or may not be described.
        TransientError: The checkpoint cannot be reached.
    """
    with ThreadPoolExecutor(len(settings.served) or 1) as beside:
        problems = tuple(p for found in beside.map(lambda x: _greeted(*x), settings.served) for p in found)
    if problems and not _has_run(settings, spark):
        raise SettingsError(problems)
    for problem in problems:
        log.warning("%s", problem)


def _has_run(settings: Settings, spark: Callable[[], SparkSession] | None) -> bool:
    checkpoint, tables = (places.local(x) for x in (settings.checkpoint_place, settings.tables_place))
    here = (checkpoint and checkpoint / "commits", tables)
    if any(x is not None and x.is_dir() for x in here):
        return True
    return checkpoint is None and spark is not None and has_run(HadoopFiles(spark(), settings.checkpoint_place))


def _greeted_anew(settings: Settings) -> tuple[str, ...]:
    """Return what is wrong with the topics of groups of which some are new; it keeps the others from nothing."""
    return tuple(p for cluster, groups in settings.served for p in _greeted(cluster, groups))


def _greeted(cluster: Cluster, groups: Sequence[Group]) -> tuple[str, ...]:
    """Return what is wrong with one cluster's settings."""
    try:
        with naming(cluster.name):
            probe(cluster.connection, sorted({t for g in groups for t in names(g.topics)}))
    except TransientError as e:
        (said,) = of_cluster(cluster.name, (str(e),))
        log.warning("%s; going on, nothing is decided for its groups until it answers", said)
    except SettingsError as e:
        return e.problems
    return ()


def run(settings: Settings, followed: FollowedFile) -> int:
    """Run the job until SIGTERM, SIGINT or a failure, and return its exit code."""
    declared = lease = None
    if settings.kubernetes.consumer_groups is not None:
        from autoscaler.adapters.consumer_groups.watch import following  # noqa: PLC0415  as the endpoint

        declared = following(settings.kubernetes, followed, SystemClock())
    if settings.kubernetes.lease is not None:
        from autoscaler.adapters.lease import of_job  # noqa: PLC0415  as above

        lease = of_job(settings.kubernetes, settings.kubernetes.lease, SystemClock())
    stop = threading.Event()
    try:
        code = _run(settings, followed, stop, declared, lease)
    finally:
        stop.set()
        if declared is not None:
            declared.close()
        if lease is not None:
            lease.close()
    return Exit.FENCED if lease is not None and lease.lost else code


def _run(
    settings: Settings, followed: FollowedFile, stop: threading.Event, declared: "ConsumerGroups | None", lease: "Lease | None"
) -> int:
    beside = ThreadPoolExecutor(3)  # while the JVM starts
    algorithms = {group.algorithm for group in settings.groups}
    session = Future[SparkSession]()
    greeting = beside.submit(greet, settings, session.result)
    planner = beside.submit(kernels.prepare, SystemClock(), algorithms)
    job_id = turn.job_id(settings.root)
    its_turn = beside.submit(turn.take, settings, job_id, lease, stop)
    beside.shutdown(wait=False)  # what is wrong with the settings is said without waiting for the compiler
    try:
        spark = SparkSession.builder.appName("autoscaler").getOrCreate()
        for setting, place in (("checkpoint", settings.checkpoint_place), ("tables", settings.tables_place)):
            file_systems.check(spark, setting, place)
        query.prepare(spark, settings)
    except BaseException as e:
        session.set_exception(e)  # what waits for it would keep the process from ending
        raise
    session.set_result(spark)
    greeting.result()
    if not planner.done():
        log.info("the planner is being compiled, which takes one to two minutes after an installation or a change of it")
    log.info("%s", planner.result())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    turn.wait_for(its_turn, settings.http.address, lease)
    if declared is not None:
        declared.heard(_HEARD_S)
        followed.look()
        settings = settings if followed.anew is None else _made_anew(followed)
    job = None
    while not stop.is_set():
        job = Job(settings, spark, followed, stop, job_id=job_id, declared=declared, lease=lease)
        _run_until_over(job, spark)
        if stop.is_set() or job.exit_code not in {0, Exit.UNWRITTEN} or followed.anew is None:
            break  # rows that cannot be written end no job that is only made anew: its journal keeps what acted
        settings = _made_anew(followed)
    spark.stop()
    return job.exit_code if job is not None else 0


def _made_anew(followed: FollowedFile) -> Settings:
    """Return what the job is made anew with, once it is looked at and prepared for."""
    settings = followed.made_anew()
    log.info("%s", kernels.prepare(SystemClock(), {group.algorithm for group in settings.groups}))
    for problem in _greeted_anew(settings):
        log.warning("%s", problem)
    return settings


def _run_until_over(job: Job, spark: SparkSession) -> None:
    """Run the query until the process is to end, the query ends by itself, or the job is to be made anew."""
    settings = job.settings
    gc.collect()
    gc.freeze()  # what is there now stays: going through it again and again would take tens of milliseconds from cycles
    if not settings.groups:
        _wait_for_a_group(job)
        return
    stream = query.start(spark, settings, job.on_snapshots)
    job.watchdog.start()
    _begin(job)
    progress = ProgressLog(settings.root / "logs" / "progress.jsonl", settings.measure.trigger_s)
    pause_s = min(0.4, settings.measure.trigger_s / 2)
    while stream.isActive and job.followed.anew is None and not job.stop.wait(pause_s):
        progress.look(stream)
    if not stream.isActive and not job.stop.is_set():
        log.error("the query ended by itself: %s", stream.exception() or "no reason is left, see above")
        job.exit_code = Exit.FAILED
        query.ended_by_itself(spark, settings)
    query.stop(stream)
    progress.close()
    job.close()


def _begin(job: Job) -> None:
    """Let everything run that stands beside the cycles."""
    if job.endpoint is not None:
        job.endpoint.start()
    if job.notifications is not None:
        job.notifications.start()
    job.upkeep.start()


def _wait_for_a_group(job: Job) -> None:
    """Wait until a group is declared or the process is to end: without one there is nothing to measure."""
    log.info("there is no group yet: one begins to be looked after once it is declared")
    _begin(job)
    while job.followed.anew is None and not job.stop.wait(_LOOK_S):
        job.followed.look()
    job.close()
