"""Kafka's assignors as they are documented, small enough to check by hand; ``tests/kafka`` compares them with the classes."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.assignors.forecast import forecast
from autoscaler.core.assignors.group_model import Assignor, Client, Consumer, NativeGroup
from autoscaler.core.assignors.java_hash_order import hashed, string_hash, topic_id_hash
from autoscaler.core.assignors.simulate import assign, following, in_coordinator, ties
from autoscaler.model import TopicPartition

STICKY = (Assignor.STICKY, Assignor.COOPERATIVE_STICKY, Assignor.UNIFORM)


def consumers(*names: str, topics: str = "t") -> list[Consumer]:
    return [Consumer(member_id=n, topics=frozenset(topics)) for n in names]


def group(assignor: Assignor, members: list[Consumer], **partitions: int) -> NativeGroup:
    return NativeGroup(assignor=assignor, consumers=tuple(members), partitions=partitions)


def numbers(found: dict[str, tuple[TopicPartition, ...]] | None) -> dict[str, list[int]]:
    assert found is not None
    return {m: [p.partition for p in ps] for m, ps in found.items()}


def holding(before: NativeGroup, client: Client, members: list[Consumer]) -> NativeGroup:
    """Return the group with these members, who hold what they had if they were there before."""
    held = assign(before, client)
    assert held is not None
    return following(
        before,
        [
            Consumer(member_id=c.member_id, topics=c.topics, owned=frozenset(held.get(c.member_id, ())), instance=c.instance)
            for c in members
        ],
    )


def test_range_gives_the_first_members_the_longer_ranges_of_every_topic() -> None:
    found = assign(group(Assignor.RANGE, consumers("b", "a", topics="st"), s=3, t=3), Client.JAVA)
    assert found == {
        "a": tuple(TopicPartition(t, n) for t in "st" for n in (0, 1)),
        "b": tuple(TopicPartition(t, 2) for t in "st"),
    }


def test_static_members_come_first_by_their_instance_id() -> None:
    members = [
        Consumer(member_id="a", topics=frozenset("t")),
        Consumer(member_id="b", topics=frozenset("t"), instance="z"),
        Consumer(member_id="c", topics=frozenset("t"), instance="y"),
    ]
    assert numbers(assign(group(Assignor.RANGE, members, t=4), Client.JAVA)) == {"c": [0, 1], "b": [2], "a": [3]}


def test_round_robin_goes_on_with_the_next_topic_where_it_stopped() -> None:
    found = assign(group(Assignor.ROUND_ROBIN, consumers("a", "b", topics="st"), s=3, t=3), Client.JAVA)
    assert found == {
        "a": (TopicPartition("s", 0), TopicPartition("s", 2), TopicPartition("t", 1)),
        "b": (TopicPartition("s", 1), TopicPartition("t", 0), TopicPartition("t", 2)),
    }


def test_round_robin_passes_over_members_that_do_not_subscribe() -> None:
    members = [*consumers("a", topics="s"), *consumers("b", topics="st")]
    found = assign(group(Assignor.ROUND_ROBIN, members, s=1, t=2), Client.JAVA)
    assert found == {"a": (TopicPartition("s", 0),), "b": (TopicPartition("t", 0), TopicPartition("t", 1))}


@pytest.mark.parametrize(
    ("client", "given_up"),
    [
        (Client.JAVA, {4, 5, 10, 11}),  # keeps the lowest of each; what is over goes to the third
        (Client.LIBRDKAFKA, {0, 1, 6, 7}),  # offers the lowest of the fullest first
        (Client.KAFKA_PYTHON, {4, 5, 10, 11}),
    ],
)
def test_a_third_sticky_member_gets_what_that_client_lets_go_of(client: Client, given_up: set[int]) -> None:
    members = [
        Consumer(member_id="a", topics=frozenset("t"), owned=frozenset(TopicPartition("t", n) for n in range(6))),
        Consumer(member_id="b", topics=frozenset("t"), owned=frozenset(TopicPartition("t", n) for n in range(6, 12))),
        Consumer(member_id="c", topics=frozenset("t")),
    ]
    for assignor in (Assignor.STICKY, Assignor.COOPERATIVE_STICKY):
        found = numbers(assign(group(assignor, members, t=12), client))
        assert set(found["c"]) == given_up


def test_uniform_fills_a_new_member_and_leaves_the_others_what_they_keep() -> None:
    before = holding(group(Assignor.UNIFORM, consumers("a"), t=4), Client.JAVA, consumers("a", "b"))
    assert numbers(assign(before, Client.JAVA)) == {"a": [0, 1], "b": [2, 3]}


def test_members_come_as_the_coordinator_lists_them_and_who_joins_comes_last() -> None:
    """Of one slot of its table the list has who joined last first: no hash says that."""
    listed = [Consumer(member_id=m, topics=frozenset("t"), place=i) for i, m in enumerate(["m7", "m3", "m5", "m1"])]
    joining = Consumer(member_id="m0", topics=frozenset("t"))
    assert in_coordinator([joining, *reversed(listed)]) == ["m7", "m3", "m5", "m1", "m0"]


def tied(**partitions: int) -> NativeGroup:
    """Return a group whose topics' ids share a bucket: hash codes 1, 17, 33 of a table of 16."""
    ids = {t: base64.urlsafe_b64encode(bytes(15) + bytes([1 + 16 * n])).decode()[:22] for n, t in enumerate(partitions)}
    held = {"a": {("s", 0), ("s", 1), ("t", 0)}, "b": {("t", 1), ("t", 2), ("s", 2)}}
    owned = {m: frozenset(TopicPartition(t, n) for t, n in ps) for m, ps in held.items()}
    members = tuple(Consumer(member_id=m, topics=frozenset(partitions), owned=ps) for m, ps in owned.items())
    return NativeGroup(assignor=Assignor.UNIFORM, consumers=members, partitions=partitions, topic_ids=ids)


def test_where_topics_share_a_bucket_every_order_of_them_is_followed() -> None:
    """Who keeps what of which topic goes back to what came first: the span holds all of it, and none of it is called sure."""
    there = tied(s=3, t=3)
    rates = {TopicPartition(t, n): rate for t, rate in (("s", 10.0), ("t", 1.0)) for n in range(3)}
    told = forecast(there, rates, 3)
    assert told is not None
    assert (told.low, told.high, told.sure) == (11.0, 20.0, False)
    assert len(ties(tied(s=3))) == 1


@pytest.mark.parametrize("assignor", STICKY)
def test_what_sticky_assignors_do_with_different_subscriptions_is_not_guessed(assignor: Assignor) -> None:
    members = [*consumers("a", topics="s"), *consumers("b", topics="st")]
    assert assign(group(assignor, members, s=1, t=2), Client.JAVA) is None


@pytest.mark.parametrize("assignor", Assignor)
def test_a_group_without_members_gets_nothing(assignor: Assignor) -> None:
    assert assign(group(assignor, [], t=3), Client.JAVA) == {}


def test_java_goes_through_a_hash_map_by_bucket() -> None:
    # worked by hand: "Aa" and "BB" are the classic pair with one hash code, 2112 -> bucket 0 of 16; "a" is 97 -> bucket 1
    assert (string_hash("Aa"), string_hash("BB"), string_hash("a")) == (2112, 2112, 97)
    assert hashed(["a", "BB", "Aa"], string_hash) == ["BB", "Aa", "a"]
    assert hashed(range(13), lambda n: 31 - n) == [*range(12, -1, -1)], "13 keys take 32 buckets"


def test_a_topic_id_hashes_alike_however_it_is_written() -> None:
    assert topic_id_hash("AAAAAAAAAAAAAAAAAAAAAQ") == topic_id_hash("00000000-0000-0000-0000-000000000001") == 1


@st.composite
def rebalances(draw: st.DrawFn) -> tuple[NativeGroup, Client, list[Consumer]]:
    """Return a group, who assigns, and who is there next."""
    topics = {f"t{i}": draw(st.integers(1, 12)) for i in range(draw(st.integers(1, 3)))}
    names = draw(st.lists(st.text("abcxyz-", min_size=1, max_size=6), min_size=1, max_size=8, unique=True))
    everything = [Consumer(member_id=n, topics=frozenset(topics)) for n in names]
    now, then = draw(st.sets(st.sampled_from(everything), min_size=1)), draw(st.sets(st.sampled_from(everything), min_size=1))
    made = NativeGroup(
        assignor=draw(st.sampled_from(Assignor)), consumers=tuple(sorted(now, key=lambda c: c.member_id)), partitions=topics
    )
    return made, draw(st.sampled_from(Client)), sorted(then, key=lambda c: c.member_id)


@given(rebalances())
@settings(max_examples=200, deadline=None)
def test_every_partition_goes_to_one_member_and_nobody_has_two_more_than_another(
    case: tuple[NativeGroup, Client, list[Consumer]],
) -> None:
    before, client, members = case
    after = holding(before, client, members)
    found = assign(after, client)
    assert found is not None
    given_out = [p for ps in found.values() for p in ps]
    assert sorted(given_out) == [TopicPartition(t, n) for t in sorted(after.partitions) for n in range(after.partitions[t])]
    assert set(found) == {c.member_id for c in members}
    by_topic = [[sum(p.topic == t for p in ps) for ps in found.values()] for t in after.partitions]
    counts = by_topic if after.assignor is Assignor.RANGE else [[len(ps) for ps in found.values()]]
    assert all(max(c) - min(c) <= 1 for c in counts)


@given(rebalances())
@settings(max_examples=200, deadline=None)
def test_sticky_assignors_move_nothing_when_nobody_comes_or_goes(case: tuple[NativeGroup, Client, list[Consumer]]) -> None:
    before, client, _ = case
    after = holding(before, client, list(before.consumers))
    if before.assignor in STICKY:
        assert assign(after, client) == {c.member_id: tuple(sorted(c.owned)) for c in after.consumers}
