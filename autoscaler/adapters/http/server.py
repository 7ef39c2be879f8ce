"""A small HTTP server beside the cycles: ``/metrics``, ``/advice/GROUP``, ``/healthz``, ``/readyz`` and the page. It only reads.

An address that is taken, or not there yet, stops no job: it is said once, and tried again until it is free.
"""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6
from socketserver import TCPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from prometheus_client.exposition import choose_encoder

from autoscaler.adapters.http.answer import Answer
from autoscaler.adapters.http.login import MOST_BYTES, PATH, Login
from autoscaler.adapters.http.metrics import JobMetrics
from autoscaler.adapters.http.page import Page
from autoscaler.errors import TransientError
from autoscaler.ports import Clock, MayAct, unlimited

log = logging.getLogger(__name__)

_AGAIN_S = 10.0
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_CLIENT_S = 10.0  # that a client may take to say what it wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """When the job counts as well.

    Attributes:
        groups: How many there are: the job is ready once each has been decided, and something of one is measured.
        oldest_s: Age of the latest cycle of all, in seconds, from which on the job counts as stuck; and of a measurement that
            still counts.
        advice_max_age_s: Age of a group's advice, in seconds, from which on it is not given.
    """

    groups: int
    oldest_s: float
    advice_max_age_s: float


class Answers:
    """What is answered to each path; knows no socket."""

    def __init__(
        self, metrics: JobMetrics, health: Health, clock: Clock, page: Page | None = None, may_act: MayAct = unlimited
    ) -> None:
        """Know what to ask; without a ``page`` none is allowed."""
        self._metrics, self._health, self._clock, self._may_act = metrics, health, clock, may_act
        self._page = page or Page(None)
        self._began = clock.now()

    def __call__(self, path: str, accept: str, host: str = "") -> Answer:
        """Return the answer to a path, for a client that accepts this and calls the server by this name."""
        match path:
            case "/metrics":
                encode, kind = choose_encoder(accept)
                return Answer(HTTPStatus.OK, encode(self._metrics.registry), kind)
            case "/healthz":
                return self._alive()
            case "/readyz":
                return self._ready()
            case _ if path.startswith("/advice/"):
                return self._advice(unquote(path.removeprefix("/advice/")))
            case _ if self._page.has(path):
                return self._page.answer(path, host)
            case _:
                there = "there are /, /api/groups, /metrics, /advice/GROUP, /healthz and /readyz"
                return Answer.of(HTTPStatus.NOT_FOUND, {"error": there})

    def _advice(self, group: str) -> Answer:
        cycle = self._metrics.latest(group)
        if cycle is None:
            return Answer.of(HTTPStatus.SERVICE_UNAVAILABLE, {"recommended": None, "age_s": None})
        age_s = cycle.advice_age_s(self._clock.now())
        fresh = age_s is not None and age_s <= self._health.advice_max_age_s
        names = ("recommended", "reason", "limited_by")
        said = {"age_s": age_s, **{name: cycle.line[name] for name in names}}
        return Answer.of(HTTPStatus.OK if fresh else HTTPStatus.SERVICE_UNAVAILABLE, said)

    def _alive(self) -> Answer:
        """Say whether cycles are made: a job that has not begun yet has as long as one that stands still; no groups need none."""
        now = self._clock.now()
        age_s = min((c.age_s(now) for c in self._metrics.cycles()), default=now - self._began)
        well = age_s <= self._health.oldest_s or not self._health.groups
        return Answer.of(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, {"cycle_age_s": age_s})

    def _ready(self) -> Answer:
        """Say whether it does what it is for: it may act, has decided each group, and something of one is measured."""
        cycles, now, held = self._metrics.cycles(), self._clock.now(), None
        ages = [c.age_s(now) + c.line["sample_age_s"] for c in cycles if any(x.known for x in c.loads)]
        measured = min(ages, default=math.inf) <= self._health.oldest_s or not self._health.groups
        try:
            self._may_act()
        except TransientError as e:
            held = str(e)
        ready = measured and held is None and len(cycles) >= self._health.groups
        said = {"groups": self._health.groups, "decided": len(cycles), "measured_age_s": min(ages, default=None), "held": held}
        return Answer.of(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, said)


def waiting(whom: Callable[[], str]) -> Callable[[str, str, str], Answer]:
    """Return what a job answers that waits for another one's end: it lives, and is not ready."""

    def answer(path: str, *_: str) -> Answer:
        said = {"waits_for": whom()}
        return Answer.of(HTTPStatus.OK if path == "/healthz" else HTTPStatus.SERVICE_UNAVAILABLE, said)

    return answer


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_S
    answers: Callable[[str, str, str], Answer]
    login: Login | None

    def do_GET(self) -> None:
        """Answer, and never fail the server."""
        self._send(self._answered)

    do_HEAD = do_GET  # noqa: N815  http.server's name

    def do_POST(self) -> None:
        """Take what the form of the login sends, and nothing else."""
        if self.login is None or urlsplit(self.path).path != PATH:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)
            return
        self._send(self._entered)

    def _answered(self) -> Answer:
        path = urlsplit(self.path).path
        refused = None if self.login is None else self.login.refused(path, self.headers)
        return refused or self.answers(path, self.headers.get("Accept", ""), self.headers.get("Host", ""))

    def _entered(self) -> Answer:
        length = self.headers.get("Content-Length", "")
        if self.login is None or not (length.isascii() and length.isdecimal()) or int(length) > MOST_BYTES:
            return Answer.of(HTTPStatus.BAD_REQUEST, {"error": "send the form of /"})
        return self.login.enter(self.rfile.read(int(length)), self.headers)

    def _send(self, asked: Callable[[], Answer]) -> None:
        try:
            answer = asked()
        except Exception:  # a defect here is this request's only
            log.exception("%s could not be answered", self.path)
            answer = Answer.of(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "see the job's log"})
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", _CSP)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        """Keep Python's version to ourselves."""
        return "autoscaler"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name
        """Keep requests out of the log."""


class _Listening(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking the name service for a name that is not used."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a client that went away, or sent nonsense, out of the log."""


class _ListeningV6(_Listening):
    address_family = AF_INET6


class Server:
    """Answers on one address until it is closed."""

    def __init__(self, listen: tuple[str, int], answers: Callable[[str, str, str], Answer], login: Login | None = None) -> None:
        """Open nothing; ``listen`` is host and port, 0 for any; ``login`` is asked before the page is answered."""
        self._listen, self._closing = listen, threading.Event()
        self._handler = type("Handler", (_Handler,), {"answers": staticmethod(answers), "login": login})
        self._server: ThreadingHTTPServer | None = None
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Begin to listen, in a thread of its own."""
        self._thread.start()

    def port(self, within_s: float = 10.0) -> int | None:
        """Return the port once it listens; ``None`` if it does not within this time."""
        return self._server.server_port if self._opened.wait(within_s) and self._server else None

    def close(self) -> None:
        """Answer no more."""
        self._closing.set()
        if self._server is not None:
            self._server.shutdown()
        if self._thread.is_alive():
            self._thread.join(_CLIENT_S)

    def _run(self) -> None:
        said = False
        while not self._closing.is_set():
            try:
                self._server = (_ListeningV6 if ":" in self._listen[0] else _Listening)(self._listen, self._handler)
            except OSError as e:
                if not said:
                    address = "{}:{}".format(*self._listen)
                    log.warning(
                        "http.listen: %s cannot be used (%s); it is tried again every %.0f s", address, e.strerror, _AGAIN_S
                    )
                said = True
                self._closing.wait(_AGAIN_S)
                continue
            self._opened.set()
            log.info("answering on http://%s:%d", self._listen[0], self._server.server_port)
            self._server.serve_forever(poll_interval=0.2)
            self._server.server_close()
            return
