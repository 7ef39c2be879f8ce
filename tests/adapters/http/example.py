"""A quarter of an hour of some groups as the page shows them: made up, but in the form of the job's own cycles."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from autoscaler.adapters.audit import balance_table
from autoscaler.adapters.http.board import Board
from autoscaler.adapters.http.brokers import BrokerPlans
from autoscaler.adapters.http.metrics import Cycle, JobMetrics
from autoscaler.adapters.http.page import Page
from autoscaler.adapters.http.server import Answers, Health
from autoscaler.brokers.ports import Entry
from autoscaler.core.messages import text_of
from autoscaler.model import Finding, HandoverDone, PartitionLoad, TopicPartition, What
from jobs.balance_brokers import said
from tests import builders as b
from tests.adapters.audit import audit_cases as cases
from tests.adapters.http.served import cycle
from tests.fakes import FakeClock

HOSTILE = "<img src=x onerror=alert(1)>/&\"'"
SCRIPT = "<script>alert(1)</script>"
PLAIN = "payments"  # in place of that
QUIET = "telemetry-archive-of-all-regions-and-tenants.v2"
NAMES = ("orders", "bills", QUIET, HOSTILE)
ABLE = 800e3
LASTS_S = 900


class Example:
    """A board that four groups were told to, with the answers that serve it; its clock stands at the last cycle.

    ``plain`` leaves out what only tests want to see, for the documentation's pictures.
    """

    def __init__(self, *, plain: bool = False) -> None:
        self.clock = FakeClock(wall=cases.T0 + LASTS_S)
        names = tuple(PLAIN if plain and n == HOSTILE else n for n in NAMES)
        self.board = Board(self.clock, lambda: (0, None), names, old_s=10.0)
        for second in range(0, LASTS_S + 1, 5):
            for told in told_at(second):
                self.board.take(_plainly(told) if plain else told, handed_over(second) if told.name == "orders" else ())

    def answers(self, *, anywhere: bool = False) -> Answers:
        """Return what serves the board."""
        metrics = JobMetrics(self.clock, lambda: (0, None))
        health = Health(groups=len(NAMES), oldest_s=60.0, advice_max_age_s=60.0)
        return Answers(metrics, health, self.clock, Page(self.board, BrokerPlans(self.clock, plans), anywhere=anywhere))


def plans() -> list[dict[str, Any]]:
    """Return rows of what was planned for the brokers of two clusters."""
    loads = ((1, 9.1e6, 41e9, 12), (2, 3.2e6, 18e9, 7), (3, 4.4e6, 52e9, 8))
    found = [
        Finding.of(What.BROKER_LOADS, broker=b, bytes_in=rate, bytes_in_mean=5.6e6, bytes_in_low=5e6, bytes_in_high=6.2e6,
                   storage=size, storage_mean=37e9, storage_low=33e9, storage_high=41e9, storage_most=50e9,
                   leaders=led, leaders_mean=9, leaders_low=8.1, leaders_high=9.9)
        for b, rate, size, led in loads
    ]  # fmt: skip
    full = Finding.of(What.BROKER_FULL, numbers={"broker": 3, "load_bytes": 52e9, "most_bytes": 50e9}, goal="storage")
    balancing = Finding.of(What.BALANCING, actions=2, before=33.0, after=89.0)
    first, second = TopicPartition(topic="orders", partition=3), TopicPartition(topic=HOSTILE, partition=0)
    led = Finding.of(
        What.LEADERSHIP_MOVED, partitions=[first], source=1, target=2, score=0.61, leaders_before=0.7, leaders_after=1.0
    )
    moved = Finding.of(What.REPLICA_MOVED, partitions=[second], source=1, target=2, score=0.55, size_bytes=2e9,
                       bytes_in_before=0.6, bytes_in_after=0.8)  # fmt: skip
    at = cases.T0 + LASTS_S - 60
    entries = [
        Entry(kind="look", plan="", at=at, findings=(balancing, full, *found)),
        Entry(kind="action", plan="p", at=at, status="planned", partition=first, findings=(led,)),
        Entry(kind="action", plan="p", at=at, status="planned", partition=second, findings=(moved,)),
        Entry(kind="outcome", plan="p", at=at + 1, status="begun", partition=first, replicas=(2, 1)),
        Entry(kind="outcome", plan="p", at=at + 2, status="moved", partition=first, replicas=(2, 1)),
    ]
    rows = [balance_table.row(e, cluster="east", mode="act", detail=text_of(said(e))) for e in entries]
    calm = Entry(kind="look", plan="", at=at, findings=(Finding.of(What.BROKERS_BALANCED),))
    return [*rows, balance_table.row(calm, cluster="west", mode="advise", detail=text_of(calm.findings))]


def told_at(second: int) -> tuple[Cycle, ...]:
    """Return the groups' cycles of one second."""
    return _orders(second), _bills(second), _telemetry(second), _hostile(second)


def handed_over(second: int) -> tuple[HandoverDone, ...]:
    """Return the handovers of group orders that are seen at a second: five of the six that its latest step moves."""
    if second not in {305, 605}:
        return ()
    done = cases.handover(0, epoch=8 if second == 305 else 9)
    return tuple(replace(done, partition=TopicPartition(topic="t", partition=p), pause_s=0.02 + 0.01 * p) for p in range(5))


def _plainly(told: Cycle) -> Cycle:
    lags = {"orders": 0.4, "bills": 0.2, QUIET: 6.1, HOSTILE: 95.0}
    group, detail = told.line["group"], str(told.line["detail"]).removeprefix(f"{SCRIPT} ")
    changed = {"group": PLAIN if group == HOSTILE else group, "detail": detail}
    loads = tuple(replace(x, lag_s=lags[group]) for x in told.loads)
    return replace(told, line={**told.line, **changed}, loads=loads)


def worker(slot: int | None, name: str, load: float | None, partitions: tuple[int, ...], **more: object) -> Mapping[str, object]:
    """Return a consumer as a cycle's line has it."""
    held = [f"t-{p}" for p in partitions]
    return {
        "slot": slot, "name": name, "uuid": f"u-{name}", "phase": "active", "bytes_per_s": load, "lag_records": 40 * len(held),
        "partitions": held, "latency_p50_s": 0.02, "latency_p99_s": 0.1, "capacity_bytes_per_s": ABLE, **more,
    }  # fmt: skip


def _told(name: str, second: int, workers: list[Mapping[str, object]], **changed: object) -> Cycle:
    rates = [w["bytes_per_s"] for w in workers]
    line = {
        "group": name, "workers": workers, "consumers_now": len(workers), "consumers": len(workers), "recommended": len(workers),
        "recommended_age_s": 0.0, "total_bytes_per_s": sum(r for r in rates if isinstance(r, float)), "total_lag_records": 450,
        "usable_bytes_per_s": 0.88 * ABLE, "capacity_bytes_per_s": ABLE, "known": True, "partitions": 24, "actions": [],
        "sample_age_s": 0.2, "mode": "act", "limited_by": None, **changed,
    }  # fmt: skip
    base = _base()
    loads = tuple(load for w in workers for load in _loads(w))
    return replace(base, loads=loads, line={**base.line, "t": cases.T0 + second, **line})


def _loads(w: Mapping[str, Any]) -> list[PartitionLoad]:
    """Return the loads of what a consumer holds, which share its rate alike."""
    rate, held = w["bytes_per_s"], w["partitions"]
    each = None if rate is None else rate / len(held)
    return [b.load(TopicPartition(topic="t", partition=int(p.removeprefix("t-"))), each) for p in held]


@cache
def _base() -> Cycle:
    return cycle()


def _step(what: str) -> dict[str, object]:
    return {"kind": what.split(maxsplit=1)[0], "topic": "t", "partition": 0, "source": None, "target": None, "what": what}


MOVE = _step("move t-0 0->1")


def _orders(second: int) -> Cycle:
    number = 4 if second < 300 else 5 if second < 600 else 6
    total = 2.4e6 + 1.9e6 * second / LASTS_S + 1.5e5 * math.sin(second / 40)
    share = 24 // number
    workers = [worker(i, f"orders-{i}", total / number * (1 + 0.05 * (i % 3 - 1)), tuple(range(i * share, (i + 1) * share)),
                      host="10.0.3.7", client_id=f"orders-{i}") for i in range(number)]  # fmt: skip
    if second not in {300, 600}:
        hottest = max(float(str(w["bytes_per_s"])) for w in workers)
        said = f"{total / 1e6:.2f} MB/s on {number} consumers, the hottest (2) with {hottest / 1e3:.0f} kB/s of 704 kB/s usable"
        return _told("orders", second, workers, reason="WITHIN_TARGET", detail=said)
    said = f"consumer 2 is above 704 kB/s; {total / 1e6:.2f} MB/s in all take {number} consumers of 704 kB/s"
    steps = [_step(f"add {number - 1}"), *(_step(f"move t-{p} {p % 4}->{number - 1}") | {"partition": p} for p in range(6))]
    return _told("orders", second, workers, reason="RATE_ABOVE_CAPACITY", detail=said, actions=steps, consumers_now=number - 1,
                 consumers=number, epoch=7 if second == 300 else 8, r_score=0.9)  # fmt: skip


def _bills(second: int) -> Cycle:
    workers = [worker(i, f"bills-{i}", 210e3, (2 * i, 2 * i + 1)) for i in range(6)]
    said = "1.26 MB/s would fit on 2 of 6 consumers; the group is only advised"
    return _told("bills", second, workers, mode="advise", reason="UNDERUSED", limited_by="ADVISORY", consumers=2, recommended=2,
                 detail=said, total_lag_records=12)  # fmt: skip


def _telemetry(second: int) -> Cycle:
    """Return a cycle of the group that is not decided any more for the last minute."""
    workers = [
        worker(None, f"rdkafka-{i:02d}", 300e3 + 5e3 * i, (i,), client_id="rdkafka", host=f"/10.0.1.{i}") for i in range(60)
    ]
    return _told(QUIET, min(second, LASTS_S - 60), workers, mode="advise", reason="WITHIN_TARGET",
                 detail="26.9 MB/s on 60 consumers", total_lag_records=88_000)  # fmt: skip


def _hostile(second: int) -> Cycle:
    workers = [worker(0, "<b>w</b>", 790e3, (0, 1)), worker(1, "w-1", 950e3, (2, 3, 4)), worker(2, "w-2", None, (5,))]
    said = f"{SCRIPT} consumer 1 with 950 kB/s is above 704 kB/s; at most 3 consumers are allowed"
    return _told(HOSTILE, second, workers, reason="RATE_ABOVE_CAPACITY", limited_by="AT_MAXIMUM", detail=said, recommended=4,
                 total_lag_records=1_204_551)  # fmt: skip
