"""kafka-python, bounded: one client per broker and process, a deadline for everything.

A client is dropped after any time-out and closed in a background thread; a broker that does not answer is left alone for a while
(back-off), so that it costs its own rows and now and then the deadline, never the others' rows.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from autoscaler.clients.kafka_python import ClientError, Setting, connect, named
from autoscaler.concurrency import started
from autoscaler.errors import TransientError
from autoscaler.streaming import wire_codec

T = TypeVar("T")

_BACKOFF_S = (0.5, 1.0, 2.0)


class Client:
    """One kafka-python admin client, asked with deadlines."""

    def __init__(self, connection: Mapping[str, Setting], deadline: float, address: str | None = None) -> None:
        """Connect, at the latest by ``deadline`` (monotonic seconds), to ``address`` or else to the bootstrap servers.

        Raises:
            TransientError: No broker answers there.
            SettingsError: The connection block cannot be used.
        """
        self.broken = False  # some request of the last ``ask`` got no answer
        self.took_s: list[float] = []  # from the start of the last ``ask`` to each answer
        self._admin = connect(connection, deadline, address)

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
        return all(key in served and served[key][0] <= version <= served[key][1] for key, version in wire_codec.REQUIRED)

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

    def described(self, topics: Sequence[str] | None) -> tuple[dict[int, str], list[dict[str, Any]]]:
        """Return brokers and topics, ``None``: all of them, by kafka-python's public calls."""
        return wire_codec.described(self._admin, topics)

    def plainly(
        self, node: int, wanted: Mapping[str, wire_codec.Ints], groups: Mapping[str, Mapping[str, wire_codec.Ints]]
    ) -> wire_codec.Plain:
        """Return the same questions by kafka-python's public calls."""
        return wire_codec.plainly(self._admin, node, wanted, groups)

    def close(self) -> None:
        """Close; a client left open would go on connecting to a broker that is gone."""
        with contextlib.suppress(Exception):
            self._admin.close()


class Clients:
    """The clients of one process, by where they lead; they live as long as the process."""

    def __init__(self) -> None:
        """Connect to no broker yet."""
        self._clients: dict[object, Client] = {}
        self._away: dict[object, tuple[float, int, str]] = {}  # until, failures in a row, why
        self._lock = threading.Lock()

    def use(
        self, connection: Mapping[str, Setting], address: str | None, deadline: float, ask: Callable[[Client], T]
    ) -> Callable[[], T]:
        """Start ``ask`` with the client for ``address`` and return a function that waits for its answer until the deadline.

        That function raises ``TransientError`` when there is no answer in time; the client is dropped then.
        """
        key = (frozenset(connection.items()), address)  # two clusters may be one, under two users
        with self._lock:
            until, failures, why = self._away.get(key, (0.0, 0, ""))
        if failures and time.monotonic() < until:
            refused: Future[T] = Future()
            refused.set_exception(TransientError(f"left alone after {failures} failures: {why}"))
            return refused.result

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

        asked = started(work, "kafka-read")

        def answer() -> T:
            try:
                out = asked.result(timeout=max(0.01, deadline - time.monotonic()))
            except (TransientError, TimeoutError, ClientError, OSError) as e:
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
        return TransientError(why)

    def _drop(self, key: object) -> None:
        with self._lock:
            client = self._clients.pop(key, None)
        if client is not None:
            started(client.close, "kafka-close")  # in the background: it waits for a broker that may be away
