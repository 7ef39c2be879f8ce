"""Writes docs/reference/settings.md from the schema: ``python -m tests.docs.settings_page``; a test compares both."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "conf" / "autoscaler.schema.json"
PAGE = ROOT / "docs" / "reference" / "settings.md"
INTRO = """\
# Settings

Written from `conf/autoscaler.schema.json` by `python -m tests.docs.settings_page`; a test compares both. `conf/autoscaler.yaml`
in the clone has every setting with its default, as a file to copy from. How editors complete and check one stands in
[install and start](../tasks/install.md#the-configuration), which settings may change while the job runs in
[upgrade](../tasks/upgrade.md#change-settings).

A duration is `500ms`, `30s`, `5m`, `2h` or `1d`, a size `500kB`, `1MB` or `1MiB`; a plain number has the unit that is named.
Rates are bytes per second as they lie in the broker's log (compressed). Unknown names are refused, with what was probably meant.
What several groups share is written once, as YAML has it: `- &usual {group: a, …}`, then `- {<<: *usual, group: b, …}`.
"""
UNITS = {
    "duration": ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")),
    "size": ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B")),
}
MANY = 10**6  # from here on a number is written out
ENDLESS = 366 * 86400  # a bound this far away is not worth a word

Schema = Mapping[str, Any]


def page() -> str:
    """Return the page as it should be."""
    schema: Schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    parts = [INTRO]
    for title, text, rows in _blocks(schema, schema["$defs"]):
        parts.append(f"## `{title}`\n\n{text}\n" if title != "The file" else f"## {title}\n\n{text}\n")
        parts.append("| setting | default | values | meaning |\n|---|---|---|---|\n" + "".join(f"{row}\n" for row in rows))
    return "\n".join(parts)


def _blocks(schema: Schema, defs: Mapping[str, Schema]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each block of the file with what it is about and its rows; a block inside another one comes after it."""
    yield from _block("The file", "The whole file; each block has a section below.", schema, defs)


def _block(title: str, text: str, block: Schema, defs: Mapping[str, Schema]) -> Iterator[tuple[str, str, list[str]]]:
    rows, inner = [], []
    required = block.get("required") or ()
    for name, setting in block["properties"].items():
        below = _below(setting, defs)
        rows.append(_row(name, setting, required=name in required, block=below is not None))
        if below is not None:
            path = name if title == "The file" else f"{title}.{name}"
            inner.append((path, setting.get("description", ""), below))
    yield title, _sentence(text), rows
    for path, about, below in inner:
        yield from _block(path, about, below, defs)


def _below(setting: Schema, defs: Mapping[str, Schema]) -> Schema | None:
    """Return the block that a setting holds, if it holds one."""
    for option in (setting, setting.get("items", {}), *setting.get("anyOf", ())):
        if "$ref" in option:
            found: Schema = defs[option["$ref"].rsplit("/", 1)[1]]
            return found
        if "properties" in option:
            inline: Schema = option
            return inline
    return None


def _row(name: str, setting: Schema, *, required: bool, block: bool) -> str:
    default = "required" if required else "" if block else _default(setting)
    values = "" if block else _values(setting)
    return f"| `{name}` | {default} | {values} | {_linked(setting.get('description', ''))} |"


def _default(setting: Schema) -> str:
    if "default" not in setting:
        return "none"
    value = setting["default"]
    if value is None or isinstance(value, bool | str | list | dict):
        return f"`{json.dumps(value).strip(chr(34))}`"
    return f"`{_number(value, _kind(setting))}`"


def _kind(setting: Schema) -> str:
    """Return whether a number is a duration, a size, or only a number."""
    patterns = "".join(option.get("pattern", "") for option in setting.get("anyOf", ()))
    return "duration" if "ms|s" in patterns else "size" if "GT" in patterns else ""


def _number(value: float, kind: str) -> str:
    """Return a number as one would write it in the file."""
    units = UNITS.get(kind, ())
    size, unit = next(((n, u) for n, u in units if value and value % n == 0), (1, units[-1][1] if units and value else ""))
    return f"{value / size:,g}{unit}" if value / size < MANY else f"{value / size:,.0f}{unit}"


def _values(setting: Schema) -> str:
    said = [_option(option, _kind(setting)) for option in setting.get("anyOf", (setting,))]
    return " or ".join(dict.fromkeys(s for s in said if s))


def _option(option: Schema, kind: str) -> str:
    if "enum" in option:
        return ", ".join(f"`{v}`" for v in option["enum"])
    if "const" in option:
        return f"`{option['const']}`"
    if option.get("type") in ("number", "integer"):
        return " ".join([kind or str(option["type"]), *_bounds(option, kind)])
    if pattern := option.get("pattern"):
        return "" if kind else "share" if "%" in pattern else "text"
    plain = {"null": "`null`", "string": "text", "array": "list", "object": "mapping", "boolean": "`true`, `false`"}
    return plain[option["type"]]


def _bounds(option: Schema, kind: str) -> list[str]:
    if kind and option["type"] == "integer":  # minutes: its meaning says so
        return []
    said = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    return [f"{word} {_number(option[key], kind)}" for key, word in said.items() if option.get(key, ENDLESS) < ENDLESS]


def _linked(text: str) -> str:
    """Return a description with the pages that it names as links."""
    text = text.replace("|", "\\|")
    return re.sub(r"docs/([\w/-]+)\.md", lambda m: f"[{m[1].rsplit('/', 1)[1]}]({_relative(m[1])}.md)", text)


def _relative(path: str) -> str:
    folder, _, name = path.partition("/")
    return name if folder == "reference" else f"../{path}"


def _sentence(text: str) -> str:
    text = _linked(text).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
