"""The latest plan for the brokers of each cluster, as ``/api/brokers`` tells it: from rows of the table ``balance``.

Another job writes them. They are read when the page asks, by the thread that answers it, and at most so often.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict  # as in ``board``

from autoscaler.model import What
from autoscaler.ports import Clock

ACTIONS = 100  # of a plan: as many as are listed
FRESH_S = 15.0  # between two looks into the table

Rows = Callable[[], Sequence[Mapping[str, Any]]]  # see ``DecisionTables.plans``


class BrokerLoad(TypedDict):
    """What a broker has by one goal: bytes/s, bytes of ``storage`` and ``lag``, or a count."""

    goal: str
    load: float
    low: Annotated[float | None, Field(description="where the band begins; null: it takes no part, or is limited only")]
    high: Annotated[float | None, Field(description="where it ends")]
    most: Annotated[float | None, Field(description="what it may be given at most; null: any amount")]
    outside: bool


class BrokerLoads(TypedDict):
    """One broker by all goals."""

    id: int
    loads: list[BrokerLoad]


class BrokerAction(TypedDict):
    """One leadership or replica that moves, or would."""

    partition: str
    source: int | None
    target: int | None
    score: Annotated[float | None, Field(description="above 0.5: it helps")]
    sentence: str
    state: Annotated[str, Field(description="advised, held, planned, begun, or how it has ended")]


class Balance(TypedDict):
    """One cluster's brokers."""

    cluster: str
    mode: str
    at: Annotated[float, Field(description="when it was said last what was found, in seconds since 1970")]
    sentence: str
    brokers: Annotated[list[BrokerLoads], Field(description="as they were found last, smoothed")]
    planned_at: Annotated[float | None, Field(description="when the latest plan was made; null: there was none")]
    actions: Annotated[list[BrokerAction], Field(description=f"of the latest plan, the first {ACTIONS}")]
    actions_all: int


class Brokers(TypedDict):
    """Every cluster whose brokers a job balances."""

    now: float
    clusters: list[Balance]


class BrokerPlans:
    """Tells of the latest plans."""

    def __init__(self, clock: Clock, rows: Rows) -> None:
        """Read nothing yet."""
        self._clock, self._rows = clock, rows
        self._guard, self._read_at = threading.Lock(), -float("inf")
        self._known: list[Balance] = []

    def latest(self) -> Brokers:
        """Return the latest plan of each cluster.

        Raises:
            AutoscalerError: The table cannot be read right now.
        """
        with self._guard:
            if self._clock.monotonic() - self._read_at >= FRESH_S:
                self._known = told(self._rows())
                self._read_at = self._clock.monotonic()
            return {"now": self._clock.now(), "clusters": self._known}


def told(rows: Iterable[Mapping[str, Any]]) -> list[Balance]:
    """Return what rows of ``balance`` say of each cluster; they are in the order of time."""
    by_cluster: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_cluster.setdefault(row["cluster"], []).append(row)
    return [_balance(name, of) for name, of in sorted(by_cluster.items())]


def _balance(cluster: str, rows: Sequence[Mapping[str, Any]]) -> Balance:
    looks, actions = [[r for r in rows if r["kind"] == kind] for kind in ("look", "action")]
    states = {(r["topic"], r["partition"]): r["status"] for r in rows if r["kind"] == "outcome"}
    last = max(looks or rows, key=lambda r: r["at"])
    loads = next((found for r in reversed(looks) if (found := _loads(r))), [])
    return {
        "cluster": cluster,
        "mode": last["mode"],
        "at": last["at"].timestamp(),
        "sentence": last["detail"] or "",
        "brokers": loads,
        "planned_at": actions[-1]["at"].timestamp() if actions else None,
        "actions": [_action(r, states) for r in actions[:ACTIONS]],
        "actions_all": len(actions),
    }


def _loads(look: Mapping[str, Any]) -> list[BrokerLoads]:
    return [_broker(dict(f["numbers"])) for f in look["findings"] or () if f["what"] == What.BROKER_LOADS]


def _broker(numbers: Mapping[str, float]) -> BrokerLoads:
    loads: list[BrokerLoad] = []
    for goal in (n for n in numbers if f"{n}_mean" in numbers):
        low, high, most = (numbers.get(f"{goal}_{end}") for end in ("low", "high", "most"))
        load = numbers[goal]
        outside = (low is not None and load < low) or any(end is not None and load > end for end in (high, most))
        loads.append({"goal": goal, "load": load, "low": low, "high": high, "most": most, "outside": outside})
    return {"id": int(numbers["broker"]), "loads": loads}


def _action(row: Mapping[str, Any], states: Mapping[tuple[str, int], str]) -> BrokerAction:
    numbers = dict(row["findings"][0]["numbers"]) if row["findings"] else {}
    return {
        "partition": f"{row['topic']}-{row['partition']}",
        "source": row["source"],
        "target": row["target"],
        "score": numbers.get("score"),
        "sentence": row["detail"] or "",
        "state": states.get((row["topic"], row["partition"]), row["status"]) or "",
    }
