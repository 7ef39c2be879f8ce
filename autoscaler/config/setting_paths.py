"""Where each setting stands in the configuration file: the code's flat name, with its unit, and the path a user writes.

The file is grouped (``scale_up: {step: 2}``), the values that the code reads are flat (``policy.grow_step``). This table is the
only place where both meet. Standard library only, so that a sentence of the core may name a setting too.
"""

from collections.abc import Mapping
from types import MappingProxyType

# Of a group, from the group on; what is not listed is called the same in both.
_GROUP = {
    "reset_policy": "auto_offset_reset",
    "capacity_bytes_per_s": "capacity.bytes_per_s",
    "capacity_prior_bytes_per_s": "capacity.assumed_bytes_per_s",
    "capacity_bounds_ratio": "capacity.bounds_ratio",
    "capacity_records_per_s": "capacity.records_per_s",
    "target_utilisation": "capacity.target_utilisation",
    "tolerance_ratio": "capacity.tolerance_ratio",
    "grow_step": "scale_up.step",
    "grow_stabilisation_s": "scale_up.stabilisation",
    "worker_start_timeout_s": "scale_up.start_timeout",
    "give_up_after": "scale_up.give_up_after",
    "give_back": "scale_up.give_back",
    "shrink_step": "scale_down.step",
    "catch_up_s": "scale_up.catch_up",
    "promise_within_s": "promise.within",
    "promise_share": "promise.share",
    "shrink_stabilisation_s": "scale_down.stabilisation",
    "shrink_cooldown_s": "scale_down.cooldown",
    "backlog_s": "scale_down.max_lag",
    "turns_per_hour": "scale_down.reversals_per_hour",
    "consumer_price": "moves.consumer_price",
    "cooldown_s": "moves.cooldown",
    "move_pause_s": "moves.pause",
    "move_payback_s": "moves.payback",
    "paused": "holds.paused",
    "pinned": "holds.pinned",
    "stale_after_s": "holds.stale_after",
    "stuck_after_s": "holds.stuck_after",
    "fallback": "fallback.behaviour",
    "fallback_consumers": "fallback.consumers",
    "fallback_after_s": "fallback.after",
    "retention_risk_s": "retention.at_risk_within",
    "wanted_latency_s": "published.wanted_latency",
    "up_ratio": "published.up_ratio",
    "down_ratio": "published.down_ratio",
    "rebalance_s": "published.rebalance",
}
SECTIONS: Mapping[str, str] = MappingProxyType({
    "capacity": "what one consumer processes, and how much of that is planned for",
    "scale_up": "when and by how much consumers are added",
    "scale_down": "when and by how much consumers are taken away",
    "promise": "which share of the records is to be processed within which time",
    "moves": "what it costs that partitions change hands, and how often they may",
    "holds": "what keeps a group as it is",
    "fallback": "what is done when nothing is measured",
    "retention": "what is done before records are deleted unread",
    "published": "settings of the published sizings only, see docs/research/how-they-place.md",
})  # fmt: skip
_WINDOW = {"duration_min": "duration"}
_WORKERS = {
    "drain_timeout_s": "drain_timeout",
    "restart_backoff_s": "restart_backoff",
    "restart_backoff_max_s": "restart_backoff_max",
    "read_every_s": "read_every",
    "count_timeout_s": "count_timeout",
}
_MEASURE = {
    "trigger_s": "trigger",
    "window_s": "window",
    "read_timeout_s": "read_timeout",
    "known_for_s": "known_for",
    "metadata_every_s": "metadata_every",
    "watchdog_s": "watchdog",
}
_HANDOVER = {"lease_s": "lease"}
_AUDIT = {"flush_s": "flush", "keep_s": "keep"}
_BALANCE = {
    "every_s": "every",
    "throttle_bytes_per_s": "throttle",
    "smoothing_s": "smoothing",
    "stays_s": "stays",
    "slow_after_s": "slow_after",
}
_HTTP = {"advice_max_age_s": "advice_max_age"}
_NOTIFY = {"held_for_s": "held_for", "every_s": "every"}

PATHS: Mapping[str, Mapping[str, str]] = MappingProxyType({  # by the name of the model
    "Group": _GROUP, "Window": _WINDOW, "Workers": _WORKERS, "Measure": _MEASURE, "Handover": _HANDOVER, "Audit": _AUDIT,
    "Http": _HTTP, "Notify": _NOTIFY, "Balance": _BALANCE,
})  # fmt: skip


def path_of(name: str, model: str = "Group") -> str:
    """Return how a model's setting is written in its block of the file: ``scale_up.step`` for ``grow_step`` of a group."""
    return PATHS[model].get(name, name)
