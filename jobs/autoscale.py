"""The job: wires settings, Spark, the control log, the workers and the audit together, and runs until it is told to stop.

Exit codes: 0 told to stop; 1 the query failed; 76 the watchdog saw no batch for long; 77 another controller has taken
over; 78 the settings (or the checkpoint or tables they point at) are wrong. ``spark-submit.sh`` starts 1 and 76 again.
"""

import argparse
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pyspark.sql import SparkSession

from autoscaler.adapters import kernels
from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.cycle_log import CycleLog, cycle_record
from autoscaler.adapters.decision_summary import restore, summarise
from autoscaler.adapters.delta_audit import DeltaAudit
from autoscaler.adapters.kafka_control import KafkaControl
from autoscaler.adapters.kafka_placement import KafkaPlacements
from autoscaler.adapters.kafka_reader import KafkaGroupReader
from autoscaler.adapters.kafka_retention import KafkaRetention
from autoscaler.adapters.kafka_tail import KafkaTails
from autoscaler.adapters.kafka_topics import probe
from autoscaler.adapters.kafka_watch import ControlLogs, KafkaWatch
from autoscaler.adapters.processes import ProcessPool, slot_of
from autoscaler.controller import GroupController
from autoscaler.errors import FencedError, SettingsError, TransientError
from autoscaler.model import Decision, LoadSnapshot, Observation
from autoscaler.native_consumers import NativeConsumers
from autoscaler.ports import PlanPublisher, WorkerPool
from autoscaler.reloading import FollowedFile
from autoscaler.settings import Group, Settings, load
from autoscaler.streaming import query
from autoscaler.streaming.progress import ProgressLog
from autoscaler.streaming.watchdog import Watchdog
from autoscaler.topics import names, subscribed

EXIT_FENCED = 77
EXIT_SETTINGS = 78

log = logging.getLogger("autoscale")


class Job:
    """Everything that lives as long as the process."""

    def __init__(self, settings: Settings, spark: SparkSession, followed: FollowedFile) -> None:
        """Connect nothing yet but the audit; each group connects at its first cycle."""
        self.settings = settings
        self.followed = followed
        self.clock = SystemClock()
        self.stop = threading.Event()
        self.exit_code = 0
        root = settings.root
        connection = settings.cluster.connection  # references are read by each new client: a changed password holds at once
        names = tuple(g.group for g in settings.groups)
        self.audit = DeltaAudit(spark, root / "tables", flush_s=settings.audit.flush_s, clock=self.clock)
        native = [g.group for g in settings.groups if g.assignment == "native" and g.capacity_bytes_per_s is None]
        self.measured = self.audit.measured(native)
        self.lines = CycleLog(root / "logs" / "cycles.jsonl", clock=self.clock)
        self.reader = KafkaGroupReader(connection=connection, groups=names, clock=self.clock)
        self.retention = KafkaRetention(connection, [g.topics for g in settings.groups])
        self.tails = {x: KafkaTails(connection, read_committed=x) for x in (False, True)}
        self.control_logs = ControlLogs(connection)
        self.controllers = {g.group: self._controller(g, connection) for g in settings.groups}
        self.watchdog = Watchdog(settings.measure.watchdog_s, jvm_pid=os.getppid())

    def _controller(self, group: Group, connection: dict[str, str | int | float | bool]) -> GroupController:
        acts, managed = group.mode == "act", group.assignment == "managed"
        return GroupController(
            policy=group,
            connect=(lambda: self._connect(group, connection)) if acts and managed else None,
            reader=self.reader,
            audit=self.audit,
            clock=self.clock,
            summarise=summarise,
            restore=restore,
            sink=self._line,
            watch=None if acts and managed else self._watch(group),
            consumers=self._consumers(group, connection) if acts and not managed else None,
            tails=self.tails[group.read_committed].of(group.group),
            retention=self.retention,
            measured_bytes_per_s=self.measured.get(group.group),
        )

    def _watch(self, group: Group) -> KafkaWatch:
        return KafkaWatch(
            logs=self.control_logs,
            group=group.group,
            topics=group.topics,
            lease_s=self.settings.handover.lease_s,
            slot_of=partial(slot_of, group.group),
            clock=self.clock,
        )

    def _pool(self, group: Group) -> ProcessPool:
        if group.workers is None:  # refused by the settings; keeps the type checker and the reader sure
            raise SettingsError((f"groups.{group.group}: mode act needs workers",))
        return ProcessPool(
            group=group.group,
            settings=group.workers,
            directory=self.settings.root / "workers" / group.group,
            environment={
                "AUTOSCALER_CONNECTION": json.dumps(self.settings.cluster.connection),
                "AUTOSCALER_GROUP": group.group,
                "AUTOSCALER_TOPICS": ",".join(subscribed(group.topics)),
                "AUTOSCALER_LEASE_S": str(self.settings.handover.lease_s),
            },
            clock=self.clock,
        )

    def _consumers(self, group: Group, connection: dict[str, str | int | float | bool]) -> NativeConsumers:
        return NativeConsumers(
            group=group.group, start=lambda: self._pool(group), place=lambda: self._placements(group, connection)
        )

    def _placements(self, group: Group, connection: dict[str, str | int | float | bool]) -> KafkaPlacements:
        return KafkaPlacements(connection, group.group, replication_factor=self.settings.handover.replication_factor)

    def _connect(self, group: Group, connection: dict[str, str | int | float | bool]) -> tuple[PlanPublisher, WorkerPool]:
        pool = self._pool(group)
        try:
            publisher = KafkaControl(
                connection=connection,
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
        """Run one cycle of every group, by what the configuration file says by now; called once per micro-batch."""
        for name, group in self.followed.look().items():
            self.controllers[name].policy = group
        try:
            self._cycles(batch, snapshots, measured)
        finally:
            self.lines.flush()
        self.watchdog.alive()

    def _cycles(self, batch: int, snapshots: Mapping[str, LoadSnapshot], measured: Mapping[str, float]) -> None:
        for name, controller in self.controllers.items():
            snapshot = snapshots.get(name)
            if snapshot is None:
                snapshot = LoadSnapshot(group=name, sample_ts=self.clock.now(), loads=(), known=False, error="not measured")
            try:
                controller.cycle(batch, snapshot, measured)
            except FencedError as e:
                log.error("group %s: %s", name, e)  # noqa: TRY400  the stack tells an operator nothing
                self.exit_code = EXIT_FENCED
                self.stop.set()
                return

    def _line(
        self, *, cycle: int, decision: Decision, snapshot: LoadSnapshot, observation: Observation, stages: Mapping[str, float]
    ) -> None:
        self.lines.write(cycle_record(cycle=cycle, decision=decision, snapshot=snapshot, observation=observation, stages=stages))

    def close(self) -> None:
        """Write what is left and let go; workers go on."""
        self.watchdog.stop()
        for controller in self.controllers.values():
            controller.close()
        for tails in self.tails.values():
            tails.close()
        self.reader.close()
        self.retention.close()
        self.audit.close()
        self.lines.close()


def greet(settings: Settings) -> None:
    """Look whether the cluster answers and has the topics, and say what to do if not.

    A job that starts for the first time stops at a wrong name; one that has run before goes on, because a topic that is away for
    a while must not keep it from looking after the other groups.

    Raises:
        SettingsError: At a first start: topics that do not exist, or may not be described.
    """
    topics = sorted({t for g in settings.groups for t in names(g.topics)})
    try:
        probe(settings.cluster.connection, topics)
    except TransientError as e:
        log.warning("%s; going on, nothing is decided until it answers", e)
    except SettingsError as e:
        if not (settings.root / "checkpoint" / "commits").is_dir():
            raise
        for problem in e.problems:
            log.warning("%s", problem)


def run(settings: Settings, followed: FollowedFile) -> int:
    """Run the job until SIGTERM, SIGINT or a failure, and return its exit code."""
    beside = ThreadPoolExecutor(2)  # while the JVM starts
    exact = any(group.algorithm == "EXACT" for group in settings.groups)
    greeting, planner = beside.submit(greet, settings), beside.submit(kernels.prepare, SystemClock(), exact=exact)
    beside.shutdown(wait=False)  # what is wrong with the settings is said without waiting for the compiler
    spark = SparkSession.builder.appName("autoscaler").getOrCreate()
    greeting.result()
    if not planner.done():
        log.info("the planner is being compiled, which takes one to two minutes after an installation or a change of it")
    log.info("%s", planner.result())
    job = Job(settings, spark, followed)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: job.stop.set())
    gc.collect()
    gc.freeze()  # what is there now stays: going through it again and again would take tens of milliseconds from cycles
    stream = query.start(spark, settings, job.on_snapshots)
    job.watchdog.start()
    progress = ProgressLog(settings.root / "logs" / "progress.jsonl", settings.measure.trigger_s)
    while stream.isActive and not job.stop.wait(min(0.4, settings.measure.trigger_s / 2)):
        progress.look(stream)
    if not job.stop.is_set():
        log.error("the query ended by itself: %s", stream.exception() or "no reason is left, see above")
        job.exit_code = 1
    query.stop(stream)
    progress.close()
    job.close()
    spark.stop()
    return job.exit_code


def main(argv: list[str] | None = None) -> int:
    """Parse the command line, run, and turn settings errors into messages."""
    parser = argparse.ArgumentParser(description="Size Kafka consumer groups and place their partitions.")
    parser.add_argument("--config", required=True, help="configuration file; conf/autoscaler.yaml explains every setting")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # otherwise a line per call
    try:
        settings = load(args.config)
        return run(settings, FollowedFile(args.config, settings))
    except SettingsError as e:
        for problem in e.problems:
            sys.stderr.write(f"{args.config}: {problem}\n")
        return EXIT_SETTINGS


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # client threads that wait for an absent broker must not keep the process
