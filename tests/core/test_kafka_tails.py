"""One look at a time for all groups: what is asked for is looked at in turn, and answers go to whoever asked for just that."""

import threading
from collections.abc import Mapping

import pytest

from autoscaler.adapters.kafka import transaction_markers
from autoscaler.adapters.kafka.transaction_markers import KafkaTails
from autoscaler.model import Span, TopicPartition
from tests.until import until

P = [TopicPartition("t", n) for n in range(5)]
ONE, TWO = Span(0, 1), Span(1, 2)


class Looked(KafkaTails):
    """Remembers what each round looked at; partitions in ``silent`` never answer, one whose span begins at 1 holds nothing."""

    def __init__(self) -> None:
        super().__init__({}, read_committed=False)
        self.rounds: list[list[TopicPartition]] = []
        self.silent: set[TopicPartition] = set()
        self.looked = threading.Condition()

    def _look(self, spans: Mapping[TopicPartition, Span]) -> None:
        for p, span in spans.items():
            if p not in self.silent:
                self._know(p, span, nothing=span.position == 1)
        with self.looked:
            self.rounds.append(list(spans))
            self.looked.notify_all()

    def after(self, rounds: int) -> list[list[TopicPartition]]:
        """Return what was looked at once there were so many rounds."""
        with self.looked:
            assert self.looked.wait_for(lambda: len(self.rounds) >= rounds, 60)
            return list(self.rounds)


@pytest.fixture
def tails(monkeypatch: pytest.MonkeyPatch) -> Looked:
    monkeypatch.setattr(transaction_markers, "_EVERY_S", 0.01)
    return Looked()


def until_empty(tails: Looked, group: str, wanted: Mapping[TopicPartition, Span]) -> None:
    until(f"{wanted} are empty", tails.of(group).empty, lambda found: found == wanted)


def test_groups_are_answered_each_for_the_span_that_it_asked_for(tails: Looked) -> None:
    try:
        tails.of("g").ask({P[0]: ONE, P[1]: TWO})
        tails.of("h").ask({P[0]: TWO})
        until_empty(tails, "g", {P[1]: TWO})
        until_empty(tails, "h", {P[0]: TWO})
        seen = len(tails.rounds)
        tails.of("i").ask({P[0]: TWO})
        assert tails.of("i").empty() == {P[0]: TWO}, "known already"
        assert len(tails.rounds) == seen
        tails.of("h").close()
        assert tails.of("h").empty() == {}
        assert tails.of("i").empty() == {P[0]: TWO}
    finally:
        tails.close()


def test_those_that_never_answer_keep_nobody_waiting(tails: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "_AT_ONCE", 2)
    tails.silent = {P[0], P[1]}
    try:
        tails.of("g").ask(dict.fromkeys(P, TWO))
        assert tails.after(3)[:3] == [[P[0], P[1]], [P[2], P[3]], [P[4]]], "the silent ones are asked again later"
    finally:
        tails.close()


def test_rounds_go_on_behind_the_last_one(tails: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "_AT_ONCE", 2)
    tails._asked = {"g": dict.fromkeys(P, TWO)}
    assert [list(tails._due()) for _ in range(4)] == [[P[0], P[1]], [P[2], P[3]], [P[4], P[0]], [P[1], P[2]]]


def test_what_nobody_asks_for_any_more_is_forgotten(tails: Looked) -> None:
    try:
        tails.of("g").ask({P[0]: TWO})
        until_empty(tails, "g", {P[0]: TWO})
        tails.of("g").ask({P[1]: TWO})
        until_empty(tails, "g", {P[1]: TWO})
        tails.after(2)
        tails._due()
        assert tails._found.keys() == {(P[1], TWO)}
    finally:
        tails.close()
