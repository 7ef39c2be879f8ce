"""A job in whose place another one may act changes no consumers, of whatever kind they are; tests/kubernetes has it of pods."""

from pathlib import Path

import pytest

from autoscaler.adapters.clock import SystemClock
from autoscaler.adapters.workers import registry
from autoscaler.config.settings import Workers
from autoscaler.errors import TransientError
from tests.until import until


@pytest.mark.parametrize("kind", ["processes", "command"])
def test_consumers_are_changed_only_while_no_other_job_may(tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "changed"
    of: dict[str, dict[str, object]] = {
        "processes": {"command": ["sh", "-c", f"touch {mark}"]},
        "command": {"kind": "command", "set_count": ["sh", "-c", f"touch {mark}"], "read_count": ["echo", "0"]},
    }
    asked, may = [0], [False]

    def may_act() -> None:
        asked[0] += 1
        if not may[0]:
            raise TransientError(kind)

    workers = Workers.model_validate(of[kind])
    place = registry.Place(group="g", directory=tmp_path, environment={}, clock=SystemClock(), may_act=may_act)
    pool = registry.pool_of(workers, place)

    def refused() -> bool:
        try:
            pool.apply(frozenset({0}), expected=frozenset(), releasable=frozenset())
        except TransientError as e:
            return str(e) == kind and asked[0] > 0
        return False

    until("it is known what runs", pool.observe, passing=TransientError)
    until("it is refused", refused)
    assert not mark.exists()
    may[0] = True
    until("it is done now", lambda: refused() or mark.exists(), lambda _: mark.exists())
    pool.close()
