"""A worker's side of the handover: which partitions it may touch, when it lets go of one, when its lease is over.

``step(state, event, now)`` returns the next state and what is to be done. It reads no clock and sends nothing:
``worker/`` executes the effects and feeds back what became of them. ``now`` is the worker's own lease clock in seconds;
no other machine's time is ever compared with it. The rules' numbers are those of ``docs/design/protocol.md``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never

from autoscaler.handover.codec import Key
from autoscaler.handover.records import RECOMMIT_S, Expired, Heartbeat, Incarnation, Left, Phase, Plan, Released, Tp
from autoscaler.handover.worker_events import (
    Drained,
    Effect,
    Elapsed,
    Event,
    GivenUp,
    HeartbeatAcked,
    HeartbeatFailed,
    Lapse,
    Leave,
    LogRead,
    LogReplaced,
    OffsetsRead,
    OffsetsUnread,
    OutOfRange,
    ReadOffsets,
    Ready,
    ReleaseLost,
    SendHeartbeat,
    SendLeft,
    SendReleased,
    Start,
    StopFetching,
    Taking,
    Totals,
)

HEARTBEATS_PER_LEASE = 10
_TAKEN_KEPT = 4  # heartbeats that repeat a take, so that a controller that starts anew still sees it
_HELD_BACK_S = 1.0  # until a failed offset read is asked again
_V = TypeVar("_V")
Step = tuple["WorkerState", tuple[Effect, ...]]


NOWHERE = -1  # in place of a committed offset: there is none, and no start either


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """One incarnation."""

    group: str
    me: Incarnation
    control_id: str
    lease_s: float
    boot_id: str = ""
    instance: str | None = None
    max_batch_s: float = 300.0
    # It commits in transactions, under a transactional id that others take before they say that it is over
    exactly_once: bool = False
    first_sent: float | None = None  # stamp of the first heartbeat sent; below: of the last one acknowledged
    acked_stamp: float | None = None
    acked_offset: int | None = None
    in_flight: float | None = None  # stamp of the heartbeat that is neither acknowledged nor failed; there is at most one
    due: float = float("-inf")  # when the next heartbeat is to be sent
    lapsed: bool = False
    ready: bool = False
    leaving: bool = False
    left: bool = False
    totals: Totals = field(default_factory=Totals)
    busy_since: float | None = None
    read_at: float | None = None
    plan: Plan | None = None
    # Granting epoch of every partition that the newest plan gives to this incarnation
    wanted: Mapping[Tp, int] = field(default_factory=dict)
    # Highest epoch at which the newest plan's waits name this incarnation, by partition
    asked: Mapping[Tp, int] = field(default_factory=dict)
    # Epoch of the latest release of (partition, worker)
    released: Mapping[tuple[Tp, Incarnation], int] = field(default_factory=dict)
    over: frozenset[Incarnation] = frozenset()  # incarnations that have expired or left
    active: Mapping[Tp, int] = field(default_factory=dict)  # granting epoch of the partitions being fetched
    # Granting epoch of the partitions whose committed offset has been asked for
    reading: Mapping[Tp, int] = field(default_factory=dict)
    # Granting epoch of the partitions still owned of which nothing new is fetched
    draining: Mapping[Tp, int] = field(default_factory=dict)
    # Granting epoch of the partitions still owned although not fetched: given back before their release was sent
    kept: Mapping[Tp, int] = field(default_factory=dict)
    answered: Mapping[Tp, int] = field(default_factory=dict)  # epoch of the last release sent, by partition
    # Partitions whose start is not known or not readable, and when to ask again
    stalled: Mapping[Tp, float] = field(default_factory=dict)
    failed: frozenset[Tp] = frozenset()  # partitions in whose records the application ended by an error
    # Committed offset of the kept partitions that is out of range, or ``NOWHERE`` of wanted ones that have none and of which the
    # plan does not say where to begin: they stand still until a plan says it
    out_of_range: Mapping[Tp, int] = field(default_factory=dict)
    taken: tuple[tuple[Tp, int, int, int], ...] = ()  # recent takes and how many heartbeats still name each

    @property
    def valid_until(self) -> float:
        """Return until when it may deliver, commit and release; minus infinity before the first acknowledgement (rule 6)."""
        if self.lapsed or self.left or self.acked_stamp is None:
            return float("-inf")
        return self.acked_stamp + self.lease_s

    @property
    def recommit_s(self) -> float:
        """Return after how long an offset that does not advance is committed again (rule 10)."""
        said = None if self.plan is None else self.plan.recommit_s
        return RECOMMIT_S if said is None else min(said, RECOMMIT_S)

    @property
    def epoch(self) -> int:
        """Return the number of the newest plan read; 0 before the first."""
        return 0 if self.plan is None else self.plan.epoch.number


def step(state: WorkerState, event: Event, now: float) -> Step:  # noqa: C901, PLR0911, PLR0912  (one case per event)
    """Take one event at the worker's own time ``now`` (seconds) and return the next state and the effects, in order."""
    if state.lapsed or state.left:
        return state, ()
    if _overdue(state, now):
        return _lapse(state, "no acknowledged heartbeat within the lease")
    match event:
        case Elapsed(totals=totals, busy_since=busy_since, read_at=read_at):
            state = replace(state, totals=totals, busy_since=busy_since, read_at=read_at)
            return _settle(state, now) if state.stalled else _beat(state, now, ())
        case HeartbeatAcked(stamp=stamp, offset=offset):
            return _settle(_acknowledge(state, stamp, offset), now)
        case HeartbeatFailed(stamp=stamp):
            return _beat(replace(state, in_flight=None, due=now) if state.in_flight == stamp else state, now, ())
        case LogRead(records=records):
            return _read(state, records, now)
        case Ready():
            return _settle(replace(state, ready=True, due=now), now)
        case OffsetsRead(offsets=offsets):
            return _start(state, offsets, now)
        case OffsetsUnread(asked=asked):
            mine = {tp for tp, epoch in asked if state.reading.get(tp) == epoch}
            later = dict.fromkeys(mine, now + _HELD_BACK_S)
            return _settle(replace(state, reading=_without(state.reading, mine), stalled={**state.stalled, **later}), now)
        case Drained(offsets=offsets):
            return _release(state, offsets, now)
        case ReleaseLost(tp=tp, epoch=epoch):
            again = {tp} if state.answered.get(tp) == epoch else set()
            return _settle(replace(state, answered=_without(state.answered, again)), now)
        case OutOfRange(tp=tp, offset=offset):
            return _stray(state, tp, offset, now)
        case Leave(failed=failed):
            return _settle(replace(state, leaving=True, failed=failed, wanted={}, stalled={}, due=now), now)
        case LogReplaced():
            return _lapse(state, "the control topic was made anew")
        case GivenUp(why=why):
            return _lapse(state, why)
        case _:
            assert_never(event)


def _overdue(state: WorkerState, now: float) -> bool:
    since = state.first_sent if state.acked_stamp is None else state.acked_stamp
    return since is not None and now >= since + state.lease_s


def _lapse(state: WorkerState, why: str) -> Step:
    nothing: dict[Tp, int] = {}
    state = replace(state, lapsed=True, active=nothing, reading=nothing, draining=nothing, kept=nothing, out_of_range=nothing)
    return state, (Lapse(why=why),)


def _acknowledge(state: WorkerState, stamp: float, offset: int) -> WorkerState:
    """Count the lease from when the heartbeat was stamped, not from when its acknowledgement came."""
    newest = stamp if state.acked_stamp is None else max(stamp, state.acked_stamp)
    latest = offset if newest == stamp else state.acked_offset  # never the highest: a log made anew begins at 0 again
    in_flight = None if state.in_flight == stamp else state.in_flight
    return replace(state, acked_stamp=newest, acked_offset=latest, in_flight=in_flight)


def _read(state: WorkerState, records: Iterable[Plan | Expired | Released | Left | Key], now: float) -> Step:
    plan, released, over = state.plan, dict(state.released), set(state.over)
    for record in records:
        match record:
            case Plan():
                if plan is None or record.epoch.number > plan.epoch.number:
                    plan = record
            case Released(tp=tp, worker=worker, epoch=epoch):
                released[tp, worker] = max(epoch, released.get((tp, worker), epoch))
            case Expired(worker=worker) | Left(worker=worker):
                over.add(worker)
            case ("released", _, str(topic), int(partition), str(name), str(uuid)):
                released.pop((Tp(topic, partition), Incarnation(name, uuid)), None)
            case ("expired" | "left", _, str(name), str(uuid)):
                over.discard(Incarnation(name, uuid))
            case _:
                pass  # other deleted keys say nothing to a worker
    state = replace(state, released=released, over=frozenset(over))
    if state.me in over:
        return _lapse(state, "the control log says that it is over")
    if plan is not None and plan is not state.plan:
        state = _adopt(state, plan, now)
    return _settle(state, now)


def _adopt(state: WorkerState, plan: Plan, now: float) -> WorkerState:
    """Note what the newest plan wants of this incarnation; a partition that stays keeps running under its new epoch."""
    wanted = {tp: g.epoch for tp, g in plan.grants.items() if g.owner == state.me and not state.leaving}
    asked = {tp: max(mine) for tp, waits in plan.waits.items() if (mine := [w.epoch for w in waits if w.worker == state.me])}
    active = {tp: wanted.get(tp, epoch) for tp, epoch in state.active.items()}
    out_of_range = {tp: offset for tp, offset in state.out_of_range.items() if offset != NOWHERE or tp in wanted}
    due = now if active != state.active else state.due
    return replace(state, plan=plan, wanted=wanted, asked=asked, active=active, out_of_range=out_of_range, stalled={}, due=due)


def _settle(state: WorkerState, now: float) -> Step:
    """Compare what is held with what is wanted, and do what closes the gap; nothing twice."""
    effects: list[Effect] = []
    if state.acked_stamp is not None:
        state = _stop(state, effects)
        state = _answer(state, effects)
        state = _gain(state, now, effects)
    if state.leaving and not (state.active or state.draining):
        done = SendLeft(left=Left(group=state.group, worker=state.me, control_id=state.control_id))
        return replace(state, left=True), (*effects, done)
    return _beat(state, now, tuple(effects))


def _stop(state: WorkerState, effects: list[Effect]) -> WorkerState:
    """Rule 3: give up what is not wanted any more; an offset read for a partition that is not wanted any more is forgotten."""
    lost = sorted(state.active.keys() - state.wanted.keys())
    reading = {tp: epoch for tp, epoch in state.reading.items() if state.wanted.get(tp) == epoch}
    if lost:
        effects.append(StopFetching(tps=tuple(lost)))
    dropped = sorted(state.kept.keys() - state.wanted.keys())
    if not (lost or dropped) and len(reading) == len(state.reading):
        return state
    effects.extend(_released(state, tp, -1) for tp in dropped)
    return replace(
        state,
        active=_without(state.active, lost),
        reading=reading,
        draining={**state.draining, **{tp: state.active[tp] for tp in lost}},
        kept=_without(state.kept, dropped),
        out_of_range=_without(state.out_of_range, dropped),
        answered={**state.answered, **dict.fromkeys(dropped, state.epoch)},
    )


def _answer(state: WorkerState, effects: list[Effect]) -> WorkerState:
    """Rule 3: tell workers that wait for a partition that this incarnation has nothing to do with (any more)."""
    owed = sorted(
        tp
        for tp, epoch in state.asked.items()
        if state.answered.get(tp, -1) < epoch and not (tp in state.active or tp in state.draining or tp in state.wanted)
    )
    effects.extend(_released(state, tp, -1) for tp in owed)
    return replace(state, answered={**state.answered, **dict.fromkeys(owed, state.epoch)}) if owed else state


def _gain(state: WorkerState, now: float, effects: list[Effect]) -> WorkerState:
    """Rule 4: ask for the committed offset of whatever is wanted and free."""
    missing = state.wanted.keys() - state.active.keys() - state.reading.keys() - state.draining.keys()
    free = sorted(tp for tp in missing if state.stalled.get(tp, now) <= now and _free(state, tp))
    asked = tuple((tp, state.wanted[tp]) for tp in free)
    if not asked:
        return state
    effects.append(ReadOffsets(asked=asked))
    stalled = _without(state.stalled, [tp for tp, _ in asked])
    return replace(state, reading={**state.reading, **dict(asked)}, stalled=stalled)


def _free(state: WorkerState, tp: Tp) -> bool:
    """Return whether no other worker can own the partition: every wait is over, or it was never let go."""
    if tp in state.kept:
        return True
    waits = state.plan.waits.get(tp, ()) if state.plan else ()
    return all(w.worker in state.over or state.released.get((tp, w.worker), -1) >= w.epoch for w in waits)


def _start(state: WorkerState, offsets: Iterable[tuple[Tp, int, int | None]], now: float) -> Step:
    """Rule 4: the offset has arrived; look again at the newest plan, the waits and whether it is leaving, then start."""
    if state.plan is None:
        return _settle(state, now)
    takings: list[Taking] = []
    done: set[Tp] = set()
    stalled, nowhere = dict(state.stalled), dict(state.out_of_range)
    for tp, epoch, committed in offsets:
        if state.reading.get(tp) != epoch or tp in done:
            continue
        done.add(tp)
        offset = _beginning(state, tp, committed)
        if offset is None:
            stalled[tp] = now + _HELD_BACK_S
            if committed is None:  # nor does the plan say where to begin: the controller learns it from the heartbeat
                nowhere[tp] = NOWHERE
        elif state.wanted.get(tp) == epoch and _free(state, tp):
            takings.append(Taking(tp=tp, epoch=epoch, offset=offset, unclaimed=offset != committed))
    started = {t.tp: t.epoch for t in takings}
    state = replace(
        state,
        reading=_without(state.reading, done),
        stalled=stalled,
        active={**state.active, **started},
        kept=_without(state.kept, started),
        out_of_range=_without(nowhere, started),
        taken=(*state.taken, *((t.tp, t.epoch, t.offset, _TAKEN_KEPT) for t in takings)),
        due=now if takings or len(nowhere) > len(state.out_of_range) else state.due,
    )
    state, effects = _settle(state, now)
    return state, (Start(takings=tuple(takings)), *effects) if takings else effects


def _beginning(state: WorkerState, tp: Tp, committed: int | None) -> int | None:
    """Rule 5: where to begin; ``None`` while the plan does not say."""
    reset = state.plan.resets.get(tp) if state.plan else None
    if committed is None and reset is not None and reset.offset == NOWHERE:
        return reset.start
    if committed is None:
        return state.plan.starts.get(tp) if state.plan else None
    if reset is not None and reset.offset == committed:
        return reset.start
    return None if state.out_of_range.get(tp) == committed else committed


def _stray(state: WorkerState, tp: Tp, offset: int, now: float) -> Step:
    """Rule 5: an offset out of range is the controller's business; the partition stays this incarnation's meanwhile."""
    if tp not in state.active:  # told to give it up at the same time: then it is drained
        return _release(state, ((tp, offset),), now)
    state = replace(
        state,
        active=_without(state.active, {tp}),
        kept={**state.kept, tp: state.active[tp]},
        out_of_range={**state.out_of_range, tp: offset},
        stalled={**state.stalled, tp: now + _HELD_BACK_S},
        due=now,
    )
    return _settle(state, now)


def _release(state: WorkerState, offsets: Iterable[tuple[Tp, int]], now: float) -> Step:
    """Rule 3: drained partitions are released, unless the newest plan has given them back (then they were never let go)."""
    drained = {tp: offset for tp, offset in offsets if tp in state.draining}
    back = {tp: state.draining[tp] for tp in drained if tp in state.wanted}
    gone = sorted(tp for tp in drained if tp not in back)
    effects = tuple(_released(state, tp, drained[tp]) for tp in gone)
    state = replace(
        state,
        draining=_without(state.draining, drained),
        kept={**state.kept, **back},
        answered={**state.answered, **dict.fromkeys(gone, state.epoch)},
        due=now,
    )
    state, more = _settle(state, now)
    return state, (*effects, *more)


def given_back(state: WorkerState) -> tuple[Released, ...]:
    """Return the releases of everything held, for after its end: nothing of it is committed any more."""
    held = sorted({*state.active, *state.draining, *state.kept})
    return tuple(_released(state, tp, -1).released for tp in held)


def _released(state: WorkerState, tp: Tp, offset: int) -> SendReleased:
    what = Released(
        group=state.group,
        tp=tp,
        worker=state.me,
        control_id=state.control_id,
        epoch=state.epoch,
        offset=offset,
        failed=tp in state.failed,
    )
    return SendReleased(released=what)


def _beat(state: WorkerState, now: float, effects: tuple[Effect, ...]) -> Step:
    """Rule 6: send a heartbeat if one is due and none is in flight; rule 7: none after twice the longest time held up."""
    if now < state.due or state.in_flight is not None or _held_up_s(state, now) > 2 * state.max_batch_s:
        return state, effects
    heartbeat = Heartbeat(
        group=state.group,
        worker=state.me,
        stamp=now,
        boot_id=state.boot_id,
        acked=state.acked_offset,
        lease_s=state.lease_s,
        epoch=state.epoch,
        phase=_phase(state, now),
        owned={**state.kept, **state.draining, **state.active},
        taken=tuple((tp, epoch, offset) for tp, epoch, offset, _ in state.taken),
        out_of_range=tuple(sorted(state.out_of_range.items())),
        instance=state.instance,
        records=state.totals.records,
        payload_bytes=state.totals.payload_bytes,
        busy_s=state.totals.busy_s,
        ages=state.totals.ages,
        last_progress=state.totals.last_progress,
        exactly_once=state.exactly_once,
    )
    state = replace(
        state,
        first_sent=now if state.first_sent is None else state.first_sent,
        in_flight=now,
        due=now + state.lease_s / HEARTBEATS_PER_LEASE,
        taken=tuple((tp, epoch, offset, times - 1) for tp, epoch, offset, times in state.taken if times > 1),
    )
    return state, (*effects, SendHeartbeat(heartbeat=heartbeat))


def _held_up_s(state: WorkerState, now: float) -> float:
    """Rule 7: for how long the application has not returned, or the control log could not be read; 0 if neither."""
    return max(0.0 if since is None else now - since for since in (state.busy_since, state.read_at))


def _phase(state: WorkerState, now: float) -> Phase:
    if state.leaving:
        return Phase.DRAINING
    if _held_up_s(state, now) > state.max_batch_s:
        return Phase.STUCK
    return Phase.ACTIVE if state.ready else Phase.JOINING


def _without(mapping: Mapping[Tp, _V], gone: Iterable[Tp]) -> dict[Tp, _V]:
    drop = frozenset(gone)
    return {tp: x for tp, x in mapping.items() if tp not in drop}
