"""Lines of cycles that tests serve: real decisions of the core, told as the controller tells them."""

from collections.abc import Callable

from autoscaler.adapters.audit.cycle_log import cycle_record
from autoscaler.adapters.http.metrics import Cycle
from autoscaler.model import Decision, GroupState, LoadSnapshot
from tests import builders as b
from tests.adapters.audit import audit_cases as cases

Case = Callable[[float], tuple[Decision, LoadSnapshot, GroupState]]
STAGES = {"observe_s": 0.02, "decide_s": 0.004}


def cycle(case: Case = cases.calm, at: float = cases.T0, **changed: object) -> Cycle:
    """Return a cycle of a case of the audit's tests, with some fields of its line changed."""
    decision, snapshot, state = case(at)
    line = cycle_record(
        cluster="east", cycle=7, decision=decision, snapshot=snapshot, observation=b.observation(snapshot, state), stages=STAGES
    )
    return Cycle(line={**line, **changed}, loads=snapshot.loads)
