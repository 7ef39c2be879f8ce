"""What happens to a record whose handler raises: a closed union, matched in ``processing.py``."""

from dataclasses import dataclass

from autoscaler.errors import AutoscalerError
from autoscaler.worker.settings import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """How often a record is tried."""

    retries: int = 0  # tries after the first one
    pause_s: float = 1.0  # seconds before each of them; other keys go on meanwhile

    def __post_init__(self) -> None:
        if self.retries < 0 or self.pause_s < 0:
            raise ValueError(f"retries and pause_s must not be negative: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PassedOver(_Tried):
    """What is done with a record that is at fault itself."""

    # Which exceptions say so. Any other fails as with ``Fail``: a sink that is away makes no record a bad one.
    errors: tuple[type[Exception], ...] = (Exception,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(_Tried):
    """The handler's exception leaves ``process``; a partition on which worker after worker fails is parked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(_PassedOver):
    """The record is logged, counted, and passed over: it is lost to this group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(_PassedOver):
    """The record is written to another topic, acknowledged by all replicas before its batch counts as processed.

    Attributes:
        topic: Where to; it must exist. connection: librdkafka settings of its cluster, the consumer's if ``None``.
    """

    topic: str
    connection: Connection | None = None


class RefusedError(AutoscalerError):
    """A sink has seen a newer fencing token: for a handler to raise. Never tried again, skipped or written elsewhere.

    The record is its new owner's. If this worker's lease is over it joins anew; if not, ``process`` ends with this error.
    """


OnError = Fail | Skip | DeadLetter
