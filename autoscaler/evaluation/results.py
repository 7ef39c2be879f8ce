"""What the experiments gave, as values: between the tables of results and the page that shows them."""

from dataclasses import dataclass
from typing import NamedTuple


class Score(NamedTuple):
    """One contender at one delta and number of partitions, over all seeds."""

    contender: str
    delta: int  # greatest step of a rate between two measurements, in hundredths of a consumer's capacity
    partitions: int  # how many partitions
    seeds: int  # how many streams
    cbs_percent: float  # cardinal bin score in percent, against the fewest that any of the published twelve used at a time
    consumers: float  # mean number of consumers
    r_score: float  # mean Rscore
    moved: float  # mean number of partitions that move per measurement
    r_score_spread: float  # standard deviation of a stream's mean Rscore from stream to stream


class Lateness(NamedTuple):
    """One contender, or one placement that never changes, in the latency model."""

    contender: str
    consumers: float  # mean number of consumers
    r_score: float  # mean Rscore
    late_ratio: float  # part of all bytes that wait at all
    p90_of_late_s: float | None  # 90th percentile over the late bytes, as published; ``None`` if none is late
    p90_s: float  # 90th percentile over all bytes
    p99_s: float  # 99th percentile over all bytes
    later_ratio: tuple[float, ...]  # part of all bytes later than each of ``cells.LATER_THAN_S``


class Packed(NamedTuple):
    """One two-dimensional algorithm on one family, over all seeds."""

    algorithm: str
    family: str  # how rate and backlog go together
    partitions: int  # how many partitions
    seeds: int  # how many draws
    over_bound: float  # mean of consumers over the lower bound
    consumers: float  # mean number of consumers


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that the page and the document show."""

    scores: tuple[Score, ...]  # one per contender, delta and number of partitions
    lateness: tuple[Lateness, ...]  # one per contender and static placement
    packed: tuple[Packed, ...]  # one per two-dimensional algorithm and family
    command: str  # what makes it again
    made: str  # where and when it was made
    recorded: tuple[Lateness, ...] = ()  # the latency model on a recorded stream, if one was given

    def score(self, contender: str, delta: int, partitions: int) -> Score | None:
        """Return one contender's score; ``None`` if it was not run there."""
        return next((s for s in self.scores if (s.contender, s.delta, s.partitions) == (contender, delta, partitions)), None)

    @property
    def deltas(self) -> tuple[int, ...]:
        """Return the deltas that were run."""
        return tuple(sorted({s.delta for s in self.scores}))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of partitions that were run."""
        return tuple(sorted({s.partitions for s in self.scores}))
