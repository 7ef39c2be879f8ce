"""The JSON Schema of the configuration file, for editors: what there is, what it means, its unit and its default.

Made of the models of ``config/settings.py`` by ``autoscaler schema``; ``conf/autoscaler.schema.json`` is what that writes.
"""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from autoscaler.config.grouping import in_file, inner
from autoscaler.config.setting_paths import SECTIONS
from autoscaler.config.settings import Settings

_Schema = dict[str, Any]
_LIMITS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
}  # which pydantic leaves as they are
_TOP = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Configuration of the Kafka consumer-group autoscaler",
}


def text() -> str:
    """Return the schema as the file holds it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> _Schema:
    """Return the schema of a configuration file."""
    flat = _cleaned(Settings.model_json_schema())
    models = {m.__name__: m for m in _models(Settings)}
    blocks = {name: _grouped(block, models[name]) for name, block in flat.pop("$defs").items()}
    return {**_TOP, **flat, "$defs": blocks}


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for info in model.model_fields.values():
        if within := inner(info.annotation):
            yield within
            yield from _models(within)


def _grouped(block: _Schema, model: type[BaseModel]) -> _Schema:
    """Return the schema of one model's block with its settings where the file has them."""
    properties: _Schema = {}
    for path, name in in_file(model).items():
        section, _, below = path.rpartition(".")
        there = properties.setdefault(section, _section(section))["properties"] if section else properties
        there[below] = block["properties"][name]
    written = {name: path for path, name in in_file(model).items()}
    return {**block, "properties": properties, "required": [written[name] for name in block.get("required", ())]}


def _section(name: str) -> _Schema:
    return {"description": SECTIONS[name], "type": ["object", "null"], "additionalProperties": False, "properties": {}}


def _cleaned(part: Any) -> Any:  # noqa: ANN401  JSON of any kind
    """Return a schema in JSON Schema's words, without titles that only repeat names and without defaults of whole blocks."""
    if isinstance(part, dict):
        kept = {k: v for k, v in part.items() if (k, type(v)) not in {("title", str), ("default", dict)}}
        return {_LIMITS.get(k, k): _cleaned(v) for k, v in kept.items()}
    return [_cleaned(x) for x in part] if isinstance(part, list) else part
