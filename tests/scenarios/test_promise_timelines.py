"""Timelines of a promise where ages are not known: of a native group, and of a managed one whose workers tell none."""

import pytest

from autoscaler.config.policy import ContradictionsError, contradictions
from autoscaler.core.cycle.evaluate import read_cycle
from autoscaler.core.decide import History, decide
from autoscaler.model import Moment, Observation, Reason
from autoscaler.model.findings import What
from tests import builders as b

EVEN = b.rates(*[17.0] * 16)
NOW = Moment(now=100.0, wall=b.T0)


def observed(*, native: bool, lag_s: float = 0.0) -> Observation:
    owner = {p: i % 4 for i, p in enumerate(sorted(EVEN))}
    loads = [b.load(p, rate, lag_s=lag_s, lag_bytes=rate * lag_s, lag_records=int(rate * lag_s)) for p, rate in EVEN.items()]
    members = b.members(*([p.partition for p, c in owner.items() if c == n] for n in range(4))) if native else None
    return Observation(group="g", snapshot=b.snapshot(loads), state=None if native else b.state(owner), members=members)


@pytest.mark.parametrize("native", [False, True])
def test_where_ages_are_not_known_the_configured_utilisation_holds_and_that_is_said(*, native: bool) -> None:
    policy = b.policy(promise_within_s=20.0, assignment="native" if native else "managed")
    decision, _ = decide(observed(native=native), History(), policy, NOW)
    assert decision.usable_bytes_per_s == policy.usable_bytes_per_s
    [said] = [f for f in decision.findings if f.what is What.PROMISE_UNSEEN]
    assert ("only workers of a managed group" in said.texts["why"]) == native
    assert decision.policy_fingerprint == policy.fingerprint


@pytest.mark.parametrize("native", [False, True])
def test_a_backlog_is_worked_off_within_the_promised_time(*, native: bool) -> None:
    policy = b.policy(promise_within_s=20.0, assignment="native" if native else "managed", max_consumers=16)
    late = read_cycle(observed(native=native, lag_s=40.0), History(), policy, NOW).late
    assert late == pytest.approx({p: rate * 3 for p, rate in EVEN.items()}), "what arrives, and 40 s of it in 20 s"
    assert not read_cycle(observed(native=native, lag_s=4.0), History(), policy, NOW).late


def test_a_shorter_time_of_the_operators_for_a_backlog_holds() -> None:
    policy = b.policy(promise_within_s=20.0, catch_up_s=10.0)
    late = read_cycle(observed(native=False, lag_s=40.0), History(), policy, NOW).late
    assert late == pytest.approx({p: rate * 5 for p, rate in EVEN.items()})


def test_it_is_sized_by_the_reason_that_says_so() -> None:
    decision, _ = decide(observed(native=False, lag_s=40.0), History(), b.policy(promise_within_s=20.0), NOW)
    assert decision.reason is Reason.BACKLOG


def test_a_promise_beside_a_published_policy_is_refused() -> None:
    found = contradictions({"promise_within_s": 5.0, "sizing": "AUTO_SCALE_CG"})
    assert any("promise.within is for sizing rates" in x for x in found)


@pytest.mark.parametrize("said", [{"promise_within_s": 0.0}, {"promise_within_s": 5.0, "promise_share": 1.0}])
def test_a_promise_that_nothing_keeps_is_refused(said: dict[str, float]) -> None:
    with pytest.raises((ValueError, ContradictionsError)):
        b.policy(**said)
