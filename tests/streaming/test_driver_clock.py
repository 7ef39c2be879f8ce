"""Samples of executors whose clocks differ: stamped by the driver's time, whatever their own clocks say."""

import os
import random
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.streaming import driver_clock, schema, source
from autoscaler.streaming.discovery import Picture
from autoscaler.streaming.driver_clock import DriverClock
from tests.streaming.test_counters import Bucket, facts
from tests.streaming.test_source import ONE, plan


@given(st.floats(-1e6, 1e6), st.lists(st.floats(0.0, 5.0), min_size=2, max_size=200))
def test_it_is_wrong_by_the_shortest_way_of_the_last_sixty_batches_and_no_more(apart: float, delays: list[float]) -> None:
    clock = DriverClock()
    known = [clock.heard(1000.0 + batch, 1000.0 + batch + delay + apart) for batch, delay in enumerate(delays)]
    assert known == [False] + [True] * (len(delays) - 1), "the first may have waited for its process to start"
    now = 1000.0 + len(delays)
    assert clock.now(now + apart) == pytest.approx(now - min(delays[-60:]), abs=1e-3)


def rate(seconds: int, *apart: float, own_clocks: bool = False) -> float:
    """Return records/s as they come out when executors take turns, whose clocks are apart from the driver's by so much."""
    chance, bucket, clocks = random.Random(7), Bucket(), [DriverClock() for _ in apart]
    for second in range(seconds):
        which = chance.randrange(len(apart))
        began = second + chance.uniform(0.01, 0.06)
        known = clocks[which].heard(second, began + apart[which])
        ts = began + apart[which] if own_clocks else clocks[which].now(began + apart[which])
        end = int(100 * began)
        bucket.read(facts(ts, end=end, size=end * 500, failed=not (known or own_clocks)))
    return float(bucket.row["records_per_s"])


def test_clocks_that_are_apart_bend_no_rate() -> None:
    for seconds in range(30, 50):
        assert rate(seconds, 0.0, 3.5, -1.5) == pytest.approx(100, rel=0.01)
    assert max(abs(rate(seconds, 0.0, 0.9, own_clocks=True) - 100) for seconds in range(30, 50)) > 5, "what their own clocks do"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> source.Reader:
    monkeypatch.setattr(driver_clock, "CLOCK", DriverClock())
    return source.Reader([plan(g=("t",))])


def read(reader: source.Reader, task: source.Task) -> tuple[float, list[dict[str, Any]]]:
    (row,) = (r for batch in reader.read(task) for r in batch.to_pylist())
    return row["read_ts"], schema.unpack([row["facts"]], schema.FACTS).to_pylist()


def task(ahead_s: float, machine: str) -> source.Task:
    """Return a task as a driver plans it whose clock is ahead of this machine's."""
    (made,) = source.tasks([plan(g=("t",))], [ONE])
    made.planned_ts, made.machine = time.time() + ahead_s, machine
    return made


def test_on_another_machine_a_new_process_asks_nothing_before_it_knows_the_drivers_time(reader: source.Reader) -> None:
    _, first = read(reader, task(1000.0, "another"))
    assert {row["error"] for row in first} == {source._UNTIMED}
    assert len(first) == 4, "rows with an error, never fewer rows"
    ts, second = read(reader, task(1000.0, "another"))
    assert all(row["error"].startswith("broker ") for row in second), "it asks: nothing listens there"
    assert [ts, *(row["sample_ts"] for row in second)] == pytest.approx([time.time() + 1000.0] * 5, abs=5.0)


def test_on_the_drivers_machine_there_is_one_clock(reader: source.Reader) -> None:
    ts, rows = read(reader, task(1000.0, source.machine()))
    assert not [row for row in rows if row["error"] == source._UNTIMED]
    assert ts == pytest.approx(time.time(), abs=5.0), "not by when it was planned"


def test_variables_that_connections_refer_to_come_with_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VARIABLE_OF_TEST", "secret")
    wanted = plan(g=("t",))
    connection = {**wanted.connection, "sasl.password": "env:VARIABLE_OF_TEST", "sasl.username": "env:NOT_THERE"}
    (made,) = source.tasks([replace(wanted, connection=connection)], [Picture()])
    assert "secret" not in repr(made), "what Spark may write into a log"
    assert made.environment == {"VARIABLE_OF_TEST": "secret"}
    monkeypatch.delenv("VARIABLE_OF_TEST")
    list(source.Reader([wanted]).read(made))
    assert os.environ["VARIABLE_OF_TEST"] == "secret"
