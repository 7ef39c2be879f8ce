"""The checkpoint guard on this machine's disk, where a test needs no Spark."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from autoscaler.streaming import checkpoint_guard
from autoscaler.streaming.checkpoint_files import LocalFiles


def claim(checkpoint: Path, *, clusters: Iterable[str], buckets: int) -> Mapping[str, int]:
    lock = checkpoint.with_name(f"{checkpoint.name}.lock")
    return checkpoint_guard.claim(LocalFiles(checkpoint), lock, clusters=clusters, buckets=buckets)


def forsake(checkpoint: Path, why: str) -> None:
    checkpoint_guard.forsake(LocalFiles(checkpoint), why)


def problems(checkpoint: Path) -> tuple[str, ...]:
    return checkpoint_guard.problems(LocalFiles(checkpoint))
