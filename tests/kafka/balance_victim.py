"""The loop of ``jobs/balance_brokers.py`` with rates that are made up, to be ended or killed: ``python balance_victim.py CASE``.

``CASE`` is JSON: a connection, settings of ``balance``, and the topic that may move.
"""

import json
import signal
import sys
import threading

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.control_log.balance_journal import KafkaJournal
from autoscaler.adapters.kafka.cluster_admin import KafkaClusterAdmin
from autoscaler.balancing import Balancer, World
from autoscaler.brokers.measured import Rate
from autoscaler.config.balance import Balance
from autoscaler.model import TopicPartition
from jobs.balance_brokers import watched

RATE = 4 * 2.0**20


def balancer(connection: dict[str, str | int | float | bool], topic: str, wanted: dict[str, object]) -> Balancer:
    """Return a loop for which every partition of ``topic`` has the same load, all others have none and stay.

    However full this machine's disk is, it may be filled to its end.
    """
    admin = KafkaClusterAdmin(connection)
    seen = admin.observe(()).partitions
    others = tuple(sorted({p.topic for p in seen} - {topic}))
    balance = Balance.model_validate(
        {
            "mode": "act",
            "rounds": 1,
            "smoothing_s": 0,
            "stays_s": 0,
            "every_s": 0.2,
            "disk_ratio": 1,
            "excluded": others,
            **wanted,
        }
    )

    def rates() -> dict[TopicPartition, Rate]:
        return {p: Rate(RATE if p.topic == topic else 0.0, 0.0) for p in admin.observe(()).partitions}

    world = World(
        admin=admin, journal=KafkaJournal(connection), rates=rates, busy=frozenset, record=lambda _rows: None, clock=SystemClock()
    )  # fmt: skip
    return Balancer(balance, world)


def main() -> int:
    case = json.loads(sys.argv[1])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    return watched(balancer(**case), stop)


if __name__ == "__main__":
    sys.exit(main())
