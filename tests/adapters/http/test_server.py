"""What the job answers over HTTP: advice that is never stale, probes that mean something, and no harm from any client."""

import http.client
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from autoscaler.adapters.http.metrics import Cycle, JobMetrics
from autoscaler.adapters.http.server import Answers, Health, Server, waiting
from autoscaler.errors import TransientError
from tests.adapters.audit import audit_cases as cases
from tests.adapters.http.served import cycle
from tests.fakes import FakeClock
from tests.until import until

OK, AWAY = 200, 503
HEALTH = Health(groups=2, oldest_s=60.0, advice_max_age_s=60.0)


class Served:
    """A server of a job that tests tell cycles to."""

    def __init__(self) -> None:
        self.clock = FakeClock(wall=cases.T0)
        self.metrics = JobMetrics(self.clock, lambda: (0, None))
        self.held = ""
        self.answers = Answers(self.metrics, HEALTH, self.clock, may_act=self.may_act)
        self.server = Server(("127.0.0.1", 0), self.answers)
        self.server.start()
        port = self.server.port()
        assert port is not None
        self.port = port

    def may_act(self) -> None:
        if self.held:
            raise TransientError(self.held)

    def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def unmeasured(group: str) -> Cycle:
    """Return a cycle of a group of which no partition is known."""
    made = cycle(group=group)
    return replace(made, loads=tuple(replace(x, known=False) for x in made.loads))


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()


def test_advice_is_given_with_its_age_and_only_while_it_is_fresh(served: Served) -> None:
    served.metrics.take(cycle(group="bills/eu", recommended=4, recommended_age_s=2.0), ())
    assert served.ask("/advice/bills%2Feu")[0] == OK
    served.clock.advance(10.0)
    said = json.loads(served.ask("/advice/bills%2Feu")[1])
    assert said == {"recommended": 4, "age_s": pytest.approx(11.75), "reason": "WITHIN_TARGET", "limited_by": None}
    served.clock.advance(50.0)
    assert served.ask("/advice/bills%2Feu")[0] == AWAY, "a minute old: a scaler holds its number"


def test_advice_that_was_never_known_is_none(served: Served) -> None:
    assert served.ask("/advice/orders") == (AWAY, '{"recommended": null, "age_s": null}')
    served.metrics.take(cycle(group="orders", recommended=None, recommended_age_s=None), ())
    assert served.ask("/advice/orders")[0] == AWAY


def test_a_job_is_ready_once_each_group_has_been_decided_and_alive_while_cycles_come(served: Served) -> None:
    assert served.ask("/healthz")[0] == OK, "it has just begun"
    assert served.ask("/readyz") == (AWAY, '{"groups": 2, "decided": 0, "measured_age_s": null, "held": null}')
    served.metrics.take(cycle(group="orders"), ())
    assert served.ask("/readyz")[0] == AWAY
    served.metrics.take(cycle(group="bills"), ())
    assert served.ask("/readyz")[0] == OK
    served.clock.advance(61.0)
    assert served.ask("/healthz")[0] == AWAY, "no cycle for as long as the watchdog waits"


def test_a_job_that_measures_nothing_or_may_not_act_is_not_ready_and_says_why(served: Served) -> None:
    for name in ("orders", "bills"):
        served.metrics.take(unmeasured(name), ())
    assert served.ask("/readyz")[0] == AWAY, "each was decided, and nothing of them is known"
    served.metrics.take(cycle(group="bills"), ())
    assert served.ask("/readyz")[0] == OK, "one group without a measurement keeps the others from nothing"
    served.clock.advance(61.0)
    served.metrics.take(unmeasured("bills"), ())
    assert served.ask("/readyz")[0] == AWAY, "the brokers have been away for a while"
    served.metrics.take(cycle(group="bills", t=served.clock.now()), ())
    served.held = "the lease was not renewed"
    status, said = served.ask("/readyz")
    assert (status, json.loads(said)["held"]) == (AWAY, served.held)
    assert served.ask("/healthz")[0] == OK, "to start it again would not help"


def test_a_job_that_waits_for_another_one_lives_and_is_not_ready() -> None:
    answer = waiting(lambda: "pod a")
    assert (answer("/healthz", "", "").status, answer("/readyz", "", "").status) == (OK, AWAY)
    assert json.loads(answer("/readyz", "", "").body) == {"waits_for": "pod a"}
    assert answer("/advice/orders", "", "").status == AWAY


def test_metrics_come_in_the_form_that_is_asked_for(served: Served) -> None:
    served.metrics.take(cycle(), ())
    status, text = served.ask("/metrics")
    assert status == OK
    assert "# TYPE autoscaler_consumers gauge" in text
    assert served.ask("/metrics", "HEAD") == (OK, "")


def test_nothing_else_is_there_and_nothing_can_be_changed(served: Served) -> None:
    assert served.ask("/other")[0] == http.HTTPStatus.NOT_FOUND
    assert served.ask("/../etc/passwd")[0] == http.HTTPStatus.NOT_FOUND
    assert served.ask("/metrics", "POST")[0] == http.HTTPStatus.NOT_IMPLEMENTED


def test_a_client_that_says_nothing_or_nonsense_keeps_the_others_from_nothing(served: Served) -> None:
    with (
        socket.create_connection(("127.0.0.1", served.port)) as silent,
        socket.create_connection(("127.0.0.1", served.port)) as odd,
    ):
        odd.sendall(b"\x00\xff nonsense\r\n\r\n")
        assert served.ask("/healthz")[0] == OK
        assert silent.fileno() >= 0


def test_a_defect_of_one_answer_is_said_in_the_log_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fail(path: str, accept: str, host: str) -> None:
        raise ValueError(path)

    server = Server(("127.0.0.1", 0), fail)  # type: ignore[arg-type]
    server.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port() or 0, timeout=30)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == http.HTTPStatus.INTERNAL_SERVER_ERROR
        connection.close()
    finally:
        server.close()
    assert "/metrics could not be answered" in caplog.text


def test_a_port_that_is_taken_is_said_once_and_taken_when_it_is_free(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.adapters.http.server._AGAIN_S", 0.05)
    caplog.set_level(logging.INFO)
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = holder.getsockname()
        server = Server(address, lambda _path, _accept, _host: pytest.fail("nothing was asked"))
        server.start()
        until("it is said", lambda: "cannot be used" in caplog.text)
    try:
        assert server.port() == address[1]
    finally:
        server.close()
    assert caplog.text.count("cannot be used") == 1
