"""kafka-python, bounded: one connection block for all clients, one client per broker and process, a deadline for everything.

A client is dropped after any time-out and closed in a
background thread; a broker that does not answer is left alone for a while (back-off), so that it costs its own rows and now
and then the deadline, never the others' rows.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from autoscaler.errors import SettingsError, TransientError
from autoscaler.references import resolve_secrets
from autoscaler.streaming import codec

Setting = str | int | float | bool
T = TypeVar("T")

_BACKOFF_S = (0.5, 1.0, 2.0)
_IN_FLIGHT = 1000  # kafka-python refuses, not queues, what exceeds this

_TRANSLATED: dict[str, tuple[str, Callable[[Setting], object]]] = {
    "bootstrap.servers": ("bootstrap_servers", lambda v: [s.strip() for s in str(v).split(",") if s.strip()]),
    "security.protocol": ("security_protocol", lambda v: str(v).upper()),
    "sasl.mechanism": ("sasl_mechanism", str),
    "sasl.mechanisms": ("sasl_mechanism", str),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", lambda v: str(v).lower() != "none"),
    "client.id": ("client_id", str),
    "metadata.max.age.ms": ("metadata_max_age_ms", lambda v: int(float(v))),
}
# They tune librdkafka's own threads, sockets and log, and mean nothing to another client.
_WITHOUT_MEANING = frozenset({
    "broker.address.family", "broker.address.ttl", "connections.max.idle.ms", "debug", "log_level", "log.connection.close",
    "message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms",
    "retry.backoff.ms", "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails",
    "socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms",
    "statistics.interval.ms", "topic.metadata.refresh.interval.ms",
})  # fmt: skip


def translate(connection: Mapping[str, Setting]) -> dict[str, object]:
    """Return a connection block, written with librdkafka's names, as kafka-python's arguments.

    Raises:
        SettingsError: Names every setting that cannot be translated; ignoring one could connect to the wrong place, or openly.
    """
    unknown = sorted(set(connection) - set(_TRANSLATED) - _WITHOUT_MEANING)
    if unknown:
        known = ", ".join(sorted(_TRANSLATED))
        problems = (f"cluster.connection.{key}: the measuring client has no such setting; it knows {known}" for key in unknown)
        raise SettingsError(tuple(problems))
    out: dict[str, object] = {}
    for key, value in connection.items():
        if key in _TRANSLATED:
            name, convert = _TRANSLATED[key]
            out[name] = convert(value)
    return out


class Client:
    """One kafka-python admin client, asked with deadlines."""

    def __init__(self, connection: Mapping[str, Setting], deadline: float, address: str | None = None) -> None:
        """Connect, at the latest by ``deadline`` (monotonic seconds), to ``address`` or else to the bootstrap servers.

        Raises:
            TransientError: Nobody answers there.
            SettingsError: The connection block cannot be used.
        """
        self.broken = False  # some request of the last ``ask`` got no answer
        self.took_s: list[float] = []  # from the start of the last ``ask`` to each answer
        arguments = translate(resolve_secrets(dict(connection)))
        if address is not None:
            arguments["bootstrap_servers"] = [address]
        servers = [str(s) for s in _listed(arguments["bootstrap_servers"])]
        _reachable(servers, deadline)
        left_ms = max(1, int((deadline - time.monotonic()) * 1000))
        try:
            self._admin = codec.connect(
                **arguments,
                bootstrap_timeout_ms=left_ms,
                request_timeout_ms=max(left_ms, 1000),
                reconnect_backoff_ms=50,
                reconnect_backoff_max_ms=500,
                max_in_flight_requests_per_connection=_IN_FLIGHT,
            )
        except (codec.ClientError, OSError, ValueError) as e:
            msg = f"{', '.join(servers)}: {named(e)}"
            raise TransientError(msg) from e

    @property
    def inner(self) -> bool:
        """Return whether kafka-python's inner parts are where ``ask`` looks for them."""
        manager = getattr(self._admin, "_manager", None)
        return hasattr(manager, "send") and hasattr(manager, "run") and hasattr(manager, "broker_version_data")

    @property
    def fast(self) -> bool:
        """Return whether the numpy codec can be used: kafka-python's inner parts and the broker's versions are as it needs."""
        if not self.inner:
            return False
        served = self._admin._manager.broker_version_data.api_versions  # noqa: SLF001  the reason for the exact pin
        return all(key in served and served[key][0] <= version <= served[key][1] for key, version in codec.REQUIRED)

    def ask(self, requests: Sequence[tuple[Any, int | None]], deadline: float) -> list[Any]:
        """Send all requests at once, each to its node, and return each one's answer or exception by the deadline."""
        manager = self._admin._manager  # noqa: SLF001  see fast
        left_ms = max(1.0, (deadline - time.monotonic()) * 1000)

        began = time.monotonic()

        async def answers() -> list[Any]:
            self.took_s = []
            futures = [manager.send(request, node_id=node, request_timeout_ms=left_ms) for request, node in requests]
            out: list[Any] = []
            for future in futures:
                try:
                    out.append(await future)
                except Exception as e:  # noqa: BLE001  whatever it is becomes the error of the rows it was to give
                    out.append(e)
                self.took_s.append(time.monotonic() - began)
            return out

        out = list(manager.run(answers))
        self.broken = any(isinstance(answer, BaseException) for answer in out)
        return out

    def described(self, topics: Sequence[str]) -> tuple[dict[int, str], list[dict[str, Any]]]:
        """Return brokers and topics by kafka-python's public calls."""
        return codec.described(self._admin, topics)

    def plainly(self, node: int, wanted: Mapping[str, codec.Ints], groups: Mapping[str, Mapping[str, codec.Ints]]) -> codec.Plain:
        """Return the same questions by kafka-python's public calls."""
        return codec.plainly(self._admin, node, wanted, groups)

    def drop(self) -> None:
        """Close in the background: closing waits for a broker that may be away."""
        threading.Thread(target=self.close, daemon=True).start()

    def close(self) -> None:
        """Close; a client left open would go on connecting to a broker that is gone."""
        with contextlib.suppress(Exception):
            self._admin.close()


class Clients:
    """The clients of one process, by where they lead; they live as long as the process."""

    def __init__(self) -> None:
        """Connect to nobody yet."""
        self._clients: dict[object, Client] = {}
        self._away: dict[object, tuple[float, int, str]] = {}  # until, failures in a row, why
        self._lock = threading.Lock()

    def use(
        self, connection: Mapping[str, Setting], address: str | None, deadline: float, ask: Callable[[Client], T]
    ) -> Callable[[], T]:
        """Start ``ask`` with the client for ``address`` and return a function that waits for its answer until the deadline.

        That function raises ``TransientError`` when there is no answer in time; the client is dropped then.
        """
        key = (str(connection.get("bootstrap.servers")), address)
        with self._lock:
            until, failures, why = self._away.get(key, (0.0, 0, ""))
        if failures and time.monotonic() < until:
            return lambda: _raise(TransientError(f"left alone after {failures} failures: {why}"))

        def work() -> T:
            with self._lock:
                client = self._clients.get(key)
            if client is None:
                client = Client(connection, deadline, address)
                with self._lock:
                    self._clients[key] = client
            out = ask(client)
            if client.broken:
                self._drop(key)
            return out

        started = _started(work)

        def answer() -> T:
            try:
                out = started.result(timeout=max(0.01, deadline - time.monotonic()))
            except (TransientError, TimeoutError, codec.ClientError, OSError) as e:
                raise self._failed(key, e) from e
            with self._lock:
                self._away.pop(key, None)
            return out

        return answer

    def close(self) -> None:
        """Close every client; what is still being asked fails."""
        with self._lock:
            clients = list(self._clients.values())
            self._clients.clear()
        for client in clients:
            client.close()

    def _failed(self, key: object, error: Exception) -> TransientError:
        why = named(error)
        self._drop(key)
        with self._lock:
            failures = self._away.get(key, (0.0, 0, ""))[1] + 1
            pause = _BACKOFF_S[min(failures, len(_BACKOFF_S)) - 1]
            self._away[key] = (time.monotonic() + pause, failures, why)
        return TransientError(why, retry_after_s=pause)

    def _drop(self, key: object) -> None:
        with self._lock:
            client = self._clients.pop(key, None)
        if client is not None:
            client.drop()


def _started(work: Callable[[], T]) -> "Future[T]":
    """Run in a thread of its own: threads of a pool that hang with their brokers would be missed by the others."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as e:  # noqa: BLE001  it is raised where the answer is awaited
            future.set_exception(e)

    threading.Thread(target=run, name="kafka-read", daemon=True).start()
    return future


def named(error: BaseException | int) -> str:
    """Return an error, or the name of a Kafka error code, as one short line."""
    if isinstance(error, int):
        return codec.error_name(error)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    kind, text = type(error).__name__, " ".join(str(error).split())[:200]
    return text if isinstance(error, TransientError) or text.startswith(kind) else f"{kind}: {text}".removesuffix(": ")


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _reachable(servers: Sequence[str], deadline: float) -> None:
    """Fail at once where nobody listens: kafka-python would try again until its time-out."""
    error: OSError | ValueError | None = None
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            left = max(0.01, deadline - time.monotonic())
            with socket.create_connection((host.strip("[]"), int(port)), timeout=left):
                return
        except (OSError, ValueError) as e:
            error = e
    msg = f"no broker answers at {', '.join(servers)}: {error}"
    raise TransientError(msg)


def _raise(error: Exception) -> Any:
    raise error
