"""The worker library: a consumer that takes its partitions from the controller and hands them over when told.

Lives here: the base install. ``ManagedConsumer`` and ``process`` are for applications; below them one loop carries out what the
state machine of ``handover`` says. May not: import anything of the controller. May import:
``handover``, ``clients``, ``concurrency``, ``topic_selection``, ``errors``, confluent-kafka.
"""

from autoscaler.worker.batch_metrics import BatchReport, Metrics
from autoscaler.worker.consumer import ManagedConsumer
from autoscaler.worker.dead_letters import DeadLetterError
from autoscaler.worker.delivery import Batch
from autoscaler.worker.error_policy import DeadLetter, Fail, OnError, RefusedError, Skip
from autoscaler.worker.processing import Handler, process

__all__ = [
    "Batch",
    "BatchReport",
    "DeadLetter",
    "DeadLetterError",
    "Fail",
    "Handler",
    "ManagedConsumer",
    "Metrics",
    "OnError",
    "RefusedError",
    "Skip",
    "process",
]
