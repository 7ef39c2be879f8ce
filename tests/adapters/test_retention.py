"""What the settings of topics say of how long they keep records, and what is kept of a read that is refused."""

import logging
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import SimpleNamespace

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from autoscaler.adapters.kafka.retention import KafkaRetention, ask, read
from autoscaler.model import Retention

WEEK = Retention(seconds=604_800.0, bytes=math.inf)


@pytest.mark.parametrize(
    ("configs", "kept", "why"),
    [
        ({"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}, WEEK, "Kafka's own"),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1000"},
         Retention(seconds=math.inf, bytes=1000.0), "by size only"),
        ({"cleanup.policy": "compact", "retention.ms": "1000", "retention.bytes": "1000"},
         Retention(seconds=math.inf, bytes=math.inf), "compacted only: nothing is lost"),
        ({"cleanup.policy": "compact, delete", "retention.ms": "1000", "retention.bytes": "-1"},
         Retention(seconds=1.0, bytes=math.inf), "both: it is deleted all the same"),
    ],
)  # fmt: skip
def test_what_settings_say(configs: Mapping[str, str], kept: Retention, why: str) -> None:
    assert read(configs) == kept, why


@pytest.mark.parametrize(
    "configs", [{}, {"cleanup.policy": "delete"}, {"cleanup.policy": "delete", "retention.ms": None, "retention.bytes": "-1"}]
)
def test_settings_that_make_no_sense_are_unknown(configs: Mapping[str, str | None]) -> None:
    assert "its settings cannot be read" in str(read(configs))


@pytest.fixture
def reader() -> Iterator[KafkaRetention]:
    found = KafkaRetention({"bootstrap.servers": "127.0.0.1:1"}, [("a", "b")])  # nobody listens there
    yield found
    found.close()


def test_a_refusal_is_said_once_and_then_unknown(reader: KafkaRetention, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "autoscaler.kafka")
    reader.take({"a": WEEK, "b": WEEK})
    assert reader.retention() == {"a": WEEK, "b": WEEK}
    for _ in range(3):
        reader.take({"a": WEEK, "b": "TopicAuthorizationFailedError"})
        assert reader.retention() == {"a": WEEK}
    said = [r.getMessage() for r in caplog.records]
    assert [m for m in said if "topic b" in m and "DescribeConfigs" in m] == said
    assert len(said) == 1
    reader.take({"a": WEEK, "b": WEEK})
    assert reader.retention() == {"a": WEEK, "b": WEEK}


def test_before_anybody_answers_nothing_is_known(reader: KafkaRetention) -> None:
    assert reader.retention() == {}


class Manager:
    """Answers as a broker does, through the bytes of the wire."""

    def __init__(self, errors: Mapping[str, int]) -> None:
        self.errors, self.asked = errors, 0

    def run(self, call: Callable[[], Coroutine[None, None, object]]) -> object:
        try:
            call().send(None)
        except StopIteration as e:
            return e.value
        raise AssertionError

    async def send(self, request: DescribeConfigsRequest, *, request_timeout_ms: float) -> object:
        assert request_timeout_ms > 0
        self.asked += 1
        sent = DescribeConfigsRequest.decode(request.encode(version=4), version=4)
        said = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
        results: list[object] = [
            (self.errors.get(r.resource_name, 0), "", r.resource_type, r.resource_name,
             [(k, said[k], False, 5, False, [], 0, "") for k in r.configuration_keys])
            for r in sent.resources
        ]  # fmt: skip
        answer = DescribeConfigsResponse(throttle_time_ms=0, results=results)
        return DescribeConfigsResponse.decode(answer.encode(version=4), version=4)


def test_all_topics_are_asked_for_in_one_request_and_one_that_is_refused_hides_no_other() -> None:
    manager = Manager({"b": 29})
    found = ask(SimpleNamespace(_manager=manager), ["a", "b", "c"])
    assert found == {"a": WEEK, "b": "TopicAuthorizationFailedError", "c": WEEK}
    assert manager.asked == 1
