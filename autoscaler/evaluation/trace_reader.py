"""Reads what was recorded: streams of partitions' rates, and loads as records per second."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Recorded(NamedTuple):
    """A stream as recorded."""

    # ``float64[measurements, partitions]``, partitions by topic and number, the order in which planners break ties
    rates: NDArray[np.float64]
    listed: NDArray[np.int64]  # ``int64[measurements, partitions]``: the order in which each measurement lists them


def read_stream(path: Path) -> Recorded:
    """Return the stream in a file with the columns iteration, topic, partition, rate.

    Raises:
        ValueError: A column is missing, or the measurements do not have the same partitions.
        OSError: The file cannot be read.
    """
    rates: dict[int, dict[tuple[str, int], float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := {"iteration", "topic", "partition", "rate"} - set(reader.fieldnames or ()):
            raise ValueError(f"{path}: no column {', '.join(sorted(missing))}")
        for row in reader:
            rates.setdefault(int(row["iteration"]), {})[row["topic"], int(row["partition"])] = float(row["rate"])
    names = sorted({name for now in rates.values() for name in now})
    if not names or any(len(now) != len(names) for now in rates.values()):
        raise ValueError(f"{path}: every iteration must have all of the {len(names)} partitions")
    at = {name: i for i, name in enumerate(names)}
    return Recorded(
        rates=np.array([[rates[k][name] for name in names] for k in sorted(rates)]),
        listed=np.array([[at[name] for name in rates[k]] for k in sorted(rates)], np.int64),
    )


def read_trace(file: Path) -> NDArray[np.float64]:
    """Return records per second of each second: a file with the columns second, events_per_s.

    Raises:
        ValueError: A column is missing.
        OSError: It cannot be read.
    """
    with file.open(encoding="utf-8", newline="") as rows:
        reader = csv.DictReader(rows)
        if missing := {"second", "events_per_s"} - set(reader.fieldnames or ()):
            raise ValueError(f"{file}: no column {', '.join(sorted(missing))}")
        return np.array([float(row["events_per_s"]) for row in reader])
