"""Clients stay until nobody has referred to them for long, and no longer."""

import gc
import weakref

import pytest

from autoscaler.clients import admin_clients as module
from autoscaler.clients.admin_clients import kept


class Client:
    """Stands for a client; only its life is looked at."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("autoscaler.clients.admin_clients.time.monotonic", lambda: now[0])
    monkeypatch.setattr(module, "_clients", [])
    return now


def test_a_dropped_client_lives_until_it_has_been_idle_for_a_minute(clock: list[float]) -> None:
    client = kept(Client())
    life = weakref.ref(client)
    del client
    for now, alive in ((1.0, True), (30.0, True), (60.0, True), (62.0, False)):
        clock[0] = now
        kept(Client())
        gc.collect(1)  # not all that the tests before it have left
        assert (life() is not None) == alive, now


def test_a_client_in_use_is_never_destroyed(clock: list[float]) -> None:
    client = kept(Client())
    for now in (0.0, 100.0, 200.0, 300.0):
        clock[0] = now
        kept(Client())
    assert any(k.client is client for k in module._clients)


def test_the_number_kept_is_bounded(clock: list[float]) -> None:
    for now in range(1000):
        clock[0] = float(now)
        kept(Client())
    assert len(module._clients) < 70
