"""Follows the ConsumerGroups of a namespace, or of all: implements ``config.consumer_groups.Declared``.

What they declare is worked out in the thread of the watch, and cycles only read it. While the API does not answer, what was known
last holds. A resource that is deleted lets its group go, and its consumers stay.
"""

import logging
import threading
from collections.abc import Mapping, Sequence

from autoscaler.adapters.consumer_groups.writer import Statuses
from autoscaler.adapters.kubernetes.api import Api, connection, own_namespace
from autoscaler.adapters.kubernetes.followed import Followed, Json
from autoscaler.config.consumer_groups import API, PLURAL, Beside, Declaration, Merged, read
from autoscaler.config.hot_reload import FollowedFile
from autoscaler.config.kubernetes import ALL, Kubernetes
from autoscaler.errors import PermanentError
from autoscaler.model import Decision
from autoscaler.ports import Clock

_ABSENT = "install the kind from conf/kubernetes/consumer-groups/crd.yaml; groups of the file are looked after meanwhile"
_REFUSED_S = 60.0  # between two looks whether the kind has been installed, or the right granted

log = logging.getLogger(__name__)


def following(settings: Kubernetes, followed: FollowedFile, clock: Clock) -> "ConsumerGroups":
    """Begin to follow the resources, to be looked at whenever the configuration file is."""
    found = ConsumerGroups(settings, clock)
    followed.beside(Beside(found, clock.monotonic))
    found.start()
    return found


class ConsumerGroups:
    """The resources as last heard.

    Attributes:
        now: What they declare; another object each time that something changes.
        own: The namespace that the configuration means where it names none; ``None`` if that is not known.
    """

    def __init__(self, settings: Kubernetes, clock: Clock, *, refused_s: float = _REFUSED_S) -> None:
        """Ask for nothing yet."""
        self._settings = settings
        self._api = Api(connection(settings.kubeconfig, settings.context))
        where = "" if settings.consumer_groups == ALL else f"/namespaces/{settings.consumer_groups}"
        path = f"/apis/{API}{where}/{PLURAL}"
        self._follows = Followed(self._api, path, {}, self, absent=_ABSENT, refused_s=refused_s)
        self._statuses = Statuses(self._api, clock)
        self._by_key: Mapping[str, Declaration] = {}
        self._listed = threading.Event()
        self.now: tuple[Declaration, ...] = ()
        self.own = self._own()

    def start(self) -> None:
        """Begin to listen, and to tell."""
        self._follows.start()
        self._statuses.start()

    def heard(self, within_s: float) -> bool:
        """Wait until all have been heard of, so long at most, and say whether they have."""
        return self._listed.wait(within_s)

    def judged(self, declared: Sequence[Declaration], merged: Merged) -> None:
        """Take which of them hold."""
        self._statuses.judged(declared, merged)

    def take(self, decision: Decision) -> None:
        """Take a group's latest decision; never waits."""
        self._statuses.take(decision)

    def close(self) -> None:
        """Hear no more."""
        self._follows.close()
        self._statuses.close()
        self._api.close()

    # --- a sink of what is heard ---

    def listed(self, objects: Sequence[Json]) -> None:
        """Take all that there are."""
        self._take({(one := self._read(found)).key: one for found in objects})
        self._listed.set()

    def changed(self, kind: str, found: Json) -> None:
        """Take one that has changed."""
        one = self._read(found)
        rest = {key: x for key, x in self._by_key.items() if key != one.key}
        self._take(rest if kind == "DELETED" else {**rest, one.key: one})

    def _read(self, found: Json) -> Declaration:
        about = found["metadata"]
        return read(found, self._settings, self._by_key.get(f"{about['namespace']}/{about['name']}"))

    def _take(self, found: Mapping[str, Declaration]) -> None:
        for key in self._by_key.keys() - found.keys():
            log.info("ConsumerGroup %s is gone: its group is not looked after from here any more, and its consumers stay", key)
        if found != self._by_key:
            self._by_key, self.now = found, tuple(found.values())

    def _own(self) -> str | None:
        try:
            return own_namespace(self._settings.kubeconfig, self._settings.context)
        except PermanentError:  # said by the watch, which cannot connect either
            return None
