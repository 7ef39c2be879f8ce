"""Serves what ``process`` reports in Prometheus' text format, without a client library."""

# ruff: noqa: INP001

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autoscaler.worker import BatchReport

totals: Counter[str] = Counter()
latest: dict[str, float] = {}


def count(report: BatchReport) -> None:
    """Take in one batch: the hook that ``process`` calls."""
    for name in ("records", "payload_bytes", "busy_s", "errors", "skipped", "dead_lettered"):
        totals[f"consumer_{name}_total"] += getattr(report, name)
    latest["consumer_partitions"] = report.partitions
    if report.oldest_s is not None:
        latest["consumer_oldest_s"] = report.oldest_s


class Page(BaseHTTPRequestHandler):
    """The answer to a scrape."""

    def do_GET(self) -> None:
        """Write a line for each figure."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write("".join(f"{k} {v}\n" for k, v in [*totals.items(), *latest.items()]).encode())

    def log_message(self, *_args: object) -> None:
        """Keep scrapes out of the log."""


def serve(port: int) -> int:
    """Answer on this port of the loopback (0: any), beside the application; return which."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port
