"""A collection of API objects, followed by a thread: listed once, then kept by a watch, listed anew where that has a gap.

No polling: in a quiet cluster it costs one request in five minutes. What it hears goes to a sink, in its own thread; what keeps
it from hearing stands in ``error``. Knows no kind of object.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from autoscaler.adapters.kubernetes.api import Api, BusyError, ForgottenError, MissingError, Query
from autoscaler.errors import AutoscalerError, PermanentError, TransientError

log = logging.getLogger(__name__)
_BACKOFF_S = (0.2, 10.0)  # between two tries while the API server does not answer: the first pause, and the longest
_REFUSED_S = 5.0  # between two looks whether an operator has granted it
_END_S = 5.0

Json = Mapping[str, Any]


class Sink(Protocol):
    """Takes what is heard."""

    def listed(self, objects: Sequence[Json]) -> None:
        """Take everything that there is; what is known and not among it is gone, and how is not known."""
        ...

    def changed(self, kind: str, found: Json) -> None:
        """Take one object that was ADDED, MODIFIED or DELETED."""
        ...


class Followed:
    """One collection, from ``start`` until ``close``.

    Attributes:
        error: What keeps it from hearing of changes now; ``None`` while it hears.
        known: It has been listed, so that there is something to go by.
    """

    def __init__(self, api: Api, path: str, query: Query, sink: Sink, *, absent: str = "", refused_s: float = _REFUSED_S) -> None:
        """Listen to nothing yet.

        Args:
            api: The connection.
            path: Of the collection.
            query: Which of its objects.
            sink: Takes what is heard.
            absent: What to do where there is no such collection, in words.
            refused_s: Seconds between two looks whether an operator has made or granted it.
        """
        self._absent, self._refused_s = absent, refused_s
        self._api, self._path, self._query, self._sink = api, path, dict(query), sink
        self.error: AutoscalerError | None = None
        self.known = False
        self._over = threading.Event()
        self._version: str | None = None
        self._wake: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._follow, name=f"follows {path}", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Have it listen no more, and do not wait."""
        self._over.set()
        if self._wake is not None:
            with suppress(Exception):  # the answer may be read to its end meanwhile, which is as well
                self._wake()

    def close(self) -> None:
        """Listen no more."""
        self.stop()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_END_S)

    def _follow(self) -> None:
        pause_s = _BACKOFF_S[0]
        while not self._over.is_set():
            try:
                self._listen()
                pause_s = _BACKOFF_S[0]
            except ForgottenError:
                self._version = None
                self._over.wait(pause_s)
            except MissingError as e:  # what is there again has other versions
                self._version = None
                self._unheard(MissingError(f"{e}; {self._absent}") if self._absent else e)
                self._over.wait(self._refused_s)
            except AutoscalerError as e:
                self._unheard(e)
                self._over.wait(max(pause_s, self._pause_of(e)))
                pause_s = min(2 * pause_s, _BACKOFF_S[1])
            except Exception as e:  # what is not understood must not end the thread: the pool would go by old news for ever
                log.exception("%s: what was heard is not understood", self._path)
                self._version = None
                self._unheard(TransientError(f"{type(e).__name__}: {e}"))
                self._over.wait(_BACKOFF_S[1])

    def _unheard(self, error: AutoscalerError) -> None:
        if self._over.is_set():
            return
        if self.error is None:
            log.warning("%s: %s", self._path, error)
        self.error = error

    def _listen(self) -> None:
        """List if need be, and watch until the API server ends it."""
        if self._version is None:
            found = self._api.get(self._path, self._query)
            self._sink.listed(found.get("items") or [])
            self._version, self.known = found["metadata"]["resourceVersion"], True
        for event in self._api.watch(self._path, {**self._query, "resourceVersion": self._version}, self._opened):
            if self._over.is_set():
                return
            if event["type"] != "BOOKMARK":
                self._sink.changed(event["type"], event["object"])
            self._version = event["object"]["metadata"]["resourceVersion"]

    def _opened(self, wake: Callable[[], None]) -> None:
        self._wake, self.error = wake, None
        if self._over.is_set():  # ``stop`` came before there was anything to wake
            wake()

    def _pause_of(self, error: AutoscalerError) -> float:
        if isinstance(error, PermanentError):
            return self._refused_s
        return error.retry_after_s if isinstance(error, BusyError) else 0.0
