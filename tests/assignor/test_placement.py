"""Placements as written, and what a leader makes of one."""

import contextlib
import json
from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.handover.placement_record import (
    Placement,
    Seat,
    Tp,
    decode,
    encode,
    holders,
    introduced,
    key_of,
    seated,
    withheld,
)

ALL = [("a", n) for n in range(4)]


def placement(**owners: str) -> Placement:
    """Return a placement of partitions a0, a1 … by name."""
    return Placement(group="g", valid_s=60, owners={(k[0], int(k[1:])): name for k, name in owners.items()})


def seat(member: str, *owned: Tp, name: str | None = None, topics: Collection[str] = ("a",), since: int = -1) -> Seat:
    called = member if name is None else name
    return Seat(member_id=member, name=called, topics=frozenset(topics), owned=frozenset(owned), generation=since)


def test_what_is_written_is_read() -> None:
    wanted = placement(a0="x", a1="y", b7="x")
    assert decode("g", encode(wanted)) == wanted
    named = replace(wanted, writer="a job")
    assert decode("g", encode(named)) == named


def test_a_placement_of_an_earlier_release_names_no_writer() -> None:
    assert decode("g", b'{"v":1,"valid_s":60,"owners":{"x":{"a":[0]}}}').writer == ""
    assert json.loads(key_of("a group")) == ["placement", "a group"]


@pytest.mark.parametrize(
    "value",
    [
        b"", b"[]", b"null", b'{"v":1}', b'{"v":2,"valid_s":1,"owners":{}}', b'{"v":1,"valid_s":1,"owners":3}',
        b'{"v":1,"valid_s":1,"owners":{"x":{"a":["q"]}}}', b"\xff",
    ],
)  # fmt: skip
def test_what_is_no_placement_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the message is the parser's where it is no JSON
        decode("g", value)


@given(st.binary(max_size=60))
def test_no_bytes_do_anything_else(value: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode("g", value)


def test_everybody_gets_what_is_written_whatever_the_broker_calls_them() -> None:
    seats = [seat("id-7", name="x"), seat("id-3", name="y")]
    wanted = placement(a0="x", a1="x", a2="x", a3="y")
    assert seated(wanted, seats, ALL) == {"id-7": {("a", 0), ("a", 1), ("a", 2)}, "id-3": {("a", 3)}}


def test_what_is_not_named_goes_to_who_has_least_and_stays_there() -> None:
    seats = [seat("x"), seat("y", ("a", 3))]
    held = seated(placement(a0="x", a1="gone"), seats, ALL)
    assert held == {"x": {("a", 0), ("a", 2)}, "y": {("a", 1), ("a", 3)}}
    again = seated(placement(a0="x", a1="gone"), [seat(m, *tps) for m, tps in held.items()], ALL)
    assert again == held


def test_a_member_that_does_not_subscribe_gets_nothing_of_a_topic() -> None:
    seats = [seat("x", topics=["b"]), seat("y", topics=["a", "b"])]
    partitions = [*ALL, ("b", 0)]
    held = seated(placement(a0="x", b0="x"), seats, partitions)
    assert held == {"x": {("b", 0)}, "y": set(ALL)}


@pytest.mark.parametrize("wanted", [None, placement(), placement(a0="gone"), placement(z0="x")])
def test_a_placement_that_names_nobody_who_is_here_says_nothing(wanted: Placement | None) -> None:
    assert seated(wanted, [seat("x"), seat("y")], ALL) is None


def test_two_members_of_one_name_are_not_given_the_same() -> None:
    seats = [seat("id-2", name="x"), seat("id-1", name="x")]
    held = seated(placement(a0="x", a1="x", a2="x", a3="x"), seats, ALL)
    assert held == {"id-1": set(ALL), "id-2": set()}


def test_what_another_still_holds_is_withheld() -> None:
    seats = [seat("x", ("a", 0)), seat("y", ("a", 1))]
    assert withheld({"x": {("a", 1)}, "y": {("a", 0), ("a", 2)}}, seats) == {"x": set(), "y": {("a", 2)}}


def test_the_newest_generation_says_who_holds_a_partition() -> None:
    seats = [seat("x", ("a", 0), ("a", 1), since=7), seat("y", ("a", 0), ("a", 2), since=3), seat("z", ("a", 1), since=7)]
    for order in (seats, seats[::-1]):
        assert holders(order) == {("a", 0): "x", ("a", 1): None, ("a", 2): "y"}
        assert withheld({"x": set(), "y": {("a", 0), ("a", 2)}, "z": {("a", 1)}}, order) == {
            "x": set(),
            "y": {("a", 2)},
            "z": set(),
        }


def test_what_is_not_named_stays_with_the_one_that_holds_it_not_with_one_that_once_did() -> None:
    for order in ([0, 1], [1, 0]):
        seats = [[seat("x", ("a", 3), since=3), seat("y", ("a", 3), since=7)][n] for n in order]
        assert seated(placement(a0="x", a1="y"), seats, [("a", 0), ("a", 1), ("a", 3)]) == {
            "x": {("a", 0)}, "y": {("a", 1), ("a", 3)},
        }  # fmt: skip


names = st.sampled_from(["x", "y", "z", "gone"])
tps = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5))


@given(
    st.dictionaries(tps, names), st.sets(tps, min_size=1),
    st.lists(st.tuples(names, st.sets(st.sampled_from(["a", "b"]), min_size=1), st.sets(tps)), min_size=1, max_size=4),
)  # fmt: skip
def test_every_partition_has_one_owner_who_subscribes(
    owners: dict[Tp, str], partitions: set[Tp], members: list[tuple[str, set[str], set[Tp]]]
) -> None:
    seats = [seat(f"id-{n}", *owned, name=name, topics=topics) for n, (name, topics, owned) in enumerate(members)]
    held = seated(Placement(group="g", valid_s=1, owners=owners), seats, partitions)
    if held is None:
        return
    assert set(held) == {s.member_id for s in seats}
    for s in seats:
        assert all(tp[0] in s.topics for tp in held[s.member_id])
    given_out = [tp for mine in held.values() for tp in mine]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == {tp for tp in partitions if any(tp[0] in s.topics for s in seats)}


@pytest.mark.parametrize(
    ("user_data", "said"),
    [
        (b'{"name":"x","owned":{"a":[0,1]},"generation":3}', ("x", {("a", 0), ("a", 1)}, 3)),
        (b'{"name":"x"}', ("x", set(), -1)),
        (b"{}", ("", set(), -1)),
        (b"", ("", set(), -1)),
        (None, ("", set(), -1)),
        (b"\x00\x00\x00\x01", ("", set(), -1)),  # of a sticky assignor
        (b"[1]", ("", set(), -1)),
        (b'{"name":"x","owned":{"a":["q"]}}', ("", set(), -1)),
        (b'{"name":"x","owned":{"a":[0]},"generation":null}', ("", set(), -1)),
        (b"[" * 100_000, ("", set(), -1)),
    ],
)
def test_what_a_member_says_of_itself(user_data: bytes | None, said: tuple[str, set[Tp], int]) -> None:
    name, owned, generation = introduced(user_data)
    assert (name, set(owned), generation) == said
