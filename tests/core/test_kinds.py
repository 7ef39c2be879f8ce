"""Which kind an observed group is, and what follows from that alone."""

from dataclasses import replace

import pytest

from autoscaler.core.cycle.evaluate import read_cycle
from autoscaler.core.group.history import History
from autoscaler.core.group.kinds import Conflicting, Managed, Native, Placed, Unmanaged, Unread, kind_of
from autoscaler.core.rules.tables import CONFLICTING, MANAGED, NATIVE, PLACED, UNMANAGED, UNREAD, Rule, rules_of
from autoscaler.model import Observation, Started
from tests.builders import T0, load, members, moment, observation, owned, policy, snapshot, state, tp

SEEN = observation(snapshot([load(tp(p), 1.0) for p in range(2)]), None)
PLAN = replace(SEEN, state=state(owned([0], [1])))
RANGE = replace(SEEN, members=members([0], [1]))
FOLLOWING = replace(SEEN, members=replace(members([0], [1]), assignor="autoscaler-plan"))
JOINING = replace(FOLLOWING, members=replace(members([0], [1], group_state="PREPARING_REBALANCING"), assignor="autoscaler-plan"))
RUN = Started(requested=frozenset({0, 1}), running=frozenset({0, 1}))


@pytest.mark.parametrize(
    ("seen", "assignment", "kind", "rules", "acting", "places"),
    [
        (PLAN, "managed", Managed, MANAGED, True, True),
        (replace(PLAN, members=members([0])), "managed", Managed, MANAGED, True, True),
        (SEEN, "managed", Unmanaged, UNMANAGED, False, False),
        (RANGE, "managed", Unmanaged, UNMANAGED, False, False),
        (FOLLOWING, "managed", Unmanaged, UNMANAGED, False, False),
        (PLAN, "native", Conflicting, CONFLICTING, True, True),
        (SEEN, "native", Unread, UNREAD, False, False),
        (replace(SEEN, started=RUN), "native", Unread, UNREAD, True, False),
        (RANGE, "native", Native, NATIVE, False, False),
        (replace(RANGE, started=RUN), "native", Native, NATIVE, True, False),
        (FOLLOWING, "native", Placed, PLACED, False, False),
        (replace(FOLLOWING, started=RUN), "native", Placed, PLACED, True, True),
        (replace(JOINING, started=RUN), "native", Native, NATIVE, True, False),
    ],
)
def test_what_is_observed_of_a_group_tells_its_kind_and_its_rules(
    *, seen: Observation, assignment: str, kind: type, rules: tuple[Rule, ...], acting: bool, places: bool
) -> None:
    found = kind_of(seen, assignment)
    assert type(found) is kind
    assert (found.acting, found.places, found.native) == (acting, places, assignment == "native")
    asked = policy(assignment=assignment, mode="act" if acting and assignment == "managed" else "advise")
    assert rules_of(read_cycle(seen, History(), asked, moment(T0))) == rules


def test_a_consumer_without_a_slot_is_called_by_its_client_and_host() -> None:
    two = members([0], [1])
    one, other = two.members
    alike = replace(other, client_id=one.client_id, host=one.host)
    shared = kind_of(replace(RANGE, members=replace(two, members=(one, alike))), "native")
    apart = kind_of(
        replace(RANGE, members=replace(two, members=(replace(one, client_id="app", host="/10.0.0.3"), other))), "native"
    )
    assert apart.called(0) == "app (10.0.0.3)"
    assert (shared.called(0) or "").endswith(", m0)"), "and where that is not enough by its member id"
    assert apart.called(-1) is None, "nothing is consumed"
    assert kind_of(PLAN, "managed").called(0) is None, "a slot has a number"
    assert kind_of(replace(FOLLOWING, started=RUN), "native").called(0) is None


def test_a_managed_group_shows_who_subscribes_beside_its_workers() -> None:
    found = kind_of(replace(PLAN, members=members([0], [1])), "managed")
    assert [m.member_id for m in found.listed] == ["m0", "m1"]
    assert found.held == {tp(0), tp(1)}
    assert {w.slot for w in found.workers} == {0, 1}


@pytest.mark.parametrize(
    ("run", "state_name", "complete"),
    [
        (RUN, "STABLE", True),
        (RUN, "PREPARING_REBALANCING", False),
        (None, "STABLE", False),
        (replace(RUN, running=frozenset({0})), "STABLE", False),
        (Started(requested=frozenset({0}), running=frozenset({0})), "STABLE", False),
    ],
)
def test_a_native_group_is_complete_once_those_that_should_run_are_its_members(
    *, run: Started | None, state_name: str, complete: bool
) -> None:
    found = kind_of(replace(SEEN, members=members([0], [1], group_state=state_name), started=run), "native")
    assert isinstance(found, Native)
    assert found.complete is complete
