"""What a broker itself says of requests and permissions, in its own log: turned on while it runs, by the brokers' own means."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafka.admin import ConfigResource, ConfigResourceType

from autoscaler.clients.kafka_python import connect
from autoscaler.devtools.broker import Broker

REQUESTS, REFUSALS = "kafka.request.logger", "kafka.authorizer.logger"


@dataclass(frozen=True, slots=True)
class Said:
    """What was logged since a place in the log."""

    broker: Broker
    since: int

    def requests(self) -> "Counter[tuple[str, str]]":
        """Return how often each request was answered, by its name and the client that asked."""
        found = (json.loads(line[line.index("{") :]) for line in self._lines() if "Completed request:" in line)
        return Counter((r["requestHeader"]["requestApiKeyName"], r["requestHeader"]["clientId"]) for r in found)

    def refusals(self, user: str) -> frozenset[tuple[str, str]]:
        """Return what a user was refused: the operation, and on what."""
        pattern = re.compile(rf"Principal = User:{user} is Denied operation = (\w+) .*?on resource = (\S+)")
        return frozenset((m[1], m[2]) for line in self._lines() if (m := pattern.search(line)))

    def _lines(self) -> list[str]:
        with self.broker.nodes[0].log.open("rb") as log:
            log.seek(self.since)
            text = log.read()
        return text[: text.rfind(b"\n") + 1].decode(errors="replace").splitlines()


def now(broker: Broker) -> Said:
    """Return what will be logged from now on."""
    return Said(broker, broker.nodes[0].log.stat().st_size)


@contextmanager
def logging(broker: Broker, logger: str, level: str) -> Iterator[None]:
    """Have a broker log more of one kind."""
    admin = connect(broker.connection(), time.monotonic() + 30)
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {logger: level})], raise_on_unknown=False)
        yield
        admin.alter_configs([ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {logger: "WARN"})], raise_on_unknown=False)
    finally:
        admin.close()
