"""How long ``autoscaler history`` and ``autoscaler explain`` take on a million decisions.

``python -m tests.bench.history`` writes the table ``decisions`` as a job and its upkeep leave it (past days in one file each,
today in a file for each minute), asks as an operator does, with processes of their own, and prints seconds. ``--rows`` and
``--groups`` say how large, ``--keep DIR`` keeps the table for another look.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import write_deltalake

from autoscaler.adapters.audit.tables import DECISIONS, LOAD, PLACE

ROOT = Path(__file__).parents[2]
_TODAY = datetime(2026, 3, 29, tzinfo=UTC)
_EVERY_S, _DAY_S, _PARTITIONS, _MINUTE_S = 10, 86_400, 16, 60
_TIMES = 3


def decisions(groups: int, times: npt.NDArray[np.float64]) -> pa.Table:
    """Return a decision for each group and time: calm ones, and a step every ten minutes."""
    at = np.repeat(times, groups)
    group = np.tile(np.arange(groups), len(times))
    count = len(at)
    busy = (at % 600) < _EVERY_S
    names = pa.array([f"group-{g:03}" for g in range(groups)])
    stamps = pa.array((at * 1e6).astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))
    rates = np.random.default_rng(7).uniform(40e3, 60e3, count * _PARTITIONS)
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * _PARTITIONS)
    partition = np.tile(np.arange(_PARTITIONS, dtype=np.int32), count)

    def constant(value: object, kind: pa.DataType, size: int) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), size)

    per_partition = {
        "topic": constant("orders", pa.string(), len(partition)),
        "partition": pa.array(partition),
        "bytes_per_s": pa.array(rates),
        "owner": pa.array((partition % 4).astype(str)),
        "known": constant(value=True, kind=pa.bool_(), size=len(partition)),
    }

    def nested(kind: pa.DataType) -> pa.Array:
        columns = [per_partition.get(f.name, pa.nulls(len(partition), f.type)).cast(f.type) for f in kind]
        return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(kind)), type=pa.list_(kind))

    given = {
        "date": stamps.cast(pa.date32()),
        "decision_id": pa.array([f"group-{g:03}/{int(t * 1000)}" for g, t in zip(group, at, strict=True)]),
        "group": names.take(pa.array(group)),
        "at": stamps,
        "mode": constant("act", pa.string(), count),
        "reason": pa.array(np.where(busy, "RATE_ABOVE_CAPACITY", "WITHIN_TARGET")),
        "detail": pa.array([f"{r / 1e3:.0f} kB/s on 4 consumers, the hottest (0) with 210 kB/s" for r in rates[:count]]),
        "acted": pa.array(busy),
        "recovered": constant(value=False, kind=pa.bool_(), size=count),
        "consumers_now": constant(4, pa.int32(), count),
        "consumers": constant(4, pa.int32(), count),
        "recommended": constant(4, pa.int32(), count),
        "lower_bound": constant(1, pa.int32(), count),
        "total_bytes_per_s": pa.array(rates.reshape(count, -1).sum(axis=1)),
        "total_lag_records": constant(1234, pa.int64(), count),
        "usable_bytes_per_s": constant(800e3, pa.float64(), count),
        "capacity_bytes_per_s": constant(1e6, pa.float64(), count),
        "capacity_source": constant("CONFIGURED", pa.string(), count),
        "algorithm": constant("PACE balanced", pa.string(), count),
        "known": constant(value=True, kind=pa.bool_(), size=count),
        "loads": nested(LOAD),
        "assignment_before": nested(PLACE),
        "assignment_after": nested(PLACE),
    }
    columns = [given[f.name].cast(f.type) if f.name in given else pa.nulls(count, f.type) for f in DECISIONS.schema]
    return pa.Table.from_arrays(columns, schema=DECISIONS.schema)


def written(root: Path, rows: int, groups: int) -> float:
    """Write so many decisions until the middle of a day, and return when the last was."""
    per_day = groups * (_DAY_S // _EVERY_S)
    today = min(rows, per_day // 2)
    now = _TODAY.timestamp() + today // groups * _EVERY_S
    path = str(root / "decisions")
    for day in range((rows - today) // per_day, 0, -1):
        began = (_TODAY - timedelta(days=day)).timestamp()
        write_deltalake(path, decisions(groups, np.arange(began, began + _DAY_S, _EVERY_S)), mode="append", partition_by=["date"])
    for began in np.arange(_TODAY.timestamp(), now, _MINUTE_S):
        times = np.arange(began, min(began + _MINUTE_S, now), _EVERY_S)
        write_deltalake(path, decisions(groups, times), mode="append", partition_by=["date"])
    return now


def asked(root: Path, now: float, span_s: float) -> Iterator[tuple[str, float, float]]:
    """Yield what is asked, and seconds and processor seconds of the fastest of several tries, the start of Python included."""
    earlier = datetime.fromtimestamp(now - span_s / 2, UTC).isoformat()
    latest = datetime.fromtimestamp(now, UTC).isoformat()
    for arguments in (
        ["history", "group-000", "--since", datetime.fromtimestamp(now - 7200, UTC).isoformat()],
        ["history", "group-000", "--since", datetime.fromtimestamp(now - _DAY_S, UTC).isoformat()],
        ["explain", "group-000", "--at", latest],
        ["explain", "group-000", "--at", earlier],
    ):
        command = [sys.executable, "-m", "autoscaler.cli", *arguments, "--tables", str(root)]
        took = []
        for _ in range(_TIMES):
            began, used = time.monotonic(), _processor_s()
            subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
            took.append((time.monotonic() - began, _processor_s() - used))
        yield " ".join(arguments), *min(took)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str] | None = None) -> int:
    """Write, ask, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=25)
    parser.add_argument("--keep", type=Path, help="directory for the tables, which stay")
    args = parser.parse_args(argv)
    root = args.keep or Path(tempfile.mkdtemp())
    try:
        now = written(root, args.rows, args.groups)
        for what, seconds, processor_s in asked(root, now, args.rows / args.groups * _EVERY_S):
            print(f"{what}: {seconds:.2f} s, {processor_s:.2f} s of processors", flush=True)
    finally:
        if args.keep is None:
            shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
