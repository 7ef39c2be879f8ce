"""Writes a few rows into each of the audit's tables: ``python -m tests.adapters.audit.write_tables DIRECTORY``.

What this left at commit c3d1acc stands in ``tests/adapters/audit/tables_c3d1acc``, as few and small files as there can be: what a
reader may do without (checksums) is removed. Tests open it with the present code. It is never made anew.
"""

import shutil
import sys
from pathlib import Path

from autoscaler.adapters.audit.delta_audit import DeltaAudit
from autoscaler.adapters.clock import SystemClock
from tests.adapters.audit import audit_cases as cases
from tests.adapters.audit.audit_victim import session


def write(place: Path) -> None:
    """Write one cycle that did nothing and one that acted, in one commit to each table."""
    audit = DeltaAudit(
        session(),
        place,
        flush_s=3600.0,
        clock=SystemClock(),
        journal=place / "journal",
        cluster_of={"g": "east"},
        close_timeout_s=150.0,
    )
    calm, hot = cases.calm(cases.T0), cases.hot(cases.T0 + 1)
    for (decision, snapshot, state), acted in ((calm, False), (hot, True)):
        done = (cases.handover(1, at=cases.T0 + 1),) if acted else ()
        audit.record(decision, snapshot, cases.outcomes(decision) if acted else (), done, state.owner)
    audit.close()
    for checksum in place.rglob("*.crc"):
        checksum.unlink()
    shutil.rmtree(place / "journal")


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve())
