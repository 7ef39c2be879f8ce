"""The page behind a token: a form, a cookie that ends, a header for programs, and nothing without one."""

import http.client
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import pytest

from autoscaler.adapters.http.endpoint import Endpoint
from autoscaler.adapters.http.login import Login
from autoscaler.adapters.http.server import Server
from autoscaler.config.settings import Settings, load
from autoscaler.errors import SettingsError
from tests.adapters.http.example import Example
from tests.config.files import BEGINNING, MINIMAL
from tests.fakes import FakeClock

TOKEN, OTHER = "f3a9c1d07be24856a0", "0000000000000000000"
PORT = 9301


@dataclass
class Guarded:
    """A server whose page asks for the token of a variable."""

    token: str | None = TOKEN
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.server = Server(("127.0.0.1", 0), Example().answers(anywhere=True), Login(self.read, self.clock, PORT))
        self.server.start()

    def read(self) -> str:
        if self.token is None:
            raise SettingsError(("http.token: file token cannot be read",))
        return self.token

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port() or 0, timeout=30)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def log_in(self, token: str = TOKEN, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
        return self.ask("/login", "POST", urlencode({"token": token}), **headers)

    def cookie(self) -> str:
        said = SimpleCookie(self.log_in()[2]["Set-Cookie"])
        return "; ".join(f"{name}={x.value}" for name, x in said.items())


@pytest.fixture
def page() -> Iterator[Guarded]:
    made = Guarded()
    yield made
    made.server.close()


def test_without_the_token_there_is_a_form_and_nothing_of_the_groups(page: Guarded) -> None:
    status, text, headers = page.ask("/")
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert '<form method="post" action="login">' in text
    assert "form-action 'self'" in headers["Content-Security-Policy"]
    for path in ("/page.js", "/api/groups", "/api/groups/orders", "/api/brokers", "/api/openapi.json", "/api/other"):
        status, text, _ = page.ask(path)
        assert (status, list(json.loads(text))) == (401, ["error"]), path
    assert page.ask("/page.css")[0] == 200


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/advice/orders"])
def test_what_programs_of_the_cluster_ask_for_needs_no_token(page: Guarded, path: str) -> None:
    assert page.ask(path)[0] != 401


def test_a_person_logs_in_by_the_form_and_the_cookie_is_for_this_page_only(page: Guarded) -> None:
    status, text, headers = page.log_in()
    assert (status, text, headers["Location"]) == (303, "", ".")
    said = headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Max-Age=43200"} <= {x.strip() for x in said.split(";")}
    assert "Secure" not in said, "this connection is not encrypted"
    assert TOKEN not in said
    assert page.ask("/api/groups", Cookie=page.cookie())[0] == 200
    assert page.ask("/", Cookie=f"theme={{a}}; {page.cookie()}; other=1")[0] == 200
    assert "Secure" in page.log_in(X_Forwarded_Proto="https")[2]["Set-Cookie"]


def test_a_program_sends_the_token_as_a_header(page: Guarded) -> None:
    assert page.ask("/api/groups", Authorization=f"Bearer {TOKEN}")[0] == 200
    for wrong in (f"Bearer {OTHER}", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"):
        assert page.ask("/api/groups", Authorization=wrong)[0] == 401, wrong
    assert page.ask(f"/api/groups?token={TOKEN}")[0] == 401, "an address is written to logs and histories"


def test_a_wrong_token_gives_the_form_again_and_is_said_in_the_log_without_it(
    page: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        status, text, headers = page.log_in(OTHER)
        assert (status, headers["Set-Cookie"]) == (401, None)
        assert "That is not the token." in text
    assert caplog.text.count("wrong token") == 1
    assert OTHER not in caplog.text


@pytest.mark.parametrize("cookie", ["", "99999999999.00", ".", "x.y", "9" * 5000 + ".0", "\u0661.0"])
def test_a_cookie_that_was_not_given_lets_none_in(page: Guarded, cookie: str) -> None:
    assert page.ask("/api/groups", Cookie=f"autoscaler_{PORT}={cookie}".encode().decode("latin-1"))[0] == 401


def test_a_cookie_ends_after_a_day_of_work_and_with_the_token(page: Guarded) -> None:
    cookie = page.cookie()
    page.clock.advance(12 * 3600 - 1)
    assert page.ask("/api/groups", Cookie=cookie)[0] == 200
    page.clock.advance(2)
    assert page.ask("/api/groups", Cookie=cookie)[0] == 401
    cookie = page.cookie()
    page.token = None
    assert page.ask("/api/groups", Cookie=cookie)[0] == 200, "it is just being replaced"
    page.token = OTHER
    assert page.ask("/api/groups", Cookie=cookie)[0] == 401
    assert page.ask("/api/groups", Authorization=f"Bearer {OTHER}")[0] == 200


def test_what_is_no_form_is_refused(page: Guarded) -> None:
    assert page.ask("/login", "POST", "x" * 5000)[0] == 400
    assert page.ask("/login", "POST", "token")[0] == 401
    assert page.ask("/api/groups", "POST", "x")[0] == 501


@pytest.mark.parametrize(("token", "said"), [("short", "16 characters"), (None, "cannot be read")])
def test_a_token_that_is_none_is_refused_before_anything_is_served(tmp_path: Path, token: str | None, said: str) -> None:
    file = tmp_path / "token"
    if token is not None:
        file.write_text(token)
    settings = Settings.model_validate({**MINIMAL, "http": {"listen": "127.0.0.1:9301", "token": f"file:{file}"}})
    with pytest.raises(SettingsError, match=said):
        Endpoint(settings, ("127.0.0.1", 9301), FakeClock(), lambda: (0, None))


def test_a_token_in_the_configuration_itself_is_refused_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "autoscaler.yaml"
    file.write_text(f"{BEGINNING}groups: [{{group: g, topics: [t]}}]\nhttp: {{listen: 127.0.0.1:9301, token: {TOKEN}}}\n")
    with pytest.raises(SettingsError) as e:
        load(file)
    (problem,) = e.value.problems
    assert "http.token: must be a reference, env:NAME or file:PATH" in problem
    assert TOKEN not in problem
