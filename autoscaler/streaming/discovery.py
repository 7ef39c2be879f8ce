"""Who leads what: brokers, partitions, topic ids and coordinators, kept up to date in the driver-side source runner.

A thread reads them again every few seconds, so that new brokers and partitions appear without a restart and a batch never
waits for it. While no broker answers, the last picture stays: rows become errors, never fewer.
"""

import base64
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autoscaler.errors import AutoscalerError, TransientError
from autoscaler.kafka_python import Setting, named
from autoscaler.streaming import codec
from autoscaler.streaming.client import Client, Clients

Ints = npt.NDArray[np.int32]

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Topic:
    """Partitions in rising order, and for each the id of the broker that leads it (-1: nobody)."""

    topic_id: str
    partitions: Ints
    leaders: Ints


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster as last seen.

    Attributes:
        brokers: ``host:port`` by broker id.
        missing: Why a wanted topic has no partitions here.
        coordinators: Broker id by group; a group without one is absent.
        error: Why nothing newer is known; ``None`` if the last look succeeded.
    """

    brokers: Mapping[int, str] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    coordinators: Mapping[str, int] = field(default_factory=dict)
    error: str | None = "no broker has answered yet"


class Discovery:
    """Keeps a ``Picture``; ``picture`` returns the latest without waiting, except for the very first."""

    def __init__(
        self, connection: Mapping[str, Setting], topics: Sequence[str], groups: Sequence[str], *, every_s: float, timeout_s: float
    ) -> None:
        """Remember what to look for; the thread starts with the first ``picture``."""
        self._connection, self._topics, self._groups = connection, tuple(topics), tuple(groups)
        self._every_s, self._timeout_s = every_s, timeout_s
        self._clients = Clients()
        self._latest = Picture()
        self._looked = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def picture(self) -> Picture:
        """Return the latest picture; the first call waits for it, but not beyond the read time-out."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="discovery", daemon=True)
            self._thread.start()
        self._looked.wait(self._timeout_s)
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
            brokers, described = client.described(self._topics)
            anyone = min(brokers, default=NO_LEADER)  # the public call finds the coordinator itself
            return _picture(brokers, described, dict.fromkeys(self._groups, anyone))
        (metadata,) = client.ask([(codec.metadata(self._topics), None)], deadline)
        if isinstance(metadata, Exception):
            raise TransientError(named(metadata)) from metadata
        brokers = {b.node_id: f"{b.host}:{b.port}" for b in metadata.brokers}
        return _picture(brokers, metadata.to_dict()["topics"], self._coordinators(client, deadline))

    def _coordinators(self, client: Client, deadline: float) -> dict[str, int]:
        (found,) = client.ask([(codec.coordinators(self._groups), None)], deadline)
        if isinstance(found, Exception):
            return {}
        return {c.key: c.node_id for c in found.coordinators if not c.error_code}


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
    unknown = 3
    if code == unknown:
        return f"unknown topic {topic}: create it, or correct the group's topics"
    return f"topic {topic}: {named(code) if code else 'it has no partitions'}"
