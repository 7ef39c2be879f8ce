"""Why a worker that is ready has nothing to do: said once it has lasted, because nothing else would tell.

The loop looks with every tick; what a worker cannot know (whether the controller knows its name) is said as what it may be. Pure.
"""

from dataclasses import dataclass

from autoscaler.handover.worker_state import WorkerState

LONG_S = 30.0  # a plan comes within seconds of joining, or not at all


@dataclass(slots=True)
class Waiting:
    """One incarnation's time without a partition; each stretch of it is said once."""

    named: bool  # the worker was given its name; otherwise it was made up from host and process
    _since: float | None = None
    _said: bool = False

    def look(self, state: WorkerState, now: float) -> str | None:
        """Return what to say now, ``None`` if nothing; ``now`` is the worker's own clock in seconds."""
        waits = state.ready and not (state.wanted or state.active or state.draining or state.leaving or state.lapsed)
        if not waits:
            self._since, self._said = None, False
            return None
        self._since = now if self._since is None else self._since
        if self._said or now - self._since < LONG_S:
            return None
        self._said = True
        return f"no partition for {now - self._since:.0f} s: {_why(state, named=self.named)}"


def _why(state: WorkerState, *, named: bool) -> str:
    if state.plan is None:
        return "no plan of this group was ever read: is the controller running, and does it act for the group?"
    if not named:
        return (
            f"the plan gives nothing to {state.me.name}, a name that was made up because AUTOSCALER_WORKER_NAME is not set: the "
            "controller knows consumers by name only, so set it, or let the controller start this process"
        )
    return (
        f"the plan gives nothing to {state.me.name}: the controller has no consumer of this name (its log says so then), or the "
        "group does not need this one"
    )
