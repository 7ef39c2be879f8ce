"""A job whose groups are ConsumerGroups and whose consumers are pods: what tests of the whole job in a cluster stand on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.kafka.shop import CAPACITY, TOPIC, Shop
from tests.kubernetes.consumer_groups import ConsumerGroups
from tests.kubernetes.pool_world import WORKER

NAME = "orders"
SPEC: dict[str, Any] = {
    "topics": [TOPIC],
    "mode": "act",
    "max_consumers": 4,
    "capacity": {"bytes_per_s": int(CAPACITY)},
    "workers": {"kind": "deployment", "deployment": "orders-consumer"},
}


@dataclass
class PodShop(Shop):
    """A shop whose consumers are pods: they go with their namespace."""

    def end_workers(self) -> None:
        """Leave them."""

    def logged(self, state: str = "state") -> str:
        """Return what the job with this directory of state has logged."""
        file = self.directory / state / "logs" / "job.log"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def variables(self) -> Sequence[dict[str, Any]]:
        """Return the environment of a consumer's pod."""
        given = {
            "AUTOSCALER_BOOTSTRAP": self.broker.bootstrap, "AUTOSCALER_GROUP": NAME, "AUTOSCALER_TOPICS": TOPIC,
            "CONSUMER_LOG_DIR": str(self.directory / "processed"), "CONSUMER_BYTES_PER_S": str(CAPACITY),
        }  # fmt: skip
        return [*WORKER, *({"name": name, "value": value} for name, value in given.items())]


def ready(resources: ConsumerGroups) -> bool:
    """Say whether the group is looked after, and all is well."""
    return resources.condition("Ready").get("status") == "True"
