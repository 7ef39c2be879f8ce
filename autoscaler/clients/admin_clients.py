"""Keeps clients alive until their own threads have let go of them.

confluent-kafka's admin client answers from a thread of its own. If the last reference to the client is dropped while that thread
still holds one, the client is destroyed by it, and librdkafka aborts the process ("rd_kafka_destroy() called from librdkafka
owned thread"). Code that makes an admin client passes it through ``kept``, and a later call of that destroys it when there has
been no other reference for a while. Standard library only.
"""

import sys
import threading
import time
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")
_IDLE_S = 60.0  # longer than any request
_OWN_REFERENCES = 2  # the record's, and the argument of getrefcount


@dataclass(slots=True)
class _Kept:
    client: object
    idle_since: float | None = None


_clients: list[_Kept] = []
_lock = threading.Lock()


def kept(client: _T) -> _T:
    """Return the client, which is not destroyed before it has been idle for a minute."""
    now = time.monotonic()
    with _lock:
        for entry in list(_clients):
            if sys.getrefcount(entry.client) > _OWN_REFERENCES:
                entry.idle_since = None
            elif entry.idle_since is None:
                entry.idle_since = now
            elif now - entry.idle_since > _IDLE_S:
                _clients.remove(entry)
        _clients.append(_Kept(client))
    return client
