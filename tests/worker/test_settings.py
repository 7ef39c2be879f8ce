"""What an application may say to its consumer, and what it is told when that makes no sense."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import SettingsError
from autoscaler.worker import ManagedConsumer

KNOWN: dict[str, Any] = {"group": "g", "topics": ["orders"], "name": "w", "handle_sigterm": False}
NOWHERE = {"bootstrap.servers": "127.0.0.1:9"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": "orders"}, "topics: must be a list of names, not the text 'orders'"),
        ({"exactly_once": "false"}, "exactly_once: must be True or False, not 'false'"),
        ({"batch_size_bytes": 0.5}, "batch_size_bytes: must be 1 or more, not 0.5"),
        ({"batch_size_bytes": 0}, "batch_size_bytes: must be a number above 0, not 0"),
        ({"max_batch_s": "7"}, "max_batch_s: must be a number above 0, not '7'"),
        ({"wait_time_s": float("nan")}, "wait_time_s: must be a number above 0, not nan"),
        ({"commit_interval_s": True}, "commit_interval_s: must be a number above 0, not True"),
        ({"lease_s": -1}, "lease_s: must be from 1 to 86400 s, not -1"),
        ({"name": "caf\udce9"}, "name: must be text in UTF-8, not"),
        ({"lease_s": 0.9}, "lease_s: must be from 1 to 86400 s, not 0.9"),
        ({"lease_s": float("inf")}, "lease_s: must be from 1 to 86400 s, not inf"),
    ],
)
def test_what_makes_no_sense_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as e:
        ManagedConsumer(NOWHERE, **{**KNOWN, **given})
    assert any(p.startswith(said) for p in e.value.problems)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, None),
        ({"lease_s": 20, "max_batch_s": 2.0}, None),
        ({"lease_s": 20, "max_batch_s": 1.9}, "max_batch_s 1.9 is less than the 2 s between two heartbeats"),
        ({"lease_s": 2, "commit_interval_s": 1.9}, None),
        ({"lease_s": 2, "commit_interval_s": 2.0}, "commit_interval_s 2 is not less than lease_s 2"),
    ],
)
def test_what_is_allowed_and_works_against_the_lease_is_said(
    given: dict[str, Any], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    ManagedConsumer(NOWHERE, **{**KNOWN, **given}).close()
    lines = [r.getMessage() for r in caplog.records if r.name == "autoscaler.worker.consumer"]
    assert [said in line for line in lines if said] == [True] * (said is not None)
    assert len(lines) == (said is not None)


def test_a_platform_without_a_clock_that_is_safe_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    ManagedConsumer(NOWHERE, **KNOWN).close()
    assert "this platform has no CLOCK_BOOTTIME" in caplog.text


@pytest.mark.parametrize("misspelt", ["batch_size_byte", "lease", "max_batch", "exactly_onc"])
def test_a_misspelt_setting_is_an_error(misspelt: str) -> None:
    with pytest.raises(TypeError, match=misspelt):
        ManagedConsumer(NOWHERE, **{**KNOWN, misspelt: 1})


@pytest.fixture
def consumer() -> Iterator[ManagedConsumer]:
    made = ManagedConsumer(NOWHERE, **KNOWN)
    yield made
    made.close()


def test_two_threads_may_not_ask_for_batches(consumer: ManagedConsumer) -> None:
    """The one would count as processed what the other has in hand."""
    consumer.stop()
    first = threading.Thread(target=lambda: list(consumer))
    first.start()
    first.join()
    with pytest.raises(RuntimeError, match="one thread only"):
        next(consumer)


def test_what_the_connection_refers_to_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    password, certificate = tmp_path / "password", tmp_path / "certificate"
    password.write_text("one")
    certificate.write_text("first")
    given = {**NOWHERE, "sasl.password": f"file:{password}", "ssl.certificate.location": str(certificate)}
    with ManagedConsumer(given, **KNOWN) as consumer:
        settings = consumer.settings
    assert settings.connection["sasl.password"] == "one"
    assert settings.renewed() is settings
    password.write_text("two")
    renewed = settings.renewed()
    assert renewed.connection["sasl.password"] == "two"
    assert renewed.renewed() is renewed
    password.unlink()
    assert renewed.renewed() is renewed, "it is being replaced"
    password.write_text("two")
    certificate.write_text("second")
    assert renewed.renewed().connection == renewed.connection
    assert renewed.renewed() is not renewed, "the same path, another certificate: clients have to be made anew"
