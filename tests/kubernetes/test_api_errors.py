"""What answers of the Kubernetes API mean to the loop, without a control plane."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
from kubernetes import client

from autoscaler.adapters.kubernetes.api import Api, BusyError, ForgottenError, MissingError, OvertakenError
from autoscaler.errors import AutoscalerError, PermanentError, TransientError


class Answers(BaseHTTPRequestHandler):
    """Gives the answers that it was told, one after the other, the last one for ever."""

    told: ClassVar[list[tuple[int, bytes]]] = []

    def do_GET(self) -> None:
        code, body = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()

        def connect() -> client.ApiClient:
            settings = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
            settings.retries = False
            return client.ApiClient(settings)

        made = Api(connect)
        yield made
        made.close()
        server.shutdown()


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [
        (401, TransientError, "does not know this user"),
        (403, PermanentError, "grant it to the job's account"),
        (404, MissingError, "words"),
        (405, PermanentError, "words"),
        (409, OvertakenError, "words"),
        (410, ForgottenError, "words"),
        (422, OvertakenError, "words"),
        (429, BusyError, "not there for now: words"),
        (500, BusyError, "not there for now: words"),
        (503, BusyError, "not there for now: words"),
    ],
)
def test_a_refusal_means_what_the_loop_does_next(api: Api, code: int, expected: type[AutoscalerError], said: str) -> None:
    Answers.told = [(code, json.dumps({"message": "words", "details": {"retryAfterSeconds": 7}}).encode())]
    with pytest.raises(expected, match=said) as caught:
        api.get("/x")
    assert type(caught.value) is expected
    if isinstance(caught.value, BusyError):
        assert caught.value.retry_after_s == 7


def test_who_is_not_known_any_more_logs_in_anew_once(api: Api) -> None:
    Answers.told = [(401, b"{}"), (200, b'{"items": []}')]
    assert api.get("/x") == {"items": []}


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, b'{"cut": '), (502, b"bad gateway")])
def test_what_is_no_answer_of_the_api_passes(api: Api, answer: tuple[int, bytes]) -> None:
    Answers.told = [answer]
    with pytest.raises(TransientError):
        api.get("/x")


def test_nobody_there_passes() -> None:
    def connect() -> client.ApiClient:
        settings = client.Configuration(host="http://127.0.0.1:1")
        settings.retries = False
        return client.ApiClient(settings)

    with pytest.raises(TransientError, match="Connection refused"):
        Api(connect).get("/x")
