"""How large a report of a day is and how long it takes: ``python -m tests.bench.report``; one group of 200 partitions."""

import argparse
import tempfile
import time
from pathlib import Path

from autoscaler.cli.main import main as autoscaler
from autoscaler.model import Decision, GroupState, LoadSnapshot
from tests import builders as b
from tests.adapters.audit import audit_cases as cases
from tests.cli.recorded_groups import T0, day_of_cycles
from tests.cli.test_reading import iso


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200)
    count = parser.parse_args().partitions
    each = 70.0 * 10 / count

    def made(rates: list[float], at: float) -> tuple[Decision, LoadSnapshot, GroupState]:
        state = b.state(b.owned(*([*range(n, count, 10)] for n in range(10))))
        return *cases.decided(b.rates(*rates), state, at), state

    def calm(at: float) -> tuple[Decision, LoadSnapshot, GroupState]:
        return made([each] * count, at)

    def hot(at: float) -> tuple[Decision, LoadSnapshot, GroupState]:
        return made([1.5 * each if n % 10 == 0 else each for n in range(count)], at)

    with tempfile.TemporaryDirectory() as where:
        root = Path(where)
        day_of_cycles(root, calm, hot)
        began = time.perf_counter()
        span = ("--since", iso(T0), "--until", iso(T0 + 86_400))
        autoscaler(["report", "orders", "--tables", where, *span, "--output", str(root / "report.html")])
        print(f"took {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
