"""How one cycle begins: from what was observed, remembered and asked for to what the rules look at."""

from dataclasses import replace

from autoscaler.config.policy import Policy
from autoscaler.core.assignors.group_reader import Unpredictable
from autoscaler.core.capacity.capacity import Capacity, in_use
from autoscaler.core.capacity.drain_throughput import STILL_S, Drains
from autoscaler.core.cycle.context import Cycle
from autoscaler.core.cycle.utilisation import read_gauge
from autoscaler.core.group.advice import Advice, latest_advice
from autoscaler.core.group.history import History
from autoscaler.core.group.kinds import Kind, Managed, Native, Unread, kind_of
from autoscaler.core.group.limits import read_limits
from autoscaler.core.group.observed_group import Present, read_present
from autoscaler.core.load.backlog import rates_to_catch_up
from autoscaler.core.load.group_load import GroupLoad, read_load, sound
from autoscaler.core.load.partition_progress import Holding, Progress, judged
from autoscaler.core.load.retention_risk import find_risks
from autoscaler.core.sizing.native_outlook import counts_by_assignor, look_ahead, sized
from autoscaler.core.sizing.planner import Planner
from autoscaler.core.sizing.raised_load import raised
from autoscaler.core.sizing.size import measure_size
from autoscaler.model import CapacitySource, LoadSnapshot, Moment, Observation, Started
from autoscaler.packing import Gauge

_START_S = 10.0  # that consumers take to be there, until that was seen
_BURSTS = 1.5  # times as much as a burst brings is a backlog
_STILL = frozenset({Progress.STALL, Progress.STOP, Progress.POISON})  # no number of consumers reads these in time


def read_cycle(observation: Observation, history: History, policy: Policy, moment: Moment) -> Cycle:
    """Return the inputs of one cycle as the rules read them, with the history that this cycle's measurement has become."""
    snapshot, now = sound(observation.snapshot), moment.now
    if snapshot is not observation.snapshot:
        observation = replace(observation, snapshot=snapshot)
    kind = kind_of(observation, policy.assignment)
    consumption = history.consumption.measured(observation.snapshot, moment)
    holding = Holding(held=kind.held, parked=kind.parked, commits_often=kind.by_plan, patience_s=policy.stuck_after_s)
    progress = judged(observation.snapshot, consumption, holding)
    stalled = frozenset(p for p, x in progress.items() if x is Progress.STALL)
    load = read_load(observation.snapshot, policy.topics, policy.stale_after_s, kind.parked, stalled)
    still = frozenset(p for p, x in progress.items() if x in _STILL)
    risks, behind_since = find_risks(
        observation.snapshot,
        observation.retention,
        consumption,
        history.behind_since,
        still=still,
        near_s=policy.retention_risk_s,
        tolerance=policy.tolerance_ratio,
    )
    if behind_since != history.behind_since:
        history = replace(history, behind_since=behind_since)
    present = read_present(kind, load.partitions)
    history = history.measured(consumption, load.fresh).usable(now, load=bool(load.rates) and not load.stale)
    if kind.native:
        history = replace(history, consumer_drains=_drains(observation.snapshot, kind, load, present, history, policy))
    elif kind.by_plan and policy.capacity_bytes_per_s is None:
        history = replace(history, busy=history.busy.measured(observation.snapshot, consumption, kind.workers))
    capacity = _capacity(kind, history, policy)
    policy = policy.with_capacity(capacity.bytes_per_s)
    if capacity.source is CapacitySource.MEASURED:
        history = replace(history, capacity=capacity)
    history, policy = _keeping(kind, load, present, history, policy, now)
    gauge = read_gauge(observation.snapshot, kind.workers, load, busy=history.busy, capacity=capacity, policy=policy)
    planner = Planner.of(policy, history).judging(gauge, [c for c in present.welcome if c in present.paid_for])
    limits = read_limits(policy, moment.wall)
    outlook = look_ahead(observation.snapshot, kind, load, policy, limits)
    placement = policy.mode == "advise" or not (kind.places or counts_by_assignor(outlook))
    size = sized(measure_size(load, present, policy, planner, placement=placement), outlook)
    match kind:
        case Managed():
            history = history.confirmed(present.epoch, now if present.plan_at is None else moment.of(present.plan_at))
        case Native(started=Started() as started) | Unread(started=Started() as started):
            history = history.counted(started, now)
        case _:
            pass  # others set its number
    if load.stale or (kind.native and (outlook is None or isinstance(outlook.group, Unpredictable))):
        history = replace(history, recommendations=())  # what fewer would get is not known
    elif size.calm is not None and not load.unknown and not load.absent:
        history = history.recommended(now, size.calm, policy.shrink_stabilisation_s)
    history = _drained(kind, load, present, history.overload(now, exists=bool(size.overloaded)), policy, now)
    cycle = Cycle(
        observation=observation,
        kind=kind,
        load=load,
        present=present,
        size=size,
        planner=planner,
        history=history,
        policy=policy,
        capacity=capacity,
        limits=limits,
        now=now,
        at=moment.wall,
        progress=progress,
        outlook=outlook,
        risks=risks,
        late=rates_to_catch_up(observation.snapshot.loads, within_s=policy.catch_up_s, behind_s=policy.backlog_s, still=still),
    )
    return replace(cycle, history=replace(history, advice=_advice(cycle, moment)))


def _keeping(  # noqa: PLR0917  what a cycle has read so far
    kind: Kind, load: GroupLoad, present: Present, history: History, policy: Policy, now: float
) -> tuple[History, Policy]:
    """Return history and policy after a look at the ages of the records that a promise is about, if there is one.

    Where consumers do not tell them, a backlog is worked off in the promised time, and all else is as configured.
    """
    within_s, share = policy.promise_within_s, policy.promise_share
    if within_s is None:
        return history, policy
    if not kind.by_plan:
        return history, policy.keeping(behind_s=policy.backlog_s)
    if history.waiting_since is not None and (present.requested or frozenset()) <= present.ready:
        history = replace(history, start_s=now - history.waiting_since)
    loads = {c: x / policy.able_bytes_per_s for c, x in Gauge().levels(load.measured, present.owner, present.live).items()}
    ages = history.ages.seen(kind.workers, loads, within_s, now)
    start_s = _START_S if history.start_s is None else max(1.0, history.start_s)
    kept = policy.keeping(
        target=ages.fullest(within_s, share),
        stay_s=ages.stay_s(share, start_s),
        behind_s=max(within_s / 2, _BURSTS * ages.burst_s(share)) if ages.known else policy.backlog_s,
    )
    return replace(history, ages=ages), kept


def _advice(cycle: Cycle, moment: Moment) -> Advice | None:
    """Return how many consumers rates and backlog take; it comes down once the backlog is worked off, not on the way."""
    known, wanted, snapshot = cycle.history.advice, cycle.size.wanted, cycle.observation.snapshot
    if cycle.late:
        more, planner = raised(cycle.load, cycle.planner, cycle.late, cycle.policy.usable_bytes_per_s)
        ahead = look_ahead(snapshot, cycle.kind, more, cycle.policy, cycle.limits)
        size = sized(measure_size(more, cycle.present, cycle.policy, planner, placement=False), ahead)
        wanted = max(wanted, size.wanted, known.consumers if known else 0)
    settled = not cycle.kind.native or cycle.outlook is not None
    return latest_advice(known, snapshot, cycle.load, wanted, at=moment.of(snapshot.sample_ts), settled=settled)


def _capacity(kind: Kind, history: History, policy: Policy) -> Capacity:
    """Return what one consumer can do, by what the group's own way of consuming shows."""
    so_far = in_use(policy, history.capacity, None).bytes_per_s
    shown = history.consumer_drains.shown(so_far) if kind.native else history.busy.shown
    return in_use(policy, history.capacity, shown)


def _drained(  # noqa: PLR0917  what a cycle has read so far
    kind: Kind, load: GroupLoad, present: Present, history: History, policy: Policy, now: float
) -> History:
    """Return the history with what this cycle shows of the effect of growing, and of what moving costs."""
    if not kind.acting:
        return history  # others set its number
    history = history.handed_over(kind.handed_over)
    if kind.by_plan:
        settled = not present.pending and not present.orphans and (present.requested or frozenset()) <= present.ready
    else:
        settled = kind.complete and history.consumption.commits_often
    if policy.give_up_after is None or load.unknown or load.absent:
        return history
    drained = history.drained.judged(
        history.consumption,
        now,
        settled=settled,
        behind=bool(load.behind_since_unknown) or (load.lag_s is not None and load.lag_s > policy.backlog_s),
        tolerance=policy.tolerance_ratio,
    )
    return history if drained is history.drained else replace(history, drained=drained)


def _drains(  # noqa: PLR0917  what a cycle has read so far
    snapshot: LoadSnapshot, kind: Kind, load: GroupLoad, present: Present, history: History, policy: Policy
) -> Drains:
    """Return what a native group's consumers have shown by now; one that rebalances or stands still shows nothing."""
    owner, drains = present.owner, history.consumer_drains
    if not kind.native or not kind.stable or load.halted:
        return drains.interrupted()
    tracks, at = history.consumption.tracks, history.consumption.at or 0.0
    late = {x.partition for x in snapshot.loads if x.lag_s is not None and x.lag_s > policy.backlog_s}
    advancing = {p for p, t in tracks.items() if t.still_since is None or at - t.still_since < STILL_S}
    behind = frozenset(owner[p] for p in late & advancing & owner.keys())
    return drains.measured(history.consumption, owner, behind)
