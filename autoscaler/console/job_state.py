"""Is the job alive, and how has it ended lately: what every view says before anything else.

Beside the path: it reads ``logs/supervisor.json``, in which ``spark-submit.sh`` says what it is doing, asks whether the lock of
the state directory is held, and disturbs neither. What it finds is judged against the latest cycle and the clock of now.
"""

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from autoscaler.console.words import lasted
from autoscaler.errors import Exit

_HEALTHY_S = 300.0  # after which spark-submit.sh takes a start for one that went well
_START_S = 120.0  # that the first decision may take, on a machine that is busy
_LAST_BYTES = 8_192
_LONGEST = 200  # characters of a line that is said again
_SCRIPT = " spark-submit.sh: "
_WAIT = "the audit's rows wait: "  # as the job's log says it
_FLUSHES, _SLOW_S = 3, 120.0  # that the tables may go unwritten before that is said


class _Said(BaseModel):
    """What ``spark-submit.sh`` wrote last; times in seconds since the Unix epoch."""

    model_config = ConfigDict(frozen=True)

    state: Literal["running", "waiting", "ended"]
    started_at: float
    restarts: int = 0
    exit_code: int | None = None
    ended_at: float | None = None
    ran_s: float | None = None
    again_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The job of one state directory.

    Attributes:
        held: ``spark-submit.sh`` or the job lives; ``None``: nothing here was ever started by that.
        said: What that script wrote last; ``None`` if it wrote nothing that can be read.
        last_words: The last line of the log that is the job's own, of a job that ended; empty if there is none.
        written_at: When the audit's tables were last written; ``None``: never.
        waits: Why they were not written, as the end of the log says it; empty if it does not.
    """

    held: bool | None = None
    said: _Said | None = None
    last_words: str = ""
    written_at: float | None = None
    waits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the job is, for people.

    Attributes:
        level: ``fine`` (nothing to say), ``warning`` (it runs, but has ended lately) or ``dead`` (what is shown is of the past).
        text: Half a sentence; empty where it is fine.
    """

    level: Literal["fine", "warning", "dead"] = "fine"
    text: str = ""

    def as_values(self) -> Mapping[str, str]:
        """Return it as values for JSON."""
        return {"level": self.level, "text": self.text}


FINE = Health()


def read_job(root: Path) -> JobState:
    """Return what is known of the job whose state lies below ``root``."""
    logs = root / "logs"
    try:
        said = _Said.model_validate_json((logs / "supervisor.json").read_bytes())
    except (OSError, ValueError):
        said = None
    ended_badly = said is not None and said.state != "running" and said.exit_code
    said_there = [_message(line.rstrip()) for line in _end_of(logs / "job.log")]
    own = [line for line in said_there if line and not line[0].isspace() and _SCRIPT not in line]  # no lines of a stack
    return JobState(
        held=_held(root / "supervisor.lock"),
        said=said,
        last_words=own[-1][:_LONGEST] if own and ended_badly else "",
        written_at=_written_at(root / "journal" / "written"),
        waits=next((line.partition(_WAIT)[2][:_LONGEST] for line in reversed(own) if _WAIT in line), ""),
    )


def judge(job: JobState, last_cycle: float | None, now: float, *, quiet_s: float, flush_s: float = 60.0) -> Health:
    """Return how the job is.

    Args:
        job: What is known of it.
        last_cycle: When it decided last, ``None``: never.
        now: Seconds since the Unix epoch, as ``last_cycle``.
        quiet_s: Seconds without a cycle that are nothing unusual.
        flush_s: Seconds between writes of the audit, at most.
    """
    said = job.said
    age_s = None if last_cycle is None else max(0.0, now - last_cycle)
    decided = "it has decided nothing yet" if age_s is None else f"the last decision is {lasted(age_s)} old"
    if job.held is False:
        return Health(level="dead", text=f"{_gone(said, now)}; {decided}{_words_of(job)}")
    if said is not None and said.state == "waiting":
        again = max(0.0, (said.again_at or now) - now)
        soon = f"; it is started again in {lasted(again)}"
        ended = "keeps ending, with" if said.restarts else "ended with"
        text = f"the job {ended} {_code(said)}{_times(said)}{soon}; {decided}{_words_of(job)}"
        return Health(level="dead", text=text)
    if age_s is not None and age_s <= quiet_s and (said is None or last_cycle is None or last_cycle >= said.started_at):
        return _waiting(job, now, max(_SLOW_S, _FLUSHES * flush_s)) or _lately(said, now)
    if said is not None and said.state == "running":
        since_s = max(0.0, now - said.started_at)
        after = f", after {_code(said)}{_times(said)}" if said.restarts else ""
        started = f"the job was started {lasted(since_s)} ago{after}"
        if since_s <= _START_S:
            return Health(level="warning", text=f"{started}, and has not decided since; {decided}")
        return Health(level="dead", text=f"{started}, runs, and does not decide: see logs/job.log; {decided}")
    return Health(level="dead", text=f"no cycle comes, {decided}: is the job running?")


def _gone(said: _Said | None, now: float) -> str:
    if said is None:
        return "the job does not run"
    if said.state != "ended":
        return "the job does not run: it and spark-submit.sh ended without a word, as when they are killed"
    ago = "" if said.ended_at is None else f" {lasted(max(0.0, now - said.ended_at))} ago"
    if not said.exit_code:
        return f"the job does not run: it was told to stop{ago}"
    if said.exit_code == Exit.UNWRITTEN:
        return f"the job does not run: it was told to stop{ago}, and could not write rows of its audit ({_code(said)})"
    return f"the job does not run: it ended{ago} with {_code(said)}{_times(said)}"


def _waiting(job: JobState, now: float, patience_s: float) -> Health | None:
    """Return that the audit cannot write, of a job that has run for long enough to have done so."""
    if job.said is None:
        return None
    since_s = now - max(job.said.started_at, job.written_at or 0.0)
    if since_s < patience_s:
        return None
    why = job.waits or "see logs/job.log"
    return Health(level="warning", text=f"the audit's tables have not been written for {lasted(since_s)}, rows wait: {why}")


def _lately(said: _Said | None, now: float) -> Health:
    if said is None or not said.restarts or now - said.started_at > _HEALTHY_S:
        return FINE
    ago = lasted(max(0.0, now - said.started_at))
    return Health(level="warning", text=f"the job was started again {ago} ago, after {_code(said)}{_times(said)}")


def _code(said: _Said) -> str:
    after = "" if said.ran_s is None else f" after {lasted(said.ran_s)}"
    return f"exit code {'?' if said.exit_code is None else said.exit_code}{after}"


def _times(said: _Said) -> str:
    return f" ({said.restarts} restart{'s'[: said.restarts - 1]})" if said.restarts else ""


def _words_of(job: JobState) -> str:
    return f"; its last line: {job.last_words}" if job.last_words else ""


def _held(lock: Path) -> bool | None:
    """Say whether a process holds the lock; it is let go of at once where it is free."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _end_of(log: Path) -> list[str]:
    """Return the last lines of a log; the first of them may be cut."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LAST_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def _message(line: str) -> str:
    """Return what a line of the log says, if it is one of JSON (``log.format``); nothing if the script says it; else the line."""
    if not line.startswith("{"):
        return line
    try:
        said = json.loads(line)
        message = str(said["message"]).partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        return line
    return "" if said.get("logger") == _SCRIPT.strip(" :") else message


def _written_at(sign: Path) -> float | None:
    """Return when the job last wrote to any table, wherever they lie: it touches a file then."""
    try:
        return sign.stat().st_mtime
    except OSError:
        return None
