"""What the status of a ConsumerGroup says, and when it is written; on a real API server: ``tests/kubernetes``."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.consumer_groups.events import EVERY_S, Events, event
from autoscaler.adapters.consumer_groups.status import Known, rounded, status_of, substance
from autoscaler.adapters.consumer_groups.writer import LEAST_S, REFRESH_S, Statuses
from autoscaler.adapters.kubernetes.api import MissingError
from autoscaler.config.consumer_groups import Declaration, Merged
from autoscaler.config.settings import Group
from autoscaler.errors import AutoscalerError, PermanentError, TransientError
from autoscaler.model import AddWorkers, Decision, Finding, Reason
from autoscaler.model.findings import What
from tests.adapters.audit.audit_cases import calm
from tests.fakes import FakeClock

AT = 1_800_000_000.0
CALM = calm()[0]
ONE = Declaration(
    namespace="shop", name="orders", uid="u", generation=2, created="", group=Group(group="g", topics=("t",), mode="advise")
)


def decided(**changes: Any) -> Decision:  # noqa: ANN401  its fields
    return replace(CALM, **{"group": "g", "findings": (), **changes})


def conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def test_a_decision_is_told_with_its_numbers_and_its_reason() -> None:
    decision = decided(
        consumers_now=4, consumers=5, total_lag_records=123_456, total_bytes_per_s=3_456_789.0, at=AT,
        reason=Reason.RATE_ABOVE_CAPACITY, limited_by=Reason.STEP_LIMIT, detail="why", mode="act",
    )  # fmt: skip
    status = status_of(Known(one=ONE, decision=decision), {}, AT)
    assert {k: status[k] for k in ("observedGeneration", "mode", "consumers", "wanted", "lag", "rate")} == {
        "observedGeneration": 2, "mode": "act", "consumers": 4, "wanted": 5, "lag": 120_000, "rate": 3_500_000.0,
    }  # fmt: skip
    assert status["decision"] == {
        "at": "2027-01-15T08:00:00Z", "reason": "RATE_ABOVE_CAPACITY", "limit": "STEP_LIMIT", "message": "why",
    }  # fmt: skip
    assert conditions(status) == {"Accepted": ("True", "Accepted"), "Ready": ("True", "RATE_ABOVE_CAPACITY")}


def test_what_is_not_known_is_left_out_and_never_zero() -> None:
    decision = decided(consumers_now=None, consumers=0, total_lag_records=None, total_bytes_per_s=None)
    status = status_of(Known(one=ONE, decision=decision), {}, AT)
    assert not {"consumers", "wanted", "lag", "rate"} & status.keys()


@pytest.mark.parametrize(
    ("known", "accepted", "ready"),
    [
        (Known(one=ONE), ("True", "Accepted"), ("Unknown", "NOT_MEASURED")),
        (Known(one=replace(ONE, group=None), refused="twice"), ("False", "Refused"), ("False", "Refused")),
        (Known(one=ONE, decision=decided(reason=Reason.NOT_READY)), ("True", "Accepted"), ("False", "NOT_READY")),
        (Known(one=ONE, decision=decided(reason=Reason.IMBALANCE)), ("True", "Accepted"), ("True", "IMBALANCE")),
        (
            Known(one=ONE, decision=decided(findings=(Finding.of(What.NOT_CARRIED_OUT, error="x"),))),
            ("True", "Accepted"),
            ("False", "NOT_CARRIED_OUT"),
        ),
        (Known(one=ONE, refused="faulty", decision=decided()), ("False", "Refused"), ("True", "WITHIN_TARGET")),
    ],
)
def test_conditions_say_whether_the_resource_holds_and_whether_its_group_is_looked_after(
    known: Known, accepted: tuple[str, str], ready: tuple[str, str]
) -> None:
    assert conditions(status_of(known, {}, AT)) == {"Accepted": accepted, "Ready": ready}


def test_times_are_those_of_changes() -> None:
    known = Known(one=ONE, decision=decided(at=AT))
    first = status_of(known, {}, AT)
    later = status_of(replace(known, decision=decided(at=AT + 60)), first, AT + 60)
    assert later["decision"]["at"] == first["decision"]["at"]
    assert [c["lastTransitionTime"] for c in later["conditions"]] == [c["lastTransitionTime"] for c in first["conditions"]]
    changed = status_of(replace(known, decision=decided(at=AT + 60, reason=Reason.NOT_READY)), first, AT + 60)
    assert changed["decision"]["at"] == "2027-01-15T08:01:00Z"
    assert changed["conditions"][1]["lastTransitionTime"] == "2027-01-15T08:01:00Z"
    assert changed["conditions"][0]["lastTransitionTime"] == first["conditions"][0]["lastTransitionTime"]


@given(st.floats(1, 1e12))
def test_a_rounded_number_is_near_and_stays_when_it_is_rounded_again(value: float) -> None:
    assert abs(rounded(value) - value) <= value / 10
    assert rounded(rounded(value)) == rounded(value)


def test_what_is_wrong_is_told_anew_when_its_words_change_and_not_when_its_figures_do() -> None:
    def told(detail: str, reason: Reason) -> object:
        return substance(status_of(Known(one=ONE, decision=decided(detail=detail, reason=reason)), {}, AT))

    assert told("for 3 s", Reason.NOT_READY) == told("for 47.5 s", Reason.NOT_READY)
    assert told("no Deployment", Reason.NOT_READY) != told("no right", Reason.NOT_READY)
    assert told("a", Reason.WITHIN_TARGET) == told("b", Reason.WITHIN_TARGET)


# --- when it is written ---


class Server:
    """Takes statuses."""

    def __init__(self) -> None:
        self.taken: list[Mapping[str, Any]] = []
        self.made: list[Mapping[str, Any]] = []
        self.fails: AutoscalerError | None = None

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        assert (path.rpartition("/")[2], manager) == ("status", "kafka-group-autoscaler")
        self.taken.append(body)
        if self.fails is not None:
            raise self.fails
        return {}

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        assert (path, manager) == ("/apis/events.k8s.io/v1/namespaces/shop/events", "kafka-group-autoscaler")
        if self.fails is not None:
            raise self.fails
        self.made.append(body)
        return {}


class World:
    def __init__(self) -> None:
        self.server, self.clock = Server(), FakeClock()
        self.statuses = Statuses(self.server, self.clock)  # type: ignore[arg-type]
        self.statuses.judged([ONE], Merged(groups=(), owners={"g": ONE.key}))

    def cycles(self, seconds: float, **changes: Any) -> int:  # noqa: ANN401  as above
        """Decide once a second, and return how often the status was written meanwhile."""
        before = len(self.server.taken)
        for _ in range(int(seconds)):
            self.statuses.take(decided(**changes))
            self.clock.advance(1.0)
            self.statuses.write()
        return len(self.server.taken) - before


@pytest.fixture
def world() -> World:
    return World()


def test_a_change_is_told_soon_and_what_stays_is_not_told_again(world: World) -> None:
    assert world.cycles(60, consumers_now=1) == 1
    assert world.cycles(LEAST_S, consumers_now=2) == 1
    assert world.cycles(3600, consumers_now=2) == 0
    assert world.server.taken[-1]["status"]["consumers"] == 2


def test_a_quiet_group_costs_few_requests_an_hour_also_where_its_lag_never_rests(world: World) -> None:
    world.cycles(60)
    told = sum(world.cycles(1, total_lag_records=second, total_bytes_per_s=1e6 + 1e5 * (second % 7)) for second in range(3600))
    print(f"{told} requests in an hour of which each second has another lag")
    assert 3600 / REFRESH_S - 1 <= told <= 3600 / REFRESH_S


def test_a_restless_group_is_told_every_few_seconds_at_most(world: World) -> None:
    assert sum(world.cycles(1, consumers_now=second) for second in range(600)) <= 600 / LEAST_S


@pytest.mark.parametrize(("error", "within_s"), [(TransientError("away"), LEAST_S), (PermanentError("no right"), REFRESH_S)])
def test_what_could_not_be_written_is_written_later(
    world: World, error: AutoscalerError, within_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.fails = error
    world.cycles(5 * within_s)
    assert len(world.server.taken) <= 6
    assert caplog.text.count(f"is not written: {error}") == 1
    world.server.fails = None
    assert world.cycles(within_s) == 1


def test_a_resource_that_is_gone_is_told_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.server.fails = MissingError("gone")
    world.cycles(5)
    assert not caplog.records
    world.statuses.judged([], Merged(groups=()))
    assert world.cycles(60) == 0


def test_a_group_that_another_resource_declares_by_now_is_told_there(world: World) -> None:
    world.cycles(30)
    other = replace(ONE, name="other", uid="v")
    world.statuses.judged([ONE, other], Merged(groups=(), owners={"g": other.key}, refused={ONE.key: "twice"}))
    world.cycles(30)
    latest = {body["metadata"]["name"]: body["status"] for body in world.server.taken}
    assert latest["other"]["consumers"] == decided().consumers_now
    assert "consumers" not in latest["orders"]
    assert conditions(latest["orders"])["Ready"] == ("False", "Refused")


def test_what_was_written_before_a_restart_is_not_written_again() -> None:
    world = World()
    world.cycles(30)
    again = World()
    written = world.server.taken[-1]["status"]
    again.statuses.judged([], Merged(groups=()))
    again.statuses.judged([replace(ONE, status=written)], Merged(groups=(), owners={"g": ONE.key}))
    again.statuses.take(decided())
    assert again.cycles(60) == 0


# --- events ---


def acting(count: int = 1, **changes: Any) -> Decision:  # noqa: ANN401  as above
    return decided(mode="act", consumers_now=2, consumers=2 + count, actions=(AddWorkers(slots=tuple(range(count))),), **changes)


def test_an_event_says_what_is_carried_out_and_why() -> None:
    made = event(ONE, acting(detail="why", reason=Reason.BACKLOG), 0, AT)
    assert (made["type"], made["action"], made["reason"], made["note"]) == ("Normal", "Scale", "BACKLOG", "consumers 2 → 3: why")
    assert made["regarding"]["uid"] == "u"
    failed = event(ONE, acting(detail="x" * 5000, findings=(Finding.of(What.NOT_CARRIED_OUT, error="x"),)), 3, AT)
    assert (failed["type"], len(failed["note"])) == ("Warning", 1000)
    assert failed["note"].startswith("consumers 2 → 3 (3 more since the event before): x")


def test_decisions_that_are_carried_out_are_told_once_a_minute_the_latest_with_how_many_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, clock = Server(), FakeClock()
    events = Events(server, clock)  # type: ignore[arg-type]
    for second in range(600):
        events.take(ONE, acting(detail=str(second)))
        events.take(ONE, decided(mode="advise"))
        events.write()
        clock.advance(1.0)
    notes = [body["note"] for body in server.made]
    assert notes[0] == "consumers 2 → 3: 0"
    assert notes[1] == "consumers 2 → 3 (59 more since the event before): 60"
    assert len(notes) == 600 / EVERY_S
    server.fails = PermanentError("no right")
    for _ in range(600):
        events.take(ONE, acting())
        events.write()
        clock.advance(1.0)
    assert caplog.text.count("no event is made of ConsumerGroup shop/orders: no right") == 1
