"""Writes the status of ConsumerGroups, and their events, from a thread of its own, where something has changed and not often.

Cycles only leave values. By server-side apply under the controller's name. What could not be written is written later, as it is
by then.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from autoscaler.adapters.consumer_groups.events import Events
from autoscaler.adapters.consumer_groups.status import Known, numbers, status_of, substance
from autoscaler.adapters.kubernetes.api import Api, MissingError, OvertakenError
from autoscaler.config.consumer_groups import API, KIND, PLURAL, Declaration, Merged
from autoscaler.errors import AutoscalerError, PermanentError
from autoscaler.model import Decision
from autoscaler.ports import Clock

MANAGER: Final = "kafka-group-autoscaler"
LEAST_S: Final = 10.0  # between two requests for one resource
REFRESH_S: Final = 300.0  # between two where only lag and rates have changed, or the job's account may not write
_LOOK_S = 0.5
_END_S = 5.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    """What is kept of one resource."""

    known: Known
    written: Mapping[str, Any]
    not_before: float = field(default=float("-inf"))
    refused: bool = False  # that its status may not be written was said


class Statuses:
    """Knows what became of each resource, and tells it."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._kept: dict[str, _Kept] = {}
        self._owners: Mapping[str, str] = {}
        self._guard = threading.Lock()  # clusters are looked after side by side
        self._events = Events(api, clock)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="statuses", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def judged(self, declared: Sequence[Declaration], merged: Merged) -> None:
        """Take which resources hold from now on, and why others do not."""
        accepted = set(merged.owners.values())
        with self._guard:
            before, self._owners = self._kept, merged.owners
            self._kept = {}
            for one in declared:
                kept = before.get(one.key)
                if kept is None or kept.known.one.uid != one.uid:
                    kept = _Kept(Known(one=one), one.status)
                decision = kept.known.decision if one.key in accepted and _same(kept.known.one, one) else None
                kept.known = replace(kept.known, one=one, refused=merged.refused.get(one.key), decision=decision)
                self._kept[one.key] = kept

    def take(self, decision: Decision) -> None:
        """Take a group's latest decision; never waits."""
        with self._guard:
            if (key := self._owners.get(decision.group)) is not None and (kept := self._kept.get(key)) is not None:
                kept.known = replace(kept.known, decision=decision)
                self._events.take(kept.known.one, decision)

    def close(self) -> None:
        """Write no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)

    def write(self) -> None:
        """Write what is due."""
        now = self._clock.monotonic()
        with self._guard:
            waiting = [(key, kept, kept.known) for key, kept in self._kept.items() if now >= kept.not_before]
        for key, kept, known in waiting:
            status = status_of(known, kept.written, self._clock.now())
            old = now >= kept.not_before + REFRESH_S - LEAST_S
            if substance(status) != substance(kept.written) or (old and numbers(status) != numbers(kept.written)):
                self._tried(key, kept, status)
            if self._over.is_set():
                return

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                self.write()
                self._events.write()
            except Exception:  # a defect here must not keep the other resources from being told for ever
                log.exception("what became of ConsumerGroups was not told")
                self._over.wait(LEAST_S)

    def _tried(self, key: str, kept: _Kept, status: Mapping[str, Any]) -> None:
        pause_s = LEAST_S
        try:
            self._put(kept.known.one, status)
            kept.written, kept.refused = status, False
        except (MissingError, OvertakenError):
            log.debug("ConsumerGroup %s is another one by now, or gone", key)
        except AutoscalerError as e:
            log.log(
                logging.DEBUG if kept.refused else logging.WARNING, "the status of ConsumerGroup %s is not written: %s", key, e
            )
            kept.refused = True
            pause_s = REFRESH_S if isinstance(e, PermanentError) else LEAST_S
        kept.not_before = self._clock.monotonic() + pause_s

    def _put(self, one: Declaration, status: Mapping[str, Any]) -> None:
        about = {"name": one.name, "namespace": one.namespace, "uid": one.uid}
        path = f"/apis/{API}/namespaces/{one.namespace}/{PLURAL}/{one.name}/status"
        self._api.apply(path, {"apiVersion": API, "kind": KIND, "metadata": about, "status": dict(status)}, manager=MANAGER)


def _same(before: Declaration, now: Declaration) -> bool:
    """Say whether both declare the same group."""
    return before.group is not None and now.group is not None and before.group.group == now.group.group
