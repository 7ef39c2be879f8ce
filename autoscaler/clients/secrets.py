"""A connection block: its keys, and references ``env:NAME`` and ``file:PATH`` for what must not be written down.

Standard library only: the worker resolves them too, in its own process, so that no secret travels in between.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autoscaler.errors import SettingsError

ANY_CLUSTER = "clusters.*."  # how a problem begins where the cluster is not known
# What a connection may say, in librdkafka's names: what both client libraries understand, and what only tunes librdkafka.
CONNECTION_KEYS = frozenset({
    "bootstrap.servers", "broker.address.family", "broker.address.ttl", "client.id", "connections.max.idle.ms", "debug",
    "log.connection.close", "log_level", "message.max.bytes", "metadata.max.age.ms", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "sasl.kerberos.service.name",
    "sasl.mechanism", "sasl.mechanisms", "sasl.password", "sasl.username", "security.protocol",
    "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable",
    "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms", "ssl.ca.location",
    "ssl.certificate.location", "ssl.crl.location", "ssl.endpoint.identification.algorithm", "ssl.key.location",
    "ssl.key.password", "statistics.interval.ms", "topic.metadata.refresh.interval.ms",
})  # fmt: skip


def of_cluster(name: str, problems: Iterable[str]) -> tuple[str, ...]:
    """Return problems of connections as those of this cluster; what is none of a connection is said of the cluster."""
    return tuple(p.replace(ANY_CLUSTER, f"clusters.{name}.") if ANY_CLUSTER in p else f"clusters.{name}: {p}" for p in problems)


@contextmanager
def naming(cluster: str) -> Iterator[None]:
    """Let whatever is wrong with the settings of a cluster's connection be said with the cluster's name.

    Raises:
        SettingsError: What was raised within, named.
    """
    try:
        yield
    except SettingsError as e:
        raise SettingsError(of_cluster(cluster, e.problems)) from e


def resolve_secrets(connection: Mapping[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
    """Return the connection with every reference replaced by what it refers to, read now.

    Raises:
        SettingsError: A referenced variable or file is not there; says every one.
    """
    out: dict[str, str | int | float | bool] = {}
    problems: list[str] = []
    for key, value in connection.items():
        try:
            out[key] = referred(f"{ANY_CLUSTER}connection.{key}", value) if isinstance(value, str) else value
        except SettingsError as e:
            problems += e.problems
    if problems:
        raise SettingsError(tuple(problems))
    return out


def variables(connection: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Return the environment variables that a connection refers to, as far as they are set here."""
    named = (v[4:] for v in connection.values() if isinstance(v, str) and v.startswith("env:"))
    return {name: os.environ[name] for name in named if name in os.environ}


def referred(setting: str, value: str) -> str:
    """Return what a setting's value refers to, read now; a value that is no reference is that itself.

    Raises:
        SettingsError: The variable or file is not there.
    """
    try:
        if value.startswith("env:"):
            return os.environ[value[4:]]
        if value.startswith("file:"):
            return Path(value[5:]).read_text(encoding="utf-8").strip()
    except KeyError:
        said = f"environment variable {value[4:]} is not set"
    except OSError as e:
        said = f"file {value[5:]} cannot be read ({e.strerror})"
    except UnicodeDecodeError:
        said = f"file {value[5:]} is not UTF-8 text"
    else:
        return value
    raise SettingsError((f"{setting}: {said}",))


def stamp(connection: Mapping[str, str | int | float | bool]) -> str:
    """Return what changes when anything that the connection refers to does, the files of certificates and keys too.

    Nothing can be read back from it. What cannot be read now counts as nothing: connecting then says so.
    """
    digest = hashlib.sha256()
    for key, value in sorted(connection.items()):
        try:
            (content,) = resolve_secrets({key: value}).values()
        except SettingsError:
            content = ""
        digest.update(repr((key, content)).encode())
        if key.endswith(".location"):
            digest.update(_bytes_of(str(content)))
    return digest.hexdigest()


def _bytes_of(path: str) -> bytes:
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return b""
