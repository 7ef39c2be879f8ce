"""One look at a time for all groups: they are looked at in turn, and answers go to the one that asked for just that."""

import threading
from collections.abc import Mapping

import pytest

from autoscaler.adapters.kafka import transaction_markers
from autoscaler.adapters.kafka.transaction_markers import KafkaMarkers
from autoscaler.model import Span, TopicPartition
from tests.until import until

P = [TopicPartition("t", n) for n in range(5)]
ONE, TWO = Span(0, 1), Span(1, 2)


class Looked(KafkaMarkers):
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
def markers(monkeypatch: pytest.MonkeyPatch) -> Looked:
    monkeypatch.setattr(transaction_markers, "_EVERY_S", 0.01)
    return Looked()


def until_empty(markers: Looked, group: str, wanted: Mapping[TopicPartition, Span]) -> None:
    until(f"{wanted} are empty", markers.of(group).empty, lambda found: found == wanted)


def test_groups_are_answered_each_for_the_span_that_it_asked_for(markers: Looked) -> None:
    try:
        markers.of("g").ask({P[0]: ONE, P[1]: TWO})
        markers.of("h").ask({P[0]: TWO})
        until_empty(markers, "g", {P[1]: TWO})
        until_empty(markers, "h", {P[0]: TWO})
        seen = len(markers.rounds)
        markers.of("i").ask({P[0]: TWO})
        assert markers.of("i").empty() == {P[0]: TWO}, "known already"
        assert len(markers.rounds) == seen
        markers.of("h").close()
        assert markers.of("h").empty() == {}
        assert markers.of("i").empty() == {P[0]: TWO}
    finally:
        markers.close()


def test_those_that_never_answer_keep_nobody_waiting(markers: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "_AT_ONCE", 2)
    markers.silent = {P[0], P[1]}
    try:
        markers.of("g").ask(dict.fromkeys(P, TWO))
        assert markers.after(3)[:3] == [[P[0], P[1]], [P[2], P[3]], [P[4]]], "the silent ones are asked again later"
    finally:
        markers.close()


def test_rounds_go_on_behind_the_last_one(markers: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "_AT_ONCE", 2)
    markers._asked = {"g": dict.fromkeys(P, TWO)}
    assert [list(markers._due()) for _ in range(4)] == [[P[0], P[1]], [P[2], P[3]], [P[4], P[0]], [P[1], P[2]]]


def test_what_nobody_asks_for_any_more_is_forgotten(markers: Looked) -> None:
    try:
        markers.of("g").ask({P[0]: TWO})
        until_empty(markers, "g", {P[0]: TWO})
        markers.of("g").ask({P[1]: TWO})
        until_empty(markers, "g", {P[1]: TWO})
        markers.after(2)
        markers._due()
        assert markers._found.keys() == {(P[1], TWO)}
    finally:
        markers.close()
