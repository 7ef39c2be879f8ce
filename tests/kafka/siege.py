"""A siege: a shop under load whose parts are killed, frozen and cut off at random, until the end; then everything is checked.

``python -m tests.kafka.siege --minutes 60 --seed 1 --report report.md``. Three brokers, the job and its consumers are real
processes, faults are real signals, and the judge is the demo's independent check. A seed gives the same faults in the same order;
what they meet differs from run to run. Ctrl-C ends the faults, not the siege: what has been done by then is judged.
"""

import argparse
import heapq
import itertools
import math
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient

from autoscaler.devtools.broker import Cluster, Node
from autoscaler.devtools.verify.finding import Finding
from autoscaler.handover.codec import partition_for
from autoscaler.handover.records import CONTROL_TOPIC
from tests.conftest import create_topic
from tests.kafka.shop import GROUP, MUST_HOLD, PARTITIONS, TOPIC, Shop
from tests.until import let_pass

LEASE_S = 10.0  # above a broker's own session of 9 s, as the default is
HANDOVER = {"lease": LEASE_S, "park_after": None}  # nobody is there to release what three kills in a row would park
EVERY_S = 5.0  # rates change, and so does the assignment
OUTAGE_S = 30.0
FEWEST_APART_S = 30.0  # one is made every eight or nine seconds, if there is a worker left to make it to
PATIENCE_S = 600.0  # for a broker to come back on a machine that has much else to do
_JOB_APART_S = 60.0  # a job needs that long to be killed in the middle of something
_WEIGHTS = {
    "kill a consumer": 6,
    "freeze a consumer within its lease": 2,
    "freeze a consumer beyond its lease": 4,
    "fill a consumer's disk": 2,
    "kill the job": 2,
    "kill the broker that leads the control log": 3,
    "stop every broker": 0.5,
}


class Siege:
    """What is done to a shop.

    Attributes:
        done: How often each fault was made.
        paused: How often a consumer was frozen beyond its lease.
        lasted_s: For how long faults were made.
    """

    def __init__(self, shop: Shop, seed: int, say: Callable[[str], None]) -> None:
        """Remember what to besiege."""
        self.shop, self.say = shop, say
        self.dice = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.paused = 0
        self.began = time.monotonic()
        self.lasted_s = 0.0
        self._end, self._told = math.inf, False
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._frozen: dict[int, psutil.Process] = {}
        self._job_killed = 0.0
        self._down = False
        self._admin = AdminClient({**shop.broker.connection(), "log_level": 0})

    def run(self, seconds: float, supervisor_pid: int) -> None:
        """Make faults for so long, then let everything recover."""
        self.began = time.monotonic()
        self._end = 0.0 if self._told else self.began + seconds
        while time.monotonic() < self._end:
            self._fault(supervisor_pid)
            self._until(min(self._end, time.monotonic() + self.dice.uniform(2, 15)))
        self.lasted_s = time.monotonic() - self.began
        while self._later:
            self._until(self._later[0][0] + 0.1)

    def stop(self) -> None:
        """Make no more faults."""
        self._end, self._told = 0.0, True

    def recover(self) -> None:
        """Undo what is not undone."""
        for process in self._frozen.values():
            with suppress(psutil.Error):
                process.resume()
        self.shop.broker.start(PATIENCE_S)

    def _fault(self, supervisor_pid: int) -> None:
        name = self.dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        said = self._faults()[name](supervisor_pid)
        if said is not None:
            self.done[name] += 1
            self.say(f"{time.monotonic() - self.began:6.1f} s  {name}: {said}")

    def _faults(self) -> dict[str, Callable[[int], str | None]]:
        return {
            "kill a consumer": lambda _: self._kill_consumer(),
            "freeze a consumer within its lease": lambda _: self._freeze(self.dice.uniform(0.2, 0.7) * LEASE_S),
            "freeze a consumer beyond its lease": lambda _: self._freeze(self.dice.uniform(1.2, 3) * LEASE_S),
            "fill a consumer's disk": lambda _: self._fill_disk(),
            "kill the job": self._kill_job,
            "kill the broker that leads the control log": lambda _: self._kill_leader(),
            "stop every broker": lambda _: self._stop_brokers(),
        }

    def _until(self, limit: float) -> None:
        while (now := time.monotonic()) < limit:
            if self._later and self._later[0][0] <= now:
                heapq.heappop(self._later)[2]()
            else:
                let_pass(0.05)

    def _after(self, delay_s: float, undo: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + delay_s, next(self._order), undo))

    def _victim(self) -> tuple[int, psutil.Process] | None:
        running = [(slot, p) for slot, p in self.shop.workers().items() if p.pid not in self._frozen and _lives(p)]
        return self.dice.choice(sorted(running, key=lambda w: w[0])) if running else None

    def _kill_consumer(self) -> str | None:
        if (found := self._victim()) is None:
            return None
        slot, process = found
        process.send_signal(signal.SIGKILL)
        return f"consumer {slot}, pid {process.pid}"

    def _freeze(self, seconds: float) -> str | None:
        if (found := self._victim()) is None:
            return None
        slot, process = found
        process.suspend()
        self._frozen[process.pid] = process
        self.paused += seconds > LEASE_S

        def resume() -> None:
            with suppress(psutil.Error):
                process.resume()
            self._frozen.pop(process.pid, None)

        self._after(seconds, resume)
        return f"consumer {slot}, pid {process.pid}, for {seconds:.1f} s"

    def _fill_disk(self) -> str | None:
        """Let no file of a consumer grow any more: its next line of log fails, as on a full disk."""
        if (found := self._victim()) is None:
            return None
        slot, process = found
        with suppress(psutil.Error, ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, 1))
        return f"consumer {slot}, pid {process.pid}"

    def _kill_job(self, supervisor_pid: int) -> str | None:
        if time.monotonic() < self._job_killed + _JOB_APART_S:
            return None
        self._job_killed = time.monotonic()
        self.shop.kill_job(supervisor_pid)
        return "driver and JVM"

    def _kill_leader(self) -> str | None:
        if self._down or (node := self._leader()) is None:
            return None
        seconds = self.dice.uniform(3, 20)
        self._down = True
        node.kill()

        def restart() -> None:
            node.start(PATIENCE_S)
            self._down = False

        self._after(seconds, restart)
        return f"node {node.number}, for {seconds:.1f} s"

    def _leader(self) -> Node | None:
        found = self._admin.list_topics(CONTROL_TOPIC, timeout=10).topics[CONTROL_TOPIC].partitions
        leader = found[partition_for(GROUP, len(found))].leader
        return next((n for n in self.shop.broker.nodes if n.number == leader), None)

    def _stop_brokers(self) -> str | None:
        if self._down:
            return None
        self._down = True
        self.shop.broker.stop()

        def start() -> None:
            self.shop.broker.start(PATIENCE_S)
            self._down = False

        self._after(OUTAGE_S, start)
        return f"for {OUTAGE_S:.0f} s"


def _all_processed(shop: Shop) -> bool:
    return any(c["known"] and c["total_lag_records"] == 0 for c in shop.cycles(time.time() - 5))


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def moments(seed: int, duration_s: float) -> list[dict[str, object]]:
    """Return rates that swing every few seconds between one and three consumers' worth, with other partitions hot each time.

    Less than half of what all consumers can do: at any time some are gone, and what they left has to be worked off.
    """
    dice = random.Random(seed)
    steps: list[dict[str, object]] = []
    for at in range(0, int(duration_s), int(EVERY_S)):
        total = dice.uniform(200_000, 600_000)
        weights = [dice.choice((0.3, 1.0, 1.0, 3.0)) for _ in range(PARTITIONS)]
        steps.append({"at_s": at, "bytes_per_s": [total * w / sum(weights) for w in weights]})
    return steps


def besiege(shop: Shop, *, minutes: float, seed: int, say: Callable[[str], None]) -> tuple[dict[str, Finding], Siege]:
    """Run the whole of it and return what the check found, and what was done."""
    began, seconds = time.time(), 60 * minutes
    siege = Siege(shop, seed, say)
    before = signal.signal(signal.SIGINT, lambda *_: siege.stop())
    supervisor = shop.start_job()
    shop.wait("a first decision", lambda: bool(shop.cycles(began)), 180)
    load = shop.produce_moments("load", moments(seed, seconds + 60), seconds + 600)
    shop.settles("a settled group", began, 180)
    say("the group has settled; faults begin")
    try:
        siege.run(seconds, supervisor.pid)
    finally:
        siege.recover()
        signal.signal(signal.SIGINT, before)
    say("the faults are over; waiting until everything is well")
    shop.wait("a cycle that knows everything", lambda: any(c["known"] for c in shop.cycles(time.time() - 2)), 600)
    ended = time.time()
    load.terminate()
    load.wait(60)
    shop.wait("an empty backlog", lambda: _all_processed(shop), 1200)
    assert supervisor.poll() is None
    supervisor.terminate()
    supervisor.wait(60)
    shop.end_workers()
    return shop.findings(("load",), began, ended, paused=siege.paused), siege


def report(findings: dict[str, Finding], siege: Siege) -> str:
    """Return what happened, in Markdown."""
    faults = "\n".join(f"| {name} | {siege.done[name]} |" for name in _WEIGHTS)
    rules = "\n".join(
        f"| {'' if f.rule not in MUST_HOLD else 'ok' if f.ok else '**broken**'} | {f.rule} | {f.measured} |"
        for f in findings.values()
    )
    head = f"{siege.lasted_s / 60:.0f} minutes.\n\n"
    return f"{head}| fault | times |\n|---|---:|\n{faults}\n\n| | rule | measured |\n|---|---|---|\n{rules}\n"


def main() -> int:
    """Besiege a shop, print what was done and found, and write a report if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path, help="where everything lies afterwards (default: a temporary directory)")
    parser.add_argument("--report", type=Path, help="where the report goes, too")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of the clean-up below
    directory = args.dir or Path(tempfile.mkdtemp(prefix="siege-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"everything lies in {directory}", flush=True)
    with Cluster(directory / "brokers", nodes=3, heap_mb=200) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, message_timestamp_type="LogAppendTime")
        shop = Shop(cluster, directory, handover=HANDOVER)
        try:
            findings, siege = besiege(shop, minutes=args.minutes, seed=args.seed, say=lambda line: print(line, flush=True))
        finally:
            shop.close()
    text = report(findings, siege)
    print(text)
    if args.report:
        args.report.write_text(text, encoding="utf-8")
    enough = siege.done.total() >= siege.lasted_s / FEWEST_APART_S
    if not enough:
        print(f"{siege.done.total()} faults in {siege.lasted_s:.0f} s are too few to show anything")
    return int(not (enough and all(findings[rule].ok for rule in MUST_HOLD)))


if __name__ == "__main__":
    sys.exit(main())
