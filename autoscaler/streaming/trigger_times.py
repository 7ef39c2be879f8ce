"""How long each trigger took, as Spark itself counts it: for the log, for the bench, and to say when a cadence is not held."""

import json
import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_MAX_BYTES = 16 << 20  # half a day of batches a second; one older file stays

log = logging.getLogger(__name__)


class ProgressLog:
    """Appends one JSON line per batch (``batch``, ``at``, ``trigger_ms`` and Spark's durations) and warns of overruns."""

    def __init__(self, path: Path, trigger_s: float, *, max_bytes: int = _MAX_BYTES) -> None:
        """Open the file for appending; at ``max_bytes`` it is renamed to ``.1`` and begun anew."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = RotatingFileHandler(path, maxBytes=max_bytes, backupCount=1, encoding="utf-8")
        self._limit_ms = trigger_s * 1000
        self._seen: tuple[str, int] | None = None

    def look(self, query: "StreamingQuery") -> None:
        """Write the latest batch if it is new; call at least once per trigger."""
        progress: Any = query.lastProgress
        if progress is None or (key := (progress["runId"], progress["batchId"])) == self._seen:
            return
        first = self._seen is None
        self._seen = key
        durations = {k: int(v) for k, v in progress["durationMs"].items()}
        took = durations.get("triggerExecution", 0)
        line = {"batch": progress["batchId"], "at": progress["timestamp"], "trigger_ms": took, "durations_ms": durations}
        self._file.emit(logging.makeLogRecord({"msg": json.dumps(line, default=str)}))
        if took > self._limit_ms and not first:  # the first batch plans and loads classes
            log.warning("batch %d took %d ms, the trigger is %d ms", progress["batchId"], took, self._limit_ms)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
