"""Which topics a group means: names, patterns as librdkafka has them, and what is left out of these."""

from pathlib import Path

import pytest
import yaml

from autoscaler import topic_selection as entries
from autoscaler.config.settings import load
from autoscaler.core.decide import History, decide
from autoscaler.errors import SettingsError
from autoscaler.model import Reason
from autoscaler.model.findings import What
from tests.builders import T0, moment, observation, owned, policy, rates, says, snapshot, state


@pytest.mark.parametrize(
    ("topics", "topic", "meant", "why"),
    [
        (("orders",), "orders", True, "named"),
        (("orders",), "orders-2", False, "a name is whole"),
        (("^orders",), "orders-2", True, "a pattern need only begin so, as in librdkafka"),
        (("^orders$",), "orders-2", False, "unless it says where it ends"),
        (("^orders",), "old-orders", False, "it begins at the beginning"),
        (("^a|b",), "xb", False, "every alternative does"),
        (("^orders", "!orders-2"), "orders-2", False, "left out by name"),
        (("^orders", "!orders-2"), "orders-21", True, "by a whole name"),
        (("^orders", "!^orders-.*-dead$"), "orders-eu-dead", False, "left out by a pattern"),
        (("orders.dead", "^refunds", "!^refunds-old"), "orders.dead", True, "what is named is not left out"),
        (("^.*",), "__consumer_offsets", False, "Kafka's own"),
        (("^.*",), "__autoscaler_control", False, "the control log's"),
        (("^__",), "__autoscaler_heartbeats", False, "even if the pattern asks for it"),
        (("__mine",), "__mine", True, "but for a name"),
    ],
)
def test_a_topic_is_meant_by_its_name_or_by_a_pattern_that_does_not_leave_it_out(
    topics: tuple[str, ...], topic: str, *, meant: bool, why: str
) -> None:
    assert entries.means(topics, topic) is meant, why
    assert (topic in entries.wanted(topics, [topic])) is meant, why


def test_what_is_named_is_asked_for_whether_it_is_there_or_not() -> None:
    assert entries.wanted(("a", "^b", "!bad"), ["b1", "bad", "c"]) == {"a", "b1"}
    assert entries.unmatched(("a", "^b", "^c", "!bad"), ["a", "bad", "c"]) == ("^b",)
    assert entries.subscribed(("a", "^b", "!bad")) == ("a", "^b")


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        (
            ["orders-*"],
            "topics.0: 'orders-*' is no topic's name (letters, digits, '.', '_', '-'); a regular expression begins with ^",
        ),
        (["a", "^orders-["], "topics.1: '^orders-[' is no regular expression: unterminated character set at position 8"),
        (["^a", "!^b("], "topics.1: '^b(' is no regular expression"),
        (["^a{1,2}"], "topics.0: '^a{1,2}': no comma, please"),
        (["^a", "!"], "topics.1: '' is no topic's name"),
        (["a", "!b"], "topics leaves something out (!) and has no pattern (^) to leave it out of"),
        (["ab", "^b", "!^a"], "topics names ab and leaves it out"),
        (["^a", "^a"], "topics names a topic twice"),
    ],
)
def test_a_bad_entry_is_refused_with_its_path(tmp_path: Path, topics: list[str], said: str) -> None:
    file = tmp_path / "config.yaml"
    group = {"group": "g", "topics": topics}
    connection = {"connection": {"bootstrap.servers": "localhost:9092"}}
    file.write_text(yaml.safe_dump({"clusters": [connection], "state_dir": "state", "groups": [group]}))
    with pytest.raises(SettingsError) as refused:
        load(file)
    (problem,) = refused.value.problems
    assert problem.startswith("groups.g")
    assert said in problem


def test_an_exclusion_without_quotes_is_no_yaml_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("groups: [{group: g, topics: [^a, !dead]}]")
    with pytest.raises(SettingsError, match="quotes"):
        load(file)


def test_a_pattern_that_means_nothing_yet_is_said_and_holds_nothing() -> None:
    history = History(recommendations=tuple((T0 - 200 + 10 * i, 1) for i in range(20)))
    seen = observation(rates(5.0, 5.0, 5.0, 5.0), state(owned([0], [1], [2], [3])))
    decision, _ = decide(seen, history, policy(topics=("orders", "^refunds-")), moment(T0))
    assert decision.consumers == 1, "it shrinks"
    assert says(decision, What.TOPICS_UNMATCHED, patterns="^refunds-")


def test_a_group_of_which_nothing_is_there_yet_waits_and_says_for_what() -> None:
    decision, _ = decide(observation(snapshot({}), state({})), History(), policy(topics=("^refunds-", "!refunds-2")), moment(T0))
    assert decision.reason is Reason.NOT_READY
    assert decision.findings[0].what is What.TOPICS_UNMATCHED


def test_a_topic_that_a_pattern_meant_and_that_cannot_be_read_any_more_is_no_topic_without_load() -> None:
    history = History(recommendations=tuple((T0 - 200 + 10 * i, 1) for i in range(20)))
    seen = snapshot(rates(5.0, 5.0, 5.0, 5.0), error="orders-2: TopicAuthorizationFailed", lost=frozenset({"orders-2"}))
    decision, _ = decide(observation(seen, state(owned([0], [1], [2], [3]))), history, policy(topics=("^orders",)), moment(T0))
    assert not decision.actions
    assert says(decision, What.TOPICS_NOT_MEASURED, topics="orders-2")
