from autoscaler.worker.consumer import ManagedConsumer
from autoscaler.worker.dead_letters import DeadLetterError
from autoscaler.worker.intake import Batch
from autoscaler.worker.on_error import DeadLetter, Fail, OnError, RefusedError, Skip
from autoscaler.worker.processing import Handler, process
from autoscaler.worker.reports import BatchReport, Metrics

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
