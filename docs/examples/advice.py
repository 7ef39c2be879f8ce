"""Serves what a running job decides, from its ``cycles.jsonl``; docs/tasks/feed.md explains it.

Run ``python docs/examples/advice.py STATE_DIR [PORT]`` beside the job. ``/metrics`` is Prometheus' text format; ``/advice/GROUP``
is one group's advice as JSON, or 503 where it is unknown or older than ADVICE_MAX_AGE_S (60): a scaler then holds its number.
"""

# ruff: noqa: INP001, TID251

import json
import os
import sys
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

TAIL_BYTES = 8 << 20  # of the file's end, which has the latest line of each group
FIGURES = {
    "consumers": "consumers_now", "consumers_recommended": "recommended", "consumers_lower_bound": "lower_bound",
    "bytes_per_second": "total_bytes_per_s", "lag_records": "total_lag_records",
    "capacity_bytes_per_second": "capacity_bytes_per_s", "sample_age_seconds": "sample_age_s",
}  # fmt: skip


def latest(cycles: Path) -> dict[str, dict[str, Any]]:
    """Return the latest line of each group; a line that is only half written yet is left out."""
    found: dict[str, dict[str, Any]] = {}
    try:
        with cycles.open("rb") as file:
            file.seek(max(0, cycles.stat().st_size - TAIL_BYTES))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return found
    for line in lines:
        try:
            cycle = json.loads(line)
            found[cycle["group"]] = cycle
        except (ValueError, KeyError, TypeError):
            continue
    return found


def advice(cycle: dict[str, Any], now: float) -> dict[str, Any]:
    """Return a group's advice; its age counts from the oldest measurement that it goes by."""
    known = cycle["recommended"] is not None
    age_s = max(0.0, now - cycle["t"]) + (cycle["recommended_age_s"] or 0.0) if known else None
    return {"recommended": cycle["recommended"], "age_s": age_s, "reason": cycle["reason"], "limited_by": cycle["limited_by"]}


def exposition(cycles: Iterable[dict[str, Any]], now: float) -> str:
    """Return all groups in Prometheus' text format: a number that is not known has no line."""
    lines = []
    for cycle in cycles:
        labels = f"cluster={json.dumps(cycle['cluster'])},group={json.dumps(cycle['group'])}"
        figures = {name: cycle[field] for name, field in FIGURES.items()}
        figures |= {"advice_age_seconds": advice(cycle, now)["age_s"], "cycle_age_seconds": max(0.0, now - cycle["t"])}
        lines += [f"autoscaler_{name}{{{labels}}} {value}" for name, value in figures.items() if value is not None]
        said = f"reason={json.dumps(cycle['reason'])},limited_by={json.dumps(cycle['limited_by'] or '')}"
        lines.append(f"autoscaler_decision{{{labels},{said}}} 1")
    return "".join(f"{line}\n" for line in lines)


def server(cycles: Path, port: int, max_age_s: float = 60.0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Return a server of a job's latest decisions on this port (0: any)."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now, found = time.time(), latest(cycles)
            if self.path == "/metrics":
                self._answer(200, exposition(found.values(), now), "text/plain; version=0.0.4")
                return
            cycle = found.get(unquote(self.path.removeprefix("/advice/")))
            said = advice(cycle, now) if cycle else {"recommended": None, "age_s": None}
            usable = said["age_s"] is not None and said["age_s"] <= max_age_s
            self._answer(200 if usable else 503, json.dumps(said), "application/json")

        def _answer(self, status: int, text: str, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_args: object) -> None:
            """Keep scrapes out of the log."""

    return ThreadingHTTPServer((host, port), Page)


if __name__ == "__main__":
    state, chosen = Path(sys.argv[1]).expanduser(), int(sys.argv[2]) if len(sys.argv) > 2 else 9301  # noqa: PLR2004
    oldest_s, interface = float(os.environ.get("ADVICE_MAX_AGE_S", "60")), os.environ.get("ADVICE_HOST", "127.0.0.1")
    server(state / "logs" / "cycles.jsonl", chosen, oldest_s, interface).serve_forever()
