"""What a run was and where it left its evidence, as ``run.json`` says."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter


class EvidenceError(Exception):
    """Something that the check needs cannot be read; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the run was, as ``run.json`` says."""

    bootstrap: str
    topic: str
    group: str
    window_s: float
    usable_bytes_per_s: float  # payload rate that one consumer may carry at the target utilisation
    load_from_s: float  # when the load began, seconds since the Unix epoch; ``load_to_s`` when it ended
    load_to_s: float
    logs: Path
    tables: str  # a directory, or an address that deltalake knows
    cycles: Path  # the job's line per cycle
    produced: Path
    flush_s: float  # rows of cycles that did nothing may wait that long; a kill loses them
    native: bool = False  # Kafka assigned the partitions: what is promised of handovers does not hold, that nothing is lost does
    # How often a consumer was stopped beyond its lease: each time one record, past its check by then, may be late
    paused: int = 0

    @classmethod
    def load(cls, directory: Path, bootstrap: str | None = None) -> "Run":
        """Read ``run.json`` of a run directory.

        Raises:
            EvidenceError: It is missing or lacks something.
        """
        file = directory / "run.json"
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            places: dict[str, object] = {name: directory / data[name] for name in ("logs", "cycles", "produced")}
            places["tables"] = str(directory / data["tables"])
            return TypeAdapter(cls).validate_python(data | places | ({"bootstrap": bootstrap} if bootstrap else {}))
        except OSError as e:
            raise EvidenceError(f"{file} cannot be read ({e.strerror}): give the directory of a run that went to its end") from e
        except (KeyError, TypeError, ValueError) as e:
            raise EvidenceError(f"{file} does not describe a finished run: {type(e).__name__} {e}") from e
