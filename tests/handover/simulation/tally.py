"""Many histories, and what they came to: how many reached each hazard, how long recovery took, which seeds broke a promise."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.handover.simulation.schedule import FAULTS_END_S, Schedule, draw
from tests.handover.simulation.violation import Violation
from tests.handover.simulation.world import World

DEMANDED = ("expiry", "concurrent controllers", "re-move before release", "zombie resume")
LEAST_SHARE = 0.10
FENCED = ("a zombie's transaction refused", "a zombie's commit refused")  # of the histories that are exactly once
LEAST_FENCED = 0.02


@dataclass(slots=True)
class Tally:
    """Counts of histories.

    Attributes:
        reached: How many reached each hazard.
        recovery_s: The longest time from the last fault until all was as promised.
        broken: Seeds of those that broke a promise, and which.
    """

    histories: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    recovery_s: float = 0.0
    broken: dict[int, str] = field(default_factory=dict)

    def run(self, seeds: Iterable[int], make: Callable[[int], Schedule] = draw) -> "Tally":
        """Run the histories of these seeds; a broken promise is noted and the next one is run."""
        gc.disable()  # a third of the time otherwise; each history's garbage is collected after it
        try:
            for seed in seeds:
                self._run(make(seed))
                if self.histories % 50 == 0:
                    gc.collect()
        finally:
            gc.enable()
        return self

    def _run(self, schedule: Schedule) -> None:
        world = World(schedule)
        self.histories += 1
        try:
            world.run()
        except Violation as e:
            self.broken[schedule.seed] = str(e)
        self.reached.update(world.reached_hazards)
        self.recovery_s = max(self.recovery_s, world.settled_at - FAULTS_END_S)

    def add(self, other: "Tally") -> None:
        self.histories += other.histories
        self.reached.update(other.reached)
        self.recovery_s = max(self.recovery_s, other.recovery_s)
        self.broken.update(other.broken)

    def share(self, hazard: str) -> float:
        return self.reached[hazard] / max(1, self.histories)

    def report(self) -> str:
        """Return a table: hazard, histories that reached it, their share."""
        lines = [f"{n:>9,}  {n / max(1, self.histories):6.1%}  {hazard}" for hazard, n in self.reached.most_common()]
        head = f"{self.histories:,} schedules, {len(self.broken)} broke a promise, longest recovery {self.recovery_s:.1f} s"
        return "\n".join([head, *lines])
