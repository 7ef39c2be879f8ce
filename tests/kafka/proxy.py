"""A broker behind a proxy on loopback, which passes requests on, may keep one of them to send it late, or cuts clients off.

Clients reach the broker through its own listener for the proxy; the broker itself and readers of a test use the other one. A
request is told by the key in its header, as the protocol numbers them.
"""

import socket
import struct
import threading
from contextlib import suppress

from autoscaler import jars
from autoscaler.devtools.broker import Cluster, Node, _free_ports
from tests.until import until

PRODUCE, INIT_PRODUCER_ID, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 0, 22, 25, 26, 28  # keys of requests
_HOST = "127.0.0.1"
_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")  # key, version, correlation id


class Held:
    """One request that is kept instead of being passed on; its client's connection is closed, so that it asks again.

    What asks again is let through, or with ``every`` kept from the broker too, until ``pass_on``.
    """

    def __init__(self, key: int, port: int, *, every: bool) -> None:
        self.key, self._port, self._every = key, port, every
        self._frame: bytes | None = None

    @property
    def caught(self) -> bool:
        """Return whether there was one."""
        return self._frame is not None

    def takes(self, frame: bytes) -> bool:
        """Keep a request from the broker if it is the one, or asks for the same."""
        if _HEAD.unpack_from(frame)[0] != self.key or (self.caught and not self._every):
            return False
        self._frame = self._frame or frame
        return True

    def pass_on(self) -> None:
        """Let through what comes from now on."""
        self._every = False

    def let_go(self) -> bytes:
        """Send it now, and return the broker's answer, without its header."""
        until("a request is held", lambda: self.caught)
        assert self._frame is not None
        with socket.create_connection((_HOST, self._port), timeout=30) as late:
            late.sendall(_SIZE.pack(len(self._frame)) + self._frame)
            answer = _frame(late)
        assert answer is not None
        return answer[4:]


class Proxy:
    """Passes bytes between clients and one port of the broker, requests as a whole."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._held: list[Held] = []
        self._open: set[socket.socket] = set()
        self._cut = False
        self._lock = threading.Lock()
        self._server = socket.create_server((_HOST, 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, key: int, *, every: bool = False) -> Held:
        """Keep the next request of this kind."""
        self._held.append(held := Held(key, self._to, every=every))
        return held

    def cut(self) -> None:
        """Close every connection, and take no more."""
        self._cut = True
        with self._lock:
            connections = tuple(self._open)
        for connection in connections:
            _close(connection)

    def mend(self) -> None:
        """Take connections again."""
        self._cut = False

    def close(self) -> None:
        """End."""
        _close(self._server)
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    if self._cut:
                        raise ConnectionRefusedError
                    broker = socket.create_connection((_HOST, self._to), timeout=5)
                    broker.settimeout(None)
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open.update((client, broker))
                for run in (self._requests, self._answers):
                    threading.Thread(target=run, args=(client, broker), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while (frame := _frame(client)) is not None:
                if any(held.takes(frame) for held in self._held):
                    break
                broker.sendall(_SIZE.pack(len(frame)) + frame)
        self._end(client, broker)

    def _answers(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while data := broker.recv(65536):
                client.sendall(data)
        self._end(client, broker)

    def _end(self, *connections: socket.socket) -> None:
        with self._lock:
            self._open.difference_update(connections)
        for connection in connections:
            _close(connection)


class ProxiedCluster(Cluster):
    """Nodes each with a proxy before it: ``proxied()`` says how to connect through those."""

    def __init__(
        self, *, nodes: int = 3, bundle: jars.Bundle = jars.KAFKA, settings: dict[str, str] | None = None, heap_mb: int = 160
    ) -> None:
        super().__init__(nodes=nodes, heap_mb=heap_mb, bundle=bundle, settings=settings)
        self.proxies: dict[int, Proxy] = {}  # by the node's number

    @property
    def proxy(self) -> Proxy:
        """Return the first node's."""
        return self.proxies[1]

    def proxied(self) -> dict[str, str | int | float | bool]:
        servers = ",".join(f"{_HOST}:{proxy.port}" for proxy in self.proxies.values())
        return {**self.connection(), "bootstrap.servers": servers}

    def close(self) -> None:
        super().close()
        for proxy in self.proxies.values():
            proxy.close()

    def _settings(self, node: Node, voters: str) -> dict[str, str]:
        (behind,) = _free_ports(1)
        self.proxies[node.number] = Proxy(behind)
        plain = super()._settings(node, voters)
        return {
            **plain,
            "listeners": f"{plain['listeners']},PROXIED://{_HOST}:{behind}",
            "advertised.listeners": f"{plain['advertised.listeners']},PROXIED://{_HOST}:{self.proxies[node.number].port}",
            "listener.security.protocol.map": f"{plain['listener.security.protocol.map']},PROXIED:PLAINTEXT",
        }


class Proxied(ProxiedCluster):
    """One node."""

    def __init__(self, *, bundle: jars.Bundle = jars.KAFKA) -> None:
        super().__init__(nodes=1, bundle=bundle)


def _frame(connection: socket.socket) -> bytes | None:
    """Return what follows a length; ``None`` at the end."""
    head = _bytes(connection, _SIZE.size)
    return None if head is None else _bytes(connection, _SIZE.unpack(head)[0])


def _bytes(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        if not (more := connection.recv(count - len(data))):
            return None
        data += more
    return data


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
