"""The load generator: what a scenario says is what reaches the topic, and its log says so too."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.devtools import scenario
from autoscaler.devtools.broker import Broker
from autoscaler.devtools.load import Log, Payloads, Tally, produce
from autoscaler.devtools.scenario import Moment, Scenario
from autoscaler.errors import SettingsError
from tests.until import until

USABLE = 800_000.0  # what one consumer of the demo is filled to, bytes per second
PAYLOADS, CLIENT = Payloads(100, seed=1), Producer({"log_level": 0})  # of a load that produces nothing
MIDDLE = {"calm": 0.1, "ramp": 0.65, "fall": 0.9}  # a time inside each phase where rates have settled, as share of the whole


def run_load(broker: Broker, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "autoscaler.devtools.load", "--bootstrap", broker.bootstrap, *arguments]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A load that does not outlive its test, whatever fails: waited for, it would hide what did."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as load:
        try:
            yield load
        finally:
            load.kill()


def lines(log: Path) -> list[dict[str, object]]:
    text = (log / "produced.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]  # without a line that is being written


@pytest.mark.parametrize("partitions", [8, 16, 64, 1000])
@pytest.mark.parametrize("duration_s", [60.0, 240.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_demo_needs_one_consumer_then_five_then_one(partitions: int, duration_s: float, seed: int) -> None:
    plan = scenario.demo(partitions=partitions, duration_s=duration_s, seed=seed)
    totals = {name: sum(plan.rates_at(share * duration_s)) for name, share in MIDDLE.items()}
    assert {name: -(-total // USABLE) for name, total in totals.items()} == {"calm": 1, "ramp": 5, "fall": 1}


def test_two_partitions_become_hot_and_cool_again() -> None:
    plan = scenario.demo(partitions=16, duration_s=240, seed=3)
    calm, ramp, fall = (plan.rates_at(share * 240) for share in MIDDLE.values())
    assert len(plan.hot) == 2
    for p in range(16):
        assert (ramp[p] == pytest.approx(600_000)) == (p in plan.hot)
        assert fall[p] < calm[p] < 200_000
    assert max(ramp) < USABLE  # no partition is more than one consumer can take


def test_the_same_seed_gives_the_same_load_and_another_seed_another() -> None:
    first, again, other = (scenario.demo(partitions=16, duration_s=240, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_rates_change_linearly_between_moments_and_stay_after_the_last() -> None:
    plan = Scenario(name="x", moments=(Moment(at_s=0, bytes_per_s=(0, 100)), Moment(at_s=10, bytes_per_s=(50, 0))))
    assert [plan.rates_at(t) for t in (-1, 0, 5, 10, 99)] == [(0, 100), (0, 100), (25, 50), (50, 0), (50, 0)]


def test_rates_never_jump() -> None:
    plan = scenario.demo(partitions=16, duration_s=240, seed=1)
    totals = [sum(plan.rates_at(t)) for t in range(241)]
    assert max(abs(b - a) for a, b in pairwise(totals)) < 250_000  # bytes per second, within a second


class SteppedClock(threading.Event):
    """A clock that goes on where the load waits for its next tick; it is never told to end."""

    def __init__(self, began_s: float, tick_s: float) -> None:
        super().__init__()
        self.now_s, self._tick_s, self.ticks = began_s, tick_s, 0

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.ticks += 1
        self.now_s += self._tick_s
        return False

    def is_set(self) -> bool:
        assert self.ticks < 1000, "the load goes on although its time is over"
        return False


@given(power=st.integers(9, 30), share=st.floats(0.0, 1.0), duration_s=st.floats(10.0, 500.0))
@example(power=9, share=0.33, duration_s=240.0)
def test_a_load_ends_although_the_uptime_crosses_a_power_of_two_meanwhile(power: int, share: float, duration_s: float) -> None:
    began_s = 2.0**power - share * duration_s  # beyond a power of two, half of the fractions of a second cannot be told any more
    clock = SteppedClock(began_s, duration_s / 10)
    idle = Scenario(name="idle", moments=(Moment(at_s=0, bytes_per_s=(0.0,)),))
    produce(
        producer=CLIENT,
        topic="none",
        plan=idle,
        duration_s=duration_s,
        payloads=PAYLOADS,
        record_bytes=100,
        tally=Tally(),
        log=Log(file=None),
        stop=clock,
        clock=lambda: clock.now_s,
    )
    assert clock.ticks in {10, 11}


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param((), id="none"),
        pytest.param((Moment(at_s=1, bytes_per_s=(1,)),), id="late start"),
        pytest.param((Moment(at_s=0, bytes_per_s=(1,)), Moment(at_s=0, bytes_per_s=(1,))), id="two at once"),
        pytest.param((Moment(at_s=0, bytes_per_s=(1,)), Moment(at_s=1, bytes_per_s=(1, 2))), id="a partition more"),
        pytest.param((Moment(at_s=0, bytes_per_s=(-1,)),), id="negative"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused(moments: tuple[Moment, ...]) -> None:
    with pytest.raises(ValueError, match="must"):
        Scenario(name="x", moments=moments)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("{", "does not hold one", id="not JSON"),
        pytest.param('{"moments": [{"at_s": 0}]}', "does not hold one", id="without rates"),
        pytest.param('{"moments": [{"at_s": 0, "bytes_per_s": [1]}]}', "for 1 partitions, the topic has 2", id="other width"),
    ],
)
def test_a_scenario_file_that_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=says):
        scenario.choose(str(file), partitions=2, duration_s=1, seed=1)


def test_a_scenario_that_does_not_exist_is_named() -> None:
    with pytest.raises(SettingsError, match="neither a file nor one of demo, steady"):
        scenario.choose("calm", partitions=2, duration_s=1, seed=1)


def test_what_the_scenario_says_reaches_the_topic_and_the_log_agrees(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    file = tmp_path / "scenario.json"
    moments = [{"at_s": 0, "bytes_per_s": [0, 100_000, 20_000]}, {"at_s": 4, "bytes_per_s": [0, 100_000, 60_000]}]
    file.write_text(json.dumps({"moments": moments}), encoding="utf-8")
    options = ("--topic", topic, "--scenario", str(file), "--duration", "4", "--log", str(tmp_path))
    subprocess.run(run_load(broker, *options), check=True, stdout=subprocess.DEVNULL)

    *seconds, summary = lines(tmp_path)
    produced = summary["partitions"]
    assert isinstance(produced, dict)
    assert summary["failed"] == 0
    assert sorted(produced) == ["1", "2"]  # nothing to the partition without load
    assert produced["1"][:2] == [pytest.approx(400, abs=2), pytest.approx(400_000, abs=2000)]
    assert produced["2"][:2] == [pytest.approx(160, abs=2), pytest.approx(160_000, abs=2000)]
    for partition in ("1", "2"):
        parts = [s["partitions"].get(partition, [0, 0]) for s in seconds if isinstance(s["partitions"], dict)]
        assert [sum(p[i] for p in parts) for i in (0, 1)] == produced[partition][:2]

    consumer = Consumer({**broker.connection(), "group.id": f"{topic}-check", "log_level": 0})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in range(3)}
    consumer.close()
    assert ends == {0: 0, 1: produced["1"][0], 2: produced["2"][0]}
    assert [produced[p][2] + 1 for p in ("1", "2")] == [ends[1], ends[2]]


def test_records_are_distinct_incompressible_and_carry_their_creation_time(
    broker: Broker, make_topic: Callable[..., str], group: str
) -> None:
    topic = make_topic(partitions=1)
    before = int(time.time() * 1000)
    options = ("--topic", topic, "--scenario", "steady", "--scale", "0.05", "--duration", "2", "--record-bytes", "500")
    done = subprocess.run(run_load(broker, *options), check=True, capture_output=True, text=True)
    count = json.loads(done.stdout)["records"]
    consumer = Consumer({**broker.connection(), "group.id": group, "auto.offset.reset": "earliest", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []

    def come() -> int:
        messages.extend(consumer.consume(100, timeout=1))
        return len(messages)

    until(f"{count} records", come, lambda n: n >= count, every_s=0)
    consumer.close()
    values = [m.value() for m in messages]
    assert len(set(values)) == count > 50
    assert {len(v) for v in values if v is not None} == {500}
    stamps = [m.timestamp()[1] for m in messages]
    assert stamps == sorted(stamps)
    assert before <= stamps[0] <= stamps[-1] <= int(time.time() * 1000)


def test_told_to_end_it_waits_for_what_is_under_way_and_sums_up(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    options = ("--topic", topic, "--scenario", "steady", "--scale", "0.2", "--duration", "600", "--log", str(tmp_path))
    with running(run_load(broker, *options)) as load:
        until("a line of the log", lambda: (tmp_path / "produced.jsonl").exists() and bool(lines(tmp_path)))
        load.send_signal(signal.SIGTERM)
        assert load.wait(60) == 0
    summary = lines(tmp_path)[-1]
    consumer = Consumer({**broker.connection(), "group.id": f"{topic}-check", "log_level": 0})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in range(2)]
    consumer.close()
    assert summary["records"] == sum(ends) > 0


def test_an_outage_of_the_broker_is_waited_for(own_broker: Broker, tmp_path: Path) -> None:
    from tests.conftest import create_topic  # noqa: PLC0415

    create_topic(own_broker, "events", 2)
    options = ("--topic", "events", "--scenario", "steady", "--scale", "0.2", "--duration", "600", "--log", str(tmp_path))
    with running(run_load(own_broker, *options)) as load:

        def acknowledged() -> int:
            file = tmp_path / "produced.jsonl"
            parts = [line["partitions"] for line in lines(tmp_path)] if file.exists() else []
            return sum(p[0] for part in parts if isinstance(part, dict) for p in part.values())

        def reach(count: int) -> None:
            until(f"{count} records are acknowledged", acknowledged, lambda n: n >= count or load.poll() is not None)
            assert load.poll() is None, "the load has ended"

        reach(1)
        own_broker.restart()
        reach(acknowledged() + 100)
        load.terminate()
        assert load.wait(60) == 0
    assert lines(tmp_path)[-1]["failed"] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param(("--topic", "no-such-topic"), "no-such-topic", id="unknown topic"),
        pytest.param(("--topic", "no-such-topic", "--record-bytes", "3"), "--record-bytes must be", id="impossible size"),
    ],
)
def test_bad_input_is_named(broker: Broker, options: tuple[str, ...], says: str) -> None:
    done = subprocess.run(run_load(broker, *options), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr
