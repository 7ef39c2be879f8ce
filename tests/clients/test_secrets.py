"""What a connection refers to is read when a client is made, and a change of it is seen without showing it."""

from pathlib import Path

import pytest

from autoscaler.adapters.kafka import control_topics
from autoscaler.clients.secrets import stamp
from autoscaler.errors import SettingsError


def test_a_stamp_changes_with_all_that_is_referred_to_and_with_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password, certificate = tmp_path / "password", tmp_path / "job.pem"
    password.write_text("before")
    certificate.write_text("before")
    monkeypatch.setenv("WHO", "before")
    connection: dict[str, str | int | float | bool] = {
        "sasl.username": "env:WHO", "sasl.password": f"file:{password}", "ssl.certificate.location": str(certificate),
        "socket.timeout.ms": 1000,
    }  # fmt: skip
    stamps = [stamp(connection), stamp(connection)]
    assert len(set(stamps)) == 1
    password.write_text("after")
    stamps.append(stamp(connection))
    certificate.write_text("after")
    stamps.append(stamp(connection))
    monkeypatch.setenv("WHO", "after")
    stamps.append(stamp(connection))
    password.unlink()  # as between the two steps of being replaced
    stamps.append(stamp(connection))
    assert len(set(stamps)) == 5
    assert not any("before" in s or "after" in s for s in stamps)


def test_each_new_client_reads_what_is_referred_to_and_says_what_is_not_there(tmp_path: Path) -> None:
    made: list[object] = []
    password = tmp_path / "password"
    connection: dict[str, str | int | float | bool] = {"bootstrap.servers": "127.0.0.1:1", "sasl.password": f"file:{password}"}

    def make(settings: dict[str, object], *, logger: object) -> None:
        del logger
        made.append(settings["sasl.password"])

    for text in ("one", "two"):
        password.write_text(text + "\n")
        control_topics.client(make, connection, {})
    assert made == ["one", "two"]
    password.unlink()
    with pytest.raises(SettingsError, match=r"clusters\.\*\.connection\.sasl\.password"):
        control_topics.client(make, connection, {})
