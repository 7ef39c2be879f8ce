"""Clusters in the configuration file: their connections, and which group is on which.

Part of ``settings.py``, which reads the file; problems are named after the cluster. Must not make a client: references stay
references.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from autoscaler.clients.secrets import ANY_CLUSTER, CONNECTION_KEYS, of_cluster, resolve_secrets
from autoscaler.config.balance import Balance
from autoscaler.config.policy import ContradictionsError
from autoscaler.errors import SettingsError

NOT_A_LIST = (
    "cluster: is a list now, also of one: write clusters: [{name: ..., connection: {...}}], as conf/autoscaler.yaml shows"
)
_A_SECOND_JOB = ": ids are unique within a job; let a second one, with a state_dir of its own, look after it on the other cluster"
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_BROKER = re.compile(
    rf"^\s*(({'|'.join(_PROTOCOLS)})://)?([^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{{1,5}})\s*$", re.IGNORECASE
)
_PORTS = range(1, 65_536)
_LOGS_IN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")  # with a user and a password
_MECHANISMS = (*_LOGS_IN, "GSSAPI")
Connection = dict[str, str | int | float | bool]


class Cluster(BaseModel):
    """One Kafka cluster and how to reach it; connection keys carry librdkafka's names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    name: Annotated[str, Field(min_length=1)] = "kafka"
    """names this cluster in the checkpoint, tables, log and groups; under another name its rates are learned anew"""
    connection: Connection
    """librdkafka's own names. Secrets only by reference: env:NAME or file:PATH"""
    balance: Balance = Balance()
    """how its brokers are balanced, for jobs/balance_brokers.py; the autoscaler's own job does not read it"""

    @field_validator("connection")
    @classmethod
    def _usable(cls, value: Connection) -> Connection:
        if found := connection_problems(value):
            raise ContradictionsError(found)
        return value


def connection_problems(connection: Mapping[str, object]) -> list[str]:
    """Return what is wrong with a connection, without what its values' types are."""
    found, given = [], connection.get("bootstrap.servers", "")
    servers = str(given).strip()
    if not isinstance(given, str):
        pass  # its type is refused by itself
    elif not servers:
        found.append("bootstrap.servers is missing: name at least one broker, such as localhost:9092")
    elif not servers.startswith(("env:", "file:")):
        wrong = [s for s in servers.split(",") if not ((m := _BROKER.match(s)) and int(m["port"]) in _PORTS)]
        found += [f"bootstrap.servers: {s.strip().rpartition('@')[2]!r} is not host:port" for s in wrong]  # without login
    for key, value in sorted((str(key), str(value)) for key, value in connection.items()):
        if is_secret(key) and not value.startswith(("env:", "file:")):
            found.append(f"{key} must be a reference, env:NAME or file:PATH, not the secret itself")
        elif key not in CONNECTION_KEYS:
            found.append(f"{key} is not a connection setting that every client here understands; conf/autoscaler.yaml names them")
    protocol = str(connection.get("security.protocol", "plaintext")).lower()
    if protocol not in _PROTOCOLS and not protocol.startswith(("env:", "file:")):
        found.append(f"security.protocol: {protocol!r} is none of {', '.join(_PROTOCOLS)}")
    return found + ([] if protocol.startswith(("env:", "file:")) else _login_problems(connection, protocol))


def _login_problems(connection: Mapping[str, object], protocol: str) -> list[str]:
    """Return what is wrong with how a connection logs in; librdkafka would say so only once it is used, or not at all."""
    if not protocol.startswith("sasl_"):
        logins = sorted(str(key) for key in connection if str(key).startswith("sasl."))
        needs = (
            f"security.protocol must be sasl_ssl or sasl_plaintext; by {protocol} the clients would connect without logging in"
        )
        return [f"{', '.join(logins)}: {needs}"] if logins else []
    given = connection.get("sasl.mechanism", connection.get("sasl.mechanisms"))
    if given is None:
        kerberos = any("kerberos" in str(key) for key in connection)
        return [] if kerberos else [f"sasl.mechanism is missing: name one, such as {', '.join(_LOGS_IN)}"]
    found, mechanism = [], str(given).upper()
    if mechanism == "OAUTHBEARER":
        found.append(f"sasl.mechanism: OAUTHBEARER is not supported here: log in by {', '.join(_MECHANISMS)} or a certificate")
    elif given not in _MECHANISMS and not str(given).startswith(("env:", "file:")):
        found.append(f"sasl.mechanism: {given!r} is none of {', '.join(_MECHANISMS)}, in capitals")
    missing = [key for key in ("sasl.username", "sasl.password") if key not in connection] if mechanism in _LOGS_IN else []
    return found + [f"{key} is missing: {given} logs in with it" for key in missing]


def is_secret(key: str) -> bool:
    """Say whether a setting is one that must not be written down or repeated."""
    return any(word in key.lower() for word in ("password", "secret", ".pem"))


def misplaced(data: Mapping[str, object]) -> list[str]:
    """Return what is wrong with the names of clusters and groups, and with which group is where."""
    clusters, groups = blocks(data, "clusters"), blocks(data, "groups")
    there = [str(c.get("name", Cluster.model_fields["name"].default)) for c in clusters]
    found = [f"clusters: {name!r} is named twice: give each a name of its own" for name in _repeated(there)]
    on: dict[str, set[str]] = {}
    for number, group in enumerate(groups):
        named, path = group.get("cluster"), f"groups.{number}.cluster"
        on.setdefault(str(group.get("group")), set()).add(str(named or ""))
        if named is None and len(there) > 1:
            found.append(f"{path}: is required where there are several clusters: one of {', '.join(there)}")
        elif isinstance(named, str) and there and named not in there:
            found.append(f"{path}: there is no cluster {named!r}; there are {', '.join(there)}")
    twice = _repeated([str(g["group"]) for g in groups if g.get("group")])
    return [*found, *(f"groups: {name!r} is named twice{_A_SECOND_JOB if len(on[name]) > 1 else ''}" for name in twice)]


def blocks(data: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    """Return the blocks of a list of a configuration that is not yet checked; what is none is left out."""
    found = data.get(key)
    return [b for b in found if isinstance(b, Mapping)] if isinstance(found, list | tuple) else []


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({n for n in names if names.count(n) > 1})


def unreadable(data: Mapping[str, object]) -> list[str]:
    """Return what the clusters' connections refer to and is not there."""
    problems: list[str] = []
    for number, cluster in enumerate(blocks(data, "clusters")):
        connection = cluster.get("connection")
        if isinstance(connection, Mapping):
            problems += of_cluster(str(number), _missing_files(connection))
    return problems


def _missing_files(connection: Mapping[str, object]) -> list[str]:
    problems = [
        f"{ANY_CLUSTER}connection.{key}: file {value} does not exist"
        for key, value in connection.items()
        if str(key).endswith(".location") and not str(value).startswith(("env:", "file:")) and not Path(str(value)).exists()
    ]
    try:
        resolve_secrets({str(k): v for k, v in connection.items() if isinstance(v, str)})
    except SettingsError as e:
        problems.extend(e.problems)
    return problems
