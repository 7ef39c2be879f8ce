"""Other autoscalers' rules, by what their documentation says of them."""

import numpy as np
import pytest

from autoscaler.evaluation.peers import FlinkRule, KedaHpa
from autoscaler.evaluation.sizing import SHARE, run, workloads

TEN = np.full(10, 1.0)  # partitions


def asked(hpa: KedaHpa, at: float, lag: float, consumers: int) -> int:
    return hpa(at, rates=TEN, lags=np.array([lag]), consumers=consumers)


def test_the_backlog_is_divided_by_the_threshold() -> None:
    assert asked(KedaHpa(100.0, 0.0), 0.0, 350.0, 2) == 4
    assert asked(KedaHpa(100.0, 0.0), 0.0, 0.0, 1) == 1


def test_within_a_tenth_of_the_target_nothing_changes() -> None:
    assert asked(KedaHpa(100.0, 0.0), 0.0, 219.0, 2) == 2
    assert asked(KedaHpa(100.0, 0.0), 0.0, 221.0, 2) == 3


def test_it_looks_every_quarter_of_a_minute() -> None:
    hpa = KedaHpa(100.0, 0.0)
    assert [asked(hpa, at, 100.0 * (at + 1), 1) for at in (0.0, 2.0, 14.0, 15.0)] == [1, 1, 1, 5]


def test_it_at_most_doubles_or_adds_four_and_never_passes_the_partitions() -> None:
    assert asked(KedaHpa(1.0, 0.0), 0.0, 900.0, 1) == 5
    assert asked(KedaHpa(1.0, 0.0), 0.0, 900.0, 5) == 10


def test_fewer_are_asked_for_only_when_no_look_within_the_window_wanted_more() -> None:
    hpa = KedaHpa(100.0, 60.0)
    assert asked(hpa, 0.0, 500.0, 5) == 5
    assert [asked(hpa, at, 100.0, 5) for at in (15.0, 30.0, 45.0, 60.0, 75.0)] == [5, 5, 5, 5, 1]


def flink(rule: FlinkRule, at: float, rate: float, lag: float, consumers: int) -> int:
    return rule(at, rates=np.full(20, rate / 20), lags=np.array([lag]), consumers=consumers)


def test_the_rule_adds_what_a_backlog_and_a_restart_need() -> None:
    rule = FlinkRule(100.0, target=0.5, window_s=60.0, catch_up_s=10.0, restart_s=2.0)
    assert flink(rule, 0.0, 200.0, 1000.0, 1) == 6  # 200/.5 + (1,000 + 200 × 2)/10 = 540 of 100 each


def test_within_the_boundary_or_just_after_a_change_nothing_changes() -> None:
    rule = FlinkRule(100.0, target=0.5, window_s=5.0, catch_up_s=10.0, restart_s=0.0)
    assert flink(rule, 0.0, 200.0, 0.0, 3) == 3  # busy by two thirds, within .2 and .8
    assert flink(rule, 10.0, 400.0, 0.0, 3) == 8
    assert flink(rule, 20.0, 900.0, 0.0, 8) == 8, "it rests for a minute"
    assert flink(rule, 80.0, 900.0, 0.0, 8) == 18


@pytest.mark.parametrize("name", ["KEDA+HPA", "Flink"])
def test_the_best_settings_of_a_peer_are_said(name: str) -> None:
    found = run(name, next(w for w in workloads({}) if w.name == "W-skew"))
    assert found.in_time >= SHARE
    assert found.consumer_min > found.least_consumer_min
    assert found.settings
