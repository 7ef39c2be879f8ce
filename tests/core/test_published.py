"""Published policies in the loop: their worked values as decisions, and what the loop adds to them."""

from collections.abc import Mapping

import pytest

from autoscaler.config.policy import Policy, contradictions
from autoscaler.core.decide import History, decide
from autoscaler.model import AddWorkers, Decision, MovePartition, Observation, Reason, RemoveWorkers, TopicPartition
from autoscaler.model.findings import What
from tests.builders import T0, load, moment, owned, policy, rates, says, snapshot, state, tp
from tests.scenarios.world import World, reasons, scalings


def published(sizing: str, **changes: object) -> Policy:
    own = {"rebalance_s": 0.0} if sizing == "TAIL_LATENCY_2" else {}
    return policy(**{"sizing": sizing, "cooldown_s": 10, "capacity_bytes_per_s": 95.0, **own, **changes})


def decided(
    asked: Policy,
    flows: tuple[float, ...],
    *holds: tuple[int, ...],
    lags: tuple[float, ...] = (),
    live: tuple[int, ...] | None = None,
    history: History | None = None,
) -> Decision:
    behind = [*lags, *[0.0] * (len(flows) - len(lags))]
    loads = [load(p, rate, lag_bytes=behind[p.partition]) for p, rate in rates(*flows).items()]
    there = state(owned(*holds), live=live or range(len(holds)))
    observation = Observation(group="g", snapshot=snapshot(loads), state=there, members=None)
    return decide(observation, history or History(), asked, moment(T0))[0]


def contents(owner: Mapping[TopicPartition, int]) -> list[list[int]]:
    return [sorted(p.partition for p, c in owner.items() if c == consumer) for consumer in sorted(set(owner.values()))]


def test_up_asks_for_the_consumers_first_and_then_places_as_printed() -> None:
    asked = published("AUTO_SCALE_CG")
    first = decided(asked, (20, 20, 20, 20, 16), (0, 1, 2, 3, 4))
    assert (first.reason, first.actions) == (Reason.RATE_ABOVE_CAPACITY, (AddWorkers(slots=(1,)),))
    there = decided(asked, (20, 20, 20, 20, 16), (0, 1, 2, 3, 4), live=(0, 1))
    assert contents(there.target) == [[0, 2, 4], [1, 3]]
    assert says(there, What.PUBLISHED, sizing="AUTO_SCALE_CG", action="UP", wanted=2, now=1)


@pytest.mark.parametrize(
    ("sizing", "flows", "holds", "lags", "wanted", "reason", "changes"),
    [
        ("AUTO_SCALE_CG", (19,) * 5, [(0, 1, 2, 3, 4)], (), None, Reason.WITHIN_TARGET, {}),
        ("AUTO_SCALE_CG", (60, 60, 15, 15, 15), [(0, 1), (2, 3, 4)], (), [[0, 2, 4], [1, 3]], Reason.RATE_ABOVE_CAPACITY, {}),
        ("AUTO_SCALE_CG", (15,) * 5, [(0, 1), (2, 3), (4,)], (), [[0, 1, 2, 3, 4]], Reason.UNDERUSED, {}),
        ("AUTO_SCALE_CG", (10,) * 5, [(0, 1, 2), (3, 4)], (300, 200, 100), [[0, 2, 4], [1, 3]], Reason.LATENCY_AT_RISK, {}),
        ("TAIL_LATENCY_1", (30,) * 5, [(0, 1, 2), (3, 4)], (), None, Reason.WITHIN_TARGET, {"capacity_bytes_per_s": 200.0}),
        ("TAIL_LATENCY_1", (15,) * 5, [(0, 1, 2), (3, 4)], (), [[0, 1, 2, 3, 4]], Reason.UNDERUSED,
         {"capacity_bytes_per_s": 200.0}),
        ("TAIL_LATENCY_1", (100, 90, 40, 40, 40), [(0, 1), (2, 3, 4)], (), [[0, 3], [1, 2, 4]], Reason.RATE_ABOVE_CAPACITY,
         {"capacity_bytes_per_s": 200.0}),
        ("TAIL_LATENCY_2", (15,) * 5, [(0,), (1,), (2,), (3,), (4,)], (), None, Reason.WITHIN_TARGET,
         {"capacity_bytes_per_s": 200.0, "rebalance_s": 2}),
        ("TAIL_LATENCY_2", (10,) * 5, [(0,), (1,), (2,), (3,), (4,)], (), [[0, 3], [1, 4], [2]], Reason.UNDERUSED,
         {"capacity_bytes_per_s": 200.0, "rebalance_s": 2}),
        ("LINEAR", (20,) * 5, [(0, 1, 2), (3, 4)], (), None, Reason.WITHIN_TARGET, {}),
        ("LINEAR", (5,) * 5, [(0, 1, 2), (3, 4)], (), [[0, 1, 2, 3, 4]], Reason.UNDERUSED, {}),
    ],
)  # fmt: skip
def test_the_worked_values_as_decisions(  # noqa: PLR0917
    sizing: str,
    flows: tuple[float, ...],
    holds: list[tuple[int, ...]],
    lags: tuple[float, ...],
    wanted: list[list[int]] | None,
    reason: Reason,
    changes: dict[str, object],
) -> None:
    asked = published(sizing, **({"wanted_latency_s": 0.5} if sizing.startswith("TAIL") else {}), **changes)
    decision = decided(asked, flows, *holds, lags=lags)
    assert decision.reason is reason, decision.detail
    assert contents(decision.target) == (wanted or [list(h) for h in holds])
    assert bool(decision.actions) == (wanted is not None)
    assert decision.algorithm == sizing


def test_down_ends_the_consumers_that_are_left_without_anything() -> None:
    decision = decided(published("AUTO_SCALE_CG"), (15,) * 5, (0, 1), (2, 3), (4,))
    moves = {(a.partition, a.target) for a in decision.actions if isinstance(a, MovePartition)}
    assert moves == {(tp(p), 0) for p in (2, 3, 4)}
    assert decision.requested == frozenset({0})
    assert not [a for a in decision.actions if isinstance(a, RemoveWorkers)], "they hold something until it is handed over"


def test_a_step_waits_for_the_one_before_it() -> None:
    asked = published("AUTO_SCALE_CG", cooldown_s=30)
    decision = decided(asked, (60, 60, 15, 15, 15), (0, 1), (2, 3, 4), history=History(last_move_at=T0 - 20))
    assert (decision.limited_by, decision.actions) == (Reason.COOLING_DOWN, ())
    decision = decided(asked, (60, 60, 15, 15, 15), (0, 1), (2, 3, 4), history=History(last_move_at=T0 - 30))
    assert decision.actions


@pytest.mark.parametrize(
    ("flows", "bounds", "limit"),
    [((90.0,) * 4, {"max_consumers": 3}, Reason.AT_MAXIMUM), ((5.0,) * 4, {"min_consumers": 2}, Reason.AT_MINIMUM)],
)
def test_the_bounds_hold(flows: tuple[float, ...], bounds: dict[str, object], limit: Reason) -> None:
    decision = decided(published("AUTO_SCALE_CG", **bounds), flows, (0, 1), (2, 3))
    assert (decision.limited_by, decision.actions) == (limit, ())


def test_nothing_is_decided_on_what_is_not_known() -> None:
    loads = [load(tp(0), 90.0), load(tp(1), 90.0, known=False, age_s=3.0)]
    observation = Observation(group="g", snapshot=snapshot(loads), state=state(owned((0, 1))), members=None)
    decision, _ = decide(observation, History(), published("TAIL_LATENCY_1"), moment(T0))
    assert (decision.reason, decision.actions) == (Reason.STALE_INPUT, ())


def test_a_lost_consumers_partitions_are_placed_whatever_the_sizing() -> None:
    world = World(policy=published("LINEAR", shrink_stabilisation_s=30), traffic=lambda _: rates(*[20.0] * 8))
    world.run(40)
    world.kill(min(world.live))
    assert world.step().reason is Reason.WORKER_LOST
    assert len(world.owner) == 8


@pytest.mark.parametrize("sizing", ["AUTO_SCALE_CG", "TAIL_LATENCY_1", "TAIL_LATENCY_2", "LINEAR"])
def test_a_load_that_rises_and_falls_is_followed(sizing: str) -> None:
    def traffic(t: float) -> Mapping[TopicPartition, float]:
        return rates(*[8.0 if t < 60 or t > 160 else 30.0] * 8)

    world = World(policy=published(sizing), traffic=traffic)
    calm, high, low = world.run(60), world.run(100), world.run(100)
    assert max(scalings([calm[-1], *high])) >= 3, reasons(high)
    assert high[-1].consumers >= 3
    assert max(sum(30.0 for p, c in high[-1].target.items() if c == consumer) for consumer in high[-1].requested) <= 95
    assert low[-1].consumers <= 2
    assert low[-1].consumers < high[-1].consumers
    assert not [d for d in low[-30:] if d.actions], "and rests"


def test_settings_of_published_sizings_are_refused_elsewhere() -> None:
    assert contradictions({"up_ratio": 0.8}) == (
        (
            "published.up_ratio is for the published sizings "
            "(AUTO_SCALE_CG, TAIL_LATENCY_1, TAIL_LATENCY_2, LINEAR): name one in sizing"
        ),
    )
    assert contradictions({"up_ratio": 0.8, "sizing": "LINEAR"}) == ()
    assert contradictions({"sizing": "TAIL_LATENCY_2"}) == (
        "sizing TAIL_LATENCY_2 needs published.rebalance: without the time of a rebalance it is TAIL_LATENCY_1",
    )
    assert contradictions({"sizing": "TAIL_LATENCY_2", "rebalance_s": 2}) == ()
    assert "needs assignment managed" in contradictions({"assignment": "native", "sizing": "LINEAR"})[0]
    with pytest.raises(ValueError, match=r"published\.rebalance is for the published sizings"):
        policy(rebalance_s=1)


def test_what_a_published_policy_is_asked_is_in_the_fingerprint() -> None:
    assert published("TAIL_LATENCY_2").fingerprint != published("TAIL_LATENCY_2", rebalance_s=2).fingerprint
