"""Tables of made-up groups for tests of what reads them."""

from dataclasses import replace
from pathlib import Path

from deltalake import write_deltalake

from autoscaler.adapters.audit import rows
from tests.adapters.audit import audit_cases as cases
from tests.cli.test_reading import OLD, Case, iso, recorded, write

__all__ = ["HOSTILE", "OLD", "SPAN", "T0", "day_of_cycles", "tables_of_groups"]
T0 = cases.T0
SPAN = ("--since", iso(T0 - 20), "--until", iso(T0 + 620))
HOSTILE = "<script>alert(1)</script>"


def tables_of_groups(root: Path) -> Path:
    """Write ten minutes of a group that grows and moves two partitions, and two others that end early."""
    moved = recorded(cases.hot, T0 + 31, acted=True)
    write(
        root,
        *(recorded(cases.calm, T0 + s) for s in range(0, 30, 10)),
        recorded(cases.grown, T0 + 30, acted=True),
        moved,
        *(recorded(cases.calm, T0 + s) for s in range(40, 610, 10)),
        recorded(cases.calm, T0 + 5, group="it's"),
        recorded(cases.calm, T0 + 6, group=HOSTILE),
    )
    done = [cases.handover(1, at=T0 + 32), cases.handover(2, at=T0 + 32.2, pause_s=0.06), cases.handover(0, epoch=9)]
    write_deltalake(str(root / "handovers"), rows.handovers([(moved, h) for h in done]), partition_by=["date"])
    return root


def day_of_cycles(root: Path, calm: Case = cases.calm, moving: Case = cases.hot) -> float:
    """Write a day of decisions, one each 10 s, every twelfth of which moves something; return the highest load of one of them."""
    still, acted = recorded(calm, T0), recorded(moving, T0, acted=True)
    made = []
    for n in range(8_640):
        cycle = acted if n % 12 == 6 else still
        decision = replace(cycle.decision, at=T0 + 10.0 * n, decision_id=f"orders/{n}")
        if cycle is still:
            decision = replace(decision, total_bytes_per_s=1e4 if n == 4_321 else 90.0 + n % 7)
        made.append(replace(cycle, decision=decision))
    write_deltalake(str(root / "decisions"), rows.decisions(made), partition_by=["date"])
    return 1e4
