"""Values on the path from a measurement to an action.

Lives here: ``load`` (what was measured), ``group`` (who is there and holds what), ``decision`` (actions and the answer),
``reasons`` and ``findings`` (the closed sets of what an answer can say), ``moment`` (the two clocks). Every type is frozen and
compares by value. Rates are bytes (or records) per second, times are seconds since the Unix epoch unless a name says otherwise,
``None`` means unknown and is never the same as zero. May not: read a clock or do I/O. May import: the standard library.
"""

from autoscaler.model.decision import (
    Action,
    AddWorkers,
    Decision,
    Finding,
    MovePartition,
    ParkPartition,
    RemoveWorkers,
    ResetOffset,
    few,
)
from autoscaler.model.findings import What
from autoscaler.model.group import (
    GroupMembers,
    GroupState,
    HandoverDone,
    Hindered,
    Hindrance,
    Member,
    Observation,
    OutOfRange,
    Parked,
    Started,
    WorkerPhase,
    WorkerView,
)
from autoscaler.model.load import LoadSnapshot, PartitionLoad, Retention, Span, TopicPartition
from autoscaler.model.moment import Moment
from autoscaler.model.reasons import CapacitySource, RateSource, Reason

__all__ = [
    "Action",
    "AddWorkers",
    "CapacitySource",
    "Decision",
    "Finding",
    "GroupMembers",
    "GroupState",
    "HandoverDone",
    "Hindered",
    "Hindrance",
    "LoadSnapshot",
    "Member",
    "Moment",
    "MovePartition",
    "Observation",
    "OutOfRange",
    "ParkPartition",
    "Parked",
    "PartitionLoad",
    "RateSource",
    "Reason",
    "RemoveWorkers",
    "ResetOffset",
    "Retention",
    "Span",
    "Started",
    "TopicPartition",
    "What",
    "WorkerPhase",
    "WorkerView",
    "few",
]
