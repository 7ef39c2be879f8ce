from autoscaler.worker.consumer import ManagedConsumer
from autoscaler.worker.intake import Batch

__all__ = ["Batch", "ManagedConsumer"]
