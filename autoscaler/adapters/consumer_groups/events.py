"""Events on ConsumerGroups, as ``kubectl describe`` shows them: one for a decision that is carried out, and not many of them.

Cycles only leave values. An event that cannot be made is let go: what holds stands in the status.
"""

import logging
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from autoscaler.adapters.consumer_groups.status import short
from autoscaler.adapters.kubernetes.api import Api
from autoscaler.config.consumer_groups import API, KIND, Declaration
from autoscaler.errors import AutoscalerError
from autoscaler.model import Decision
from autoscaler.model.findings import What
from autoscaler.ports import Clock

CONTROLLER: Final = "kafka-group-autoscaler"
EVERY_S: Final = 60.0  # between two events of one resource, at least
_INSTANCE = uuid.uuid4().hex[:8]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    """What is to be told of one resource: the latest decision, and how many others there were."""

    one: Declaration
    decision: Decision | None = None
    others: int = 0
    not_before: float = float("-inf")


class Events:
    """Tells decisions that change something."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._waiting: dict[str, _Waiting] = {}
        self._guard = threading.Lock()
        self._failing = False

    def take(self, one: Declaration, decision: Decision) -> None:
        """Take the latest decision for a resource's group; never waits."""
        if decision.mode != "act" or not decision.actions:
            return
        with self._guard:
            kept = self._waiting.setdefault(one.uid, _Waiting(one))
            kept.others += kept.decision is not None
            kept.one, kept.decision = one, decision

    def write(self) -> None:
        """Make those that are due."""
        now = self._clock.monotonic()
        with self._guard:
            due = [
                (x.one, x.decision, x.others) for x in self._waiting.values() if x.decision is not None and now >= x.not_before
            ]
            for one, _, _ in due:
                self._waiting[one.uid] = _Waiting(one, not_before=now + EVERY_S)
            over = [uid for uid, x in self._waiting.items() if x.decision is None and now >= x.not_before]
            for uid in over:
                del self._waiting[uid]
        for one, decision, others in due:
            self._make(one, event(one, decision, others, self._clock.now()))

    def _make(self, one: Declaration, body: Mapping[str, Any]) -> None:
        try:
            self._api.create(f"/apis/events.k8s.io/v1/namespaces/{one.namespace}/events", body, manager=CONTROLLER)
            self._failing = False
        except AutoscalerError as e:
            if not self._failing:
                log.warning("no event is made of ConsumerGroup %s: %s", one.key, e)
            self._failing = True


def event(one: Declaration, decision: Decision, others: int, at: float) -> dict[str, Any]:
    """Return the event of a decision; ``others`` are those that came between the one before and this one."""
    failed = any(f.what is What.NOT_CARRIED_OUT for f in decision.findings)
    now = "?" if decision.consumers_now is None else decision.consumers_now
    number = f"{now}" if decision.consumers_now == decision.consumers else f"{now} → {decision.consumers}"
    more = f" ({others} more since the event before)" if others else ""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{one.name}-", "namespace": one.namespace},
        "eventTime": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": f"{CONTROLLER}-{_INSTANCE}",
        "action": "Scale" if decision.consumers_now != decision.consumers else "Move",
        "type": "Warning" if failed else "Normal",
        "reason": decision.reason.value,
        "note": short(f"consumers {number}{more}: {decision.detail}"),
        "regarding": {"apiVersion": API, "kind": KIND, "name": one.name, "namespace": one.namespace, "uid": one.uid},
    }
