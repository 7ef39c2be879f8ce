"""What a user may ask of one group: the settings that decisions depend on.

A pydantic model, because people write it; frozen and flat, because the pure core reads it. How a setting is written in the file
is in ``setting_paths``; the string below a setting is its description in the file's JSON Schema. Where a setting is given
(file, defaults, validation of the rest) is ``settings.py``'s business.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, WithJsonSchema, model_validator

from autoscaler import topic_selection as entries
from autoscaler.config.setting_paths import path_of
from autoscaler.config.units import Bytes, Consumers, Count, Minutes, Number, Seconds, number
from autoscaler.config.windows import is_open, problem_of

Algorithm = Literal[
    "NF", "FF", "WF", "BF", "NFD", "FFD", "WFD", "BFD", "MWF", "MBF", "MWFP", "MBFP", "MMR", "HFD", "GOALS", "PACE", "EXACT"
]  # fmt: skip
Sizing = Literal["rates", "AUTO_SCALE_CG", "TAIL_LATENCY_1", "TAIL_LATENCY_2", "LINEAR"]
Preset = Literal["lean", "even", "balanced", "quiet"]
Fallback = Literal["hold", "static", "current_if_higher", "current_if_lower"]
_PAUSED_BEFORE = {"growing": "scale_up", "shrinking": "scale_down"}


def _paused(value: object) -> object:
    """Refuse a value by the name it had before."""
    if isinstance(value, str) and (now := _PAUSED_BEFORE.get(value)):
        raise ValueError(f"{value} is written {now} now")
    return value


Paused = Annotated[Literal["all", "scale_up", "scale_down"], BeforeValidator(_paused)]
PUBLISHED_ONLY = ("wanted_latency_s", "up_ratio", "down_ratio", "rebalance_s")
UP_RATIO, DOWN_RATIO = 0.9, 0.4  # of the published sizings, as in the papers, where nothing else is said
PRICED = ("PACE",)  # the algorithms that weigh consumers against moves: the others know no price


class ContradictionsError(ValueError):
    """Settings that are each fine by themselves and wrong together."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep the problems apart, each of them complete: each is reported by itself."""
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


_STEP = re.compile(r"^([1-9][0-9]{0,4})(%?)$")
_ALL_PERCENT = 100


def _step(value: object) -> object:
    """Return a step as text: a whole number, or a share of those that are there, such as ``50%``."""
    text = str(number(value) if isinstance(value, bool) else value).strip()
    if not _STEP.match(text):
        raise ValueError(f"must be a number of consumers or a share of them, such as 2 or 50%, not {value!r}")
    return text


def _at_most_all(value: str) -> str:
    """Refuse to take away more than there is."""
    if value.endswith("%") and int(value[:-1]) > _ALL_PERCENT:
        raise ValueError(f"must be a share of the consumers of at most 100%, not {value!r}")
    return value


def _names_a_directory(value: str) -> str:
    """Refuse a group whose directory below ``workers/`` would lie elsewhere."""
    if value in {".", ".."} or re.search(r"[/\\\x00]", value):
        msg = f"{value!r} names a directory below state_dir/workers too: it must not be . or .. and must hold no / and no \\"
        raise ValueError(msg)
    if not value.isprintable():
        raise ValueError(f"{value!r} holds a character that cannot be seen: write the id as the consumers have it")
    return value


def _entry(value: str) -> str:
    if problem := entries.problem_of(value):
        raise ValueError(problem)
    return value


_STEP_SCHEMA = WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _STEP.pattern}]})
StepSize = Annotated[str, BeforeValidator(_step), _STEP_SCHEMA]
ShrinkStep = Annotated[str, BeforeValidator(_step), AfterValidator(_at_most_all), _STEP_SCHEMA]
TopicEntry = Annotated[str, AfterValidator(_entry)]
GroupName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_names_a_directory)]


def step_of(size: str, consumers: int) -> int:
    """Return how many consumers a step is when there are so many; a share is rounded up and at least one."""
    found = _STEP.match(size)
    if found is None:
        raise ValueError(f"{size!r} is no step")
    value = int(found.group(1))
    return max(1, math.ceil(consumers * value / 100)) if found.group(2) else value


class Window(BaseModel):
    """A part of the calendar in which other limits hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    cron: str
    """when it begins: minute, hour, day of the month, month, day of the week (0 and 7: Sunday)"""
    duration_min: Annotated[Minutes, Field(ge=1, le=44_640)]
    """time that it stays open, at most 31d; a plain number means minutes"""
    time_zone: str = "UTC"
    """whose clocks cron means, by its IANA name; default UTC"""
    paused: Paused | None = None
    """as holds.paused, while the window is open: a freeze"""
    min_consumers: Consumers | None = None
    """consumers at least while it is open; null: the group's. They are asked for when it begins"""
    max_consumers: Consumers | None = None
    """consumers at most while it is open; null: the group's. More are taken away when it begins"""

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

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    group: GroupName
    """the consumer group's id"""
    topics: Annotated[tuple[TopicEntry, ...], Field(min_length=1)]
    """names, ^ patterns (expressions that names begin with), ! what these leave out"""
    mode: Literal["advise", "act"] = "advise"
    """advise computes and records everything and changes nothing; act carries it out"""
    assignment: Literal["managed", "native"] = "managed"
    """managed: workers get their partitions from here; native: the group subscribes, see docs/reference/native.md"""
    reset_policy: Literal["earliest", "latest"] = "earliest"
    """where a partition starts that has no committed offset: earliest or latest"""
    read_committed: bool = False
    """true: lag ends where open transactions begin, as for consumers with that isolation level"""
    capacity_bytes_per_s: Annotated[Bytes, Field(gt=0)] | None = None
    """bytes/s that one consumer processes when it never waits; null: measured while the group works"""
    capacity_prior_bytes_per_s: Annotated[Bytes, Field(gt=0)] = 1_000_000.0
    """bytes/s assumed until that was measured, in three half minutes of work"""
    capacity_bounds_ratio: Annotated[Number, Field(ge=1, le=1e6)] = 100.0
    """a measured capacity counts at most so many times the assumed one, and at least the assumed one over so many"""
    capacity_records_per_s: Annotated[Number, Field(gt=0, le=1e12)] | None = None
    """records/s that one consumer processes, where they and not bytes limit it; both limits hold; null: no such limit"""
    target_utilisation: Annotated[Number, Field(gt=0, le=1)] = 0.8
    """share of the capacity that is planned for; the rest works off what gathers while partitions move"""
    min_consumers: Consumers = 1
    """consumers that stay in any case, but never more than there are partitions"""
    max_consumers: Consumers = 64
    """consumers at most; overload beyond it is shared and reported as AT_MAXIMUM"""
    algorithm: Algorithm = "PACE"
    """PACE weighs consumers against moves; others to compare with: docs/research/algorithms.md; EXACT in mode advise only"""
    preset: Preset = "balanced"
    """lean: fewest consumers; even; balanced; quiet: fewest moves, most consumers. For PACE only"""
    consumer_price: Annotated[Number, Field(ge=0, le=1e6)] | None = None
    """moved load worth one consumer when growing, in consumers' loads: higher moves more; null: the preset's. For PACE only"""
    tolerance_ratio: Annotated[Number, Field(ge=0, lt=1)] = 0.1
    """of the planned rate, left to noise: overload begins this far above it, fewer must fit this far below"""
    cooldown_s: Annotated[Seconds, Field(ge=0)] = 10.0
    """seconds between moves while the number of consumers stays; growing never waits for it"""
    shrink_cooldown_s: Annotated[Seconds, Field(ge=0)] = 60.0
    """seconds after any change of the number before consumers are taken away"""
    shrink_stabilisation_s: Annotated[Seconds, Field(ge=0)] = 120.0
    """seconds for which fewer must have been enough; longer than the valleys of your load"""
    backlog_s: Annotated[Seconds, Field(gt=0)] = 5.0
    """seconds that a partition may be behind before consumers are kept for it; more than commits and batches take"""
    worker_start_timeout_s: Annotated[Seconds, Field(gt=0)] = 30.0
    """seconds that a new consumer may take to start before the others share its load"""
    stale_after_s: Annotated[Seconds, Field(gt=0)] = 10.0
    """seconds that a measurement may be old before partitions stop being moved by it"""
    paused: Paused | None = None
    """all: nothing changes; scale_up or scale_down: only that is held. A lost worker's partitions are placed in any case"""
    pinned: Consumers | None = None
    """a number of consumers to keep, whatever the load; partitions still move between them"""
    windows: tuple[Window, ...] = ()
    """times in which other limits hold; of several that are open the last one that names a limit sets it"""
    grow_step: StepSize | None = None
    """consumers to add at a time, or a share of those at work such as 50%; null: as many as the load takes"""
    shrink_step: ShrinkStep | None = None
    """consumers to take away at a time, or a share such as 25%; the next after scale_down.cooldown; null: no limit"""
    grow_stabilisation_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """seconds that a consumer must be overloaded before the group grows; 0: at once"""
    promise_within_s: Annotated[Seconds, Field(gt=0)] | None = None
    """seconds within which a share of the records is to be processed, with as few consumers as that takes; null: no promise"""
    promise_share: Annotated[Number, Field(gt=0, lt=1)] = 0.99
    """the share of the records that is to be processed within that time"""
    catch_up_s: Annotated[Seconds, Field(gt=0)] | None = None
    """seconds in which a backlog is to be worked off: consumers are added for it and kept until it is; null: for rates only"""
    turns_per_hour: Annotated[Count, Field(ge=1, le=3600)] | None = 10
    """times that the number may change direction in an hour before the larger one stays; null: no limit"""
    move_pause_s: Annotated[Seconds, Field(ge=0)] = 1.0
    """seconds that a partition stands still as it changes hands, until handovers have shown it"""
    move_payback_s: Annotated[Seconds, Field(gt=0)] | None = 60.0
    """seconds in which moves at the same number must relieve more bytes than they delay; null: always move"""
    give_up_after: Annotated[Count, Field(ge=1, le=1000)] | None = 3
    """steps up after which nothing more was committed before the group grows no further; null: never"""
    give_back: bool = False
    """true: the consumers that those steps added are taken away again, as long as nothing else needs them"""
    stuck_after_s: Annotated[Seconds, Field(gt=0)] = 120.0
    """seconds that an offset may stand still while there is work; more for groups seen to commit seldom"""
    retention_risk_s: Annotated[Seconds, Field(gt=0)] | None = 3600.0
    """seconds before records may be deleted unread, or a tenth of their time, when guards give way; null: never"""
    fallback: Fallback = "hold"
    """when nothing is measured: hold; static: fallback.consumers; current_if_higher, current_if_lower: the present if it is"""
    fallback_consumers: Consumers | None = None
    """consumers to fall back to; needed by the behaviours other than hold"""
    fallback_after_s: Annotated[Seconds, Field(gt=0)] = 300.0
    """seconds without a usable measurement before that is done; longer than brokers are away"""
    sizing: Sizing = "rates"
    """rates: by byte rates (docs/concepts/load.md); or a published policy to compare with (docs/research/how-they-place.md)"""
    wanted_latency_s: Annotated[Seconds, Field(gt=0)] | None = None
    """seconds that a record may wait, of published sizings; null: 5"""
    up_ratio: Annotated[Number, Field(gt=0, le=1)] | None = None
    """share of the capacity that consumers are filled to, of published sizings; null: 0.9"""
    down_ratio: Annotated[Number, Field(gt=0, le=1)] | None = None
    """share to which fewer may be filled, of published sizings; null: 0.4"""
    rebalance_s: Annotated[Seconds, Field(ge=0)] | None = None
    """seconds for which no consumer processes anything while partitions move; of TAIL_LATENCY_2, which needs it"""
    _measured: float | None = PrivateAttr(default=None)  # no setting: no part of the fingerprint
    _written: str | None = PrivateAttr(default=None)  # fingerprint of what is configured, where a promise has changed it

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

    def keeping(self, *, target: float | None = None, stay_s: float | None = None, behind_s: float) -> Self:
        """Return the policy for a cycle in which a promise is kept.

        Args:
            target: Share of the capacity that is planned for; ``None``: as configured.
            stay_s: Seconds for which fewer must have been enough, ``shrink_stabilisation_s`` at most; ``None``: as configured.
            behind_s: Seconds that a partition may be behind before that is a backlog, which is then worked off as promised.
        """
        times = [t for t in (self.catch_up_s, self.promise_within_s) if t is not None]
        changed: dict[str, object] = {"backlog_s": behind_s, "catch_up_s": min(times)}
        if target is not None:
            changed["target_utilisation"] = target
        if stay_s is not None:
            changed |= {"shrink_cooldown_s": 0.0, "turns_per_hour": None}
            changed["shrink_stabilisation_s"] = min(stay_s, self.shrink_stabilisation_s)
        copy = self.model_copy(update=changed)
        copy._written = self.fingerprint  # noqa: SLF001  its own
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
        if self._written is not None:
            return self._written
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def contradictions(group: Mapping[str, object]) -> tuple[str, ...]:
    """Return everything in which one group's settings, as the operator wrote them, contradict each other.

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
        found += [f"{path_of(x)} is for algorithm {' or '.join(PRICED)}: {algorithm} knows no price of a consumer" for x in given]
    if algorithm == "EXACT" and group.get("mode") == "act":
        found.append(
            "algorithm EXACT is for mode advise: it may take seconds for each plan and need not give the same one twice; use PACE"
        )
    found += _records_contradictions(group)
    if group.get("promise_within_s") is not None and group.get("sizing", "rates") != "rates":
        found.append("promise.within is for sizing rates: a published policy is told published.wanted_latency")
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
        found.append("scale_up.give_back needs scale_up.give_up_after: without it no step is found to be in vain")
    if group.get("give_back") is True and group.get("sizing", "rates") != "rates":
        found.append("scale_up.give_back is for sizing rates: a published policy chooses the number of consumers itself")
    if group.get("sizing", "rates") != "rates" and group.get("pinned") is not None:
        found.append("holds.pinned is for sizing rates: a published policy chooses the number of consumers itself")
    if group.get("sizing", "rates") != "rates" and group.get("assignment") == "native":
        found.append("a published sizing places partitions and needs assignment managed: Kafka places those of a native group")
    if group.get("sizing", "rates") == "rates":
        given = [name for name in PUBLISHED_ONLY if group.get(name) is not None]
        found += [
            f"{path_of(name)} is for the published sizings ({', '.join(get_args(Sizing)[1:])}): name one in sizing"
            for name in given
        ]
    if group.get("sizing") == "TAIL_LATENCY_2" and group.get("rebalance_s") is None:
        found.append("sizing TAIL_LATENCY_2 needs published.rebalance: without the time of a rebalance it is TAIL_LATENCY_1")
    up, down = group.get("up_ratio"), group.get("down_ratio")
    up, down = UP_RATIO if up is None else up, DOWN_RATIO if down is None else down
    if isinstance(up, int | float) and isinstance(down, int | float) and down > up:
        found.append(f"published.down_ratio {down:g} is above published.up_ratio {up:g}: what is added would be taken away again")
    return found


def _records_contradictions(group: Mapping[str, object]) -> list[str]:
    """Return what is wrong about a limit of records."""
    if group.get("capacity_records_per_s") is None:
        return []
    found = []
    if group.get("sizing", "rates") != "rates":
        found.append("capacity.records_per_s is for sizing rates: a published policy knows bytes/s only")
    if group.get("assignment") == "native":
        found.append("capacity.records_per_s needs assignment managed: what a native group gets is counted in bytes/s only")
    return found


def _fallback_contradictions(group: Mapping[str, object], least: object, most: object) -> list[str]:
    """Return what is wrong about the number of consumers for when nothing is measured."""
    found = []
    kind, count = group.get("fallback", "hold"), group.get("fallback_consumers")
    if kind in get_args(Fallback)[1:] and count is None:
        found.append(f"fallback.behaviour {kind} needs fallback.consumers")
    if kind == "hold" and count is not None:
        found.append("fallback.consumers is for the other behaviours than hold: name one in fallback.behaviour")
    if isinstance(least, int) and isinstance(most, int) and isinstance(count, int) and not least <= count <= most:
        found.append(f"fallback.consumers {count} is not between min_consumers {least} and max_consumers {most}")
    if kind != "hold" and group.get("sizing", "rates") != "rates":
        found.append("fallback.behaviour is for sizing rates: a published policy chooses the number of consumers itself")
    return found


def _bound_contradictions(group: Mapping[str, object], least: object, most: object) -> list[str]:
    """Return what a fixed number and the windows contradict."""
    found = []
    pinned, windows = group.get("pinned"), group.get("windows")
    if isinstance(least, int) and isinstance(most, int) and isinstance(pinned, int) and not least <= pinned <= most:
        found.append(f"holds.pinned {pinned} is not between min_consumers {least} and max_consumers {most}")
    for index, window in enumerate(windows if isinstance(windows, list | tuple) else ()):
        if not isinstance(window, Mapping):
            continue
        low, high = window.get("min_consumers"), window.get("max_consumers")
        low, high = least if low is None else low, most if high is None else high
        own = window.get("min_consumers") is not None or window.get("max_consumers") is not None
        if own and isinstance(low, int) and isinstance(high, int) and low > high:
            found.append(f"windows.{index}: min_consumers {low} is above max_consumers {high} while it is open")
    return found
