"""What a user may ask of one group: the settings that decisions depend on.

A pydantic model, because people write it; frozen, because the pure core reads it. Where a setting is given (file, defaults,
validation of the rest) is ``settings.py``'s business.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from autoscaler import topic_selection as entries
from autoscaler.config.windows import is_open, problem_of

Algorithm = Literal[
    "NF", "FF", "WF", "BF", "NFD", "FFD", "WFD", "BFD", "MWF", "MBF", "MWFP", "MBFP", "MMR", "HFD", "PACE", "EXACT"
]  # fmt: skip
Sizing = Literal["rates", "AUTO_SCALE_CG", "TAIL_LATENCY_1", "TAIL_LATENCY_2", "LINEAR"]
Preset = Literal["lean", "even", "balanced", "quiet"]
Paused = Literal["all", "growing", "shrinking"]
Fallback = Literal["hold", "static", "current_if_higher", "current_if_lower"]
PUBLISHED_ONLY = ("wanted_latency_s", "up_ratio", "down_ratio", "rebalance_s")
UP_RATIO, DOWN_RATIO = 0.9, 0.4  # of the published sizings, as in the papers, where nothing else is said
PRICED = ("PACE",)  # the algorithms that weigh consumers against moves: the others know no price


def _no_flag(value: object) -> object:
    """Refuse true and false, which would count as 1 and 0."""
    if isinstance(value, bool):
        msg = f"Input should be a number, not {str(value).lower()}"
        raise ValueError(msg)  # noqa: TRY004  as pydantic wants it
    return value


class ContradictionsError(ValueError):
    """Settings that are each fine by themselves and wrong together.

    Attributes:
        problems: What is wrong, each complete.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep them apart: each is reported by itself."""
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


_STEP = re.compile(r"^([1-9][0-9]{0,5})(%?)$")


def _step(value: object) -> object:
    """Return a step as text: a whole number, or a share of those that are there, such as ``50%``."""
    text = str(_no_flag(value)).strip()
    if not _STEP.match(text):
        msg = f"Input should be a number of consumers or a share of them, such as 2 or 50%, not {value!r}"
        raise ValueError(msg)
    return text


def _entry(value: str) -> str:
    if problem := entries.problem_of(value):
        raise ValueError(problem)
    return value


Number = Annotated[float, BeforeValidator(_no_flag)]
Count = Annotated[int, BeforeValidator(_no_flag)]
StepSize = Annotated[str, BeforeValidator(_step)]
TopicEntry = Annotated[str, AfterValidator(_entry)]


def step_of(size: str, consumers: int) -> int:
    """Return how many consumers a step is when there are so many; a share is rounded up and at least one."""
    found = _STEP.match(size)
    if found is None:
        msg = f"{size!r} is no step"
        raise ValueError(msg)
    value = int(found.group(1))
    return max(1, math.ceil(consumers * value / 100)) if found.group(2) else value


class Window(BaseModel):
    """A part of the calendar in which other limits hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    cron: str
    duration_min: Annotated[Count, Field(ge=1, le=44_640)]
    time_zone: str = "UTC"
    paused: Paused | None = None
    min_consumers: Annotated[Count, Field(ge=1)] | None = None
    max_consumers: Annotated[Count, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "Window":
        if problem := problem_of(self.cron, self.time_zone):
            raise ValueError(problem)
        if self.paused is None and self.min_consumers is None and self.max_consumers is None:
            msg = "changes nothing: say paused, min_consumers or max_consumers"
            raise ValueError(msg)
        return self

    def __str__(self) -> str:
        """Return when it is open, for people."""
        return f"{self.cron} for {self.duration_min} min, {self.time_zone}"

    def is_open(self, now: float) -> bool:
        """Say whether it is open ``now``, in seconds since the epoch."""
        return is_open(self.cron, self.time_zone, self.duration_min, now)


class Policy(BaseModel):
    """How one group is sized and placed. Units are in the names; ``conf/autoscaler.yaml`` explains every setting."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    group: Annotated[str, Field(min_length=1, pattern=r"^[^/\\\x00]+$")]  # it also names a directory
    topics: Annotated[tuple[TopicEntry, ...], Field(min_length=1)]
    mode: Literal["advise", "act"] = "advise"
    assignment: Literal["managed", "native"] = "managed"
    reset_policy: Literal["earliest", "latest"] = "earliest"
    read_committed: bool = False
    capacity_bytes_per_s: Annotated[Number, Field(gt=0, strict=True)] | None = None  # None: measured
    capacity_prior_bytes_per_s: Annotated[Number, Field(gt=0)] = 1_000_000.0
    capacity_bounds_ratio: Annotated[Number, Field(ge=1)] = 100.0
    capacity_records_per_s: Annotated[Number, Field(gt=0)] | None = None  # None: no such limit
    target_utilisation: Annotated[Number, Field(gt=0, le=1)] = 0.8
    min_consumers: Annotated[Count, Field(ge=1)] = 1
    max_consumers: Annotated[Count, Field(ge=1)] = 64
    algorithm: Algorithm = "PACE"
    preset: Preset = "balanced"
    consumer_price: Annotated[Number, Field(ge=0, le=1e6)] | None = None  # None: the preset's
    tolerance_ratio: Annotated[Number, Field(ge=0, lt=1)] = 0.1
    cooldown_s: Annotated[Number, Field(ge=0)] = 10.0
    shrink_cooldown_s: Annotated[Number, Field(ge=0)] = 60.0
    shrink_stabilisation_s: Annotated[Number, Field(ge=0)] = 120.0
    backlog_s: Annotated[Number, Field(gt=0)] = 5.0
    worker_start_timeout_s: Annotated[Number, Field(gt=0)] = 30.0
    stale_after_s: Annotated[Number, Field(gt=0)] = 10.0
    paused: Paused | None = None
    pinned: Annotated[Count, Field(ge=1)] | None = None
    windows: tuple[Window, ...] = ()
    grow_step: StepSize | None = None  # None: as many as the load takes
    shrink_step: StepSize | None = None
    grow_stabilisation_s: Annotated[Number, Field(ge=0)] = 0.0
    turns_per_hour: Annotated[Count, Field(ge=1)] | None = 10  # None: as many as the load makes
    move_pause_s: Annotated[Number, Field(ge=0)] = 1.0
    move_payback_s: Annotated[Number, Field(gt=0)] | None = 60.0  # None: every move is worth it
    give_up_after: Annotated[Count, Field(ge=1)] | None = 3  # None: never
    give_back: bool = False
    stuck_after_s: Annotated[Number, Field(gt=0)] = 120.0
    retention_risk_s: Annotated[Number, Field(gt=0)] | None = 3600.0  # None: nothing is done because records may be deleted
    fallback: Fallback = "hold"
    fallback_consumers: Annotated[Count, Field(ge=1)] | None = None
    fallback_after_s: Annotated[Number, Field(gt=0)] = 300.0
    sizing: Sizing = "rates"
    wanted_latency_s: Annotated[Number, Field(gt=0)] | None = None  # this and the next three: of the published sizings only
    up_ratio: Annotated[Number, Field(gt=0, le=1)] | None = None
    down_ratio: Annotated[Number, Field(gt=0, le=1)] | None = None
    rebalance_s: Annotated[Number, Field(ge=0)] | None = None
    _measured: float | None = PrivateAttr(default=None)  # no setting: no part of the fingerprint

    @model_validator(mode="after")
    def _consistent(self) -> "Policy":
        if found := contradictions(self.model_dump(exclude_unset=True)):
            raise ContradictionsError(found)
        return self

    def with_capacity(self, bytes_per_s: float) -> Self:
        """Return the policy for a cycle in which one consumer is taken to process so much; what is configured wins."""
        copy = self.model_copy()
        copy._measured = bytes_per_s  # noqa: SLF001  its own
        return copy

    @property
    def able_bytes_per_s(self) -> float:
        """Return what one consumer processes when it never waits: configured, measured, or assumed until then."""
        if self.capacity_bytes_per_s is not None:
            return self.capacity_bytes_per_s
        return self.capacity_prior_bytes_per_s if self._measured is None else self._measured

    @property
    def usable_bytes_per_s(self) -> float:
        """Return the rate that packing may put on one consumer: capacity times target utilisation."""
        return self.able_bytes_per_s * self.target_utilisation

    @property
    def overload_bytes_per_s(self) -> float:
        """Return the rate above which a consumer is overloaded: usable plus the tolerance, but never above its capacity."""
        return min(self.usable_bytes_per_s * (1 + self.tolerance_ratio), self.able_bytes_per_s)

    @property
    def calm_bytes_per_s(self) -> float:
        """Return the rate that fewer consumers must be able to do with before the group shrinks: usable minus the tolerance."""
        return self.usable_bytes_per_s * (1 - self.tolerance_ratio)

    @property
    def planner(self) -> str:
        """Return the algorithm and what it was asked to weigh, as the audit shows it: ``PACE balanced``."""
        if self.sizing != "rates":
            return self.sizing
        if self.algorithm not in PRICED:
            return self.algorithm
        price = "" if self.consumer_price is None else f" at {self.consumer_price:g} per consumer"
        return f"{self.algorithm} {self.preset}{price}"

    @property
    def fingerprint(self) -> str:
        """Return 12 hex digits that change whenever a setting changes, for the audit."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def contradictions(group: Mapping[str, object]) -> tuple[str, ...]:
    """Return everything in which one group's settings, as somebody wrote them, contradict each other.

    Values of a wrong type are passed over: each field says that itself.
    """
    found = []
    least, most = group.get("min_consumers", 1), group.get("max_consumers", Policy.model_fields["max_consumers"].default)
    if isinstance(least, int) and isinstance(most, int) and least > most:
        found.append(f"min_consumers {least} is above max_consumers {most}")
    found += _bound_contradictions(group, least, most)
    algorithm = group.get("algorithm", Policy.model_fields["algorithm"].default)
    if algorithm in get_args(Algorithm) and algorithm not in PRICED:
        given = [name for name in ("preset", "consumer_price") if group.get(name) is not None]
        found += [f"{name} is for algorithm {' or '.join(PRICED)}: {algorithm} knows no price of a consumer" for name in given]
    if algorithm == "EXACT" and group.get("mode") == "act":
        found.append(
            "algorithm EXACT is for mode advise: it may take seconds for each plan and need not give the same one twice; use PACE"
        )
    found += _records_contradictions(group)
    found += _sizing_contradictions(group)
    found += _fallback_contradictions(group, least, most)
    topics = group.get("topics")
    if isinstance(topics, list | tuple) and all(isinstance(t, str) and not entries.problem_of(t) for t in topics):
        found += entries.contradictions(topics)
    return tuple(found)


def _sizing_contradictions(group: Mapping[str, object]) -> list[str]:
    """Return what is wrong about how the number of consumers is chosen."""
    found = []
    if group.get("give_back") is True and group.get("give_up_after", 1) is None:
        found.append("give_back needs give_up_after: without it no step is found to be in vain")
    if group.get("give_back") is True and group.get("sizing", "rates") != "rates":
        found.append("give_back is for sizing rates: a published policy chooses the number of consumers itself")
    if group.get("sizing", "rates") != "rates" and group.get("pinned") is not None:
        found.append("pinned is for sizing rates: a published policy chooses the number of consumers itself")
    if group.get("sizing", "rates") != "rates" and group.get("assignment") == "native":
        found.append("a published sizing places partitions and needs assignment managed: Kafka places those of a native group")
    if group.get("sizing", "rates") == "rates":
        given = [name for name in PUBLISHED_ONLY if group.get(name) is not None]
        found += [
            f"{name} is for the published sizings ({', '.join(get_args(Sizing)[1:])}): name one in sizing" for name in given
        ]
    if group.get("sizing") == "TAIL_LATENCY_2" and group.get("rebalance_s") is None:
        found.append("sizing TAIL_LATENCY_2 needs rebalance_s: without the time that a rebalance takes it is TAIL_LATENCY_1")
    up, down = group.get("up_ratio"), group.get("down_ratio")
    up, down = UP_RATIO if up is None else up, DOWN_RATIO if down is None else down
    if isinstance(up, int | float) and isinstance(down, int | float) and down > up:
        found.append(f"down_ratio {down:g} is above up_ratio {up:g}: what is added would be taken away again")
    return found


def _records_contradictions(group: Mapping[str, object]) -> list[str]:
    """Return what is wrong about a limit of records."""
    if group.get("capacity_records_per_s") is None:
        return []
    found = []
    if group.get("sizing", "rates") != "rates":
        found.append("capacity_records_per_s is for sizing rates: a published policy knows bytes/s only")
    if group.get("assignment") == "native":
        found.append("capacity_records_per_s needs assignment managed: what a native group gets is counted in bytes/s only")
    return found


def _fallback_contradictions(group: Mapping[str, object], least: object, most: object) -> list[str]:
    """Return what is wrong about the number of consumers for when nothing is measured."""
    found = []
    kind, count = group.get("fallback", "hold"), group.get("fallback_consumers")
    if kind in get_args(Fallback)[1:] and count is None:
        found.append(f"fallback {kind} needs fallback_consumers")
    if kind == "hold" and count is not None:
        found.append("fallback_consumers is for the other fallbacks than hold: name one in fallback")
    if isinstance(least, int) and isinstance(most, int) and isinstance(count, int) and not least <= count <= most:
        found.append(f"fallback_consumers {count} is not between min_consumers {least} and max_consumers {most}")
    if kind != "hold" and group.get("sizing", "rates") != "rates":
        found.append("fallback is for sizing rates: a published policy chooses the number of consumers itself")
    return found


def _bound_contradictions(group: Mapping[str, object], least: object, most: object) -> list[str]:
    """Return what a fixed number and the windows contradict."""
    found = []
    pinned, windows = group.get("pinned"), group.get("windows")
    if isinstance(least, int) and isinstance(most, int) and isinstance(pinned, int) and not least <= pinned <= most:
        found.append(f"pinned {pinned} is not between min_consumers {least} and max_consumers {most}")
    for number, window in enumerate(windows if isinstance(windows, list | tuple) else ()):
        if not isinstance(window, Mapping):
            continue
        low, high = window.get("min_consumers"), window.get("max_consumers")
        low, high = least if low is None else low, most if high is None else high
        own = window.get("min_consumers") is not None or window.get("max_consumers") is not None
        if own and isinstance(low, int) and isinstance(high, int) and low > high:
            found.append(f"windows.{number}: min_consumers {low} is above max_consumers {high} while it is open")
    return found
