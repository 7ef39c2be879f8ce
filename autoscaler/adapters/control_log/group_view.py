"""One group's ``GroupState``, in slots and topic names, from what its logs say.

Between ``handover.controller_state`` (incarnations, topic ids) and the decision (slots, topic names). Reads no client.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from types import MappingProxyType

from autoscaler.handover.controller_state import Beat, ControllerState, Moved
from autoscaler.handover.records import AGE_BOUNDS_S, Incarnation, Loss, Phase, Tp
from autoscaler.model import GroupState, HandoverDone, OutOfRange, Parked, TopicPartition, WorkerPhase, WorkerView

SlotOf = Callable[[str], int | None]
_LATENCY_SPAN_S = 10.0


def active_by_slot(state: ControllerState, slot_of: SlotOf) -> dict[int, Incarnation]:
    """Return the newest active incarnation of every slot that has one; plans bind slots to these."""
    beats = [b for w, b in state.beats.items() if w not in state.over and b.heartbeat.phase is Phase.ACTIVE]
    return {s: w for w, s in _newest(beats, slot_of).items()}


def _newest(beats: Iterable[Beat], slot_of: SlotOf) -> dict[Incarnation, int]:
    best: dict[int, Beat] = {}
    for beat in beats:
        slot = slot_of(beat.heartbeat.worker.name)
        if slot is not None and (slot not in best or beat.first_offset > best[slot].first_offset):
            best[slot] = beat
    return {b.heartbeat.worker: s for s, b in best.items()}


class Latencies:
    """Percentiles over each worker's last seconds, from the totals in its heartbeats."""

    def __init__(self) -> None:
        self._seen: dict[Incarnation, deque[tuple[float, tuple[int, ...]]]] = {}
        self._told: dict[Incarnation, tuple[int, ...]] = {}

    def note(self, worker: Incarnation, at: float, ages: tuple[int, ...]) -> None:
        """Take one heartbeat's cumulative counts; ``at`` is the broker's time."""
        seen = self._seen.setdefault(worker, deque())
        seen.append((at, ages))
        while len(seen) > 2 and at - seen[1][0] >= _LATENCY_SPAN_S:  # noqa: PLR2004  the oldest and the newest stay
            seen.popleft()

    def quantile(self, worker: Incarnation, q: float) -> float | None:
        """Return an upper bound of the latency in seconds that the share ``q`` of recent records kept; ``None`` without any."""
        seen = self._seen.get(worker)
        if not seen:
            return None
        newest, oldest = seen[-1][1], seen[0][1] if len(seen) > 1 else ()
        counts = [n - (oldest[i] if i < len(oldest) else 0) for i, n in enumerate(newest)]
        rank, below = q * sum(counts), 0
        for count, bound in zip(counts, (*AGE_BOUNDS_S, AGE_BOUNDS_S[-1]), strict=False):
            below += count
            if count > 0 and below >= rank:
                return bound
        return None

    def fresh(self, worker: Incarnation) -> tuple[tuple[int, int], ...]:
        """Return what a worker has counted since this was asked before: (place, records). Nothing where it never was."""
        seen = self._seen.get(worker)
        if not seen:
            return ()
        now, before = seen[-1][1], self._told.get(worker)
        self._told[worker] = now
        if before is None:
            return ()
        return tuple((i, n - m) for i, (n, m) in enumerate(zip_longest(now, before, fillvalue=0)) if n > m)

    def keep(self, workers: Iterable[Incarnation]) -> None:
        """Forget all other workers."""
        kept = set(workers)
        for worker in [w for w in self._seen if w not in kept]:
            del self._seen[worker]
            self._told.pop(worker, None)


def view(  # noqa: PLR0917  (what a group's state is made of)
    state: ControllerState,
    slot_of: SlotOf,
    latencies: Latencies,
    completed: tuple[Moved, ...],
    names: Mapping[str, str],
    poison: Mapping[Tp, Loss] = MappingProxyType({}),
) -> GroupState:
    """Return the group's state.

    ``completed`` are partitions that have arrived since the last look, ``poison`` those that the next plan is to park.
    ``names`` has the topics that exist now by id: what lay in a topic made anew is left out.
    """
    alive = {w: b for w, b in state.beats.items() if w not in state.over}
    filling = _newest([b for b in alive.values() if b.heartbeat.phase is not Phase.ACTIVE], slot_of)
    active = active_by_slot(state, slot_of)
    filling = {w: s for w, s in filling.items() if s not in active} | {w: s for s, w in active.items()}
    plan = state.plan
    owner = {}
    for tp, grant in plan.grants.items() if plan else ():
        slot = slot_of(grant.owner.name)
        if slot is not None and grant.owner not in state.over and tp.topic_id in names:
            owner[_name(tp, names)] = slot
    return GroupState(
        epoch=plan.epoch.number if plan else 0,
        workers=tuple(_worker(w, alive[w], filling, latencies, names) for w in sorted(alive)),
        owner=owner,
        orphans=_names(state.orphans(), names),
        pending=_names(state.pending(), names),
        requested=frozenset(plan.requested) if plan else None,
        plan_at=plan.at if plan else None,
        completed=tuple(_done(m) for m in completed),
        parked=_parked(state, names, poison),
        out_of_range=_out_of_range(state, names),
    )


def _out_of_range(state: ControllerState, names: Mapping[str, str]) -> dict[TopicPartition, OutOfRange]:
    planned = {
        tp: r.start for tp, r in (state.plan.resets if state.plan else {}).items() if state.out_of_range().get(tp) == r.offset
    }
    return {
        _name(tp, names): OutOfRange(offset=offset, start=planned.get(tp))
        for tp, offset in sorted(state.out_of_range().items())
        if tp.topic_id in names
    }


def _parked(state: ControllerState, names: Mapping[str, str], poison: Mapping[Tp, Loss]) -> dict[TopicPartition, Parked]:
    losses = state.plan.losses if state.plan else {}
    old = {tp: losses[tp] for tp in state.parked() if tp in losses}
    every = {tp: (x, True) for tp, x in old.items()} | {tp: (x, False) for tp, x in poison.items() if tp not in old}
    return {
        _name(tp, names): Parked(owners=x.owners, offset=x.offset, planned=planned)
        for tp, (x, planned) in sorted(every.items())
        if tp.topic_id in names
    }


def _name(tp: Tp, names: Mapping[str, str]) -> TopicPartition:
    return TopicPartition(topic=names[tp.topic_id], partition=tp.partition)


def _names(tps: Iterable[Tp], names: Mapping[str, str]) -> frozenset[TopicPartition]:
    return frozenset(_name(tp, names) for tp in tps if tp.topic_id in names)


def _worker(
    worker: Incarnation, beat: Beat, filling: Mapping[Incarnation, int], latencies: Latencies, names: Mapping[str, str]
) -> WorkerView:
    said = beat.heartbeat
    return WorkerView(
        name=worker.name,
        uuid=worker.uuid,
        slot=filling.get(worker),
        phase=WorkerPhase(said.phase.value),
        instance=said.instance,
        owned=_names(said.owned, names),
        records=said.records,
        payload_bytes=said.payload_bytes,
        busy_s=said.busy_s,
        latency_p50_s=latencies.quantile(worker, 0.5),
        latency_p99_s=latencies.quantile(worker, 0.99),
        ages=latencies.fresh(worker),
    )


def _done(moved: Moved) -> HandoverDone:
    # Releases and takings are stamped by the leaders of two topics: on two brokers their clocks may differ by more.
    pause_s = None if moved.released_at is None else max(0.0, moved.taken_at - moved.released_at)
    return HandoverDone(
        partition=TopicPartition(topic=moved.topic, partition=moved.tp.partition),
        topic_id=moved.tp.topic_id,
        from_worker=moved.source.name if moved.source else None,
        from_uuid=moved.source.uuid if moved.source else None,
        to_worker=moved.owner.name,
        to_uuid=moved.owner.uuid,
        epoch=moved.epoch,
        offset=moved.offset,
        pause_s=pause_s,
        at=moved.taken_at,
    )
