"""What the experiments gave, as values: between the tables of results and the page that shows them."""

from dataclasses import dataclass
from typing import NamedTuple


class Score(NamedTuple):
    """One contender at one delta and number of partitions, over all seeds.

    Attributes:
        contender: Its name.
        delta: Greatest step of a rate between two measurements, in hundredths of a consumer's capacity.
        partitions: How many partitions.
        seeds: How many streams.
        cbs_percent: Cardinal bin score in percent, against the fewest that any of the published twelve used at a time.
        consumers: Mean number of consumers.
        r_score: Mean Rscore.
        moved: Mean number of partitions that move per measurement.
        r_score_spread: Standard deviation of a stream's mean Rscore from stream to stream.
    """

    contender: str
    delta: int
    partitions: int
    seeds: int
    cbs_percent: float
    consumers: float
    r_score: float
    moved: float
    r_score_spread: float


class Lateness(NamedTuple):
    """One contender, or one placement that never changes, in the latency model.

    Attributes:
        contender: Its name.
        consumers: Mean number of consumers.
        r_score: Mean Rscore.
        late_ratio: Part of all bytes that wait at all.
        p90_of_late_s: 90th percentile over the late bytes, as published; ``None`` if none is late.
        p90_s: 90th percentile over all bytes.
        p99_s: 99th percentile over all bytes.
        later_ratio: Part of all bytes later than each of ``cells.LATER_THAN_S``.
    """

    contender: str
    consumers: float
    r_score: float
    late_ratio: float
    p90_of_late_s: float | None
    p90_s: float
    p99_s: float
    later_ratio: tuple[float, ...]


class Packed(NamedTuple):
    """One two-dimensional algorithm on one family, over all seeds.

    Attributes:
        algorithm: Its name.
        family: How rate and backlog go together.
        partitions: How many partitions.
        seeds: How many draws.
        over_bound: Mean of consumers over the lower bound.
        consumers: Mean number of consumers.
    """

    algorithm: str
    family: str
    partitions: int
    seeds: int
    over_bound: float
    consumers: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that the page and the document show.

    Attributes:
        scores: One per contender, delta and number of partitions.
        lateness: One per contender and static placement.
        packed: One per two-dimensional algorithm and family.
        recorded: The latency model on a recorded stream, if one was given.
        command: What makes it again.
        made: Where and when it was made.
    """

    scores: tuple[Score, ...]
    lateness: tuple[Lateness, ...]
    packed: tuple[Packed, ...]
    command: str
    made: str
    recorded: tuple[Lateness, ...] = ()

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
