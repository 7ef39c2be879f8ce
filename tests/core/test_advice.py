"""What is advised on a native group, and where members subscribe in a managed one."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoscaler.core.decide import History, decide
from autoscaler.model import AddWorkers, Decision, GroupMembers, Observation, Reason, TopicPartition
from autoscaler.model.findings import What
from tests.builders import T0, members, moment, observation, owned, policy, rates, says, snapshot, state
from tests.core.answers import HALF, LONG_AGO, answer, move, with_orphans

ADVISE = policy(mode="advise", assignment="native")


def advise(loads: Mapping[TopicPartition, float | None], who: GroupMembers | None, history: History = LONG_AGO) -> Decision:
    return decide(Observation(group="g", snapshot=snapshot(loads), state=None, members=who), history, ADVISE, moment(T0))[0]


def test_advice_says_how_many_its_own_assignor_takes_and_what_a_placement_by_load_would_give() -> None:
    decision = advise(rates(60, 30, 22, 22), members([0, 1], [2, 3]))
    assert (decision.reason, decision.limited_by) == (Reason.RATE_ABOVE_CAPACITY, Reason.ADVISORY)
    assert (decision.consumers_now, decision.recommended, decision.consumers) == (2, 4, 4)
    assert decision.imbalance == pytest.approx(90 / 67)
    assert list(decision.actions) == [AddWorkers(slots=(2, 3))], "three would leave the first range of two as it is"
    assert says(decision, What.FORECAST, count=4, assignor="range", high_bytes_per_s=60)
    assert says(decision, What.NOW, live=2, load_bytes_per_s=90)
    assert says(decision, What.PLACED_BY_LOAD, planned=2, usable_bytes_per_s=80, load_bytes_per_s=74, moved=1)


def test_advice_to_grow_moves_nothing_because_the_assignor_does() -> None:
    decision = advise(rates(60, 60, 60, 60), members([0, 1], [2, 3]))
    assert decision.actions == (AddWorkers(slots=(2, 3)),)
    assert dict(decision.target) == owned([0, 1], [2, 3])


def test_advice_when_nothing_is_wrong_still_says_what_a_placement_by_load_would_give() -> None:
    decision = advise(rates(40, 70), members([0], [1]))
    assert (decision.reason, decision.actions) == (Reason.WITHIN_TARGET, ())
    assert says(decision, What.PLACED_BY_LOAD, planned=2)


def test_members_are_numbered_by_their_id() -> None:
    who = members([0], [1], [2])
    shuffled = replace(who, members=tuple(reversed(who.members)))
    loads = rates(60, 60, 60)
    assert advise(loads, shuffled) == advise(loads, who)
    assert dict(advise(loads, who).target) == owned([0], [1], [2])


@pytest.mark.parametrize(
    ("who", "what"), [(None, What.MEMBERS_NOT_READ), (members([0], [1], group_state="PREPARING_REBALANCING"), What.REBALANCING)]
)
def test_advice_needs_to_know_who_holds_what(who: GroupMembers | None, what: What) -> None:
    decision = advise(rates(60, 60), who)
    assert (decision.reason, decision.actions) == (Reason.NOT_READY, ())
    assert says(decision, what)


def test_advice_for_a_group_without_members_says_how_many_it_needs() -> None:
    decision = advise(rates(60, 60), members(group_state="EMPTY"))
    assert (decision.consumers_now, decision.consumers, decision.recommended) == (0, 2, 2)


def test_advice_on_a_managed_group_keeps_the_reason() -> None:
    decision = answer(rates(50, 50, 60), state(owned([0, 1], [2])), policy(mode="advise"))
    assert (decision.reason, decision.limited_by) == (Reason.RATE_ABOVE_CAPACITY, Reason.ADVISORY)
    assert decision.actions == (AddWorkers(slots=(2,)), move(1, 0, 2))


def test_subscribed_members_in_a_managed_group_stop_everything() -> None:
    decision = answer(rates(90, 90), with_orphans(state(owned([0])), 1), foreign=members([0]))
    assert (decision.reason, decision.actions) == (Reason.PAUSED, ())
    assert says(decision, What.FOREIGN_MEMBERS, members=1, clients="app-0", hosts="/10.0.0.0")


def test_a_managed_group_without_subscribed_members_goes_on() -> None:
    assert answer(rates(30, 70), state(HALF), foreign=members(group_state="EMPTY")).reason is Reason.WITHIN_TARGET


def test_a_group_that_does_not_exist_is_named() -> None:
    native = policy(mode="advise", assignment="native", group="shop")
    answer, _ = decide(observation(rates(10.0), None, members(group_state="DEAD")), History(), native, moment(T0))
    assert answer.reason is Reason.NOT_READY
    assert says(answer, What.NO_SUCH_GROUP, group="shop")
    managed = policy(mode="advise", group="shop")
    answer, _ = decide(observation(rates(10.0), None, members(group_state="DEAD")), History(), managed, moment(T0))
    assert (answer.reason, answer.consumers_now) == (Reason.PARTITIONS_CHANGED, 0)
    assert says(answer, What.GROUP_NOT_THERE_YET, group="shop")
    assert says(answer, What.PLACED_BY_LOAD, planned=1)


def test_consumers_that_could_not_be_looked_at_are_unknown_and_the_advice_comes_all_the_same() -> None:
    unread = replace(observation(rates(70.0, 70.0), None, members()), unread="the broker is away")
    answer, _ = decide(unread, History(), policy(mode="advise"), moment(T0))
    assert (answer.consumers_now, answer.recommended, answer.consumers) == (None, 2, 2)
    assert says(answer, What.CONSUMERS_NOT_KNOWN, error="the broker is away")
    assert says(answer, What.PLACED_BY_LOAD, planned=2)


def test_advice_on_a_group_that_still_runs_as_managed_tells_what_its_consumers_hold() -> None:
    answer, _ = decide(observation(rates(70.0, 70.0), state(owned([0, 1]))), History(), policy(mode="advise"), moment(T0))
    assert (answer.consumers_now, answer.consumers, answer.limited_by) == (1, 2, Reason.ADVISORY)
    assert answer.actions == (AddWorkers(slots=(1,)), move(1, 0, 1))
    assert says(answer, What.NOW, live=1, load_bytes_per_s=140)
    assert says(answer, What.PLACED_BY_LOAD, planned=2)
