"""What differs between kinds of groups at the edge: how the consumers are seen, and how what was decided is carried out.

One object for each group, chosen once where the job is put together: of a group that is only advised the one here.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from autoscaler.errors import AutoscalerError
from autoscaler.model import Decision, Finding, GroupState, Observation
from autoscaler.model.findings import What
from autoscaler.ports import ActionOutcome, Clock, GroupWatch, PoolState


@dataclass(slots=True, kw_only=True)
class Stages:
    """Durations of a cycle's stages in seconds, by name."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``name``."""
        began = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - began

    def outcome(
        self, decision: Decision, status: str, error: str | None, *, epoch: int | None = None, phase: str = "outcome"
    ) -> ActionOutcome:
        """Return what became of a decision, as of now."""
        return ActionOutcome(
            decision_id=decision.decision_id,
            group=decision.group,
            at=self.clock.now(),
            epoch=epoch,
            phase=phase,
            status=status,
            error=error,
        )


class MembersUnreadError(AutoscalerError):
    """Before the first plan it is not known whether any member subscribes, from whom the group would be taken."""


@dataclass(slots=True, kw_only=True)
class Actuator:
    """A group's consumers: seen before a decision, changed after it, in this order in each cycle. This one changes nothing.

    Attributes:
        watch: Looks at the control log of a group that has no publisher: one that is only advised, or native.
        native: Members tell who consumes; the log counts only as long as workers of a managed group are in it.
        last: State of the group as last read: what a cycle that could not read it still shows.
    """

    watch: GroupWatch | None = None
    native: bool = False
    last: GroupState | None = None

    def observe(self, seen: Observation) -> Observation:
        """Add who consumes to what was measured; what cannot be read keeps no group from being advised.

        Raises:
            AutoscalerError: It acts, and who consumes is not known in this cycle.
            FencedError: Another controller has taken over.
        """
        if self.watch is None:
            return seen
        try:
            state = self.watch.observe()
        except AutoscalerError as e:
            return seen if self.native else replace(seen, unread=str(e))
        stale = self.native and state is not None and not state.workers  # left of a group that was managed: no worker follows it
        return replace(seen, state=None if stale else state)

    def warnings(self, observation: Observation) -> Iterable[Finding]:  # noqa: ARG002  those that start workers look
        """Return what an operator should know of the workers that are started here, whatever is decided."""
        return ()

    def act(self, decision: Decision, observation: Observation, stages: Stages) -> tuple[ActionOutcome, ...]:  # noqa: ARG002
        """Carry a decision out and return what became of it.

        Raises:
            FencedError: Another controller has taken over.
        """
        return ()

    def last_summary(self) -> str | None:
        """Return the summary of the plan in force, where plans are published."""
        return None

    def close(self) -> None:
        """Let go of the group: the plan stays, the workers go on."""
        if self.watch is not None:
            self.watch.close()


def hindrances(pool: PoolState | None) -> Iterator[Finding]:
    """Yield why workers do not run or keep ending: an operator who waits for them must know where to look."""
    if pool is None:
        return
    for why in sorted({h.why for h in pool.hindered.values()}):
        slots = sorted(slot for slot, h in pool.hindered.items() if h.why is why)
        yield Finding.of(What.WORKER_HINDERED, consumers=slots, why=why, said=pool.hindered[slots[0]].said)
    for slot, after_s in sorted(pool.restarting.items()):
        if slot not in pool.hindered:
            yield Finding.of(What.WORKER_RESTARTED, consumers=(slot,), after_s=after_s)
