"""Whether the job is alive: real files, a real lock held by a real process, and what is said of them."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.console.job_state import FINE, judge, read_job

NOW = 10_000.0
HELD, FREE = "held\n", ""
HOLD = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"


def state(root: Path, **said: object) -> Path:
    (root / "logs").mkdir(parents=True, exist_ok=True)
    (root / "supervisor.lock").touch()
    line = {"t": NOW, "state": "running", "started_at": NOW - 1000, "restarts": 0, "exit_code": None, "ended_at": None,
            "ran_s": None, "again_at": None} | said  # fmt: skip
    (root / "logs" / "supervisor.json").write_text(json.dumps(line))
    return root


def _touched(file: Path) -> Path:
    file.touch()
    return file


@pytest.mark.parametrize(
    ("said", "lock", "last_cycle", "level", "text"),
    [
        ({}, HELD, NOW - 1, "fine", ""),
        ({}, HELD, NOW - 61, "dead", "the job was started 17 min ago, runs, and does not decide"),
        ({"started_at": NOW - 12}, HELD, None, "warning", "the job was started 12 s ago, and has not decided since"),
        # the cycle is recent, but of the life before
        ({"started_at": NOW - 4, "restarts": 1, "exit_code": 76, "ran_s": 90}, HELD, NOW - 6, "warning",
         "the job was started 4 s ago, after exit code 76 after 90 s (1 restart), and has not decided since; the last decision"),
        ({"started_at": NOW - 200, "restarts": 3, "exit_code": 1, "ran_s": 8}, HELD, NOW - 1, "warning",
         "the job was started again 3 min ago, after exit code 1 after 8 s (3 restarts)"),
        ({"started_at": NOW - 301, "restarts": 3, "exit_code": 1, "ran_s": 8}, HELD, NOW - 1, "fine", ""),
        ({"state": "waiting", "restarts": 4, "exit_code": 1, "ran_s": 7, "again_at": NOW + 14}, HELD, NOW - 5, "dead",
         "the job keeps ending, with exit code 1 after 7 s (4 restarts); it is started again in 14 s"),
        ({"state": "ended", "exit_code": 0, "ended_at": NOW - 960, "ran_s": 500}, FREE, NOW - 961, "dead",
         "the job does not run: it was told to stop 16 min ago; the last decision is 16 min old"),
        ({"state": "ended", "exit_code": 77, "ended_at": NOW - 5, "ran_s": 500}, FREE, NOW - 6, "dead",
         "the job does not run: it ended 5 s ago with exit code 77 after 8 min"),
        ({"state": "ended", "exit_code": 74, "ended_at": NOW - 5, "ran_s": 500}, FREE, NOW - 6, "dead",
         "the job does not run: it was told to stop 5 s ago, and could not write rows of its audit (exit code 74 after 8 min)"),
        ({}, FREE, NOW - 1, "dead", "it and spark-submit.sh ended without a word"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_job(  # noqa: PLR0917  a row of the table
    tmp_path: Path, said: dict[str, object], lock: str, last_cycle: float | None, level: str, text: str
) -> None:
    root = state(tmp_path, **said)
    (root / "journal").mkdir()
    os.utime(_touched(root / "journal" / "written"), (NOW, NOW))
    command = [sys.executable, "-c", HOLD, str(root / "supervisor.lock")] if lock == HELD else [sys.executable, "-c", ""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == lock
        found = judge(read_job(root), last_cycle, NOW, quiet_s=10)
        holder.kill()
    assert found.level == level
    assert text in found.text


def test_a_job_that_spark_submit_started_itself_is_judged_by_its_cycles(tmp_path: Path) -> None:
    job = read_job(tmp_path)
    assert judge(job, NOW - 9, NOW, quiet_s=10) == FINE
    assert judge(job, NOW - 960, NOW, quiet_s=10).text == "no cycle comes, the last decision is 16 min old: is the job running?"


def test_the_last_line_of_a_log_that_is_the_jobs_own_is_said(tmp_path: Path) -> None:
    root = state(tmp_path, state="waiting", exit_code=1, ended_at=NOW, ran_s=3, again_at=NOW + 1)
    log = "old\nbootstrap.servers: no broker answers at kafka:9092\n\tat org.apache.spark.Thing.run(Thing.scala:236)\n\n"
    (root / "logs" / "job.log").write_text(log + "2026-11-24 23:07:42 spark-submit.sh: the job ended\n")
    said = judge(replace(read_job(root), held=True), None, NOW, quiet_s=10).text
    assert said.startswith("the job ended with exit code 1 after 3 s; it is started again in 1 s")
    assert said.endswith("its last line: bootstrap.servers: no broker answers at kafka:9092")


def test_a_log_of_json_lines_is_read_as_well(tmp_path: Path) -> None:
    root = state(tmp_path, state="waiting", exit_code=1, ended_at=NOW, ran_s=3, again_at=NOW + 1)
    said = [{"level": "WARNING", "message": "the audit's rows wait: the disk is full"}, {"message": "no broker\nstack"}]
    (root / "logs" / "job.log").write_text("".join(json.dumps(x) + "\n" for x in said) + '{"cut\n')
    job = read_job(root)
    assert job.waits == "the disk is full"
    assert job.last_words == '{"cut', "what is none is said as it stands"
    ended = {"logger": "spark-submit.sh", "message": "the job ended"}
    (root / "logs" / "job.log").write_text(f"{json.dumps(said[1])}\n{json.dumps(ended)}\n")
    assert read_job(root).last_words == "no broker"


def test_an_audit_that_cannot_write_is_said_with_the_reason_of_the_log(tmp_path: Path) -> None:
    root = state(tmp_path, started_at=NOW - 3000)
    sign = root / "journal" / "written"
    sign.parent.mkdir()
    sign.touch()
    line = "2026-11-24 23:07:42 WARNING autoscaler: the audit's rows wait: 9 rows were not written: No space left on device\n"
    (root / "logs" / "job.log").write_text(line + "another line\n")

    def said(written_s_ago: float, started_s_ago: float = 3000) -> str:
        os.utime(sign, (NOW - written_s_ago, NOW - written_s_ago))
        job = read_job(state(tmp_path, started_at=NOW - started_s_ago))
        return judge(replace(job, held=True), NOW - 1, NOW, quiet_s=10, flush_s=60).text

    assert said(61) == ""
    assert said(960) == (
        "the audit's tables have not been written for 16 min, rows wait: 9 rows were not written: No space left on device"
    )
    assert said(960, started_s_ago=100) == "", "what an earlier life wrote says nothing of this one"


def test_an_audit_that_has_never_been_written_is_said_too(tmp_path: Path) -> None:
    def said(started_s_ago: float) -> str:
        job = read_job(state(tmp_path, started_at=NOW - started_s_ago))
        return judge(replace(job, held=True), NOW - 1, NOW, quiet_s=10, flush_s=60).text

    assert said(179) == ""
    assert said(200) == "the audit's tables have not been written for 3 min, rows wait: see logs/job.log"


@pytest.mark.parametrize("text", ["", "{", '{"state": "dancing", "started_at": 1}', "[]"])
def test_a_file_that_is_half_written_is_as_none(tmp_path: Path, text: str) -> None:
    root = state(tmp_path)
    (root / "logs" / "supervisor.json").write_text(text)
    assert read_job(root).said is None
