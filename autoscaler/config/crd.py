"""The CustomResourceDefinition of ConsumerGroup: its structural schema, and rules that an API server refuses contradictions by.

Made of the models of ``config/settings.py`` by ``autoscaler schema --crd``, which writes
``conf/kubernetes/consumer-groups/crd.yaml``. Defaults are told in descriptions and not filled in: a resource must not keep those
of the release that it was applied with.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from autoscaler.config.consumer_groups import API_GROUP, KIND, KINDS, OF_WORKERS, PLURAL, VERSION
from autoscaler.config.json_schema import schema
from autoscaler.config.policy import DOWN_RATIO, PRICED, PUBLISHED_ONLY, UP_RATIO, Policy
from autoscaler.config.setting_paths import path_of
from autoscaler.config.settings import TARGET

_Schema = dict[str, Any]
_HEAD = "# Written by: autoscaler schema --crd > conf/kubernetes/consumer-groups/crd.yaml; a test compares both.\n"
_KEPT = ("description", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "type")
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}  # in OpenAPI 3.0 they are flags beside a bound
_MOST_ITEMS = {"topics": 1000, "windows": 100}  # what rules look at needs a bound, or they count as too dear
_GROUP: Final = "the consumer group's id; left out: the resource's name"
_WORKERS: Final = "needed when mode is act: whose number of pods is set, in the resource's own namespace"
_KIND: Final = "deployment: pods of a managed group; scale: whatever has a scale subresource, of a native group"


def text() -> str:
    """Return the definition as the file holds it."""
    return _HEAD + yaml.safe_dump(definition(), sort_keys=False, allow_unicode=True, width=120)


def definition() -> _Schema:
    """Return the CustomResourceDefinition."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _column("MODE", "string", ".status.mode"),
            _column("CONSUMERS", "integer", ".status.consumers"),
            _column("WANTED", "integer", ".status.wanted"),
            _column("LAG", "integer", ".status.lag"),
            _column("REASON", "string", '.status.conditions[?(@.type=="Ready")].reason'),
            _column("AGE", "date", ".metadata.creationTimestamp"),
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "A Kafka consumer group that the autoscaler looks after: docs/tasks/declare.md.",
                "required": ["spec"],
                "properties": {"spec": spec(), "status": _status()},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{API_GROUP}"},
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "plural": PLURAL, "singular": KIND.lower(), "listKind": f"{KIND}List", "shortNames": ["cg"]},
            "versions": [version],
        },
    }


def spec() -> _Schema:
    """Return the schema of a resource's ``spec``: a group's block of the configuration file."""
    blocks = schema()["$defs"]
    made = _structural(blocks["Group"], blocks)
    properties = made["properties"]
    for name, most in _MOST_ITEMS.items():
        properties[name]["maxItems"] = most
    properties["group"] |= {"description": _GROUP, "pattern": r"^[^/\\]+$"}
    properties["windows"]["items"]["x-kubernetes-validations"] = _rules(_OF_WINDOWS)
    workers = properties["workers"]["properties"]
    workers["target"]["pattern"] = TARGET.pattern
    kind = {"type": "string", "description": _KIND, "enum": list(KINDS)}
    properties["workers"] = {
        "type": "object",
        "description": _WORKERS,
        "required": ["kind"],
        "properties": {"kind": kind, **{name: workers[name] for name in OF_WORKERS if name != "kind"}},
        "x-kubernetes-validations": _rules(_OF_WORKERS),
    }
    return {
        "type": "object",
        "description": "What is wanted: the settings of a group, as in the configuration file (docs/reference/settings.md).",
        "required": ["topics"],
        "properties": properties,
        "x-kubernetes-validations": _rules(_OF_GROUPS),
    }


def _column(name: str, kind: str, path: str) -> dict[str, str]:
    return {"name": name, "type": kind, "jsonPath": path}


def _structural(part: Mapping[str, Any], blocks: Mapping[str, Any]) -> _Schema:
    """Return a JSON schema as a structural one: no reference, no choice of types, nothing said of unknown settings."""
    if "$ref" in part:
        return _structural({**blocks[part["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in part.items() if k != "$ref"}}, blocks)
    options = [x for x in part.get("anyOf", (part,)) if x.get("type") != "null"]
    merged: _Schema = {k: v for option in options for k, v in option.items()}
    if "$ref" in merged:
        return _structural({**merged, "description": part.get("description", "")}, blocks)
    found = {k: merged[k] for k in _KEPT if k in merged} | {
        k: v for bound, to in _BOUNDS.items() if bound in merged for k, v in ((to, merged[bound]), (bound, True))
    }
    if len(options) > 1:  # a number, or text with a unit
        found = {k: int(v) if k in _BOUNDS.values() else v for k, v in found.items() if k != "type"}
        found["x-kubernetes-int-or-string"] = True
    if isinstance(merged.get("type"), list):
        found["type"] = "object"
    if "properties" in merged:
        found["properties"] = {name: _structural(x, blocks) for name, x in merged["properties"].items()}
        if merged.get("required"):
            found["required"] = merged["required"]
    if "items" in merged:
        found["items"] = _structural(merged["items"], blocks)
    return _with_default(found, part)


def _with_default(found: _Schema, part: Mapping[str, Any]) -> _Schema:
    """Tell the default in the description; ``null`` may only be written where it is another value than the default."""
    default = part.get("default")
    nullable = default is not None and any(x.get("type") == "null" for x in part.get("anyOf", ()))
    if nullable:
        found["nullable"] = True
    about = part.get("description", found.get("description", ""))
    if default is not None and default != [] and "default" not in about:
        shown = str(default).lower() if isinstance(default, bool) else f"{default:g}" if isinstance(default, float) else default
        about = f"{about} (default: {shown})"
    return {"description": about, **found, "description": about} if about else found  # noqa: F601  it comes first


def _status() -> _Schema:
    number, whole, words = {"type": "number"}, {"type": "integer", "format": "int64"}, {"type": "string"}
    condition = {
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": words,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": whole,
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": words,
            "message": words,
        },
    }
    decision = {
        "type": "object",
        "description": "the latest decision that differed from the one before",
        "properties": {
            "at": {"type": "string", "format": "date-time", "description": "when it was made"},
            "reason": {**words, "description": "docs/reference/reasons.md"},
            "limit": {**words, "description": "what kept it from more; left out: nothing"},
            "message": {**words, "description": "in words"},
        },
    }
    return {
        "type": "object",
        "description": "What the autoscaler sees and does; written by it alone.",
        "properties": {
            "observedGeneration": {**whole, "description": "the generation of the resource that this is about"},
            "mode": {**words, "description": "advise or act"},
            "consumers": {**whole, "description": "consumers that are there"},
            "wanted": {**whole, "description": "consumers that are asked for, or in mode advise would be"},
            "lag": {**whole, "description": "records that are not consumed yet, in all"},
            "rate": {**number, "description": "bytes/s that arrive, as they lie in the broker's log"},
            "capacity": {**number, "description": "bytes/s that one consumer processes when it never waits"},
            "decision": decision,
            "conditions": {
                "type": "array",
                "description": "Accepted: the resource holds as it is; Ready: its group is measured and looked after",
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        },
    }


# --- contradictions, in the Common Expression Language; each of them ``config/policy.py`` or ``settings.py`` refuses too ---


def _rules(table: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"rule": rule, "message": message} for message, rule in table.items()]


def _or(path: str, default: object) -> str:
    """Return an expression for a setting, or its default where it is left out."""
    section, _, name = path.rpartition(".")
    there = f"has(self.{section}) && has(self.{path})" if section else f"has(self.{name})"
    return f"({there} ? self.{path} : {json.dumps(default)})"


def _there(path: str) -> str:
    section, _, _ = path.rpartition(".")
    return f"(has(self.{section}) && has(self.{path}))" if section else f"has(self.{path})"


def _default(field: str) -> str:
    return _or(path_of(field), Policy.model_fields[field].default)


_LEAST, _MOST, _MODE, _ASSIGNMENT = map(_default, ("min_consumers", "max_consumers", "mode", "assignment"))
_ALGORITHM, _SIZING, _BEHAVIOUR, _GIVES_BACK = map(_default, ("algorithm", "sizing", "fallback", "give_back"))
_UP, _DOWN = _or("published.up_ratio", UP_RATIO), _or("published.down_ratio", DOWN_RATIO)
_PINNED, _FALLBACK, _PRICE = map(_there, ("holds.pinned", "fallback.consumers", "moves.consumer_price"))
_RECORDS, _REBALANCE = map(_there, ("capacity.records_per_s", "published.rebalance"))

_OF_GROUPS = {  # what is refused, and the rule that it breaks
    "min_consumers is above max_consumers": f"{_LEAST} <= {_MOST}",
    "holds.pinned is not between min_consumers and max_consumers": (
        f"!{_PINNED} || ({_LEAST} <= self.holds.pinned && self.holds.pinned <= {_MOST})"
    ),
    "fallback.consumers is not between min_consumers and max_consumers": (
        f"!{_FALLBACK} || ({_LEAST} <= self.fallback.consumers && self.fallback.consumers <= {_MOST})"
    ),
    "fallback.behaviour needs fallback.consumers": f'{_BEHAVIOUR} == "hold" || {_FALLBACK}',
    "fallback.consumers is for the other behaviours than hold": f'{_BEHAVIOUR} != "hold" || !{_FALLBACK}',
    "mode act needs workers: say whose number of pods is set": f'{_MODE} != "act" || has(self.workers)',
    "workers.kind deployment needs assignment managed: consumers that subscribe are scaled by kind scale": (
        f'!has(self.workers) || self.workers.kind != "deployment" || {_ASSIGNMENT} == "managed"'
    ),
    "workers.kind scale needs assignment native: of a managed group it must be known which consumer is which": (
        f'!has(self.workers) || self.workers.kind != "scale" || {_ASSIGNMENT} == "native"'
    ),
    "algorithm EXACT is for mode advise": f'{_ALGORITHM} != "EXACT" || {_MODE} != "act"',
    f"preset and moves.consumer_price are for algorithm {' or '.join(PRICED)}": (
        f"{_ALGORITHM} in {json.dumps(PRICED)} || (!has(self.preset) && !{_PRICE})"
    ),
    "capacity.records_per_s needs assignment managed, and sizing rates": (
        f'!{_RECORDS} || ({_ASSIGNMENT} == "managed" && {_SIZING} == "rates")'
    ),
    "a published sizing needs assignment managed": f'{_SIZING} == "rates" || {_ASSIGNMENT} == "managed"',
    "holds.pinned, fallback.behaviour and scale_up.give_back are for sizing rates": (
        f'{_SIZING} == "rates" || (!{_PINNED} && {_BEHAVIOUR} == "hold" && !{_GIVES_BACK})'
    ),
    "what stands in published is for the published sizings: name one in sizing": (
        f'{_SIZING} != "rates" || !({" || ".join(_there(path_of(x)) for x in PUBLISHED_ONLY)})'
    ),
    "sizing TAIL_LATENCY_2 needs published.rebalance": f'{_SIZING} != "TAIL_LATENCY_2" || {_REBALANCE}',
    "published.down_ratio is above published.up_ratio": f"double({_DOWN}) <= double({_UP})",
}
_OF_WORKERS = {
    "kind deployment needs deployment, and has no target": (
        'self.kind != "deployment" || (has(self.deployment) && !has(self.target))'
    ),
    "kind scale needs target, and has no deployment": 'self.kind != "scale" || (has(self.target) && !has(self.deployment))',
}
_OF_WINDOWS = {
    "changes nothing: say paused, min_consumers or max_consumers": (
        "has(self.paused) || has(self.min_consumers) || has(self.max_consumers)"
    ),
    "min_consumers is above max_consumers while it is open": (
        "!has(self.min_consumers) || !has(self.max_consumers) || self.min_consumers <= self.max_consumers"
    ),
}
