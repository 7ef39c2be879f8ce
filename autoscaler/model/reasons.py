"""Why a decision was taken, and where its numbers come from; ``docs/reference/reasons.md`` explains each reason."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a decision was taken, or why nothing was done; ``docs/reference/reasons.md`` explains each."""

    WITHIN_TARGET = "WITHIN_TARGET"
    RATE_ABOVE_CAPACITY = "RATE_ABOVE_CAPACITY"
    LATENCY_AT_RISK = "LATENCY_AT_RISK"
    BACKLOG = "BACKLOG"
    IMBALANCE = "IMBALANCE"
    UNDERUSED = "UNDERUSED"
    WORKER_LOST = "WORKER_LOST"
    WORKER_JOINED = "WORKER_JOINED"
    PARTITIONS_CHANGED = "PARTITIONS_CHANGED"
    PARTITION_EXCEEDS_CAPACITY = "PARTITION_EXCEEDS_CAPACITY"
    NOT_READY = "NOT_READY"
    STALE_INPUT = "STALE_INPUT"
    STABILISING = "STABILISING"
    COOLING_DOWN = "COOLING_DOWN"
    NOT_WORTH_MOVING = "NOT_WORTH_MOVING"
    AT_MINIMUM = "AT_MINIMUM"
    AT_MAXIMUM = "AT_MAXIMUM"
    AT_PARTITION_CEILING = "AT_PARTITION_CEILING"
    STEP_LIMIT = "STEP_LIMIT"
    PINNED = "PINNED"
    FLAPPING = "FLAPPING"
    FROZEN = "FROZEN"
    PAUSED = "PAUSED"
    ADVISORY = "ADVISORY"
    HANDOVER_IN_PROGRESS = "HANDOVER_IN_PROGRESS"
    SCALING_DID_NOT_HELP = "SCALING_DID_NOT_HELP"
    RETENTION_AT_RISK = "RETENTION_AT_RISK"
    STUCK_PARTITION = "STUCK_PARTITION"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    ASSIGNOR_UNPREDICTABLE = "ASSIGNOR_UNPREDICTABLE"
    ASSIGNOR_LIMIT = "ASSIGNOR_LIMIT"
    GROUP_DIFFERS = "GROUP_DIFFERS"
    STATIC_MEMBERS = "STATIC_MEMBERS"
    FALLBACK = "FALLBACK"


class RateSource(StrEnum):
    """How a byte rate was obtained."""

    LOG_DIRS = "log_dirs"  # growth of the partition's log size
    OFFSET_X_MEAN = "offset_x_mean"  # records times the learned bytes per record
    OFFSET_X_DEFAULT = "offset_x_default"  # records times the configured bytes per record
    NONE = "none"  # no rate yet


class CapacitySource(StrEnum):
    """Where the capacity comes from that a decision goes by."""

    CONFIGURED = "CONFIGURED"
    MEASURED = "MEASURED"
    PRIOR = "PRIOR"  # assumed, until something was measured
