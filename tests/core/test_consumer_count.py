"""How many consumers a native group is to have: the smallest number that its assignor makes good use of, or why none helps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.assignors.consumer_count import Remedy, choose, fewest
from autoscaler.core.assignors.forecast import Roof, forecast, hottest
from autoscaler.core.assignors.group_model import Assignor, Client, Consumer, NativeGroup
from autoscaler.core.assignors.simulate import assign, following
from autoscaler.model import TopicPartition
from tests.builders import TOPIC, rates, tp


def group(assignor: Assignor, partitions: int, members: int = 1, **changes: object) -> NativeGroup:
    """Return a group at rest: what its members hold is what the assignor gave them."""
    there = tuple(Consumer(member_id=f"app-{n:036d}", topics=frozenset({TOPIC})) for n in range(members))
    made = NativeGroup(assignor=assignor, consumers=there, partitions={TOPIC: partitions}, **changes)  # type: ignore[arg-type]
    held = assign(made, Client.JAVA)
    assert held is not None
    return following(made, [Consumer(member_id=c.member_id, topics=c.topics, owned=frozenset(held[c.member_id])) for c in there])


@pytest.mark.parametrize("assignor", Assignor)
def test_consumers_that_gain_nothing_are_not_asked_for(assignor: Assignor) -> None:
    # 64 equal partitions of 10: nobody can have less than two of them until there are 64
    chosen = choose(group(assignor, 64, 4), rates(*[10.0] * 64), Roof(15.0, 15.0), at_least=1, at_most=40)
    assert chosen.best is not None
    assert (chosen.best.consumers, chosen.best.high, chosen.enough) == (32, 20.0, False)


@pytest.mark.parametrize("assignor", Assignor)
def test_the_smallest_number_that_fits_is_chosen(assignor: Assignor) -> None:
    chosen = choose(group(assignor, 12, 2), rates(*[10.0] * 12), Roof(40.0, 40.0), at_least=1, at_most=12)
    assert chosen.best is not None
    assert (chosen.best.consumers, chosen.enough, chosen.remedies) == (3, True, ())


def test_never_more_consumers_than_partitions() -> None:
    chosen = choose(group(Assignor.RANGE, 4), rates(*[10.0] * 4), Roof(5.0, 5.0), at_least=1, at_most=64)
    assert chosen.best is not None
    assert (chosen.best.consumers, chosen.oversized, chosen.remedies) == (4, 4, ())


def test_a_partition_above_the_limit_is_left_alone_as_soon_as_that_is_possible() -> None:
    # 50 alone is the least the hottest can have: two in ranges of two would put 10 beside it, four do not
    chosen = choose(group(Assignor.RANGE, 4), rates(50.0, 10.0, 10.0, 10.0), Roof(40.0, 40.0), at_least=1, at_most=64)
    assert chosen.best is not None
    assert (chosen.best.consumers, chosen.best.high, chosen.oversized) == (4, 50.0, 1)


def test_where_the_assignor_is_in_the_way_it_is_said_what_would_do() -> None:
    # two hot neighbours stay together in every range of two or more; dealt out in turns they part at two consumers
    loads = rates(30.0, 30.0, 2.0, 2.0, 2.0, 2.0)
    chosen = choose(group(Assignor.RANGE, 6, 1), loads, Roof(40.0, 40.0), at_least=1, at_most=3)
    assert (chosen.enough, chosen.oversized) == (False, 0)
    assert Remedy(assignor=Assignor.ROUND_ROBIN, consumers=2) in chosen.remedies
    assert Remedy(assignor=Assignor.RANGE, consumers=6) in chosen.remedies, "the same, were more allowed"
    assert chosen.remedies[-1] == Remedy(assignor=None, consumers=2), "placed by load"


def test_a_sticky_group_that_grows_keeps_the_hot_ones_together_by_what_it_keeps() -> None:
    # the one member's two hot partitions are the lowest: Java keeps the lowest, librdkafka gives them away
    loads = rates(30.0, 30.0, 2.0, 2.0)
    kept = forecast(group(Assignor.STICKY, 4, clients=(Client.JAVA,)), loads, 2)
    given_away = forecast(group(Assignor.STICKY, 4, clients=(Client.LIBRDKAFKA,)), loads, 2)
    assert kept is not None
    assert given_away is not None
    assert (kept.high, given_away.high) == (60.0, 60.0), "together either way: here or there"
    assert fewest(group(Assignor.STICKY, 4), loads, Roof(40.0, 40.0), at_least=1, at_most=4) == 4, (
        "two of three have one each, the third both"
    )


def test_a_forecast_says_when_it_depends_on_who_ends() -> None:
    # c's end moves 50 onto 20 or 30; a's end moves 30; the worst is what counts
    members = [
        Consumer(member_id=m, topics=frozenset({TOPIC}), owned=frozenset({tp(n)})) for n, m in enumerate(("a", "b", "c", "d"))
    ]
    made = NativeGroup(assignor=Assignor.STICKY, consumers=tuple(members), partitions={TOPIC: 4}, clients=(Client.JAVA,))
    loads = rates(30.0, 20.0, 50.0, 10.0)
    anybody = forecast(made, loads, 3)
    assert anybody is not None
    assert not anybody.sure
    assert anybody.low < anybody.expected < anybody.high
    last = forecast(
        NativeGroup(
            assignor=Assignor.STICKY,
            consumers=tuple(members),
            partitions={TOPIC: 4},
            clients=(Client.JAVA,),
            leaving=("d", "c", "b", "a"),
        ),
        loads,
        3,
    )
    assert last is not None
    assert last.sure
    assert anybody.low <= last.high <= anybody.high


def test_idle_consumers_are_counted() -> None:
    found = forecast(group(Assignor.RANGE, 3, 2), rates(1.0, 1.0, 1.0), 5)
    assert found is not None
    assert found.idle == 2


def test_an_assignor_that_is_not_followed_gives_no_number() -> None:
    mixed = NativeGroup(
        assignor=Assignor.STICKY,
        consumers=(Consumer(member_id="a", topics=frozenset("s")), Consumer(member_id="b", topics=frozenset("st"))),
        partitions={"s": 2, "t": 2},
    )
    chosen = choose(mixed, {TopicPartition("s", 0): 1.0}, Roof(10.0, 10.0), at_least=1, at_most=4)
    assert (chosen.best, chosen.enough) == (None, False)


@given(st.sampled_from(Assignor), st.lists(st.floats(0, 30), min_size=1, max_size=20), st.integers(1, 6), st.floats(10, 100))
@settings(max_examples=40, deadline=None)
def test_a_number_that_is_called_enough_keeps_the_worst_case_within_the_limit(
    assignor: Assignor, values: list[float], members: int, limit: float
) -> None:
    there, loads = group(assignor, len(values), members), rates(*values)
    chosen = choose(there, loads, Roof(limit, limit), at_least=1, at_most=12)
    assert chosen.best is not None
    assert chosen.best.low <= chosen.best.expected * (1 + 1e-9)
    assert chosen.best.expected <= chosen.best.high * (1 + 1e-9)
    assert 1 <= chosen.best.consumers <= max(1, min(12, len(values)))
    if chosen.enough:
        assert chosen.best.high <= limit * (1 + 1e-6)
    again = choose(there, loads, Roof(limit, limit), at_least=1, at_most=12)
    assert again == chosen, "equal input, equal answer"


def test_the_load_of_the_hottest_is_a_sum_of_what_it_holds() -> None:
    assert hottest({"a": (tp(0), tp(1)), "b": (tp(2),)}, rates(1.0, 2.0, 2.5)) == 3.0
