"""Posts events, one after the other, from a thread of its own: a cycle only puts them into a short queue.

An address may be a secret: what the log says of it is its host.
"""

import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from autoscaler.adapters.notifications.events import Event, Watch
from autoscaler.clients.secrets import referred
from autoscaler.config.notify import Notify, filled
from autoscaler.errors import SettingsError

QUEUE: Final = 100  # events that wait, at most; the oldest make room
_PAUSES_S = (1.0, 5.0, 25.0)  # before what could not be posted is tried again
_TIMEOUT_S = 5.0
_CLOSE_S = 2.0
_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})

log = logging.getLogger(__name__)


class _NoRedirects(HTTPRedirectHandler):
    """An address that sends on to another one is wrong: nothing is posted there."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Notifications:
    """Looks at every cycle of every group, and posts what is worth telling."""

    def __init__(self, settings: Notify, wait: Callable[[float], bool] | None = None) -> None:
        """Post nothing yet.

        Args:
            settings: With an address.
            wait: Waits for so many seconds and says whether to stop; by default until ``close``.

        Raises:
            SettingsError: What the address refers to is not there.
        """
        self._settings = settings
        self._address()
        self._watches: dict[tuple[str, str], Watch] = {}
        self._guard = threading.Lock()  # clusters are looked after side by side
        self._queue: queue.Queue[Event | None] = queue.Queue(QUEUE)
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._dropped = 0
        self._open = build_opener(_NoRedirects)
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)

    def start(self) -> None:
        """Begin to post."""
        self._thread.start()

    def take(self, line: Mapping[str, Any]) -> None:
        """Take in a group's cycle, its line of ``cycles.jsonl``; never waits."""
        key = str(line["cluster"]), str(line["group"])
        with self._guard:
            watch = self._watches.setdefault(key, Watch(self._settings))
            events = watch.take(line)
        for event in events:
            self._put(event)

    def close(self) -> None:
        """Post what waits, for a short while, and end."""
        limit = time.monotonic() + _CLOSE_S
        self._put(None)
        if self._thread.is_alive():
            self._thread.join(max(0.0, limit - time.monotonic()))
        self._stop.set()

    def _put(self, event: Event | None) -> None:
        while True:
            try:
                self._queue.put_nowait(event)
            except queue.Full:
                try:
                    self._queue.get_nowait()
                except queue.Empty:
                    continue
                self._dropped += 1
                if self._dropped == 1:
                    log.warning("notifications: more than %d wait to be posted: the oldest are dropped", QUEUE)
            else:
                return

    def _address(self) -> str:
        return referred("notify.url", self._settings.url or "")

    def _run(self) -> None:
        while (event := self._queue.get()) is not None and not self._stop.is_set():
            self._post(event)
            if self._queue.empty() and self._dropped:
                log.warning("notifications: %d were dropped", self._dropped)
                self._dropped = 0

    def _post(self, event: Event) -> None:
        for pause_s in (*_PAUSES_S, None):
            said, again = self._try(event)
            if said is None:
                return
            if not again or pause_s is None:
                log.warning("notifications: what happened to group %s is not told: %s", event.fields["group"], said)
                return
            if self._wait(pause_s):
                return

    def _try(self, event: Event) -> tuple[str | None, bool]:
        """Return why an event could not be posted, ``None`` if it was, and whether to try again."""
        host = "?"
        try:
            address = self._address()
            host = urlsplit(address).hostname or "?"
            kind, body = payload(event, self._settings)
            request = Request(address, json.dumps(body).encode(), {"Content-Type": kind}, method="POST")  # noqa: S310  checked
            with self._open.open(request, timeout=_TIMEOUT_S):
                return None, False
        except SettingsError as e:
            return "; ".join(e.problems), False
        except HTTPError as e:
            e.close()
            return f"{host} answered {e.code}", e.code in _AGAIN or e.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        except OSError as e:
            return f"{host} cannot be reached ({getattr(e, 'reason', e)})", True
        except (ValueError, HTTPException) as e:  # their texts may have the address in them
            return f"{host} cannot be reached ({type(e).__name__})", isinstance(e, HTTPException)


def payload(event: Event, settings: Notify) -> tuple[str, dict[str, object]]:
    """Return an event's media type and body."""
    text = filled(settings.text, event.fields)
    if event.others:
        text += f" ({event.others} more since the message before)"
    if settings.format == "slack":  # &, < and > are the ones that Slack's text gives a meaning
        return "application/json", {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    cluster, group = (str(event.fields[name]) for name in ("cluster", "group"))
    name = f"{cluster}/{group}/{event.kind}/{event.at}/{event.cycle}"
    return "application/cloudevents+json", {
        "specversion": "1.0",
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
        "source": f"/autoscaler/{cluster}",
        "type": f"autoscaler.group.{event.kind}",
        "subject": group,
        "time": datetime.fromtimestamp(event.at, UTC).isoformat(),
        "datacontenttype": "application/json",
        "data": {**event.fields, "others": event.others, "text": text},
    }
