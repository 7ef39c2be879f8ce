"""Rules for a group that keeps Kafka's own membership: only the number of its consumers is set, and only when it is settled."""

from dataclasses import replace

from autoscaler.core.assignors.consumer_count import Count, Remedy, choose
from autoscaler.core.assignors.forecast import Forecast, Roof, fits, forecast
from autoscaler.core.assignors.group_model import Assignor, NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable
from autoscaler.core.cycle.context import Cycle, Step, many, rate_text
from autoscaler.core.group.limits import Steps
from autoscaler.core.group.observed_group import complete, numbered
from autoscaler.core.guards.conditions import Change, in_vain_text
from autoscaler.core.guards.table import first_objection, least_consumers, most_consumers, to_give_back
from autoscaler.core.rules.catch_up import as_urgent, catching_up
from autoscaler.core.sizing.native_outlook import roofs
from autoscaler.model import Reason


def refuse_managed(cycle: Cycle) -> Step | None:
    """Touch nothing where workers of a plan live under the same group id."""
    state = cycle.observation.state
    if state is None:
        return None
    detail = (
        f"{many(len(state.workers), 'managed worker')} of this group live and follow plan {state.epoch}: "
        "end them (autoscaler workers stop), or set assignment to managed"
    )
    return Step(reason=Reason.PAUSED, detail=detail, inert=True, counted=True)


def settle(cycle: Cycle) -> Step | None:
    """Wait until Kafka counts as many members as run; say so when that takes longer than a consumer needs to start."""
    started, members = cycle.observation.started, cycle.observation.members
    if started is None or members is None:
        return None
    there = len(members.members)
    if started.requested is None:
        return _strangers(cycle) if there else None
    if complete(cycle.observation):
        return None
    if not started.requested and not there:
        return None
    return hold(cycle, "until they are as many")


def waited(cycle: Cycle) -> float:
    """Return for how long members have been awaited, in seconds."""
    return 0.0 if cycle.history.waiting_since is None else cycle.now - cycle.history.waiting_since


def hold(cycle: Cycle, until: str) -> Step:
    """Do nothing else until members and consumers agree; say so when that takes longer than a consumer needs to start."""
    started, members = cycle.observation.started, cycle.observation.members
    requested, running = (started.requested or frozenset(), started.running) if started else (frozenset(), frozenset())
    lasted, limit_s = waited(cycle), cycle.policy.worker_start_timeout_s
    said = (
        f"{many(len(requested), 'consumer')} asked for, {len(running)} running, "
        f"{many(_now(cycle), 'member')} in the group ({members.state if members else 'UNKNOWN'}) for {lasted:.0f} s"
    )
    reason, detail = Reason.NOT_READY, f"{said}: nothing else is done {until}"
    if lasted > limit_s:
        reason = Reason.GROUP_DIFFERS
        detail = f"{said}, longer than worker_start_timeout_s {limit_s:g}: see their logs, and who else subscribes with this id"
    return Step(reason=reason, detail=detail, requested=requested, waiting=True, inert=True, counted=True)


def _strangers(cycle: Cycle) -> Step:
    detail = (
        f"{many(_now(cycle), 'member')} consume that were not started from here: stop them first, and the first decision starts "
        "as many as the load needs; or set mode to advise and set their number yourself"
    )
    return Step(reason=Reason.GROUP_DIFFERS, detail=detail, requested=frozenset(), inert=True, counted=True)


def start_first(cycle: Cycle) -> Step | None:
    """Ask for as many as the load needs at least when nobody consumes: who assigns, and how, shows only then."""
    members = cycle.observation.members
    if members is None or members.members or not cycle.load.rates:
        return None
    count = min(max(cycle.floor, cycle.size.lower_bound), max(cycle.floor, most_consumers(cycle, hard_only=True).count))
    detail = (
        f"nobody consumes {many(len(cycle.load.partitions), 'partition')} with {rate_text(cycle.load.total_bytes_per_s)}; "
        f"it takes {count} at least, how many more depends on their assignor"
    )
    return Step(reason=Reason.PARTITIONS_CHANGED, detail=detail, requested=numbered(cycle.observation, count), counted=True)


def refuse_unpredictable(cycle: Cycle) -> Step | None:
    """Change nothing where nobody can say what another number of consumers would get."""
    if cycle.outlook is None or not isinstance(cycle.outlook.group, Unpredictable):
        return None
    return Step(reason=Reason.ASSIGNOR_UNPREDICTABLE, detail=cycle.outlook.group.why, inert=True, counted=True)


def keep_bounds(cycle: Cycle) -> Step | None:
    """Come down to the most that may be, or up to the least, as after the settings were changed or a window has begun."""
    now, orders = _now(cycle), cycle.orders
    if now > orders.most:
        detail = f"{now} consume and {orders.most_setting} is {orders.most}"
        return _if_dynamic(cycle, _ask(cycle, orders.most, orders.at_most, detail))
    if now < cycle.floor:
        return _ask(cycle, cycle.floor, orders.at_least, f"{orders.least_setting} asks for {cycle.floor}, {now} consume")
    return None


def give_back(cycle: Cycle) -> Step | None:
    """Come down to the number before the steps up that were in vain, where the operator asks for that."""
    count = to_give_back(cycle)
    if count is None:
        return None
    said = f"{in_vain_text(cycle)}; {count} drained as much"
    return _if_dynamic(cycle, _ask(cycle, count, Reason.SCALING_DID_NOT_HELP, said))


def grow(cycle: Cycle) -> Step | None:
    """Ask for more when a consumer is overloaded, or holds more than it reads in time, and the assignor makes use of more."""
    if cycle.risks and (step := _grown(catching_up(cycle))) is not None:
        return as_urgent(cycle, step)
    return _grown(cycle)


def _grown(cycle: Cycle) -> Step | None:
    group, size, policy, now = _group(cycle), cycle.size, cycle.policy, _now(cycle)
    strains = _strains(cycle)
    if group is None or not strains:
        return None
    bound = most_consumers(cycle)
    most = max(now, bound.count)
    count = choose(group, cycle.load.rates, roofs(policy)[0], at_least=max(cycle.floor, now), at_most=most)
    hot = max(strains, key=lambda c: (strains[c], -c))
    load = size.loads[hot]
    detail = f"consumer {hot} with {rate_text(load)} is above {rate_text(policy.overload_bytes_per_s)}"
    limit = None if count.enough else _limit(cycle, count)
    gained = count.best is not None and count.best.consumers > now and count.strain < _worth(cycle, strains[hot])
    if count.best is None or not gained:
        why = f"more consumers would not relieve it with assignor {group.assignor}"
        if bound.count <= now:  # none were looked at
            why = bound.said or f"{bound.guard.name} allows {bound.count}"
        said = f"{detail}; {why}{_remedies(cycle, count)}"
        return Step(
            reason=Reason.RATE_ABOVE_CAPACITY, limited_by=limit or Reason.ASSIGNOR_LIMIT, detail=said, hot=size.hot, counted=True
        )
    said = f"{detail}; {_foretold(group, count.best)}{'' if count.enough else _remedies(cycle, count)}"
    wanted = numbered(cycle.observation, count.best.consumers)
    return Step(reason=Reason.RATE_ABOVE_CAPACITY, limited_by=limit, detail=said, hot=size.hot, requested=wanted, counted=True)


def _strains(cycle: Cycle) -> dict[int, float]:
    """Return the strain of every overloaded consumer that others could help: not of one whose largest partition is its load."""
    policy, present = cycle.policy, cycle.present
    roof = Roof(policy.overload_bytes_per_s, policy.overload_bytes_per_s, policy.tolerance_ratio)
    held = {c: [p for p, owner in present.owner.items() if owner == c] for c in cycle.size.overloaded}
    helped = [c for c, ps in held.items() if roof.strain([ps], cycle.load.rates) > 1]
    return {c: roofs(policy)[0].strain([held[c]], cycle.load.rates) for c in helped}


def _worth(cycle: Cycle, strain: float) -> float:
    """Return what the worst off may be strained at most after a step for it to be worth a rebalance."""
    return strain * (1 - cycle.policy.tolerance_ratio)


def shrink(cycle: Cycle) -> Step | None:
    """Ask for fewer when they would do under this assignor, and have done for as long as is remembered."""
    group, outlook, policy, now = _group(cycle), cycle.outlook, cycle.policy, _now(cycle)
    if group is None or outlook is None or outlook.calm is None or outlook.calm >= now:
        return None
    idle = sum(not c.owned for c in group.consumers)
    detail = (
        f"{rate_text(cycle.load.total_bytes_per_s)} would fit on {outlook.calm} of {many(now, 'consumer')} with "
        f"{policy.tolerance_ratio:.0%} to spare under assignor {group.assignor}" + (f"; {idle} hold nothing now" if idle else "")
    )
    static = _if_dynamic(cycle, waits := Step(reason=Reason.UNDERUSED, detail=detail, counted=True))
    if static is not waits:
        return static
    bound, needed = least_consumers(cycle), max(cycle.history.peak(), outlook.calm)
    least = max(needed, bound.count)
    objection = first_objection(cycle, Change(kind=Steps.SHRINK, consumers=least, target=None, ordered=False))
    if objection is not None:
        guard, said = objection
        return Step(reason=Reason.UNDERUSED, limited_by=guard.reason, detail=f"{detail}; {said}", counted=True)
    for count in range(least, now):  # an assignor may serve a number worse than a smaller one
        if count >= len(cycle.load.partitions) or fits(group, cycle.load.rates, count, roofs(policy)[1]):
            step = _ask(cycle, count, Reason.UNDERUSED, detail)
            if not max(needed, cycle.floor) < count == bound.count:
                return step
            return replace(step, limited_by=bound.guard.reason, detail=f"{step.detail}; {bound.guard.name} allows {count}")
    return Step(reason=Reason.UNDERUSED, limited_by=Reason.STABILISING, detail=f"{detail}; {least} were needed", counted=True)


def _if_dynamic(cycle: Cycle, step: Step) -> Step:
    """Return a step that takes consumers away, or nothing in its place where their partitions would stand still."""
    members = cycle.observation.members
    if members is None or not any(m.instance is not None for m in members.members):
        return step
    said = f"{step.detail}; members are static: what one that ends has held stands still until its session is over"
    return Step(reason=step.reason, limited_by=Reason.STATIC_MEMBERS, detail=said, counted=True)


def _ask(cycle: Cycle, count: int, reason: Reason, detail: str) -> Step:
    group = _group(cycle)
    told = forecast(group, cycle.load.rates, count) if group is not None and cycle.load.rates else None
    said = f"{detail}; {_foretold(group, told)}" if group is not None and told is not None else detail
    return Step(reason=reason, detail=said, requested=numbered(cycle.observation, count), counted=True)


def _now(cycle: Cycle) -> int:
    return len(cycle.observation.members.members) if cycle.observation.members is not None else 0


def _group(cycle: Cycle) -> NativeGroup | None:
    outlook = cycle.outlook
    return outlook.group if outlook is not None and isinstance(outlook.group, NativeGroup) else None


def _limit(cycle: Cycle, count: Count) -> Reason:
    """Return what keeps the group from the number it needs."""
    group = _group(cycle)
    if count.oversized:
        return Reason.PARTITION_EXCEEDS_CAPACITY
    same = group is not None and any(r.assignor is group.assignor for r in count.remedies)
    return most_consumers(cycle).guard.reason if same else Reason.ASSIGNOR_LIMIT


def _foretold(group: NativeGroup, told: Forecast) -> str:
    span = rate_text(told.high) if told.sure else f"{rate_text(told.low)} to {rate_text(told.high)}"
    idle = f", {told.idle} without a partition" if told.idle else ""
    together = abs(told.consumers - len(group.consumers)) > 1 and group.assignor is Assignor.UNIFORM
    doubt = ", which cannot be foretold for several that come or go together" if together else ""
    return f"{many(told.consumers, 'consumer')} with assignor {group.assignor}: the hottest gets {span}{idle}{doubt}"


def _remedies(cycle: Cycle, count: Count) -> str:
    """Say what would be enough."""
    if count.oversized:
        return f"; {many(count.oversized, 'partition')} alone are above it: spread their keys, or add partitions to the topic"
    ways = [_way(r, cycle) for r in count.remedies]
    return f"; what would be enough: {', '.join(ways)}" if ways else ""


def _way(remedy: Remedy, cycle: Cycle) -> str:
    group = _group(cycle)
    if remedy.assignor is None:
        return f"{remedy.consumers} placed by load (assignment managed)"
    same = group is not None and remedy.assignor is group.assignor
    return f"{remedy.consumers} with assignor {remedy.assignor}" + (
        f" (more than {most_consumers(cycle).guard.name} allows)" if same else ""
    )


def doubt(cycle: Cycle) -> str:
    """Say what the consumers of a native group show that speaks against the capacity that is configured for one."""
    capacity, drains = cycle.policy.capacity_bytes_per_s, cycle.history.consumer_drains
    if capacity is None:
        return ""  # what they show is what is gone by
    if slow := drains.too_slow(capacity):
        looks, who, (rate, times) = "high", "consumers that are behind drain at most", slow
    elif fast := drains.too_fast(capacity):
        looks, who, (rate, times) = "low", "a consumer drains", fast
    else:
        return ""
    seen = f"in {times} half minutes of the last hour"
    return f"capacity_bytes_per_s {rate_text(capacity)} looks too {looks}: {who} {rate_text(rate)} ({seen})"
