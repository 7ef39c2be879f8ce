"""One connection block for all clients: translated, or refused by name."""

import socket
import time

import pytest

from autoscaler.clients import kafka_python
from autoscaler.clients.kafka_python import translate
from autoscaler.clients.secrets import CONNECTION_KEYS
from autoscaler.errors import SettingsError, TransientError
from autoscaler.streaming.broker_clients import Client, Clients


def test_names_are_translated() -> None:
    assert translate({
        "bootstrap.servers": "a:9092, b:9092", "security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "u", "sasl.password": "p", "ssl.ca.location": "/ca", "ssl.certificate.location": "/cert",
        "ssl.key.location": "/key", "ssl.key.password": "k", "ssl.endpoint.identification.algorithm": "none", "client.id": "me",
    }) == {
        "bootstrap_servers": ["a:9092", "b:9092"], "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u", "sasl_plain_password": "p", "ssl_cafile": "/ca", "ssl_certfile": "/cert",
        "ssl_keyfile": "/key", "ssl_password": "k", "ssl_check_hostname": False, "client_id": "me",
    }  # fmt: skip


def test_what_tunes_the_other_client_only_is_left_out() -> None:
    assert translate({"bootstrap.servers": "a:1", "socket.keepalive.enable": True}) == {"bootstrap_servers": ["a:1"]}


def test_everything_untranslatable_is_refused_by_name() -> None:
    with pytest.raises(SettingsError) as e:
        translate({"bootstrap.servers": "a:1", "ssl.keystore.location": "/x", "enable.ssl.certificate.verification": False})
    assert [p.split(":")[0] for p in e.value.problems] == [
        "clusters.*.connection.enable.ssl.certificate.verification",
        "clusters.*.connection.ssl.keystore.location",
    ]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_nobody_listening_is_said_at_once_and_then_left_alone() -> None:
    address = f"127.0.0.1:{free_port()}"
    clients = Clients()
    deadline = time.monotonic() + 30
    with pytest.raises(TransientError, match=r"no broker answers at 127\.0\.0\.1"):
        clients.use({"bootstrap.servers": address}, address, deadline, lambda c: c.fast)()
    assert time.monotonic() < deadline - 20, "a refused connection does not wait for the deadline"
    with pytest.raises(TransientError, match="left alone after 1 failures: no broker answers"):
        clients.use({"bootstrap.servers": address}, address, deadline, lambda c: c.fast)()


def test_a_listener_that_never_answers_costs_the_deadline_only() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        address = f"127.0.0.1:{s.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(TransientError):
            Clients().use({"bootstrap.servers": address}, address, began + 0.5, lambda c: c.fast)()
        assert time.monotonic() - began < 15


def test_a_missing_secret_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match="NOT_THERE"):
        Client({"bootstrap.servers": "127.0.0.1:1", "sasl.password": "env:NOT_THERE"}, time.monotonic() + 1)


def test_the_settings_know_every_name_that_can_be_translated() -> None:
    assert kafka_python._TRANSLATED.keys() < CONNECTION_KEYS
