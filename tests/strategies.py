"""Hypothesis strategies for the pure parts: loads to place, and anything a cycle might see."""

import math
from dataclasses import replace

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

algorithms = st.sampled_from(ALGORITHMS)
selectable = st.one_of(st.just("PACE"), st.sampled_from([a for a in ALGORITHMS if a != "EXACT"]))  # which only advises
rate_values = st.one_of(st.just(0.0), st.floats(0.001, 300), st.integers(0, 30).map(lambda i: i * 10.0), st.floats(0.001, 1e12))


@st.composite
def placements(draw: st.DrawFn, most: int = 24) -> tuple[dict[TopicPartition, float], dict[TopicPartition, int]]:
    """Return loads, and who held some of them and some partitions that are gone."""
    count = draw(st.integers(0, most))
    loads = {tp(i): draw(rate_values) for i in range(count)}
    previous = {tp(i): draw(st.integers(0, 9)) for i in range(count + 3) if draw(st.booleans())}
    return loads, previous


@st.composite
def partition_loads(draw: st.DrawFn, partition: TopicPartition) -> PartitionLoad:
    """Return one partition's load: fresh, carried, never measured, or nonsense."""
    rate = draw(st.one_of(rate_values, st.none(), st.sampled_from([float("nan"), float("inf"), -1.0])))
    known = draw(st.booleans()) and rate is not None
    return load(
        partition,
        rate,
        known=known,
        records_per_s=draw(st.one_of(st.none(), st.just((rate or 0.0) / 10), rate_values)),
        age_s=0.0 if known else draw(st.floats(0, 100)),
        lag_s=draw(st.one_of(st.none(), st.floats(0, 100))),
        lag_records=draw(st.one_of(st.none(), st.integers(0, 10**9))),
        rate_source=draw(st.sampled_from(RateSource)),
        error=None if known else draw(st.one_of(st.none(), st.just("broker 1 does not answer"))),
    )


@st.composite
def states(draw: st.DrawFn, count: int) -> GroupState:
    """Return a managed group in any condition, sensible or not, as long as it is what the contract allows."""
    live = draw(st.frozensets(st.integers(0, 7), max_size=6))
    listed = [tp(i) for i in range(count + 2)]
    owner = {p: draw(st.sampled_from(sorted(live))) for p in listed if draw(st.booleans()) and live}
    orphans = frozenset(p for p in listed if p not in owner and draw(st.booleans()))
    workers = tuple(
        WorkerView(
            name=f"g-{s}",
            uuid=f"{s}.1",
            slot=s,
            phase=draw(st.sampled_from(WorkerPhase)),
            instance=None,
            owned=frozenset(p for p in listed if draw(st.integers(0, 3)) == 0 or owner.get(p) == s),
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
        plan_at=draw(st.one_of(st.none(), st.floats(T0 - 500, T0))),
    )


@st.composite
def memberships(draw: st.DrawFn, count: int) -> GroupMembers:
    """Return the membership of a native group."""
    size = draw(st.integers(0, 5))
    return GroupMembers(
        state=draw(st.sampled_from(["EMPTY", "STABLE", "PREPARING_REBALANCING", "UNKNOWN"])),
        kind="CLASSIC",
        assignor=draw(st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky", "uniform", ""])),
        members=tuple(
            Member(
                member_id=f"m{i}",
                client_id="app",
                host="/10.0.0.1",
                assigned=frozenset(tp(p) for p in range(count + 1) if draw(st.booleans())),
                topics=draw(st.sampled_from([frozenset({TOPIC}), frozenset({TOPIC}), None])),
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
        snapshot([draw(partition_loads(tp(i))) for i in range(count)]),
        error=draw(st.one_of(st.none(), st.just("no broker answers"))),
    )
    state = draw(states(count) if managed else st.one_of(st.none(), states(count)))
    members = draw(st.one_of(st.none(), memberships(count)))
    seconds, size = draw(st.sampled_from([10.0, 1e4, math.inf])), draw(st.sampled_from([1e3, 1e9, math.inf]))
    kept = draw(st.sampled_from([{}, {TOPIC: Retention(seconds=seconds, bytes=size)}]))
    return Observation(group="g", snapshot=measured, state=state, members=members, retention=kept)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Return any consistent policy."""
    least = draw(st.integers(1, 5))
    mode = draw(st.sampled_from(["act", "advise"]))
    assignment = "managed" if mode == "act" else draw(st.sampled_from(["managed", "native"]))
    return policy(
        mode=mode,
        assignment=assignment,
        capacity_records_per_s=draw(st.sampled_from([None, None, 3.0, 30.0])) if assignment == "managed" else None,
        min_consumers=least,
        max_consumers=draw(st.integers(least, 12)),
        algorithm=draw(selectable),
        target_utilisation=draw(st.floats(0.3, 1)),
        tolerance_ratio=draw(st.sampled_from([0.0, 0.1, 0.3])),
        cooldown_s=draw(st.sampled_from([0.0, 10.0])),
        shrink_cooldown_s=draw(st.sampled_from([0.0, 60.0])),
        shrink_stabilisation_s=draw(st.sampled_from([0.0, 120.0])),
        **draw(st.sampled_from([{}, {"capacity_bytes_per_s": None, "capacity_prior_bytes_per_s": CAPACITY}])),
        **draw(st.one_of(st.just({}), guard_settings(least))),
    )


@st.composite
def guard_settings(draw: st.DrawFn, least: int) -> dict[str, object]:
    """Return settings of the guards; windows are open at ``T0``, or never near it."""
    pause = st.sampled_from([None, "all", "scale_up", "scale_down"])
    steps = st.sampled_from([None, 1, 3, "10%", "100%"])
    cron = draw(st.sampled_from(["0 22 * * *", "0 10 * * *"]))  # T0 is 22:13 UTC
    window = {"cron": cron, "duration_min": 60, "paused": draw(pause), "max_consumers": draw(st.integers(least, 6))}
    return {
        "paused": draw(pause),
        "pinned": draw(st.one_of(st.none(), st.just(least))),
        "windows": draw(st.sampled_from([[], [window]])),
        "grow_step": draw(steps),
        "shrink_step": draw(steps),
        "grow_stabilisation_s": draw(st.sampled_from([0.0, 30.0])),
        "turns_per_hour": draw(st.sampled_from([None, 1, 10])),
        "move_payback_s": draw(st.sampled_from([None, 0.1, 60.0])),
        "give_up_after": (after := draw(st.sampled_from([None, 1, 3]))),
        "give_back": after is not None and draw(st.booleans()),
    }


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return any memory."""
    ago = st.one_of(st.none(), st.floats(0, 500).map(lambda s: T0 - s))
    times = sorted(draw(st.lists(st.floats(0, 300), max_size=5)), reverse=True)
    speeds = {f"{slot}.1": draw(st.floats(0.1, 4)) for slot in range(6) if draw(st.booleans())}
    measured = Capacity(bytes_per_s=CAPACITY, source=CapacitySource.MEASURED)
    return History(
        busy=draw(st.sampled_from([Busy(), Busy(speeds=speeds)])),
        capacity=draw(st.sampled_from([None, measured])),
        recommendations=tuple((T0 - s, draw(st.integers(0, 12))) for s in times),
        last_scale_at=draw(ago),
        last_move_at=draw(ago),
        waiting_since=draw(ago),
        intent=draw(
            st.one_of(
                st.none(),
                st.builds(Intent, epoch=st.integers(0, 5), scales=st.booleans(), moves=st.booleans(), by=st.integers(-3, 3)),
            )
        ),
        direction=draw(st.sampled_from([-1, 0, 1])),
        turns=tuple(T0 - s for s in sorted(draw(st.lists(st.floats(0, 5000), max_size=12)), reverse=True)),
        overloaded_since=draw(ago),
        pauses=tuple(draw(st.lists(st.floats(0, 100), max_size=3))),
        drained=draw(
            st.one_of(
                st.just(Drained()),
                st.builds(Drained, in_vain=st.integers(0, 5), level=st.floats(0, 1e6), consumers=st.integers(0, 6)),
            )
        ),
    )
