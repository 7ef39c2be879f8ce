"""How much load each partition gets over time: pure, so that the same seed gives the same run.

A scenario is a list of moments with a rate per partition; between two of them rates change linearly. ``load.py`` produces
what it says, the demo shows its phases, tests and benches check against it.
"""

import json
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.errors import SettingsError

PHASES = (("calm", 0.2), ("ramp", 0.5), ("fall", 0.3))  # of the demo, and each one's share of its duration

# The demo's consumers handle 1 MB/s and are filled to 0.8: 0.6 MB/s needs one of them, 3.6 MB/s five, 0.5 MB/s one.
_CALM, _PEAK, _LOW = 600_000.0, 3_600_000.0, 500_000.0
# Two of these cannot share a consumer. The calm start needs one consumer, so they begin together and one of them must move.
_HOT = 600_000.0
_RISE, _DROP = 0.4, 0.2  # share of the ramp until its peak, of the fall until its floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Rates at one time."""

    at_s: float  # seconds since the load's start
    bytes_per_s: tuple[float, ...]  # payload rate of each partition, by number


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Moments in order, the first at 0; after the last one its rates stay."""

    name: str
    moments: tuple[Moment, ...]
    hot: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse moments out of order, of unequal width or with negative rates."""
        times = [m.at_s for m in self.moments]
        widths = {len(m.bytes_per_s) for m in self.moments}
        if not times or times[0] != 0 or times != sorted(set(times)):
            raise ValueError(f"moments must start at 0 and follow each other, not {times}")
        if len(widths) != 1 or 0 in widths:
            raise ValueError(f"every moment must name a rate for each of the same partitions, not {sorted(widths)} of them")
        if any(rate < 0 for m in self.moments for rate in m.bytes_per_s):
            msg = "rates must not be negative"
            raise ValueError(msg)

    @property
    def partitions(self) -> int:
        """Return how many partitions get load."""
        return len(self.moments[0].bytes_per_s)

    def rates_at(self, at_s: float) -> tuple[float, ...]:
        """Return the rate of each partition, bytes per second, ``at_s`` seconds after the start."""
        after = bisect_right([m.at_s for m in self.moments], at_s)
        left = self.moments[max(0, after - 1)]
        if after in (0, len(self.moments)):
            return left.bytes_per_s
        right = self.moments[after]
        share = (at_s - left.at_s) / (right.at_s - left.at_s)
        return tuple(a + (b - a) * share for a, b in zip(left.bytes_per_s, right.bytes_per_s, strict=True))


def demo(*, partitions: int, duration_s: float, seed: int, scale: float = 1.0) -> Scenario:
    """Return a calm start, a ramp in which two partitions become hot, and a fall, which take ``duration_s`` together.

    There are at least two partitions; totals stay the same, so that more partitions get less each. The seed chooses the hot
    ones and how uneven the others are; ``scale`` multiplies every rate.
    """
    dice = random.Random(seed)
    hot = tuple(sorted(dice.sample(range(partitions), k=min(2, partitions))))
    weights = [dice.uniform(0.6, 1.4) for _ in range(partitions)]
    cool = [0.0 if p in hot else weights[p] for p in range(partitions)]

    def spread(total: float, shares: list[float]) -> list[float]:
        whole = sum(shares)
        return [total * scale * share / whole if whole else 0.0 for share in shares]

    calm, low = spread(_CALM, weights), spread(_LOW, weights)
    peak = [_HOT * scale if p in hot else rate for p, rate in enumerate(spread(_PEAK - len(hot) * _HOT, cool))]
    ramp_from, fall_from = 0.2 * duration_s, 0.7 * duration_s
    steps = (
        (0.0, calm),
        (ramp_from, calm),
        (ramp_from + _RISE * 0.5 * duration_s, peak),
        (fall_from, peak),
        (fall_from + _DROP * 0.3 * duration_s, low),
    )
    return Scenario(name="demo", moments=tuple(Moment(at_s=t, bytes_per_s=tuple(r)) for t, r in steps), hot=hot)


def steady(*, partitions: int, duration_s: float, seed: int, scale: float = 1.0) -> Scenario:
    """Return the demo's calm rates for ever."""
    calm = demo(partitions=partitions, duration_s=duration_s, seed=seed, scale=scale).moments[0]
    return Scenario(name="steady", moments=(calm,))


NAMED: Mapping[str, Callable[..., Scenario]] = {"demo": demo, "steady": steady}


def choose(name: str, *, partitions: int, duration_s: float, seed: int, scale: float = 1.0) -> Scenario:
    """Return the named scenario, or the one that a JSON file holds.

    The file: ``{"moments": [{"at_s": 0, "bytes_per_s": [1000, 2000]}, ...]}``; ``scale`` multiplies its rates.

    Raises:
        SettingsError: There is none of that name, or the file does not hold one for this many partitions.
    """
    if name in NAMED:
        return NAMED[name](partitions=partitions, duration_s=duration_s, seed=seed, scale=scale)
    file = Path(name)
    if not file.is_file():
        raise SettingsError((f"scenario: {name} is neither a file nor one of {', '.join(NAMED)}",))
    try:
        moments = json.loads(file.read_text(encoding="utf-8"))["moments"]
        found = Scenario(
            name=file.stem,
            moments=tuple(
                Moment(at_s=float(m["at_s"]), bytes_per_s=tuple(scale * float(r) for r in m["bytes_per_s"])) for m in moments
            ),
        )
    except (ValueError, KeyError, TypeError) as e:
        raise SettingsError((f"scenario: {file} does not hold one ({type(e).__name__}: {e})",)) from e
    if found.partitions != partitions:
        raise SettingsError((f"scenario: {file} is for {found.partitions} partitions, the topic has {partitions}",))
    return found
