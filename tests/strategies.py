"""Hypothesis strategies for the pure parts: loads to place, and anything a cycle might see."""

import math
import os
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from autoscaler.config.policy import Policy
from autoscaler.core.capacity.busy_throughput import Busy
from autoscaler.core.capacity.capacity import Capacity
from autoscaler.core.capacity.scaling_effectiveness import Drained
from autoscaler.core.group.history import History, Intent
from autoscaler.model import (
    CapacitySource,
    GroupMembers,
    GroupState,
    Member,
    Observation,
    PartitionLoad,
    RateSource,
    Retention,
    TopicPartition,
    WorkerPhase,
    WorkerView,
)
from autoscaler.packing import ALGORITHMS
from tests.builders import CAPACITY, T0, TOPIC, load, policy, snapshot, tp

# ``make chaos`` looks at so many times as many examples as ``make unit``, and at other ones each time.
MORE = 8 if os.environ.get("HYPOTHESIS") == "search" else 1


def examples(count: int) -> settings:
    """Return the settings of a property that ``make unit`` looks at so many examples of; most may be of no use to it."""
    return settings(max_examples=count * MORE, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


# A strategy that is made anew for each draw is checked and labelled anew, which takes longer than drawing from it.
one_of, just = cache(st.one_of), lru_cache(maxsize=None, typed=True)(st.just)


@lru_cache(maxsize=None, typed=True)
def sampled(*values: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401  of whatever is chosen from
    return st.sampled_from(values)


algorithms = sampled(*ALGORITHMS)
selectable = one_of(just("PACE"), sampled(*(a for a in ALGORITHMS if a != "EXACT")))  # which only advises
rate_values = one_of(just(0.0), st.floats(0.001, 300), st.integers(0, 30).map(lambda i: i * 10.0), st.floats(0.001, 1e12))


@st.composite
def placements(draw: st.DrawFn, most: int = 24) -> tuple[dict[TopicPartition, float], dict[TopicPartition, int]]:
    """Return loads, and who held some of them and some partitions that are gone."""
    count = draw(st.integers(0, most))
    loads = {tp(i): draw(rate_values) for i in range(count)}
    previous = {tp(i): draw(st.integers(0, 9)) for i in range(count + 3) if draw(st.booleans())}
    return loads, previous


@cache
@st.composite
def partition_loads(draw: st.DrawFn, partition: TopicPartition) -> PartitionLoad:
    """Return one partition's load: fresh, carried, never measured, or nonsense."""
    rate: float | None = draw(one_of(rate_values, st.none(), sampled(math.nan, math.inf, -1.0)))
    known = draw(st.booleans()) and rate is not None
    records = draw(sampled("unknown", "a tenth", "any"))
    return load(
        partition,
        rate,
        known=known,
        records_per_s=draw(rate_values) if records == "any" else (rate or 0.0) / 10 if records == "a tenth" else None,
        age_s=0.0 if known else draw(st.floats(0, 100)),
        lag_s=draw(one_of(st.none(), st.floats(0, 100))),
        lag_records=draw(one_of(st.none(), st.integers(0, 10**9))),
        rate_source=draw(sampled(*RateSource)),
        error=None if known else draw(one_of(st.none(), just("broker 1 does not answer"))),
    )


@cache
@st.composite
def states(draw: st.DrawFn, count: int) -> GroupState:
    """Return a managed group in any condition, sensible or not, as long as it is what the contract allows."""
    live = draw(st.frozensets(st.integers(0, 7), max_size=6))
    listed = [tp(i) for i in range(count + 2)]
    owner = {p: draw(sampled(*sorted(live))) for p in listed if draw(st.booleans()) and live}
    orphans = frozenset(p for p in listed if p not in owner and draw(st.booleans()))
    workers = tuple(
        WorkerView(
            name=f"g-{s}",
            uuid=f"{s}.1",
            slot=s,
            phase=draw(sampled(*WorkerPhase)),
            instance=None,
            owned=frozenset(p for p in listed if draw(st.integers(0, 3)) == 0 or owner.get(p) == s),
            ages=draw(sampled((), ((0, 3), (40, 1)), ((96, 5),))),
        )
        for s in sorted(live)
    )
    spare = (WorkerView(name="x", uuid="x", slot=None, phase=WorkerPhase.ACTIVE, instance=None, owned=frozenset()),)
    planned = bool(owner) or bool(orphans) or draw(st.booleans())
    return GroupState(
        epoch=draw(st.integers(0, 5)),
        workers=workers + (spare if draw(st.booleans()) else ()),
        owner=owner,
        orphans=orphans,
        pending=frozenset(p for p in owner if draw(st.integers(0, 3)) == 0),
        requested=frozenset(draw(st.sets(st.integers(0, 9), max_size=8))) if planned else None,
        plan_at=draw(one_of(st.none(), st.floats(T0 - 500, T0))),
    )


@cache
@st.composite
def memberships(draw: st.DrawFn, count: int) -> GroupMembers:
    """Return the membership of a native group."""
    size = draw(st.integers(0, 5))
    return GroupMembers(
        state=draw(sampled("EMPTY", "STABLE", "PREPARING_REBALANCING", "UNKNOWN")),
        kind="CLASSIC",
        assignor=draw(sampled("range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "")),
        members=tuple(
            Member(
                member_id=f"m{i}",
                client_id="app",
                host="/10.0.0.1",
                assigned=frozenset(tp(p) for p in range(count + 1) if draw(st.booleans())),
                topics=draw(sampled(frozenset({TOPIC}), frozenset({TOPIC}), None)),
            )
            for i in range(size)
        ),
        at=T0,
    )


@st.composite
def observations(draw: st.DrawFn, *, managed: bool = False) -> Observation:
    """Return anything that a cycle might see; of a managed group only, or of any."""
    count = draw(st.integers(0, 9))
    measured = replace(
        snapshot([draw(partition_loads(tp(i))) for i in range(count)]), error=draw(one_of(st.none(), just("no broker answers")))
    )
    state = draw(states(count) if managed else one_of(st.none(), states(count)))
    members = draw(one_of(st.none(), memberships(count)))
    seconds, size = draw(sampled(10.0, 1e4, math.inf)), draw(sampled(1e3, 1e9, math.inf))
    kept = {TOPIC: Retention(seconds=seconds, bytes=size)} if draw(st.booleans()) else {}
    return Observation(group="g", snapshot=measured, state=state, members=members, retention=kept)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Return any consistent policy."""
    least = draw(st.integers(1, 5))
    mode = draw(sampled("act", "advise"))
    assignment = "managed" if mode == "act" else draw(sampled("managed", "native"))
    return policy(
        mode=mode,
        assignment=assignment,
        capacity_records_per_s=draw(sampled(None, None, 3.0, 30.0)) if assignment == "managed" else None,
        min_consumers=least,
        max_consumers=draw(st.integers(least, 12)),
        algorithm=draw(selectable),
        target_utilisation=draw(st.floats(0.3, 1)),
        tolerance_ratio=draw(sampled(0.0, 0.1, 0.3)),
        cooldown_s=draw(sampled(0.0, 10.0)),
        shrink_cooldown_s=draw(sampled(0.0, 60.0)),
        shrink_stabilisation_s=draw(sampled(0.0, 120.0)),
        **({"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": CAPACITY} if draw(st.booleans()) else {}),
        **(draw(guard_settings(least)) if draw(st.booleans()) else {}),
    )


@cache
@st.composite
def guard_settings(draw: st.DrawFn, least: int) -> dict[str, object]:
    """Return settings of the guards; windows are open at ``T0``, or never near it."""
    pause = sampled(None, "all", "scale_up", "scale_down")
    steps = sampled(None, 1, 3, "10%", "100%")
    cron = draw(sampled("0 22 * * *", "0 10 * * *"))  # T0 is 22:13 UTC
    window = {"cron": cron, "duration_min": 60, "paused": draw(pause), "max_consumers": draw(st.integers(least, 6))}
    return {
        "paused": draw(pause),
        "pinned": draw(one_of(st.none(), just(least))),
        "windows": [window] if draw(st.booleans()) else [],
        "grow_step": draw(steps),
        "shrink_step": draw(steps),
        "grow_stabilisation_s": draw(sampled(0.0, 30.0)),
        "turns_per_hour": draw(sampled(None, 1, 10)),
        "move_payback_s": draw(sampled(None, 0.1, 60.0)),
        "give_up_after": (after := draw(sampled(None, 1, 3))),
        "give_back": after is not None and draw(st.booleans()),
    }


ago = one_of(st.none(), st.floats(0, 500).map(lambda s: T0 - s))
drained = st.builds(Drained, in_vain=st.integers(0, 5), level=st.floats(0, 1e6), consumers=st.integers(0, 6))
drains = one_of(just(Drained()), drained)
intents = one_of(
    st.none(), st.builds(Intent, epoch=st.integers(0, 5), scales=st.booleans(), moves=st.booleans(), by=st.integers(-3, 3))
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return any memory."""
    times = sorted(draw(st.lists(st.floats(0, 300), max_size=5)), reverse=True)
    speeds = {f"{slot}.1": draw(st.floats(0.1, 4)) for slot in range(6) if draw(st.booleans())}
    measured = Capacity(bytes_per_s=CAPACITY, source=CapacitySource.MEASURED)
    return History(
        busy=Busy(speeds=speeds) if draw(st.booleans()) else Busy(),
        capacity=measured if draw(st.booleans()) else None,
        recommendations=tuple((T0 - s, draw(st.integers(0, 12))) for s in times),
        last_scale_at=draw(ago),
        last_move_at=draw(ago),
        waiting_since=draw(ago),
        intent=draw(intents),
        direction=draw(sampled(-1, 0, 1)),
        turns=tuple(T0 - s for s in sorted(draw(st.lists(st.floats(0, 5000), max_size=12)), reverse=True)),
        overloaded_since=draw(ago),
        pauses=tuple(draw(st.lists(st.floats(0, 100), max_size=3))),
        drained=draw(drains),
    )
