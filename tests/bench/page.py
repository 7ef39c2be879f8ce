"""How long the job's page takes to answer: ``python -m tests.bench.page``; 1,000 groups of 10 partitions and 5 consumers each."""

import argparse
import http.client
import statistics
import time
import tracemalloc
from dataclasses import replace

from autoscaler.adapters.http.board import HISTORY_S, STEP_S, Board
from autoscaler.adapters.http.metrics import Cycle, JobMetrics
from autoscaler.adapters.http.page import Page
from autoscaler.adapters.http.server import Answers, Health, Server
from tests.adapters.audit import audit_cases as cases
from tests.adapters.http.example import MOVE, worker
from tests.adapters.http.served import cycle
from tests.fakes import FakeClock

SENTENCE = "3.52 MB/s on 5 consumers, the hottest (1) with 800 kB/s of 800 kB/s usable"


def made(number: int) -> Cycle:
    """Return a cycle of one group."""
    workers = [worker(i, f"consumer-{number}-{i}", 7e5 + i, (2 * i, 2 * i + 1), host="10.0.0.1", client_id="c") for i in range(5)]
    told = cycle(group=f"group-{number}", workers=workers, detail=SENTENCE, partitions=10, consumers_now=5, consumers=5)
    return replace(told, loads=(told.loads * 10)[:10])


def asked(port: int, path: str, times: int) -> tuple[list[float], int]:
    """Return how many milliseconds each answer took, the connection included, and the bytes of one."""
    took, size = [], 0
    for _ in range(times):
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", path)
        size = len(connection.getresponse().read())
        connection.close()
        took.append(1e3 * (time.perf_counter() - began))
    return sorted(took), size


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    groups = parser.parse_args().groups
    clock = FakeClock(wall=cases.T0)
    cycles = [made(i) for i in range(groups)]
    tracemalloc.start()
    board = Board(clock, lambda: (0, None), (), old_s=10.0)
    took = []
    for step in range(int(HISTORY_S / STEP_S) + 1):
        for told in cycles:
            steps = [MOVE] * (step % 5 == 0)
            later = replace(told, line={**told.line, "t": cases.T0 + step * STEP_S, "actions": steps})
            began = time.perf_counter()
            board.take(later)
            took.append(1e6 * (time.perf_counter() - began))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    clock.advance(HISTORY_S)
    health = Health(groups=groups, oldest_s=60.0, advice_max_age_s=60.0)
    server = Server(("127.0.0.1", 0), Answers(JobMetrics(clock, lambda: (0, None)), health, clock, Page(board)))
    server.start()
    port = server.port()
    assert port is not None
    for path in ("/", "/api/groups", "/api/groups/group-7"):
        asked(port, path, 3)
        times, size = asked(port, path, 50)
        print(f"{path}: p50 {statistics.median(times):.0f} ms, p95 {times[47]:.0f} ms; {size / 1e3:,.0f} kB")
    server.close()
    print(f"to take a cycle in: {statistics.median(took):.0f} us; history of all groups: {held / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
