"""Which broker leads what: brokers, partitions, topic ids and coordinators, kept up to date in the driver-side source runner.

A thread reads them again every few seconds, so that new brokers and partitions appear without a restart and a batch never
waits for it. While no broker answers, the last picture stays: rows become errors, never fewer.
"""

import base64
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.clients.kafka_python import Setting, named
from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.streaming import wire_codec
from autoscaler.streaming.broker_clients import Client, Clients
from autoscaler.topic_selection import means, names, patterns

Ints = npt.NDArray[np.int32]

NO_LEADER = -1
_UNKNOWN_TOPIC = 3

Described = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Topic:
    """Partitions in rising order, and for each the id of the broker that leads it (-1: none)."""

    topic_id: str
    partitions: Ints
    leaders: Ints


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster as last seen."""

    brokers: Mapping[int, str] = field(default_factory=dict)  # ``host:port`` by broker id
    topics: Mapping[str, Topic] = field(default_factory=dict)
    # Why a wanted topic has no partitions here; one that a pattern meant and that is gone is not wanted any more
    missing: Mapping[str, str] = field(default_factory=dict)
    coordinators: Mapping[str, int] = field(default_factory=dict)  # broker id by group; a group without one is absent
    error: str | None = "no broker has answered yet"  # why nothing newer is known; ``None`` if the last look succeeded


class Discovery:
    """Keeps a ``Picture``; ``picture`` returns the latest without waiting, except for the very first time-out's length."""

    def __init__(
        self, connection: Mapping[str, Setting], topics_of: Mapping[str, tuple[str, ...]], *, every_s: float, timeout_s: float
    ) -> None:
        """Remember what to look for, by group; the thread starts with ``start`` or the first ``picture``."""
        self._connection, self._topics, self._groups = connection, tuple(topics_of.values()), tuple(topics_of)
        self._names = frozenset(t for topics in self._topics for t in names(topics))
        self._by_pattern = any(patterns(topics) for topics in self._topics)
        self._every_s, self._timeout_s = every_s, timeout_s
        self._clients = Clients()
        self._latest = Picture()
        self._looked = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._patient_until = 0.0  # monotonic

    def start(self) -> None:
        """Begin to look, unless that has begun."""
        if self._thread is None:
            self._patient_until = time.monotonic() + self._timeout_s
            self._thread = threading.Thread(target=self._keep, name="discovery", daemon=True)
            self._thread.start()

    def picture(self) -> Picture:
        """Return the latest picture; the first is waited for, but not beyond the read time-out: other clusters wait too."""
        self.start()
        self._looked.wait(max(0.0, self._patient_until - time.monotonic()))
        return self._latest

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * self._timeout_s)
        self._clients.close()

    def _keep(self) -> None:
        while not self._stop.is_set():
            deadline = time.monotonic() + self._timeout_s
            try:
                look = self._clients.use(self._connection, None, deadline, lambda c: self._look(c, deadline))  # noqa: B023
                self._latest = look()
                self._looked.set()
                pause = self._every_s if self._complete() else min(self._every_s, 0.5)
            except AutoscalerError as e:
                self._latest = replace(self._latest, error=str(e))
                pause = min(self._every_s, 0.5)
            except Exception as e:  # noqa: BLE001  whatever it is, the thread must look again, and silence would hide it
                if sys.is_finalizing():
                    return  # no thread can be started any more
                self._latest = replace(self._latest, error=f"{type(e).__name__}: {e}")
                pause = min(self._every_s, 0.5)
            self._stop.wait(pause)

    def _complete(self) -> bool:
        led = all((t.leaders != NO_LEADER).all() for t in self._latest.topics.values())
        return led and not self._latest.missing and len(self._latest.coordinators) == len(set(self._groups))

    def _look(self, client: Client, deadline: float) -> Picture:
        if not client.inner:
            brokers, described = client.described(None if self._by_pattern else sorted(self._names))
            anyone = min(brokers, default=NO_LEADER)  # the public call finds the coordinator itself
            if self._by_pattern:
                described = self._and_unlisted(described, lambda topics: client.described(topics)[1])
            return _picture(brokers, described, dict.fromkeys(self._groups, anyone))
        metadata = _metadata(client, None if self._by_pattern else sorted(self._names), deadline)
        brokers = {b.node_id: f"{b.host}:{b.port}" for b in metadata.brokers}
        described = metadata.to_dict()["topics"]
        if self._by_pattern:
            described = self._and_unlisted(described, lambda topics: _metadata(client, topics, deadline).to_dict()["topics"])
        return _picture(brokers, described, self._coordinators(client, deadline))

    def _and_unlisted(self, listed: Sequence[Described], ask: Callable[[Sequence[str]], Sequence[Described]]) -> list[Described]:
        """Return the wanted ones of all topics, and what is said of those that are wanted and not listed.

        A list leaves out what this user may not describe. So a topic that a pattern has meant once is gone only when the brokers
        say so of its name.
        """
        known = self._latest.topics.keys() | self._latest.missing.keys()
        found = [t for t in listed if any(means(topics, t["name"]) for topics in self._topics)]
        unlisted = sorted((self._names | known) - {t["name"] for t in found})
        answers = ask(unlisted) if unlisted else ()
        return [*found, *(t for t in answers if t["name"] in self._names or t["error_code"] != _UNKNOWN_TOPIC)]

    def _coordinators(self, client: Client, deadline: float) -> dict[str, int]:
        (found,) = client.ask([(wire_codec.coordinators(self._groups), None)], deadline)
        if isinstance(found, Exception):
            return {}
        return {c.key: c.node_id for c in found.coordinators if not c.error_code}


def _metadata(client: Client, topics: Sequence[str] | None, deadline: float) -> Any:
    (found,) = client.ask([(wire_codec.metadata(topics), None)], deadline)
    if isinstance(found, Exception):
        raise TransientError(named(found)) from found
    return found


def topic_id(value: uuid.UUID | str | None) -> str:
    """Return a topic id as Kafka's own tools print it: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid.UUID(str(value)).bytes).rstrip(b"=").decode() if value else ""


def _picture(brokers: Mapping[int, str], described: Sequence[Mapping[str, Any]], coordinators: Mapping[str, int]) -> Picture:
    topics, missing = {}, {}
    for found in described:
        if found["error_code"] or not found["partitions"]:
            missing[found["name"]] = _why_missing(found["name"], found["error_code"])
        else:
            topics[found["name"]] = _topic(found)
    return Picture(brokers, topics, missing, coordinators, None)


def _topic(found: Mapping[str, Any]) -> Topic:
    led = sorted((p["partition_index"], p["leader_id"]) for p in found["partitions"])
    columns = np.array(led, np.int32).reshape(-1, 2)
    return Topic(topic_id(found.get("topic_id")), columns[:, 0].copy(), columns[:, 1].copy())


def _why_missing(topic: str, code: int) -> str:
    if code == _UNKNOWN_TOPIC:
        return f"unknown topic {topic}: create it, or correct the group's topics"
    return f"topic {topic}: {named(code) if code else 'it has no partitions'}"
