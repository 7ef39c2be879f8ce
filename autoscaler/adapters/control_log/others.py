"""Whether another controller acts on a group, looked for before this one takes over: beside the path, once at a start.

Who takes over ends the one before. Two jobs that are started again whenever they end would end each other's for ever: so a job
that starts waits for one that is there. The controller of a managed group ticks. That of a placed group writes the placement
again while it lives: the latest one says whose it is, and how long ago it was written.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, TopicPartition

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.kafka.control_topics import Connection, client, translated
from autoscaler.clients.log_follower import FOLLOWER_SETTINGS, LogFollower
from autoscaler.config.clusters import Cluster
from autoscaler.config.settings import Group
from autoscaler.errors import AutoscalerError
from autoscaler.handover.codec import decode, partition_for
from autoscaler.handover.placement_record import decode as decode_placement
from autoscaler.handover.placement_record import key_of
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC

_LISTEN_S = 3.0  # a controller ticks at least once a second
_WRITTEN_S = 60.0  # a placement is written again every half minute
_AGAIN_S = 5.0
_CALL_S = 5.0

log = logging.getLogger(__name__)


def ticking(connection: Connection, groups: Iterable[str]) -> frozenset[str]:
    """Listen from now on for some seconds, and return which of these groups a controller ticks for.

    Raises:
        SettingsError: The cluster refuses.
        TransientError: It does not answer.
    """
    wanted, found = frozenset(groups), set[str]()
    reader = client(Consumer, connection, dict(FOLLOWER_SETTINGS))
    try:
        with translated("listen to the heartbeat log"):
            topic = reader.list_topics(HEARTBEAT_TOPIC, timeout=_CALL_S).topics[HEARTBEAT_TOPIC]
            if not topic.partitions:
                return frozenset()  # no controller has ever acted here
            follower = LogFollower(reader)
            logs = {(HEARTBEAT_TOPIC, partition_for(g, len(topic.partitions))) for g in wanted}
            ends = {x: follower.edges(x, timeout_s=_CALL_S)[1] for x in sorted(logs)}
            follower.follow({x: (end, end) for x, end in ends.items()})
            until = time.monotonic() + _LISTEN_S
            while found != wanted and (left_s := until - time.monotonic()) > 0:
                keys = (decode(m.key(), None).key for m in follower.fetch(left_s) if m.error() is None)
                found |= {str(key[1]) for key in keys if key is not None and key[0] == "tick"} & wanted
        return frozenset(found)
    finally:
        reader.close()


def placing(connection: Connection, groups: Iterable[str], job: str) -> frozenset[str]:
    """Return for which of these groups another job than this one wrote the latest placement, less than a minute ago.

    Raises:
        SettingsError: The cluster refuses.
        TransientError: It does not answer.
    """
    writers = dict[str, str]()
    by_key = {key_of(g): g for g in groups}
    reader = client(Consumer, connection, dict(FOLLOWER_SETTINGS))
    try:
        with translated("read the latest placements"):
            topic = reader.list_topics(CONTROL_TOPIC, timeout=_CALL_S).topics[CONTROL_TOPIC]
            if not topic.partitions:
                return frozenset()
            logs = sorted({(CONTROL_TOPIC, partition_for(g, len(topic.partitions))) for g in by_key.values()})
            since = int(1000 * (SystemClock().now() - _WRITTEN_S))
            begins = reader.offsets_for_times([TopicPartition(*x, since) for x in logs], timeout=_CALL_S)
            follower = LogFollower(reader)
            ends = {x: follower.edges(x, timeout_s=_CALL_S)[1] for x in logs}
            starts = {(x.topic, x.partition): x.offset for x in begins}
            follower.follow({x: (start if (start := starts[x]) >= 0 else end, end) for x, end in ends.items()})
            until = time.monotonic() + _CALL_S
            while not all(map(follower.reached.caught_up, logs)) and (left_s := until - time.monotonic()) > 0:
                messages = follower.fetch(left_s)
                found = ((by_key.get(m.key() or b""), m.value()) for m in messages if m.error() is None)
                writers |= {group: _writer(value) for group, value in found if group is not None}
                follower.note(messages)
        return frozenset(g for g, writer in writers.items() if writer != job)
    finally:
        reader.close()


def _writer(value: bytes | None) -> str:
    try:
        return decode_placement("", value or b"").writer
    except ValueError:
        return ""  # of another release's job


def acted_on(served: Sequence[tuple[Cluster, Sequence[Group]]], job: str) -> tuple[str, ...]:
    """Return the groups to be acted on whose controller is in another job; of a cluster that does not answer, none.

    Args:
        served: Clusters and their groups.
        job: This job's id.
    """

    def heard(cluster: Cluster, groups: Sequence[Group]) -> frozenset[str]:
        acting = [g for g in groups if g.mode == "act"]
        managed = [g.group for g in acting if g.assignment == "managed"]
        native = [g.group for g in acting if g.assignment == "native"]
        found = frozenset[str]()
        try:
            if managed:
                found |= ticking(cluster.connection, managed)
            if native:
                found |= placing(cluster.connection, native, job)
        except AutoscalerError as e:  # said of each group again where it is to be acted on
            log.info("cluster %s: whether another controller acts on its groups is not known: %s", cluster.name, e)
        return found

    with ThreadPoolExecutor(len(served) or 1) as beside:
        return tuple(sorted(frozenset[str]().union(*beside.map(lambda x: heard(*x), served))))


def wait_for_end(
    served: Sequence[tuple[Cluster, Sequence[Group]]], job: str, found: tuple[str, ...], stop: threading.Event
) -> None:
    """Wait until no other controller acts on a group of these any more, or the job is told to stop; say which it waits for.

    Args:
        served: Clusters and their groups.
        job: This job's id.
        found: What ``acted_on`` has just returned for them.
        stop: The process is to end.
    """
    said: tuple[str, ...] = ()
    while found and not stop.is_set():
        if found != said:
            log.warning(
                "another controller acts on %s: this job does nothing until that one has ended; stop one of the two",
                ", ".join(found),
            )
        said = found
        stop.wait(_AGAIN_S)
        found = () if stop.is_set() else acted_on(served, job)
    if said and not stop.is_set():
        log.info("the other controller of %s has ended: going on", ", ".join(said))
