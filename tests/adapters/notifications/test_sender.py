"""Events are posted, tried again or let go of, and an address is never written down."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from autoscaler.adapters.notifications import sender
from autoscaler.adapters.notifications.sender import QUEUE, Notifications
from autoscaler.config.notify import Notify
from autoscaler.errors import SettingsError
from tests.adapters.notifications.test_events import STEP, line
from tests.until import until

SECRET = "/services/T0/B0/secret"  # noqa: S105  (none)


class Hook:
    """A server that keeps what is posted to it, and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, dict[str, Any]]] = []
        self.answers: list[int] = []
        self.holds = threading.Event()
        self.holds.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.holds.wait(30)
                hook.got.append((self.path, self.headers["Content-Type"], body))
                code = hook.answers.pop(0) if hook.answers else 200
                self.send_response(code)
                if code in {301, 307}:
                    self.send_header("Location", f"http://127.0.0.1:{hook.port}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=lambda: self.server.serve_forever(poll_interval=0.01), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.holds.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    it = Hook()
    yield it
    it.close()


def posting(url: str, **settings: object) -> Notifications:
    it = Notifications(Notify.model_validate({"url": url, **settings}), wait=lambda _: False)
    it.start()
    return it


def test_a_cloud_event_has_all_that_one_needs(hook: Hook) -> None:
    it = posting(f"http://127.0.0.1:{hook.port}{SECRET}")
    it.take(line(1_700_000_000, actions=STEP, reason="UNDERUSED", detail="fewer will do", consumers=1))
    it.close()
    ((path, kind, body),) = hook.got
    assert (path, kind) == (SECRET, "application/cloudevents+json")
    assert (body["specversion"], body["type"]) == ("1.0", "autoscaler.group.changed")
    assert (body["source"], body["subject"]) == ("/autoscaler/c", "g")
    assert body["time"] == "2023-11-14T22:13:20+00:00"
    assert body["data"]["text"] == "c/g: UNDERUSED: fewer will do"
    assert (body["data"]["consumers_now"], body["data"]["consumers"]) == (2, 1)


def test_a_text_for_slack_means_what_it_says(hook: Hook) -> None:
    it = posting(f"http://127.0.0.1:{hook.port}/", format="slack", text="{group} <{mode}> {consumers}")
    it.take(line(0, actions=STEP, group="a&b<!channel>", consumers=None))
    it.close()
    assert hook.got[0][1:] == ("application/json", {"text": "a&amp;b&lt;!channel&gt; &lt;act&gt; ?"})


@pytest.mark.parametrize(("answers", "posts"), [([500, 429, 200], 3), ([404], 1), ([307], 1), ([503] * 9, 4)])
def test_what_may_pass_is_tried_again_and_what_will_not_is_said_without_the_address(
    hook: Hook, answers: list[int], posts: int, caplog: pytest.LogCaptureFixture
) -> None:
    hook.answers = list(answers)
    it = posting(f"http://127.0.0.1:{hook.port}{SECRET}")
    with caplog.at_level(logging.WARNING):
        it.take(line(0, actions=STEP))
        until("it is posted", lambda: len(hook.got) == posts)
        it.close()
    assert {path for path, _, _ in hook.got} == {SECRET}
    failed = answers[posts - 1] != 200
    assert ("what happened to group g is not told" in caplog.text) is failed
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["http://127.0.0.1:1" + SECRET, "http://127.0.0.1:port" + SECRET, "http://[::1" + SECRET])
def test_an_address_that_leads_nowhere_is_not_written_down(url: str, caplog: pytest.LogCaptureFixture) -> None:
    it = posting(url)
    with caplog.at_level(logging.DEBUG):
        it.take(line(0, actions=STEP))
        it.close()
        until("it is said", lambda: "is not told" in caplog.text, within_s=30)
    assert "secret" not in caplog.text


def test_a_receiver_that_hangs_holds_no_cycle_up_and_the_oldest_events_go(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    hook.holds.clear()
    it = posting(f"http://127.0.0.1:{hook.port}/", every_s=0.001)
    with caplog.at_level(logging.WARNING):
        it.take(line(0, actions=STEP))
        until("the first is under way", it._queue.empty)
        for t in range(1, QUEUE + 11):
            it.take(line(t, actions=STEP))
        hook.holds.set()
        until("all that were kept are posted", lambda: len(hook.got) == QUEUE + 1)
        it.close()
    assert [x[2]["data"]["text"] for x in hook.got][-1] == "c/g: WITHIN_TARGET: fine"
    assert "10 were dropped" in caplog.text


def test_a_replaced_secret_holds_at_once_and_a_missing_one_is_refused_at_the_start(hook: Hook, tmp_path: Path) -> None:
    file = tmp_path / "url"
    with pytest.raises(SettingsError, match=r"notify\.url: file .* cannot be read"):
        Notifications(Notify(url=f"file:{file}"))
    file.write_text(f"http://127.0.0.1:{hook.port}/old\n")
    it = posting(f"file:{file}", every_s=0.001)
    it.take(line(0, actions=STEP))
    until("the first is posted", lambda: bool(hook.got))
    file.write_text(f"http://127.0.0.1:{hook.port}/new\n")
    it.take(line(1, actions=STEP))
    it.close()
    assert [path for path, _, _ in hook.got] == ["/old", "/new"]


def test_no_more_is_tried_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_CLOSE_S", 0.1)
    it = Notifications(Notify(url="http://127.0.0.1:1/"))
    it.start()
    it.take(line(0, actions=STEP))
    it.close()
    it._thread.join(10)
    assert not it._thread.is_alive()
