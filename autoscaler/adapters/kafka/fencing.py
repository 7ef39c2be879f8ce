"""Takes transactional ids from workers that are over, so that they complete no transaction any more (rule 8).

Used by ``control_log/publisher`` before it writes down that a worker is over. Taking an id a second time does no harm; nothing is
ever produced under it.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka import Producer

from autoscaler.adapters.kafka.control_topics import Connection, client, client_log, translated
from autoscaler.errors import AutoscalerError
from autoscaler.handover.commit_metadata import transactional_id
from autoscaler.handover.records import Incarnation

_AT_ONCE = 16  # a client and some threads each, for half a second where a transaction was open
_FENCE_S = 3.0
_MARGIN_S = 1.0


def fence(connection: Connection, group: str, workers: Sequence[Incarnation]) -> list[Incarnation]:
    """Take the transactional ids of workers from them, and return whose were taken; the others' are said and tried next time.

    Takes a few seconds at most, however many they are.
    """
    if not workers:
        return []
    deadline = time.monotonic() + _FENCE_S
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fence")
    try:
        asked = [(w, pool.submit(_take, connection, group, w, deadline)) for w in workers]
        return [w for w, future in asked if _taken(group, w, future, deadline)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _take(connection: Connection, group: str, worker: Incarnation, deadline: float) -> None:
    producer = client(Producer, connection, {"transactional.id": transactional_id(group, worker.uuid), "acks": "all"})
    with translated(f"take {transactional_id(group, worker.uuid)}"):
        producer.init_transactions(max(0.1, deadline - time.monotonic()))


def _taken(group: str, worker: Incarnation, future: "Future[None]", deadline: float) -> bool:
    try:
        future.result(max(0.0, deadline + _MARGIN_S - time.monotonic()))
    except (AutoscalerError, TimeoutError) as e:
        why = str(e) or "no answer in time"
        client_log.warning("group %s: %s is not fenced, so it is not said to be over: %s", group, worker.name, why)
        return False
    return True
