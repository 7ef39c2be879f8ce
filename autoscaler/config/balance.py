"""How the brokers of a cluster are balanced, for ``jobs/balance_brokers.py``: part of a cluster's block in the file."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from autoscaler.config.units import Bytes, Count, Number, Seconds
from autoscaler.topic_selection import problem_of

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
Broker = Annotated[Count, Field(ge=0, lt=2**31)]  # an id
Load = Literal["bytes_in", "bytes_out", "storage", "replicas", "leaders", "lag"]


def _topic(value: str) -> str:
    if (problem := problem_of(value)) and not value.startswith("__"):  # Kafka's own may be kept where they are, too
        raise ValueError(problem)
    return value


class Balance(BaseModel):
    """How brokers are balanced by jobs/balance_brokers.py, see docs/tasks/balance.md."""

    model_config = _STRICT

    mode: Literal["advise", "act"] = "advise"
    """advise computes and records every plan and changes nothing; act carries it out"""
    goals: tuple[Load, ...] = ()
    """loads to make alike on all brokers, first the most important; []: all but lag, what groups of this file have not read"""
    every_s: Annotated[Seconds, Field(ge=0.1, le=3600)] = 60.0
    """seconds between two looks at brokers and replicas; while a batch runs, between looks at it ten at most"""
    throttle_bytes_per_s: Annotated[Bytes, Field(ge=1)] | None = 50e6
    """bytes/s that a broker sends and receives at most for replicas that move; null: no limit"""
    leaving: tuple[Broker, ...] = ()
    """ids of brokers that shall hold nothing any more"""
    excluded: tuple[Annotated[str, AfterValidator(_topic)], ...] = ()
    """topics, or patterns such as ^metrics, as in the topics of a group, whose load counts and which do not move"""
    disk_ratio: Annotated[Number, Field(gt=0, le=1)] = 0.85
    """share of a broker's disks that may be filled; no action goes beyond it"""
    limits: dict[Load, dict[Broker, Annotated[Bytes, Field(ge=0)]]] = Field(default_factory=dict)
    """the most of a load that a broker may be given, by its id, such as {bytes_in: {3: 100MB}}; no action goes beyond it"""
    reads: Annotated[Number, Field(ge=0, le=1000)] = 1.0
    """how often consumers read what is written, on average: assumed, because brokers do not tell it by partition"""
    slow_after_s: Annotated[Seconds, Field(gt=0)] = 1.0
    """seconds after which an answer is slow: a broker that is slow in as many looks in a row as rounds says gets nothing"""
    rounds: Annotated[Count, Field(ge=1, le=1000)] = 3
    """looks in a row that a broker must be outside its band before anything moves"""
    smoothing_s: Annotated[Seconds, Field(ge=0)] = 600.0
    """seconds over which loads are smoothed; 0: not at all"""
    stays_s: Annotated[Seconds, Field(ge=0)] = 900.0
    """seconds that a partition stays after it has moved"""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.goals)) < len(self.goals):
            msg = "goals: each may be named once"
            raise ValueError(msg)
        return self
