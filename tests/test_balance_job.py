"""The job that balances brokers: what it does when what it measures with ends, and how it ends what it has begun."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from autoscaler.balancing import Balancer
from autoscaler.brokers.view import Cancel, Command
from autoscaler.errors import Exit, PermanentError
from autoscaler.model import TopicPartition
from jobs.balance_brokers import became, ended, follow
from tests.brokers.test_balancing import Case
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
