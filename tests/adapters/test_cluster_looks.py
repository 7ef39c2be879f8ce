"""Looks at a cluster that does not answer for a while: the next one is made over connections of its own."""

import threading
from typing import Any

import pytest
from kafka.errors import NodeNotReadyError

from autoscaler.adapters.kafka import cluster_looks
from autoscaler.adapters.kafka.cluster_looks import ClusterLooks
from autoscaler.errors import TransientError


class Admin:
    """A client of a cluster without groups, whose broker may be away."""

    def __init__(self, *, away: bool) -> None:
        self.away, self.closed = away, threading.Event()

    def list_groups(self) -> list[Any]:
        if self.away:
            raise NodeNotReadyError(1)
        return []

    def describe_log_dirs(self) -> list[Any]:
        return []

    def close(self) -> None:
        self.closed.set()


def test_a_look_after_one_that_failed_connects_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Admin(away=True), Admin(away=False)
    left = [first, second]
    monkeypatch.setattr(cluster_looks, "connect", lambda *_: left.pop(0))
    with ClusterLooks({"bootstrap.servers": "broker:9092"}) as cluster:
        with pytest.raises(TransientError, match=r"^broker:9092: no connection to broker 1$"):
            cluster.look()
        assert cluster.look().groups == {}
    assert first.closed.wait(30)
    assert second.closed.wait(30)
