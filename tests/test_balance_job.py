"""The job that balances brokers: what it does when what it measures with ends."""

import threading
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from jobs.balance_brokers import follow


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
