"""kafka-python from a connection block that is written with librdkafka's names. Below the path: measuring and adapters use it.

librdkafka serves plans and records; kafka-python reads what thousands of partitions have, and memberships: its requests fail
where librdkafka's end the process (docs/decisions/0006).
"""

import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, NodeNotReadyError, for_code
from kafka.net.inet import KafkaNetSocket

from autoscaler.clients.secrets import CONNECTION_KEYS, resolve_secrets
from autoscaler.errors import SettingsError, TransientError

ClientError = KafkaError
Setting = str | int | float | bool

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
}  # every other key tunes librdkafka's own threads, sockets and log, and means nothing to this client


def translate(connection: Mapping[str, Setting]) -> dict[str, object]:
    """Return a connection block, written with librdkafka's names, as kafka-python's arguments.

    Raises:
        SettingsError: Names every setting that cannot be translated; ignoring one could connect to the wrong place, or openly.
    """
    unknown = sorted(set(connection) - CONNECTION_KEYS)
    if unknown:
        known = ", ".join(sorted(_TRANSLATED))
        problems = (f"clusters.*.connection.{key}: the measuring client has no such setting; it knows {known}" for key in unknown)
        raise SettingsError(tuple(problems))
    out: dict[str, object] = {}
    for key, value in connection.items():
        if key in _TRANSLATED:
            name, convert = _TRANSLATED[key]
            out[name] = convert(value)
    return out


class _Direct(KafkaNetSocket):  # type: ignore[misc]  # the library has no types
    """Connects as kafka-python does, and closes the socket where no broker listens: it forgets to, once per attempt."""

    SCHEMES = ("direct",)

    async def connect(self, net: Any, addrinfo: Any, socket_options: Any = (), timeout_at: float | None = None) -> Any:
        family, kind, protocol, _, address = addrinfo
        sock = self.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in socket_options:
                sock.setsockopt(*option)
            return await self.sock_connect(net, sock, address, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class _Admin(KafkaAdminClient):  # type: ignore[misc]  # the library has no types
    """Closes what it has opened where no broker answers: the library leaves a connection and a running thread."""

    def __init__(self, **settings: Any) -> None:
        self._closed = False
        try:
            super().__init__(**settings)
        except BaseException:
            with suppress(AttributeError):  # where its settings were refused, nothing was opened
                self.close()
            raise


def connect(connection: Mapping[str, Setting], deadline: float, address: str | None = None) -> KafkaAdminClient:
    """Return a client connected, at the latest by ``deadline`` (monotonic s), to ``address`` or else to the bootstrap servers.

    It stays silent: a broker that is away is reported by the caller, not in the log.

    Raises:
        TransientError: No broker answers there.
        SettingsError: The connection block cannot be used.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    arguments = translate(resolve_secrets(dict(connection)))
    if address is not None:
        arguments["bootstrap_servers"] = [address]
    servers = [str(s) for s in _listed(arguments["bootstrap_servers"])]
    _reachable(servers, deadline)
    left_ms = max(1, int((deadline - time.monotonic()) * 1000))
    try:
        return _Admin(
            proxy_url="direct://",
            **arguments,
            bootstrap_timeout_ms=left_ms,
            request_timeout_ms=max(left_ms, 1000),
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            max_in_flight_requests_per_connection=_IN_FLIGHT,
        )
    except (ClientError, OSError, ValueError) as e:
        raise TransientError(f"{', '.join(servers)}: {named(e)}") from e


def named(error: BaseException | int) -> str:
    """Return an error, or the name of a Kafka error code, as one short line."""
    if isinstance(error, int):
        return str(for_code(error).__name__)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, NodeNotReadyError):
        node = str(error.args[0]) if error.args else "a broker"
        return f"no connection to {f'broker {node}' if node.isdecimal() else node}"
    kind, text = type(error).__name__, " ".join(str(error).split())[:200]
    return text if isinstance(error, TransientError) or text.startswith(kind) else f"{kind}: {text}".removesuffix(": ")


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _reachable(servers: Sequence[str], deadline: float) -> None:
    """Fail at once where no broker listens: kafka-python would try again until its time-out."""
    error: OSError | ValueError | None = None
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            left = max(0.01, deadline - time.monotonic())
            with socket.create_connection((host.strip("[]"), int(port)), timeout=left):
                return
        except (OSError, ValueError) as e:
            error = e
    raise TransientError(f"no broker answers at {', '.join(servers)}: {error}")
