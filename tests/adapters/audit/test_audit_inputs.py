"""What decisions are made from comes back from its packed form as it was, and the same is decided from it."""

import math
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.adapters.audit.encoding import pack, unpack
from autoscaler.adapters.audit.inputs import pack_inputs, unpack_inputs
from autoscaler.config.policy import Policy
from autoscaler.core.decide import History, decide
from autoscaler.model import Decision, LoadSnapshot, Moment, Observation, Retention, Started, TopicPartition
from autoscaler.ports import Inputs, Start
from tests import builders as b
from tests.scenarios import world
from tests.scenarios.unequal_world import UnequalWorld
from tests.scenarios.world import World


def back(inputs: Inputs) -> Inputs:
    """Return what is read of inputs and their measurement, each as the tables have it."""
    snapshot = inputs.observation.snapshot
    loads, _ = unpack(pack(snapshot.loads, {}))
    columns = {n: getattr(snapshot, n) for n in ("group", "sample_ts", "known", "error")}
    return unpack_inputs(pack_inputs(inputs), LoadSnapshot(loads=loads, **columns))


def inputs_of(observation: Observation, history: History, policy: Policy, moment: Moment) -> Inputs:
    return Inputs(number=3, observation=observation, moment=moment, start=Start(history=history, policy=policy, follows=True))


@pytest.fixture
def through(monkeypatch: pytest.MonkeyPatch) -> list[Decision]:
    """Let a world decide on what is read back, and see that it is the same."""
    made = []

    def packed(observation: Observation, history: History, policy: Policy, moment: Moment) -> tuple[Decision, History]:
        given = inputs_of(observation, history, policy, moment)
        read = back(given)
        assert read == given
        assert read.start is not None
        again = decide(read.observation, read.start.history, read.start.policy, read.moment)
        assert again == decide(observation, history, policy, moment)
        made.append(again[0])
        return again

    monkeypatch.setattr(world, "decide", packed)
    return made


WINDOW = {"cron": "0 0 * * *", "duration_min": 5, "paused": "all"}


def rising(t: float) -> dict[TopicPartition, float]:
    return b.rates(*[10.0 + t * (1 + p % 3) / 6 + (t * (p + 3)) % 7 for p in range(8)])


def test_a_group_that_grows_and_is_in_trouble_is_decided_on_as_it_was(through: list[Decision]) -> None:
    group = World(
        policy=b.policy(capacity_bytes_per_s=None, capacity_prior_bytes_per_s=90.0, windows=[WINDOW]),
        traffic=rising,
        dark=lambda t: {b.tp(2)} if 40 < t < 70 else (),
        stuck=lambda t: {b.tp(1)} if t > 80 else (),
        deadly=lambda t: b.tp(5) if 60 < t < 100 else None,
        retention=lambda _: {b.TOPIC: Retention(seconds=3600.0, bytes=math.inf)},
        downstream=lambda _: 1000.0,
    )
    group.run(60)
    group.kill(0)
    group.run(80)
    assert len(through) == 140
    assert len({d.reason for d in through}) > 3


@pytest.mark.parametrize(
    "changes",
    [
        {"members": b.members([0, 1], [2])},
        {"members": replace(b.members([0]), kind="CONSUMER"), "unread": "a timeout"},
        {"started": Started(requested=frozenset({0, 2}), running=frozenset({2}), slots={"m0": 0}, placement={b.tp(1): 2})},
        {"started": Started(requested=None, running=frozenset())},
        {"state": b.state(b.owned([0, 1], [2, 9])), "unread_members": "ä"},
    ],
)
def test_who_is_there_comes_back(changes: dict[str, Any]) -> None:
    seen = replace(b.observation(b.rates(1.0, 2.0, 0.0)), **changes)
    given = inputs_of(seen, History(), b.policy(), Moment(now=0.1 + 0.2, wall=1 / 3))
    assert back(given) == given


def test_ends_of_what_is_committed_and_lost_topics_come_back() -> None:
    loads = [b.load(b.tp(0), 1.0, last_stable=90), b.load(b.tp(1), 1.0), b.load(b.tp(2), None, last_stable=7, log_end=None)]
    given = Inputs(
        number=0,
        observation=b.observation(b.snapshot(loads, lost=frozenset({"b", "a"}))),
        moment=b.moment(),
        start=None,
        held=True,
    )
    assert back(given) == given


def test_a_policy_comes_back_with_what_was_left_out_left_out() -> None:
    policy = b.policy(pinned=None, grow_step="50%", windows=[{"cron": "0 9 * * 1", "duration_min": "2h", "min_consumers": 3}])
    given = inputs_of(b.observation(b.rates(1.0)), History(), policy, b.moment())
    read = back(given).start
    assert read is not None
    assert read.policy == policy
    assert read.policy.model_fields_set == policy.model_fields_set
    assert read.policy.fingerprint == policy.fingerprint


def test_another_version_is_refused_with_a_reason() -> None:
    given = inputs_of(b.observation(b.rates(1.0)), History(), b.policy(), b.moment())
    blob = pack_inputs(given).replace(b'"v":1', b'"v":9', 1)
    with pytest.raises(ValueError, match="version 9; this release reads version 1"):
        unpack_inputs(blob, given.observation.snapshot)


def test_what_workers_have_been_measured_to_do_comes_back(through: list[Decision]) -> None:
    group = UnequalWorld(
        policy=b.policy(capacity_bytes_per_s=None, capacity_prior_bytes_per_s=90.0),
        traffic=lambda _: b.rates(*[30.0] * 8),
        able=lambda _t, slot: 50.0 if slot == 1 else 100.0,
    )
    group.run(240)
    assert group.history.busy.samples
    assert len(through) == 240
