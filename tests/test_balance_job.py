"""The job that balances brokers: what it does when what it measures with ends, and how it ends what it has begun."""

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from autoscaler.balancing import Balancer
from autoscaler.brokers.view import Cancel, Command
from autoscaler.config.settings import Settings
from autoscaler.errors import Exit, PermanentError
from autoscaler.model import LoadSnapshot, PartitionLoad, RateSource, TopicPartition
from jobs.balance_brokers import MEASURED, Rates, became, ended, follow, measuring
from tests.brokers.test_balancing import Case
from tests.fakes import FakeClock
from tests.until import until


class Query:
    """A query that has ended."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def awaitTermination(self) -> None:  # noqa: N802  as pyspark calls it
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("error", [None, Py4JError("gone"), ConnectionResetError(), StreamingQueryException("no checkpoint")])
def test_a_measurement_that_has_ended_by_itself_ends_the_job_whatever_ended_it(error: Exception | None) -> None:
    stop, lost = threading.Event(), threading.Event()
    query: Any = Query(error)
    follow(query, stop, lost)
    assert stop.is_set()
    assert lost.is_set()


def test_a_query_that_was_stopped_is_not_lost() -> None:
    stop, lost = threading.Event(), threading.Event()
    stop.set()
    query: Any = Query(None)
    follow(query, stop, lost)
    assert not lost.is_set()


def copying() -> Case:
    """Return a case in which a batch copies and does not end by itself."""
    return Case(cluster=replace(Case().cluster, looks=999))


def begun(case: Case) -> Balancer:
    job = case.job()
    until("a copy", job.look, lambda _: case.cluster.running)
    return job


def test_what_copies_is_put_back_and_said_to_be_only_then() -> None:
    case = copying()
    job = begun(case)
    count = len(case.cluster.running)
    assert ended(job) == 0
    assert f"put back: {count} (" in became(case.rows)
    assert case.cluster.running == {}


def test_a_cancellation_that_brokers_refuse_is_tried_again_and_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    case = copying()
    job = begun(case)
    execute = case.cluster.execute

    def refuses(command: Command) -> Mapping[TopicPartition, str]:
        return dict.fromkeys(command.partitions, "NotControllerError") if isinstance(command, Cancel) else execute(command)

    case.cluster.execute = refuses  # type: ignore[method-assign]
    assert ended(job, within_s=0) == Exit.FAILED
    assert "put back:" not in became(case.rows)
    assert "the brokers refuse to cancel the reassignment" in caplog.text
    assert "NotControllerError" in caplog.text
    assert "partitions may still be reassigned" in caplog.text
    assert set(job.journal.moves) == set(case.cluster.running)
    case.cluster.execute = execute  # type: ignore[method-assign]
    assert ended(job) == 0


def test_what_brokers_forbid_at_the_end_is_said_with_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    case = copying()
    job = begun(case)

    def forbids(_command: Command) -> Mapping[TopicPartition, str]:
        msg = "ClusterAuthorizationFailed"
        raise PermanentError(msg)

    case.cluster.execute = forbids  # type: ignore[method-assign,assignment]
    assert ended(job) == Exit.FAILED
    assert "ClusterAuthorizationFailed" in caplog.text
    assert "--cancel, goes on with it" in caplog.text


def test_what_groups_have_not_read_is_added_up_and_a_group_that_cannot_be_read_makes_it_unknown() -> None:
    a, b, c = (TopicPartition(topic="t", partition=n) for n in range(3))
    rates = Rates(FakeClock())
    everything = snapshot_of_loads(MEASURED, {a: None, b: None, c: None})
    rates.take(0, {MEASURED: everything}, {})
    assert {r.lag_bytes for r in rates.now().values()} == {None}, "not asked for"
    rates.take(
        1, {MEASURED: everything, "x": snapshot_of_loads("x", {a: 5.0, b: 7.0}), "y": snapshot_of_loads("y", {a: 2.0})}, {}
    )
    assert {p: r.lag_bytes for p, r in rates.now().items()} == {a: 7.0, b: 7.0, c: 0.0}
    rates.take(2, {"y": snapshot_of_loads("y", {a: None})}, {})
    found = rates.now()
    assert math.isnan(found[a].lag_bytes or 0.0)
    assert found[b].lag_bytes == 7.0


def snapshot_of_loads(group: str, lags: Mapping[TopicPartition, float | None]) -> LoadSnapshot:
    loads = tuple(
        PartitionLoad(
            partition=p, topic_id="i", bytes_per_s=1.0, records_per_s=1.0, lag_records=None, lag_bytes=lag, lag_s=None,
            committed=None, log_start=0, log_end=1, known=True, age_s=0.0, window_s=1.0, rate_source=RateSource.LOG_DIRS,
        )
        for p, lag in lags.items()
    )  # fmt: skip
    return LoadSnapshot(group=group, sample_ts=0.0, loads=loads, known=True)


def test_groups_of_the_configuration_are_measured_where_lag_is_a_goal_or_limited() -> None:
    def measured(balance: Mapping[str, object]) -> list[str]:
        settings = Settings.model_validate({
            "clusters": [{"name": "k", "connection": {"bootstrap.servers": "b:1"}, "balance": balance}],
            "groups": [{"group": "g", "topics": ["t"]}],
            "state_dir": "/nowhere",
        })  # fmt: skip
        return [g.group for g in measuring(settings, settings.clusters[0]).groups]

    assert measured({}) == [MEASURED]
    assert measured({"goals": ["lag"]}) == [MEASURED, "g"]
    assert measured({"limits": {"lag": {"3": 5}}}) == [MEASURED, "g"]
