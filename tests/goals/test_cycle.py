"""Cycles one after the other: how long outside, noise, cool-down, settling; and what is said of it."""

from dataclasses import replace

import numpy as np

from autoscaler.core.messages import in_words
from autoscaler.goals import Cycle, Memory, Outcome, Settings, Snapshot, balance, decide, explained
from autoscaler.model import TopicPartition
from tests.goals.clusters import BYTES_IN, MIB, flags, of_rates, of_replicas

UNEVEN = of_rates([30, 30, 30], [10], [20])


def label(partition: int) -> TopicPartition:
    return TopicPartition(topic="orders", partition=partition)


def said(cycle: Cycle) -> list[str]:
    return [in_words(f) for f in explained(cycle, label)]


def ran(snapshots: list[Snapshot], settings: Settings, memory: Memory | None = None, every_s: float = 60.0) -> list[Cycle]:
    cycles, memory = list[Cycle](), memory or Memory()
    for n, snapshot in enumerate(snapshots):
        cycles.append(decide(snapshot, memory, settings, n * every_s))
        memory = cycles[-1].memory
    return cycles


def test_it_acts_after_so_many_cycles_in_a_row_only() -> None:
    assert [c.outcome for c in ran([UNEVEN] * 4, BYTES_IN)] == [Outcome.NOT_LONG, Outcome.NOT_LONG, Outcome.ACT, Outcome.ACT]
    even = replace(UNEVEN, bytes_in=np.array([10.0, 10.0, 10.0, 30.0, 30.0]) * MIB)
    broken = ran([UNEVEN, even, UNEVEN, UNEVEN], replace(BYTES_IN, smoothing_s=0.0, confidence=0.0))
    assert [c.outcome for c in broken] == [Outcome.NOT_LONG, Outcome.BALANCED, Outcome.NOT_LONG, Outcome.NOT_LONG]


def test_noise_of_ten_percent_moves_nothing_for_an_hour() -> None:
    g = np.random.default_rng(5)
    true = of_rates(*[g.lognormal(0.0, 1.0, 40) for _ in range(10)])
    true = replace(true, state=balance(true, BYTES_IN).after)
    assert true.bytes_in is not None
    noisy = [replace(true, bytes_in=true.bytes_in * g.normal(1.0, 0.1, 400).clip(0)) for _ in range(60)]
    assert {c.outcome for c in ran(noisy, BYTES_IN)} <= {Outcome.BALANCED, Outcome.NOT_LONG}
    unsteady = replace(BYTES_IN, smoothing_s=0.0, rounds=1, confidence=0.0)
    assert Outcome.ACT in {c.outcome for c in ran(noisy, unsteady)}


def test_a_load_that_really_changes_is_acted_on_in_spite_of_noise() -> None:
    g = np.random.default_rng(5)
    level = np.concatenate([np.full(20, 2.0), np.full(60, 1.0)]) * MIB
    flat = of_rates([1.0] * 20, [1.0] * 20, [1.0] * 20, [1.0] * 20)
    before = [replace(flat, bytes_in=MIB * g.normal(1.0, 0.1, 80)) for _ in range(20)]
    hotter = [replace(flat, bytes_in=level * g.normal(1.0, 0.1, 80)) for _ in range(40)]
    outcomes = [c.outcome for c in ran(before + hotter, BYTES_IN)]
    assert Outcome.ACT not in outcomes[:20]
    assert Outcome.ACT in outcomes[20:]


def test_a_moved_partition_cools_down_and_its_broker_settles_until_it_is_measured() -> None:
    once = replace(BYTES_IN, rounds=1, smoothing_s=0.0)
    start = of_rates([30, 30], [30], [])
    first = decide(start, Memory(), once, 100.0)
    assert first.plan is not None
    moved = [a.partition for a in first.plan.actions]
    assert moved == [0]
    memory = first.memory.moved(moved, 110.0)
    then = replace(start, state=first.plan.after)
    aged = decide(replace(then, age_s=np.full(3, 15.0)), memory, once, 120.0)
    assert aged.settling == (first.plan.actions[0].target,)
    fresh = decide(replace(then, age_s=np.zeros(3)), memory, once, 120.0)
    assert fresh.settling == ()
    hot = replace(then, bytes_in=np.array([90.0, 10.0, 10.0]) * MIB)
    held = decide(hot, memory, once, 120.0)
    assert held.plan is not None
    assert 0 not in [a.partition for a in held.plan.actions]


def test_partitions_and_brokers_come_and_go_between_cycles() -> None:
    memory = ran([UNEVEN] * 3, BYTES_IN)[-1].memory
    grown = of_rates([30, 30, 30, 5], [10], [20], [])
    cycle = decide(grown, memory, BYTES_IN, 180.0)
    assert cycle.outcome is Outcome.ACT
    assert cycle.memory.partitions.tolist() == list(range(6))
    assert decide(of_rates([1.0], [1.0]), cycle.memory, BYTES_IN, 240.0).outcome is Outcome.BALANCED


def test_too_many_brokers_away_is_an_alert_and_no_plan() -> None:
    cycle = decide(replace(UNEVEN, offline=flags(3, [2])), Memory(), replace(BYTES_IN, rounds=1), 0.0)
    assert (cycle.outcome, cycle.plan) == (Outcome.OFFLINE, None)
    assert said(cycle) == ["too many brokers are offline (2): nothing is moved until they are back"]


def test_brokers_that_are_not_measured_are_named_and_nothing_is_said_of_their_bands() -> None:
    even = of_rates([10, 10], [10, 10], [10, 10])
    assert even.bytes_in is not None
    missing, old = even.bytes_in.copy(), np.zeros(6)
    missing[0], old[3] = np.nan, 61.0
    unknown = "rates or sizes are unknown or out of date of 2 partitions (orders-0, orders-3): brokers 0, 1, which hold them"
    part = ran([replace(even, bytes_in=missing, age_s=old)], BYTES_IN)[0]
    assert part.outcome is Outcome.PARTLY
    found = said(part)
    assert found[0] == "only 1 of 3 brokers could be judged: none of these is outside its bands"
    assert found[1].startswith(unknown)
    none = said(ran([replace(even, bytes_in=np.full(6, np.nan))], BYTES_IN)[0])
    assert none[0] == "only 0 of 3 brokers could be judged: none of these is outside its bands"
    assert not [s for s in (*found, *none) if "every broker" in s]


def test_a_broker_that_settles_or_is_offline_keeps_it_from_saying_that_all_are_in_their_bands() -> None:
    even = of_rates(*[[10.0]] * 11)
    away = decide(replace(even, offline=flags(11, [2])), Memory(), BYTES_IN, 0.0)
    assert said(away) == [
        "only 10 of 11 brokers could be judged: none of these is outside its bands",
        "no part is taken, because they are offline, by brokers 2",
    ]
    memory = decide(even, Memory(), BYTES_IN, 0.0).memory.moved([4], 50.0)
    assert decide(replace(even, age_s=np.full(11, 5.0)), memory, BYTES_IN, 52.0).outcome is Outcome.PARTLY


def test_a_goal_without_its_data_is_said_of_a_balanced_cluster_too() -> None:
    found = said(decide(of_rates([5], [5]), Memory(), Settings(), 0.0))
    assert "storage is neither balanced nor limited: size_bytes is not known" in found


def test_a_broker_to_be_emptied_does_not_wait() -> None:
    cycle = decide(of_replicas([[0], [1], [2]], leaving=[2]), Memory(), Settings(), 0.0)
    assert cycle.outcome is Outcome.ACT


def test_every_action_is_explained_with_its_scores_and_what_came_second() -> None:
    found = said(decide(of_rates([50, 40, 30], [40], [80]), Memory(), replace(BYTES_IN, rounds=1), 0.0))
    assert found == [
        "1 action: balancedness 33 → 100 of 100",
        (
            "orders-1: the replica that leads moves from broker 0 to broker 1, because of bytes_in: 126 MB/s on broker 0, "
            "41.9 MB/s on broker 1, where 75.5 MB/s to 92.3 MB/s are wanted (bytes_in 0.712 → 1, score 0.644); "
            "next best orders-0 to broker 1, worth 94% of it"
        ),
    ]


def test_what_moves_for_something_else_than_its_load_says_so_and_a_leadership_has_a_next_best_of_its_own() -> None:
    leaving = decide(of_replicas([[0, 1], [2, 1], [1, 0]], leaving=[2]), Memory(), Settings(), 0.0)
    assert "broker 2 to broker 0, because broker 2 is in leaving" in " ".join(said(leaving))
    shared = of_replicas([[0, 1], [1, 2], [2, 0]], racks=[0, 0, 1])
    assert "because two replicas share a rack" in " ".join(said(decide(shared, Memory(), Settings(), 0.0)))
    limit = {"storage": np.array([1.0, np.inf, np.inf]) * MIB}
    full = of_replicas([[0], [0], [1], [2]], size=[1, 2, 2, 2], capacity=limit)
    found = said(decide(full, Memory(), replace(BYTES_IN, rounds=1), 0.0))
    assert "because of storage: 3.15 MB on broker 0, 2.1 MB on broker 1, where broker 0 may have 1.05 MB" in " ".join(found)
    swapped = said(decide(of_rates([60.0, 60.0], [40.0, 40.0]), Memory(), replace(BYTES_IN, rounds=1), 0.0))
    assert "together with others" in " ".join(swapped)
    skewed = of_replicas([[0, 1], [0, 1], [0, 1], [0, 1]], bytes_in=[9, 5, 5, 5], bytes_out=[9, 5, 5, 5], brokers=3)
    found = said(decide(skewed, Memory(), replace(Settings(), rounds=1), 0.0))
    of_both = [s for s in found if s.startswith("orders-0: ")]
    assert len({s.partition("; next best ")[2] for s in of_both}) == len(of_both)


def test_doing_nothing_is_explained() -> None:
    assert said(ran([UNEVEN], BYTES_IN)[0]) == [
        "outside the band or above the limit of bytes_in for 1 cycle so far: brokers 0, 1, 2"
    ]
    assert said(ran([of_rates([5], [5])], BYTES_IN)[0]) == ["every broker is in its bands"]
    alone = ran([of_rates([50.0], [10.0])], replace(BYTES_IN, rounds=1))[0]
    assert said(alone) == ["outside the band or above the limit of bytes_in, and no action makes it better: brokers 0, 1"]


def test_how_many_brokers_are_missing_is_said_where_those_that_stay_have_no_room_for_all() -> None:
    room = {"storage": np.full(4, 10.0) * MIB}
    snapshot = of_replicas([[0], [1], [2], [3]], size=[9.0] * 4, capacity=room)
    assert not [s for s in said(decide(snapshot, Memory(), Settings(), 0.0)) if "add 1 broker" in s]
    leaving = said(decide(replace(snapshot, leaving=flags(4, [3])), Memory(), Settings(), 0.0))
    assert [s for s in leaving if s.startswith("all brokers that stay have less room for storage") and "add 1 broker," in s]
