"""Faulty specs of ConsumerGroups, for the checks of the settings and for those of a real API server: both refuse each of them."""

from collections.abc import Mapping
from typing import Any

SPEC: Mapping[str, Any] = {"topics": ["t"]}
ACTING: Mapping[str, Any] = {**SPEC, "mode": "act", "workers": {"kind": "deployment", "deployment": "orders"}}
COUNTED: Mapping[str, Any] = {"kind": "scale", "target": "apps/v1/Deployment/orders"}
WINDOW: Mapping[str, Any] = {"cron": "0 8 * * *", "duration": "10h", "max_consumers": 3}
FULL: Mapping[str, Any] = {
    **ACTING,
    "group": "Orders_1",
    "cluster": "kafka",
    "capacity": {"bytes_per_s": "1MB", "target_utilisation": 0.7},
    "scale_up": {"step": "50%", "give_up_after": None},
    "scale_down": {"step": 1, "cooldown": 30, "stabilisation": "5m"},
    "windows": [WINDOW],
}
CONTRADICTIONS: Mapping[str, tuple[Mapping[str, Any], str]] = {  # each with a word of both refusals
    "fewest above most": ({**SPEC, "min_consumers": 9, "max_consumers": 3}, "max_consumers"),
    "fewest above the default": ({**SPEC, "min_consumers": 65}, "max_consumers"),
    "pinned above most": ({**SPEC, "max_consumers": 3, "holds": {"pinned": 4}}, "holds.pinned"),
    "fallback above most": ({**SPEC, "max_consumers": 3, "fallback": {"behaviour": "static", "consumers": 4}}, "between"),
    "fallback without a number": ({**SPEC, "fallback": {"behaviour": "static"}}, "fallback.consumers"),
    "a number to fall back to, and hold": ({**SPEC, "fallback": {"consumers": 3}}, "other behaviours"),
    "act on nothing": ({**SPEC, "mode": "act"}, "mode act needs workers"),
    "a native Deployment": ({**ACTING, "assignment": "native"}, "managed"),
    "a managed scale": ({**ACTING, "workers": COUNTED}, "native"),
    "EXACT that acts": ({**ACTING, "algorithm": "EXACT"}, "EXACT"),
    "a preset without a price": ({**SPEC, "algorithm": "BFD", "preset": "lean"}, "PACE"),
    "a price without PACE": ({**SPEC, "algorithm": "BFD", "moves": {"consumer_price": 1}}, "PACE"),
    "records of a native group": ({**SPEC, "assignment": "native", "capacity": {"records_per_s": 1}}, "records_per_s"),
    "a published native group": ({**SPEC, "assignment": "native", "sizing": "LINEAR"}, "published sizing"),
    "a published pinned group": ({**SPEC, "sizing": "LINEAR", "holds": {"pinned": 1}}, "holds.pinned"),
    "published of no such sizing": ({**SPEC, "published": {"up_ratio": 0.5}}, "published sizings"),
    "no time of a rebalance": ({**SPEC, "sizing": "TAIL_LATENCY_2"}, "published.rebalance"),
    "down above up": ({**SPEC, "sizing": "LINEAR", "published": {"up_ratio": 0.2}}, "up_ratio"),
    "a window that changes nothing": ({**SPEC, "windows": [{"cron": "0 8 * * *", "duration": 60}]}, "changes nothing"),
    "a window upside down": ({**SPEC, "windows": [{**WINDOW, "min_consumers": 5}]}, "max_consumers"),
    "no topics": ({}, "topics"),
    "empty topics": ({"topics": []}, "topics"),
    "a word for a mode": ({**SPEC, "mode": "watch"}, "mode"),
    "no such unit": ({**SPEC, "moves": {"cooldown": "10 parsecs"}}, "cooldown"),
    "no share": ({**SPEC, "scale_up": {"step": "half"}}, "step"),
    "less than nothing": ({**SPEC, "scale_down": {"cooldown": -1}}, "cooldown"),
    "a directory": ({**SPEC, "group": "../x"}, "group"),
    "processes of the job's pod": ({**ACTING, "workers": {"kind": "processes", "command": ["sh"]}}, "kind"),
    "programs of the job's pod": ({**ACTING, "workers": {"kind": "command", "set_count": ["sh"], "read_count": ["sh"]}}, "kind"),
    "a Deployment without a name": ({**ACTING, "workers": {"kind": "deployment"}}, "needs"),
    "a scale without a target": ({**ACTING, "assignment": "native", "workers": {"kind": "scale"}}, "needs"),
    "a target that is none": (
        {**ACTING, "assignment": "native", "workers": {"kind": "scale", "target": "orders"}}, "target",
    ),
}  # fmt: skip
