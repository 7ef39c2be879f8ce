"""The line per batch: each batch once, overruns are said, and the file does not grow for ever."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autoscaler.streaming.trigger_times import ProgressLog


@dataclass
class Query:
    """A running query, as far as it tells how it goes."""

    lastProgress: dict[str, Any] = field(default_factory=dict)  # noqa: N815  Spark's name

    def batch(self, number: int, took_ms: int = 100) -> "Query":
        self.lastProgress = {
            "runId": "r", "batchId": number, "timestamp": "2026-11-23T20:00:00.000Z", "durationMs": {"triggerExecution": took_ms},
        }  # fmt: skip
        return self


def test_each_batch_is_written_once_and_an_overrun_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, query = ProgressLog(tmp_path / "logs" / "progress.jsonl", 1.0), Query()
    for number, took_ms in ((0, 9000), (0, 9000), (1, 100), (2, 1500)):
        log.look(query.batch(number, took_ms))  # type: ignore[arg-type]
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "logs" / "progress.jsonl").read_text().splitlines()]
    assert [(x["batch"], x["trigger_ms"]) for x in lines] == [(0, 9000), (1, 100), (2, 1500)]
    assert [r.message for r in caplog.records] == ["batch 2 took 1500 ms, the trigger is 1000 ms"]


def test_the_file_is_rotated_and_one_older_stays(tmp_path: Path) -> None:
    log, query = ProgressLog(tmp_path / "progress.jsonl", 1.0, max_bytes=1000), Query()
    for number in range(50):
        log.look(query.batch(number))  # type: ignore[arg-type]
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [f.name for f in files] == ["progress.jsonl", "progress.jsonl.1"]
    assert all(f.stat().st_size <= 1000 for f in files)
    assert json.loads(files[0].read_text().splitlines()[-1])["batch"] == 49
