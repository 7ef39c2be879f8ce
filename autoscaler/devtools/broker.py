"""Real Kafka brokers from their published jars, for the demo and the tests: no container, nothing to install.

``Broker`` is one node, ``Cluster`` several combined ones (broker and controller in one process, KRaft). They listen on
loopback only, on free ports which they keep over restarts, and die with the process that started them.
"""

import contextlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from autoscaler import jars
from autoscaler.devtools.lifeline import Lifeline
from autoscaler.errors import PermanentError

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
_FORMAT_S = 60.0
# Of a cluster with an authorizer; worth nothing elsewhere.
USERS = {name: f"{name}-secret" for name in ("admin", "limited", "job", "worker")}

_HOST = "127.0.0.1"
# Below the range from which systems take the ports of outgoing connections (Linux 32768+, macOS 49152+): while a broker is
# away no client can be given its port, nor connect to itself on it.
_PORTS = range(15_000, 32_000)
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")
_LOG4J2 = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class BrokerError(PermanentError):
    """A broker did not start; the message shows why and what to do."""


class Node:
    """One broker process with its ports, data and log."""

    def __init__(self, number: int, directory: Path, *, heap_mb: int, java_options: tuple[str, ...], bundle: jars.Bundle) -> None:
        """Remember where things are; nothing runs yet."""
        self._bundle = bundle
        self.number = number
        self.directory = directory
        self.log = directory / f"broker-{number}.log"
        self.port = 0
        self.controller_port = 0
        self._jvm = (*_JVM, f"-Xms{min(64, heap_mb)}m", f"-Xmx{heap_mb}m", *java_options)
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: Lifeline | None = None

    @property
    def bootstrap(self) -> str:
        """Return ``host:port`` of this node."""
        return f"{_HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Return the process id; ``None`` when it does not run."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """Return whether the process lives."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        if self._lifeline is not None:  # at once: the pid may be another process's from now on
            self._lifeline.cut()
            self._lifeline = None
        return False

    def write_settings(self, settings: Mapping[str, str]) -> None:
        """Write the node's server.properties and logging settings."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._settings.write_text(text, encoding="utf-8")
        (self.directory / f"log4j2-{self.number}.properties").write_text(_LOG4J2, encoding="utf-8")

    def format(self, cluster_id: str) -> None:
        """Prepare the data directory, unless it was prepared before."""
        if (self.data / "meta.properties").exists():
            return
        command = self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._settings))
        try:
            with self.log.open("ab") as log:
                run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, timeout=_FORMAT_S)
        except subprocess.TimeoutExpired as e:
            raise BrokerError(self.explain(f"its storage was not formatted in {_FORMAT_S:.0f} s")) from e
        if (code := run.returncode) != 0:
            raise BrokerError(self.explain(f"its storage could not be formatted (exit code {code})"))

    @property
    def data(self) -> Path:
        """Return the directory of the node's log segments."""
        return self.directory / f"data-{self.number}"

    def launch(self) -> None:
        """Start the process without waiting for it to answer."""
        if self.running:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._settings)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for the program that owns the broker
            )
        self._lifeline = Lifeline(self._process.pid)

    def signal(self, number: int) -> None:
        """Send a signal if the process lives."""
        if self.running and self._process is not None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the process to end; return whether it has."""
        limit = time.monotonic() + timeout_s
        while self.running:
            if time.monotonic() > limit:
                return False
            time.sleep(0.02)
        return True

    def stop(self) -> None:
        """End the process in order, by force if it takes long; the data stays."""
        self.signal(signal.SIGTERM)
        if not self.wait(STOP_TIMEOUT_S):
            self.kill()

    def kill(self) -> None:
        """End the process as a crash would; the data stays."""
        self.signal(signal.SIGKILL)
        self.wait(STOP_TIMEOUT_S)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the process and wait until it takes connections.

        Raises:
            BrokerError: It ended, or did not listen in time.
        """
        self.launch()
        self.await_listening(time.monotonic() + timeout_s)

    def await_listening(self, limit: float) -> None:
        """Wait until the client port takes connections; ``limit`` is in monotonic seconds."""
        while True:
            if not self.running:
                raise BrokerError(self.explain("it ended while starting"))
            with contextlib.suppress(OSError), socket.create_connection((_HOST, self.port), timeout=1):
                return
            if time.monotonic() > limit:
                raise BrokerError(self.explain("it did not listen in time"))
            time.sleep(0.05)

    def explain(self, what: str) -> str:
        """Return a message for a failure: what, the log's tail, what to do."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        except OSError:
            lines = []
        tail = "\n".join(f"    {line[:300]}" for line in lines) or "    (nothing)"
        return (
            f"Kafka node {self.number} at {_HOST}:{self.port}: {what}. The last lines of {self.log}:\n{tail}\n"
            "What to do: a port that is taken or memory that is short passes with another try; `java -version` must say 17 or "
            f"later; files left by another version of Kafka go away with {self.directory}."
        )

    @property
    def _settings(self) -> Path:
        return self.directory / f"server-{self.number}.properties"

    def _java(self, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.directory / f'log4j2-{self.number}.properties'}"
        archive = jars.class_archive(self._bundle)
        known = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
        return [jars.java(), *known, *self._jvm, logging, "-cp", jars.class_path(self._bundle), *arguments]


class Cluster:
    """Combined KRaft nodes on loopback, numbered from 1; each can be stopped, killed and started by itself. A context manager."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        nodes: int = 1,
        heap_mb: int = 256,
        settings: Mapping[str, str] | None = None,
        authorizer: bool = False,
        java_options: tuple[str, ...] = (),
        bundle: jars.Bundle = jars.KAFKA,
    ) -> None:
        """Remember what to run; ``start`` runs it. ``bundle`` is the version of Kafka.

        A given ``directory`` is kept with its data and logs; without one, ``close`` removes a temporary one. A heap of 128 MB
        does for a small test, 1024 for ten thousand partitions. With ``authorizer``, clients log in (``USERS``) and only
        ``admin`` may do anything until ACLs say more.
        """
        self._temporary = directory is None
        self._directory = directory if directory is not None else Path(tempfile.mkdtemp(prefix="kafka-autoscaler-"))
        self._overrides = dict(settings or {})
        self._authorizer = authorizer
        self._bundle = bundle
        self.nodes = tuple(
            Node(n, self._directory, heap_mb=heap_mb, java_options=java_options, bundle=bundle) for n in range(1, nodes + 1)
        )

    @property
    def bootstrap(self) -> str:
        """Return ``host:port`` of every node, comma-separated."""
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def directory(self) -> Path:
        """Return where data and logs lie."""
        return self._directory

    def connection(self, user: str = "admin") -> dict[str, str | int | float | bool]:
        """Return the client settings (librdkafka's names) with which ``user`` connects."""
        plain: dict[str, str | int | float | bool] = {"bootstrap.servers": self.bootstrap}
        if not self._authorizer:
            return plain
        credentials = {"sasl.username": user, "sasl.password": USERS[user]}
        return {**plain, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **credentials}

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start what does not run and wait until every node answers.

        Raises:
            BrokerError: A node ended, or they did not answer in time.
            PermanentError: The jars could not be fetched.
        """
        jars.fetch(self._bundle, progress=True)
        limit = time.monotonic() + timeout_s
        first = not self.nodes[0].port
        for attempt in range(3):
            if first:
                self._configure()
            try:
                self._launch(limit)
            except BrokerError:
                self.kill()
                if not first or attempt == 2 or not self._port_taken():  # noqa: PLR2004  the last attempt
                    raise
            except BaseException:  # Ctrl-C while starting: leave nothing behind
                self.kill()
                raise
            else:
                return self
        return self

    def stop(self) -> None:
        """End every node in order; data and ports stay."""
        for node in self.nodes:
            node.signal(signal.SIGTERM)
        limit = time.monotonic() + STOP_TIMEOUT_S
        for node in self.nodes:
            if not node.wait(max(0.0, limit - time.monotonic())):
                node.kill()

    def kill(self) -> None:
        """End every node as a crash would; data and ports stay."""
        for node in self.nodes:
            node.signal(signal.SIGKILL)
        for node in self.nodes:
            node.wait(STOP_TIMEOUT_S)

    def restart(self) -> Self:
        """Stop and start again, on the same ports and data."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop, and remove a temporary directory."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _configure(self) -> None:
        ports = _free_ports(2 * len(self.nodes))
        for node in self.nodes:
            node.port, node.controller_port = ports.pop(), ports.pop()
        voters = ",".join(f"{n.number}@{_HOST}:{n.controller_port}" for n in self.nodes)
        for node in self.nodes:
            node.write_settings({**self._settings(node, voters), **self._overrides})

    def _launch(self, limit: float) -> None:
        cluster_id = self._cluster_id()
        for node in self.nodes:
            node.format(cluster_id)
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.await_listening(limit)
        self._await_answer(limit)

    def _cluster_id(self) -> str:
        file = self._directory / "cluster.id"
        if not file.exists():
            file.write_text(_new_cluster_id(), encoding="utf-8")
        return file.read_text(encoding="utf-8").strip()

    def _await_answer(self, limit: float) -> None:
        """Wait until metadata names every node: only then do topics get all their replicas."""
        client = AdminClient({**self.connection(), "log_level": 0})
        while True:
            with contextlib.suppress(KafkaException):
                if len(client.list_topics(timeout=2).brokers) == len(self.nodes):
                    return
            for node in self.nodes:
                if not node.running:
                    raise BrokerError(node.explain("it ended while starting"))
            if time.monotonic() > limit:
                raise BrokerError(self.nodes[0].explain("the cluster did not answer in time"))
            time.sleep(0.05)

    def _port_taken(self) -> bool:
        return any("already in use" in n.log.read_text(encoding="utf-8", errors="replace") for n in self.nodes if n.log.exists())

    def _settings(self, node: Node, voters: str) -> dict[str, str]:
        replicas = min(3, len(self.nodes))
        in_sync = max(1, replicas - 1)
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.number),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CLIENT://{_HOST}:{node.port},CONTROLLER://{_HOST}:{node.controller_port}",
            "advertised.listeners": f"CLIENT://{_HOST}:{node.port}",
            "inter.broker.listener.name": "CLIENT",
            "log.dirs": str(node.data),
            "auto.create.topics.enable": "false",  # a misspelt topic must be an error
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(in_sync),
            "group.initial.rebalance.delay.ms": "0",  # no other consumer is about to join
            "log.cleaner.dedupe.buffer.size": "2097152",  # the default of 128 MB does not fit a small heap
            "num.network.threads": "2",
            "num.io.threads": "4",
            **(self._security() if self._authorizer else _PLAIN),
        }

    def _security(self) -> dict[str, str]:
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required username="admin" password="{USERS["admin"]}" {users};'
        return {
            "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": login,
            "listener.name.controller.plain.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": "User:admin",
        }


_PLAIN = {"listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"}


class Broker(Cluster):
    """A cluster of one node."""

    @property
    def pid(self) -> int | None:
        """Return the process id of the only node; ``None`` when it does not run."""
        return self.nodes[0].pid


def _free_ports(count: int) -> list[int]:
    """Return ports no process listens on; taken ones between this look and the broker's start are tried again by ``start``."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            port = secrets.choice(_PORTS)
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((_HOST, port))
                found.append(port)
    return found


def _new_cluster_id() -> str:
    """Return a random id in Kafka's form; not one that begins with a dash, which the storage tool would take for an option."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
