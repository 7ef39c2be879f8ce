"""How long topics keep their records, read in the background: implements ``ports.RetentionReader`` on Kafka.

One request every few minutes asks for all topics of all groups, whatever their number. It needs DescribeConfigs on the topics:
without it the controller does not know when records are deleted, and everything else goes on. It asks with kafka-python for the
reason that ``membership`` does.
"""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.protocol.admin import DescribeConfigsRequest

from autoscaler.adapters.kafka.control_topics import Connection, client_log
from autoscaler.clients.kafka_python import ClientError, connect, named, translate
from autoscaler.clients.secrets import resolve_secrets
from autoscaler.concurrency import started
from autoscaler.errors import AutoscalerError
from autoscaler.model import Retention
from autoscaler.topic_selection import patterns, wanted

_EVERY_S = 300.0  # people lengthen a retention while records are at risk, and should see that it has helped
_LIST_EVERY_S = 60.0  # where a pattern may come to mean other topics
_REFUSED_S = 60.0  # after an answer that leaves a topic out: an operator who gives the permission should see that it has helped
_AGAIN_S = 10.0
_UNREAD = "how long topics keep their records could not be read: %s"
_CALL_S = 5.0
_TOPIC = 2
_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes")


class KafkaRetention:
    """Reads how long topics keep records; ``retention`` answers from the latest read. What was read stays while brokers are away.

    Raises:
        SettingsError: A connection setting is unknown to the client or impossible.
    """

    def __init__(self, connection: Connection, topics_of: Sequence[tuple[str, ...]]) -> None:
        translate(resolve_secrets(dict(connection)))
        self._connection, self._topics_of = dict(connection), tuple(topics_of)
        self._latest: Mapping[str, Retention] = {}
        self._refused: Mapping[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)
        self._thread.start()

    def retention(self) -> Mapping[str, Retention]:
        """Return what is known, by topic; a topic that has not been read, or may not be, is missing."""
        return self._latest

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join(2 * _CALL_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = _LIST_EVERY_S if any(patterns(x) for x in self._topics_of) else _EVERY_S
            try:
                admin = connect(self._connection, time.monotonic() + _CALL_S)
                try:
                    self.take(ask(admin, self._wanted(admin)))
                finally:
                    started(admin.close, "kafka-close")  # it waits for a broker that may be away
            except (AutoscalerError, ClientError, OSError, TimeoutError) as e:
                client_log.info(_UNREAD, named(e))
                pause = _AGAIN_S
            except Exception as e:  # noqa: BLE001  whatever it is, the thread must look again, and silence would hide it
                client_log.warning(_UNREAD, f"{type(e).__name__}: {e}")
                pause = _AGAIN_S
            self._stop.wait(min(pause, _REFUSED_S) if self._refused else pause)

    def _wanted(self, admin: KafkaAdminClient) -> list[str]:
        listed = admin.list_topics() if any(patterns(x) for x in self._topics_of) else ()
        return sorted(frozenset[str]().union(*(wanted(x, listed) for x in self._topics_of)))

    def take(self, answers: Mapping[str, Retention | str]) -> None:
        """Take one read: of each topic what it says, or the name of the error; a topic's error is said once until it changes."""
        self._latest = {t: a for t, a in answers.items() if isinstance(a, Retention)}
        refused = {t: a for t, a in answers.items() if isinstance(a, str)}
        for topic, why in sorted(refused.items()):
            if self._refused.get(topic) != why:
                client_log.warning(
                    "topic %s: how long it keeps its records could not be read (%s), so it is not known when some may be deleted "
                    "before they are read; it takes DescribeConfigs on the topic, see docs/reference/permissions.md", topic, why,
                )  # fmt: skip
        self._refused = refused


def ask(admin: KafkaAdminClient, topics: Sequence[str]) -> dict[str, Retention | str]:
    """Ask once how long topics keep records; of a topic that does not say so, why."""
    manager = admin._manager  # noqa: SLF001  the public call takes a refusal for a topic without settings; its version is pinned
    request = DescribeConfigsRequest(resources=[(_TOPIC, t, list(_KEYS)) for t in topics], include_synonyms=False)

    async def answer() -> Any:
        return await manager.send(request, request_timeout_ms=1000 * _CALL_S)

    results = manager.run(answer).results
    return {r.resource_name: named(r.error_code) if r.error_code else read({c.name: c.value for c in r.configs}) for r in results}


def read(configs: Mapping[str, str | None]) -> Retention | str:
    """Return what a topic's settings say of how long it keeps records, or why that cannot be told.

    A topic that is only compacted keeps the latest record of every key: what it deletes is not lost but out of date.
    """
    try:
        policies = {p.strip() for p in str(configs["cleanup.policy"]).split(",")}
        if "delete" not in policies:
            return Retention(seconds=math.inf, bytes=math.inf)
        ms, size = int(str(configs["retention.ms"])), int(str(configs["retention.bytes"]))
    except (LookupError, ValueError) as e:
        return f"its settings cannot be read: {type(e).__name__} {e}"
    return Retention(seconds=math.inf if ms < 0 else ms / 1000, bytes=math.inf if size < 0 else float(size))
