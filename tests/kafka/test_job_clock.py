"""The job's and its consumers' wall clock is set by minutes while they work: nobody is lost, and nothing waits that long."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.devtools.broker import Broker
from tests.conftest import create_topic
from tests.kafka.shop import PARTITIONS, TOPIC, Shop
from tests.until import until

BACK_S, FORTH_S, MINUTES_S = -600.0, 900.0, 300.0
WITHOUT_TIMES = {
    "acknowledged is in the topic", "every record processed", "only records of the topic", "order per partition",
    "one worker at a time",
}  # fmt: skip


class Clock:
    """The processes' wall clock."""

    def __init__(self, file: Path) -> None:
        self._file, self._by_s = file, 0.0
        self.set(0.0)

    def set(self, by_s: float) -> None:
        self._by_s += by_s
        new = self._file.with_suffix(".new")
        new.write_text(str(self._by_s), encoding="ascii")
        new.rename(self._file)

    def now(self) -> float:
        return time.time() + self._by_s


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(tmp_path / "clock")
    monkeypatch.setenv("WALL_CLOCK", str(tmp_path / "clock"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("wall_clock")), prepend=":")
    return made


@pytest.fixture
def shop(own_broker: Broker, tmp_path: Path, clock: Clock) -> Iterator[Shop]:
    del clock  # processes that start from now on have it
    create_topic(own_broker, TOPIC, PARTITIONS)
    it = Shop(own_broker, tmp_path)
    yield it
    it.close()


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_wall_clock_that_is_set_holds_nothing_up(shop: Shop, clock: Clock) -> None:
    began = time.time()
    steady = shop.produce("steady", 700_000)
    supervisor = shop.start_job()
    consumers = shop.settles("a settled group", began)

    for by_s in (BACK_S, FORTH_S):
        held = {p.pid for p in shop.workers().values()}
        seen = len(shop.cycles())
        clock.set(by_s)
        wait_for(shop, seen, "well again", lambda c: c["reason"] == "WITHIN_TARGET" and bool(c["known"]), clock)
        after = shop.cycles()[seen:]
        assert not any("remove" in str(c["actions"]) for c in after), "a clock is no load"
        assert {p.pid for p in shop.workers().values()} == held

        seen = len(shop.cycles())
        slot, victim = min(shop.workers().items())
        victim.send_signal(signal.SIGKILL)
        wait_for(shop, seen, "seeing the death", lambda c: c["reason"] == "WORKER_LOST", clock)
        shop.wait("starting it again", lambda s=slot, v=victim: s in shop.workers() and shop.workers()[s].pid != v.pid)  # type: ignore[misc]
        seen = len(shop.cycles())
        wait_for(shop, seen, "taken over", lambda c: c["reason"] == "WITHIN_TARGET" and bool(c["known"]), clock)

    seen = len(shop.cycles())
    burst = shop.produce("burst", 500_000)
    wait_for(shop, seen, "asking for more", lambda c: "add" in str(c["actions"]), clock)
    burst.terminate()
    burst.wait(30)
    steady.terminate()
    steady.wait(30)
    seen = len(shop.cycles())
    wait_for(shop, seen, "an empty backlog", lambda c: bool(c["known"]) and c["total_lag_records"] == 0, clock)
    wait_for(shop, seen, "fewer again", lambda c: int(str(c["consumers"])) < consumers, clock)
    assert supervisor.poll() is None
    supervisor.terminate()
    supervisor.wait(60)
    shop.end_workers()
    findings = shop.findings(("steady", "burst"), began, time.time())
    for rule in sorted(WITHOUT_TIMES):
        assert findings[rule].ok, f"{rule}: {findings[rule].measured} {findings[rule].evidence}"


def wait_for(shop: Shop, seen: int, what: str, true: Callable[[dict[str, object]], bool], clock: Clock) -> None:
    """Wait for a cycle after so many, of the clock as it is set now, of which something is true."""

    def last() -> str:
        return "\n".join(f"{of_clock(c, clock):.0f} {c['reason']} {c['limited_by']} {c['detail']}" for c in shop.cycles()[-5:])

    def come() -> bool:
        return any(abs(of_clock(c, clock)) < MINUTES_S and true(c) for c in shop.cycles()[seen:])

    until(what, come, explain=last, within_s=400)


def of_clock(cycle: dict[str, object], clock: Clock) -> float:
    """Return how long ago a cycle was, in negative seconds."""
    return float(str(cycle["t"])) - clock.now()
