"""What came of a simulation, and of what was recorded, in the same figures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a policy did with a load.

    Attributes:
        hours: That it lasted.
        consumer_hours: Of consumers from when they were asked for until they ended.
        most: Consumers at once, at most.
        scalings: Changes of the number of consumers.
        moves: Partitions that changed hands between living consumers.
        r_score: Sum of the moved rates over what one consumer was planned to get.
        above_s: Seconds in which more arrived for some consumer than it can process.
        worst_behind_s: Age of the oldest unread record, at most.
        mean_behind_s: The same of the partition that is furthest behind, on average over time.
        worst_backlog_bytes: Unread bytes of the group, at most.
        in_time: Share of the bytes that were read before they were ``World.within_s`` old; ``None`` if that is not asked, not
            known, or nothing arrived.
    """

    hours: float
    consumer_hours: float
    most: int
    scalings: int
    moves: int
    r_score: float
    above_s: float
    worst_behind_s: float
    mean_behind_s: float
    worst_backlog_bytes: float
    in_time: float | None = None


@dataclass(slots=True)
class Tally:
    """Adds up what happens."""

    seconds: float = 0.0
    consumer_s: float = 0.0
    most: int = 0
    scalings: int = 0
    moves: int = 0
    r_score: float = 0.0
    above_s: float = 0.0
    worst_behind_s: float = 0.0
    behind_sum: float = 0.0
    worst_backlog: float = 0.0

    def outcome(self, in_time: float | None = None) -> Outcome:
        """Return the figures of what was added."""
        return Outcome(
            hours=self.seconds / 3600,
            consumer_hours=self.consumer_s / 3600,
            most=self.most,
            scalings=self.scalings,
            moves=self.moves,
            r_score=self.r_score,
            above_s=self.above_s,
            worst_behind_s=self.worst_behind_s,
            mean_behind_s=self.behind_sum / self.seconds if self.seconds else 0.0,
            worst_backlog_bytes=self.worst_backlog,
            in_time=in_time,
        )

    def add(self, seconds: float, *, consumers: int, above: bool, behind_s: float, backlog: float) -> None:
        """Add some time, in which so many consumers were paid for."""
        self.seconds += seconds
        self.consumer_s += seconds * consumers
        self.most = max(self.most, consumers)
        self.above_s += seconds * above
        self.worst_behind_s = max(self.worst_behind_s, behind_s)
        self.behind_sum += seconds * behind_s
        self.worst_backlog = max(self.worst_backlog, backlog)
