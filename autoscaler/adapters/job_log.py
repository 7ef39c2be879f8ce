"""The job's log as JSON: an object on each line, with one for each decision that changes something."""

import json
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

log = logging.getLogger("autoscale")

_NUMBERS = ("consumers", "recommended")
_FIELDS = (
    "group", "cluster", "mode", "reason", "limited_by", "consumers_now", "consumers", "recommended", "total_bytes_per_s",
    "total_lag_records", "cycle",
)  # fmt: skip


def changes_something(line: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Return whether a cycle has steps to carry out, or asks for or recommends another number than the one before it.

    Steps that are only advised are told anew with every cycle: of these the numbers count.
    """
    acts = line["mode"] != "advise" and bool(line["actions"])
    return acts or (before is not None and any(line[n] != before[n] for n in _NUMBERS))


class JsonLines(logging.Formatter):
    """Writes a message as one line of JSON: ``time`` (UTC), ``level``, ``logger``, ``message``, and what else it is about."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: Mapping[str, object] = getattr(record, "fields", {})
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            said["stack"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


def as_json() -> None:
    """Let everything that this process logs be lines of JSON."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonLines())


class DecisionLog:
    """Logs decisions that change something, one line each, by the cycles that it is told of."""

    def __init__(self) -> None:
        """Know no cycle yet."""
        self._latest: dict[str, Mapping[str, Any]] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        """Take in one cycle of one group, as its line of ``cycles.jsonl``."""
        group = str(line["group"])
        before, self._latest[group] = self._latest.get(group), {n: line[n] for n in _NUMBERS}
        if changes_something(line, before):
            log.info("group %s: %s", group, _said(line), extra={"fields": _fields(line)})


def _fields(line: Mapping[str, Any]) -> Mapping[str, object]:
    steps = Counter(step["kind"] for step in line["actions"])
    return {"event": "decision", **{name: line[name] for name in _FIELDS}, "steps": dict(steps), "detail": line["detail"]}


def _said(line: Mapping[str, Any]) -> str:
    now, wanted = ("?" if line[n] is None else line[n] for n in ("consumers_now", "consumers"))
    number = f"{now}" if now == wanted else f"{now} → {wanted}"
    advised = " advised" if line["mode"] == "advise" else ""
    reason = line["reason"] + (f" ({line['limited_by']})" if line["limited_by"] else "")
    steps = ", ".join(f"{count} {kind}" for kind, count in Counter(s["kind"] for s in line["actions"]).items())
    return f"{number} consumers{advised}, {reason}: {line['detail']}" + (f" [{steps}]" if steps else "")
