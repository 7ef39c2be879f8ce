"""The page's answers: as described, to this machine only unless the setting allows more, from a memory that is bounded."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from autoscaler.adapters.http.board import DECISIONS, HISTORY_S, STEP_S, STEPS, Board
from autoscaler.adapters.http.brokers import FRESH_S, BrokerPlans
from autoscaler.adapters.http.endpoint import Endpoint
from autoscaler.adapters.http.metrics import Cycle, JobMetrics
from autoscaler.adapters.http.page import Page, is_loopback
from autoscaler.adapters.http.server import Answers, Health
from autoscaler.adapters.http.why import Record
from autoscaler.config.settings import Settings
from autoscaler.errors import TransientError
from autoscaler.model import TopicPartition
from tests.adapters.audit import audit_cases as cases
from tests.adapters.http.example import HOSTILE, MOVE, NAMES, QUIET, Example, plans, told_at
from tests.adapters.http.served import cycle
from tests.config.files import MINIMAL
from tests.fakes import FakeClock

HERE = "127.0.0.1:9301"
HEALTH = Health(groups=1, oldest_s=60.0, advice_max_age_s=60.0)


@pytest.fixture(scope="module")
def example() -> Example:
    return Example()


def asked(answers: Answers, path: str, host: str = HERE) -> tuple[int, Any]:
    answer = answers(path, "", host)
    return answer.status, json.loads(answer.body)


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows no field which it does not name."""
    made = deepcopy(schema)
    for kind in made["components"]["schemas"].values():
        kind["additionalProperties"] = False
    return made


STEP_AT = f"{cases.T0 + 600}"


@pytest.mark.parametrize(("path", "at"), [
    ("/api/groups", "/api/groups"),
    ("/api/groups/orders", "/api/groups/{name}"),
    (f"/api/groups/orders/decisions/{STEP_AT}", "/api/groups/{name}/decisions/{at}"),
    ("/api/brokers", "/api/brokers"),
])  # fmt: skip
def test_answers_are_as_the_description_says(example: Example, path: str, at: str) -> None:
    answers = example.answers()
    described = strict(asked(answers, "/api/openapi.json")[1])
    reference = described["paths"][at]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    check = Draft202012Validator({**described, **reference})
    said = asked(answers, path)[1]
    assert not list(check.iter_errors(said))
    assert list(check.iter_errors({**said, "now": "soon", "at": "soon"})), "the description can be broken"
    assert list(check.iter_errors({**said, "more": 1}))


def test_every_group_is_found_by_its_name_whatever_is_in_it(example: Example) -> None:
    status, said = asked(example.answers(), "/api/groups/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%2F%26%22%27")
    assert (status, said["group"]["name"]) == (200, HOSTILE)
    assert asked(example.answers(), "/api/groups/other")[0] == 404
    assert asked(example.answers(), "/api/other")[0] == 404


def test_a_decision_says_what_it_cost_and_why_not_another_number(example: Example) -> None:
    status, why = asked(example.answers(), f"/api/groups/orders/decisions/{STEP_AT}")
    assert status == 200
    assert why["consumers"] == 6
    assert "5 consumers" in why["fewer"]
    assert "7 consumers" in why["more"]
    assert {k: why["cost"][k] for k in ("moved", "handed_over", "pauses")} == {"moved": 6, "handed_over": 5, "pauses": 5}
    assert (why["cost"]["pause_median_s"], why["cost"]["pause_max_s"]) == pytest.approx((0.04, 0.06))
    assert [h["partitions"] for h in why["held"]] == ["0-3", "4-7", "8-11", "12-15", "16-19", "20-23"]
    first = asked(example.answers(), f"/api/groups/orders/decisions/{cases.T0 + 300}")[1]
    assert first["cost"]["handed_over"] == 5, "by the first plan: not those of the second"


@pytest.mark.parametrize("at", ["1.5", "soon", "nan", "-1", "1e9", ""])
def test_a_decision_that_is_not_remembered_is_said(example: Example, at: str) -> None:
    status, said = asked(example.answers(), f"/api/groups/orders/decisions/{at}")
    assert (status, "no decision of this time" in said["error"]) == (404, True)


def test_a_handover_that_no_decision_asked_for_costs_none() -> None:
    board = Board(FakeClock(wall=cases.T0), lambda: (0, None), (), old_s=10.0)
    board.take(cycle(group="g", epoch=7, actions=[MOVE]))
    others = (cases.handover(0, epoch=8), replace(cases.handover(0, epoch=7), partition=TopicPartition(topic="t", partition=0)))
    board.take(cycle(t=cases.T0 + 1, group="g", epoch=8, actions=[]), others)
    why = board.why("g", cycle().line["t"])
    assert why is not None
    assert why["cost"]["handed_over"] == 0


def test_risk_waste_and_age_are_told(example: Example) -> None:
    groups = {g["name"]: g for g in asked(example.answers(), "/api/groups")[1]["groups"]}
    assert {name: g["risk"] for name, g in groups.items()} == {
        "orders": "full", "bills": "none", QUIET: "old", HOSTILE: "overloaded",
    }  # fmt: skip
    assert groups["bills"]["waste"] == 4
    assert groups[QUIET]["age_s"] == pytest.approx(60.0, abs=1.0)
    assert [b["load"] for b in groups[HOSTILE]["bars"]] == [790e3, 950e3, None]


def test_the_latest_plan_for_brokers_is_told_with_loads_scores_and_what_became_of_it(example: Example) -> None:
    status, said = asked(example.answers(), "/api/brokers")
    east, west = said["clusters"]
    assert (status, east["cluster"], east["mode"], east["actions_all"]) == (200, "east", "act", 2)
    assert [(b["id"], [x["goal"] for x in b["loads"] if x["outside"]]) for b in east["brokers"]] == [
        (1, ["bytes_in", "leaders"]), (2, ["bytes_in", "storage", "leaders"]), (3, ["bytes_in", "storage", "leaders"]),
    ]  # fmt: skip
    assert [(a["partition"], a["state"], a["score"]) for a in east["actions"]] == [
        ("orders-3", "moved", 0.61), (f"{HOSTILE}-0", "planned", 0.55),
    ]  # fmt: skip
    assert "broker 3 has no room for replicas" in east["sentence"]
    assert (west["brokers"], west["actions"], west["planned_at"]) == ([], [], None)


def test_plans_for_brokers_are_read_at_most_so_often_and_a_table_that_cannot_be_read_is_said() -> None:
    clock, reads, rewritten = FakeClock(), list[float](), "table balance was rewritten meanwhile"

    def rows() -> list[dict[str, Any]]:
        reads.append(clock.now())
        if len(reads) == 2:
            raise TransientError(rewritten)
        return plans()

    made = BrokerPlans(clock, rows)
    page = Page(Board(clock, lambda: (0, None), (), old_s=10.0), made)
    answers = Answers(JobMetrics(clock, lambda: (0, None)), HEALTH, clock, page)
    for _ in range(3):
        assert asked(answers, "/api/brokers")[0] == 200
    assert len(reads) == 1
    clock.advance(FRESH_S)
    assert asked(answers, "/api/brokers") == (503, {"error": rewritten})
    assert asked(answers, "/api/brokers")[0] == 200


def test_a_group_without_a_cycle_is_named() -> None:
    board = Board(FakeClock(wall=cases.T0), lambda: (2, cases.T0 - 70), NAMES, old_s=10.0)
    board.take(told_at(0)[0])
    said = board.overview()
    assert said["undecided"] == list(NAMES[1:])
    assert said["audit_waiting_s"] == 70.0
    assert board.group("bills") is None


def test_what_is_kept_is_bounded_and_decisions_that_change_nothing_are_not() -> None:
    clock = FakeClock(wall=cases.T0)
    board = Board(clock, lambda: (0, None), (), old_s=10.0)
    for second in range(3000):
        clock.advance(1.0)
        board.take(cycle(at=clock.now(), group="g", recommended=2 + second // 10, actions=[MOVE] * 30 * (second == 2999)))
    kept = board.group("g")
    assert kept is not None
    assert len(kept["history"]) <= HISTORY_S / STEP_S + 1
    assert clock.now() - kept["history"][0]["at"] <= HISTORY_S
    assert len(kept["decisions"]) == DECISIONS
    assert kept["decisions"][0]["at"] > kept["decisions"][1]["at"]
    assert (len(kept["decisions"][0]["steps"]), kept["decisions"][0]["steps_all"]) == (STEPS, 30)
    assert [d["recommended"] for d in kept["decisions"][1:3]] == [301, 300]


def test_steps_that_are_only_advised_change_nothing_again_and_again() -> None:
    board = Board(FakeClock(wall=cases.T0), lambda: (0, None), (), old_s=10.0)
    for second, takes in enumerate([2, 2, 3, 3]):
        board.take(cycle(t=cases.T0 + second, group="g", mode="advise", recommended=takes, actions=[MOVE]))
    kept = board.group("g")
    assert kept is not None
    assert [d["at"] for d in kept["decisions"]] == [cases.T0 + 2]


@pytest.mark.parametrize("path", ["/", "/page.js", "/api/groups", "/api/openapi.json"])
def test_only_this_machine_is_answered_unless_it_is_allowed(example: Example, path: str) -> None:
    assert example.answers()(path, "", HERE).status == 200
    assert example.answers()(path, "", "localhost:9301").status == 200
    assert example.answers()(path, "", "[::1]:9301").status == 200
    assert example.answers()(path, "", "rebound.example:9301").status == 403, "a name that means 127.0.0.1 for now"
    assert example.answers()(path, "", "").status == 403
    assert example.answers(anywhere=True)(path, "", "autoscaler.example").status == 200
    assert example.answers()("/healthz", "", "autoscaler.example").status == 200


@pytest.mark.parametrize(("listen", "settings", "status"), [
    ("127.0.0.1:9301", {}, 200), ("0.0.0.0:9301", {}, 403), ("0.0.0.0:9301", {"page": True}, 200),
    ("0.0.0.0:9301", {"token": "env:TOKEN"}, 200),  # the server asks for it first
])  # fmt: skip
def test_the_address_decides_who_may_see_it(
    monkeypatch: pytest.MonkeyPatch, listen: str, settings: dict[str, object], status: int
) -> None:
    monkeypatch.setenv("TOKEN", "f3a9c1d07be24856a0")
    made = Settings.model_validate({**MINIMAL, "http": {"listen": listen, **settings}})
    assert made.http.address is not None
    endpoint = Endpoint(made, made.http.address, FakeClock(wall=cases.T0), lambda: (0, None))
    told = cycle()
    endpoint.take(told.line, told.loads, ())
    handler: Any = endpoint._server._handler
    assert handler.answers("/api/groups", "", HERE).status == status
    assert (handler.login is not None) == ("token" in settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_a_loopback_address_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", ""])  # noqa: S104  nothing is bound
def test_another_address_is_not_taken_for_one(host: str) -> None:
    assert not is_loopback(host)


def test_why_not_counts_a_backlog_that_is_given_a_time() -> None:
    """Two of 50 and 40 of 80: two do by rates, and each needs one of its own where 40 more per second must be read."""
    seen = cycle()
    behind = tuple(replace(x, lag_bytes=40_000.0, lag_s=60.0) for x in seen.loads)
    told = {"within_s": 1.0, "behind_s": 5.0, "partitions": float(len(behind))}
    plain = Record.of(Cycle(line={**seen.line, "backlog": None}, loads=behind), ()).why({})
    late = Record.of(Cycle(line={**seen.line, "backlog": told}, loads=behind), ()).why({})
    assert plain["fewer"] != late["fewer"]
    assert f"it takes {len(behind)} consumers at least" in (late["fewer"] or "")
