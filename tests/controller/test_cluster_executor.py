"""Clusters run side by side: one that waits keeps no other waiting, and has no two cycles at a time."""

import threading
import time

import pytest

from autoscaler.controller.cluster_executor import ClusterExecutor, Waits
from tests.until import let_pass


@pytest.fixture
def held() -> threading.Event:
    return threading.Event()


def test_one_lane_runs_where_it_is_called() -> None:
    ran: list[threading.Thread] = []
    assert ClusterExecutor(0.0).run({"only": lambda: ran.append(threading.current_thread())}) == frozenset()
    assert ran == [threading.current_thread()]


def test_a_lane_that_waits_keeps_no_other_waiting_and_is_left_out_until_it_is_done(held: threading.Event) -> None:
    clusters, ran = ClusterExecutor(0.05), list[str]()

    def waits() -> None:
        ran.append("slow begins")
        held.wait(10)
        ran.append("slow ends")

    began = time.monotonic()
    busy = [clusters.run({"slow": waits, "quick": lambda: ran.append("quick")}) for _ in range(3)]
    assert time.monotonic() - began < 5
    assert busy == [frozenset(), {"slow"}, {"slow"}]
    assert sorted(ran) == ["quick", "quick", "quick", "slow begins"]
    assert 0.05 <= clusters.busy_s < 5
    held.set()
    clusters.close(30)
    assert clusters.busy_s == 0.0
    assert clusters.run({"slow": waits, "quick": lambda: ran.append("quick")}) == frozenset()
    assert ran.count("slow begins") == 2


def test_lanes_that_are_prompt_have_ended_when_the_call_returns() -> None:
    clusters, ran = ClusterExecutor(30.0), list[str]()

    def work(name: str) -> None:
        let_pass(0.02)
        ran.append(name)

    for _ in range(5):
        assert clusters.run({"a": lambda: work("a"), "b": lambda: work("b")}) == frozenset()
    assert sorted(ran) == ["a"] * 5 + ["b"] * 5


def test_what_a_lane_raises_is_raised_also_when_it_was_not_waited_for(held: threading.Event) -> None:
    clusters, luck = ClusterExecutor(0.01), ("no such luck",)

    def fails() -> None:
        held.wait(30)
        raise ValueError(*luck)

    clusters.run({"a": fails, "b": lambda: None})
    held.set()
    clusters.close(30)
    with pytest.raises(ValueError, match="no such luck"):
        clusters.run({"a": lambda: None, "b": lambda: None})
    with pytest.raises(ValueError, match="no such luck"):
        ClusterExecutor(30.0).run({"a": fails, "b": lambda: None})
    with pytest.raises(ValueError, match="no such luck"):
        ClusterExecutor(0.0).run({"only": fails})


def test_when_a_lane_begins_to_wait_and_when_that_is_over_is_told_once() -> None:
    waits = Waits(patience_s=2)
    east, both, nobody = frozenset({"east"}), frozenset({"east", "west"}), frozenset[str]()
    assert waits.news(nobody, 0) == (nobody, {})
    assert waits.news(east, 1) == (nobody, {})
    assert waits.news(nobody, 2) == (nobody, {}), "a cycle that took a little longer is worth no word"
    assert waits.news(east, 3) == (nobody, {})
    assert waits.news(both, 5) == (east, {})
    assert waits.news(both, 7) == (frozenset({"west"}), {})
    assert waits.news(both, 9) == (nobody, {})
    assert waits.news(frozenset({"west"}), 10) == (nobody, {"east": 7})
    assert waits.news(east, 11) == (nobody, {"west": 6})
    assert waits.news(east, 13) == (east, {})
    assert waits.news(nobody, 13.5) == (nobody, {"east": 2.5})
