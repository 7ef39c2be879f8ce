"""A cluster as it was read becomes the snapshot that plans are made of."""

import math

import numpy as np

from autoscaler.brokers.measured import Rate, Wanted, numbered, snapshot_of
from autoscaler.brokers.view import Broker, Holders, View
from autoscaler.goals import Goal, Name, balance
from autoscaler.goals.problem import holding, stale
from autoscaler.goals.settings import Settings
from autoscaler.model import TopicPartition
from tests.brokers.fake_cluster import holders, tp

OFFSETS = TopicPartition(topic="__consumer_offsets", partition=0)


def view() -> View:
    return View(
        brokers={1: Broker(rack="a", disk_bytes=1000.0, free_bytes=400.0), 2: Broker(rack="b"), 3: Broker(rack="a")},
        partitions={tp(1): holders(1, 2), tp(0): Holders((2, 4), frozenset({2}), 2), OFFSETS: holders(3, 1)},
        sizes={tp(0): 100.0, tp(1): 300.0, OFFSETS: 50.0},
    )


def test_a_view_becomes_arrays_in_the_order_of_its_numbers() -> None:
    at = view()
    numbers = numbered({tp(1): 7}, at.partitions)
    assert numbers == {tp(1): 7, OFFSETS: 8, tp(0): 9}
    found = snapshot_of(at, {tp(0): Rate(5.0, 1.0), tp(1): Rate(6.0, 2.0)}, numbers, Wanted(leaving=frozenset({2}), reads=3.0))
    assert found.brokers.tolist() == [1, 2, 3, 4]
    assert found.racks.tolist() == [0, 1, 0, -1]
    assert found.offline.tolist() == [False, False, False, True]
    assert found.leaving.tolist() == [False, True, False, False]
    assert found.partitions.tolist() == [7, 8, 9]
    assert found.state.broker.tolist() == [0, 1, 2, 0, 1, 3]
    assert found.state.leader.tolist() == [0, 2, 4]
    assert found.bytes_in is not None
    assert found.bytes_in.tolist() == [6.0, 0.0, 5.0]
    assert found.bytes_out is not None
    assert found.bytes_out.tolist() == [18.0, 0.0, 15.0]
    assert found.size_bytes is not None
    assert found.size_bytes.tolist() == [300.0, 50.0, 100.0]


def test_the_brokers_of_a_partition_without_a_rate_take_no_part_and_internal_topics_need_none() -> None:
    at = view()
    found = snapshot_of(at, {tp(1): Rate(6.0, 2.0)}, numbered({}, at.partitions), Wanted())
    assert holding(found, stale(found, Settings(), (Name.BYTES_IN, Name.STORAGE))).tolist() == [False, True, False, True]


def test_disks_and_configured_limits_bound_storage_and_what_is_no_replica_fills_disks_too() -> None:
    at = view()
    wanted = Wanted(disk_ratio=0.8, capacity={2: {"storage": 10.0, "bytes_in": 5.0}})
    found = snapshot_of(at, {}, numbered({}, at.partitions), wanted)
    assert found.capacity["storage"].tolist() == [800.0 - (600.0 - 350.0), 10.0, math.inf, math.inf]
    assert found.capacity["bytes_in"].tolist() == [math.inf, 5.0, math.inf, math.inf]


def test_a_disk_that_is_nearly_full_gives_replicas_and_takes_none() -> None:
    parts = {tp(n): holders(1) for n in range(4)}
    full, empty = Broker(disk_bytes=1000.0, free_bytes=100.0), Broker(disk_bytes=1000.0, free_bytes=1000.0)
    at = View(brokers={1: full, 2: empty, 3: empty}, partitions=parts, sizes=dict.fromkeys(parts, 225.0))
    rates = dict.fromkeys(parts, Rate(0.0, 0.0))
    plan = balance(snapshot_of(at, rates, numbered({}, parts), Wanted(disk_ratio=0.8)), Settings())
    stored = np.bincount(plan.after.broker, minlength=3) * 225.0
    assert stored.max() <= 800.0
    by_storage = Settings(goals=(Goal(name=Name.STORAGE, idle=1e9),))  # too little to be balanced: only the limit counts
    for disk_ratio, moved in ((1.0, 0), (0.8, 1)):
        snapshot = snapshot_of(at, rates, numbered({}, parts), Wanted(disk_ratio=disk_ratio))
        assert len(balance(snapshot, by_storage).actions) == moved
