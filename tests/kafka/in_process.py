"""A consumer in the test's own process, so that a test can stand between it and the broker."""

import threading
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from autoscaler.devtools.broker import Broker
from autoscaler.handover.records import Epoch, Grant, Incarnation, Plan, Tp, Wait
from autoscaler.worker import ManagedConsumer
from tests.kafka.workers import Publisher

LEASE_S = 15.0  # a busy machine ends none


class RefusingCommits:
    """A client whose commits fail while ``refuse`` is set, as those of a broker that does not answer in time do."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401  (without types)
        self._client = client
        self.refuse = False
        self.tries = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (as above)
        return getattr(self._client, name)

    def commit(self, *given: object) -> Any:  # noqa: ANN401  (as above)
        self.tries += 1
        if self.refuse:
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))
        return self._client.commit(*given)


class Running:
    """One consumer and the thread that asks it for batches; ``got`` is (topic, partition, offset) of every record, in order."""

    def __init__(self, broker: Broker, group: str, *topics: str, lease_s: float = LEASE_S, exactly_once: bool = False) -> None:
        self.consumer = ManagedConsumer(
            broker.connection(), group=group, topics=topics, name="w-0", lease_s=lease_s, handle_sigterm=False, wait_time_s=0.02,
            commit_interval_s=0.1, exactly_once=exactly_once,
        )  # fmt: skip
        self.commits = RefusingCommits(self.consumer._offsets)
        self.consumer._offsets = self.commits  # type: ignore[assignment]
        self.got: list[tuple[str | None, int | None, int | None]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for batch in self.consumer:
            self.got += [(m.topic(), m.partition(), m.offset()) for m in batch]

    def close(self) -> None:
        self.consumer.stop()
        self._thread.join()


def plan(control: Publisher, number: int, topics: dict[str, str], owners: dict[Tp, Incarnation], *waits: tuple[Tp, Wait]) -> Plan:
    """Return a plan of the group; everything begins at 0 of which nothing is committed."""
    return Plan(
        group=control.group, epoch=Epoch(control.control_id, number), topics=topics,
        grants={tp: Grant(owner=w, epoch=number) for tp, w in owners.items()}, waits={tp: (w,) for tp, w in waits},
        starts=dict.fromkeys(owners, 0), leases_s={}, requested=(), summary="", at=time.time(),
    )  # fmt: skip
