"""The controller's side of the handover: what the two logs say about one group, and the next plan (rules 2, 4, 8, 9, 11, 12).

``ControllerState`` is fed every record of the group's control partition and heartbeat partition, each with its offset and the
broker's time, and answers from nothing else: the same records give the same answers, in a restarted controller too. ``next_plan``
(in ``planning``) builds a plan from it. Pure, standard library only; ``adapters.control_log`` reads, publishes and knows slots.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from autoscaler.handover.expiry import HeartbeatLog
from autoscaler.handover.records import (
    HEARD_MOST,
    Expired,
    Grant,
    Heartbeat,
    Incarnation,
    Left,
    Plan,
    Record,
    Released,
    TakeOver,
    Tick,
    Tp,
    Unparked,
    Wait,
)

BY_PLATFORM = "platform"
BY_HEARTBEATS = "heartbeats"
_LEFT = "left"
_ENDED_KEPT = 10_000  # instances; each start of a worker adds one


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A worker's latest heartbeat, where it lies, and when the broker took the first one of this incarnation."""

    heartbeat: Heartbeat
    offset: int
    at: float
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A partition that has arrived at its planned owner."""

    tp: Tp
    topic: str
    epoch: int
    source: Incarnation | None  # who had it planned before; ``None`` for a first owner
    owner: Incarnation
    released_at: float | None  # broker's time of its release; ``None`` where no worker released it
    taken_at: float  # broker's time of the new owner's first heartbeat that names it
    offset: int  # where the new owner began; -1 if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    epoch: int
    offset: int
    at: float
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """An incarnation's first heartbeat that names a partition under an epoch; ``seen`` if the taking itself was witnessed."""

    epoch: int
    at: float
    offset: int
    seen: bool


@dataclass(slots=True)
class ControllerState:
    """One group as its logs say; records of other groups and of another control topic are ignored."""

    group: str
    control_id: str
    lease_s: float
    plan: Plan | None = None  # the latest committed plan of this control topic
    controller: TakeOver | None = None  # the latest controller; ``None`` before the first
    over: dict[Incarnation, str] = field(default_factory=dict)  # workers that are expired (and by what evidence) or have left
    beats: dict[Incarnation, Beat] = field(default_factory=dict)
    log: HeartbeatLog = field(init=False)  # the heartbeat log as evidence of time passed
    heard_epoch: int = 0  # the highest epoch that a heartbeat of this group has named, of whichever control topic
    heard_number: int = 0  # the highest number that a controller's tick of this group has named
    _released: dict[Tp, dict[Incarnation, _Release]] = field(default_factory=dict)
    _owners: frozenset[Incarnation] = frozenset()  # of the plan: most looks find that none of them is over
    _left: set[Incarnation] = field(default_factory=set)
    _unparked: dict[Tp, int] = field(default_factory=dict)  # highest epoch at which an operator released it
    _held: dict[Incarnation, dict[Tp, _Held]] = field(default_factory=dict)
    _sources: dict[Tp, tuple[int, Incarnation | None]] = field(default_factory=dict)  # granting epoch, planned owner before
    _reported: dict[Tp, int] = field(default_factory=dict)
    _ended: dict[str, None] = field(default_factory=dict)
    _fenced: set[Incarnation] = field(default_factory=set)
    _heard_at: float = math.inf  # broker's time of the latest record of the heartbeat log
    _silent_before: int = -1  # its offset after no worker at all had been heard for half a lease

    def __post_init__(self) -> None:
        """Begin with an empty heartbeat log."""
        self.log = HeartbeatLog(self.lease_s)

    # --- folding ---

    def fold(self, record: Record, *, offset: int, at: float) -> None:
        """Take one record, in log order; ``at`` is the broker's time in seconds."""
        match record:
            case Heartbeat():
                self._hear(offset, at)
                self._fold_heartbeat(record, offset, at)
            case Tick():
                self._hear(offset, at)
                self._fold_tick(record, offset)
            case Plan():
                self._fold_plan(record)
            case TakeOver() if self._ours(record.group, record.control_id):
                self.controller = record
            case Released() if self._ours(record.group, record.control_id):
                mine = self._released.setdefault(record.tp, {})
                if (old := mine.get(record.worker)) is None or record.epoch >= old.epoch:
                    mine[record.worker] = _Release(epoch=record.epoch, offset=record.offset, at=at, failed=record.failed)
            case Expired() if self._ours(record.group, record.control_id):
                self.over[record.worker] = record.evidence
            case Left() if self._ours(record.group, record.control_id):
                self.over.setdefault(record.worker, _LEFT)
                self._left.add(record.worker)
            case Unparked() if self._ours(record.group, record.control_id):
                self._unparked[record.tp] = max(record.epoch, self._unparked.get(record.tp, 0))
            case _:
                pass  # another group's, or of a control topic that is no more

    def forget(self, key: tuple[str | int, ...]) -> None:
        """Take a tombstone of the control log."""
        match key:
            case ("expired" | "left" as kind, self.group, str(name), str(uuid)):
                self._forget_over(Incarnation(name, uuid), kind)
            case ("unparked", self.group, str(topic), int(partition)):
                self._unparked.pop(Tp(topic, partition), None)
            case ("released", self.group, str(topic), int(partition), str(name), str(uuid)):
                self._released.get(Tp(topic, partition), {}).pop(Incarnation(name, uuid), None)
            case _:
                pass

    def _forget_over(self, worker: Incarnation, kind: str) -> None:
        """Take the tombstone of one of the two records that say that a worker is over; its other one may not have come (0030)."""
        if kind == "expired" and worker in self._left:
            self.over[worker] = _LEFT
            return
        self._left.discard(worker)
        if kind == "left" and self.over.get(worker, _LEFT) != _LEFT:
            return
        for known in (self.over, self.beats, self._held):
            known.pop(worker, None)
        self._fenced.discard(worker)

    def ended(self, instances: Iterable[str]) -> None:
        """Remember instances that the platform saw end (rule 8a); incarnations that name them are over, known now or later."""
        for instance in instances:
            self._ended.setdefault(instance)
        while len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def fenced(self, worker: Incarnation) -> None:
        """Take that a worker's transactional id has been taken from it: it completes no transaction any more."""
        self._fenced.add(worker)

    def _ours(self, group: str, control_id: str) -> bool:
        return group == self.group and control_id == self.control_id

    def _fold_plan(self, plan: Plan) -> None:
        if not self._ours(plan.group, plan.epoch.control_id) or (self.plan and plan.epoch.number <= self.plan.epoch.number):
            return
        before = self.plan.grants if self.plan else {}
        for tp, grant in plan.grants.items():
            if self._sources.get(tp, (0, None))[0] != grant.epoch:
                # After compaction the waits tell it; those of a first plan name every worker.
                named = [w.worker for w in plan.waits.get(tp, ()) if w.epoch == grant.epoch > 1]
                previous = before[tp].owner if tp in before else (named[0] if named else None)
                self._sources[tp] = (grant.epoch, previous)
        self.plan, self._owners = plan, frozenset(g.owner for g in plan.grants.values())

    def _hear(self, offset: int, at: float) -> None:
        if at - self._heard_at > self.lease_s / 2:
            self._silent_before = offset
        self._heard_at = at

    def _fold_tick(self, tick: Tick, offset: int) -> None:
        self.log.add(tick.incarnation, boot_id=tick.boot_id, stamp=tick.stamp, acked=tick.acked, offset=offset)
        if tick.group == self.group and tick.number <= HEARD_MOST:
            self.heard_number = max(self.heard_number, tick.number)

    def _fold_heartbeat(self, beat: Heartbeat, offset: int, at: float) -> None:
        self.log.add(beat.worker.uuid, boot_id=beat.boot_id, stamp=beat.stamp, acked=beat.acked, offset=offset)
        if beat.group != self.group:
            return
        self.heard_epoch = max(self.heard_epoch, *(e for e in (0, beat.epoch, *beat.owned.values()) if e <= HEARD_MOST))
        old = self.beats.get(beat.worker)
        held, taken = self._held.get(beat.worker, {}), {(tp, epoch): first for tp, epoch, first in beat.taken}
        now: dict[Tp, _Held] = {}
        for tp, epoch in beat.owned.items():
            known = held.get(tp)
            if known is not None and known.epoch == epoch:
                now[tp] = known
            else:
                seen = old is not None or (tp, epoch) in taken
                now[tp] = _Held(epoch=epoch, at=at, offset=taken.get((tp, epoch), -1), seen=seen)
        self._held[beat.worker] = now
        first = old.first_offset if old else offset
        self.beats[beat.worker] = Beat(heartbeat=beat, offset=offset, at=at, first_offset=first)

    # --- answers ---

    @property
    def number(self) -> int:
        """Return the highest number of a controller that either log names; 0 before the first."""
        return max(self.heard_number, 0 if self.controller is None else self.controller.number)

    def superseded(self, incarnation: str, number: int) -> bool:
        """Return whether another controller has taken over from the controller of this incarnation and number (rule 1).

        Only that is proof: being fenced is none, because a predecessor may do it who does not know yet that it is one.
        """
        latest = self.controller
        return latest is not None and latest.number > number and latest.incarnation != incarnation

    def named(self) -> dict[Incarnation, float]:
        """Return every incarnation that the plan names or a heartbeat showed, with its lease in seconds, over or not."""
        out = dict(self.plan.leases_s) if self.plan else {}
        if self.plan:
            for worker in named_by(self.plan):
                out.setdefault(worker, self.lease_s)
        out.update({w: b.heartbeat.lease_s for w, b in self.beats.items()})
        return out

    def exactly_once(self, worker: Incarnation) -> bool:
        """Return whether a worker commits in transactions: by its heartbeat or, where that is gone, by the plan."""
        beat = self.beats.get(worker)
        return (beat is not None and beat.heartbeat.exactly_once) or (self.plan is not None and worker in self.plan.exactly_once)

    def to_fence(self) -> tuple[Incarnation, ...]:
        """Return whose transactional id must be taken before they may be said to be over (rule 8)."""
        return tuple(w for w in sorted(self.overdue()) if self.exactly_once(w) and w not in self._fenced)

    def to_expire(self) -> dict[Incarnation, str]:
        """Return the workers to be recorded as over, with the evidence: none that could still complete a transaction (rule 8).

        A new owner reads the committed offset once this is in the log; what is committed after that would be processed twice.
        """
        unfenced = frozenset(self.to_fence())
        return {w: evidence for w, evidence in self.overdue().items() if w not in unfenced}

    def overdue(self) -> dict[Incarnation, str]:
        """Return the workers that are over but not yet recorded as such, with the evidence (rule 8)."""
        horizons: dict[float, int] = {}
        out = {}
        for worker, lease_s in self.named().items():
            if worker in self.over:
                continue
            beat = self.beats.get(worker)
            if beat is not None and beat.heartbeat.instance in self._ended:
                out[worker] = BY_PLATFORM
                continue
            if lease_s not in horizons:
                horizons[lease_s] = self.log.horizon(lease_s)
            last = max(beat.offset if beat else -1, self.log.floor)
            if last < horizons[lease_s]:
                out[worker] = BY_HEARTBEATS
        return out

    def silence_proven(self) -> bool:
        """Return whether a worker without a record in the heartbeat log must be over: what a first plan needs (rule 12)."""
        return self.log.floor < self.log.horizon(self.lease_s)

    def unreleased(self, tp: Tp) -> tuple[Wait, ...]:
        """Return the waits of a partition that are not satisfied yet (rule 4)."""
        waits = self.plan.waits.get(tp, ()) if self.plan else ()
        return tuple(w for w in waits if not self._satisfied(tp, w))

    def has_taken(self, tp: Tp, grant: Grant) -> bool:
        """Return whether the planned owner's heartbeats say that it holds the partition under this grant.

        A worker that was told to give a partition up and given it back before it had, keeps it under the older epoch: it holds
        it too, once it has read the plan.
        """
        beat = self.beats.get(grant.owner)
        if beat is None or tp not in beat.heartbeat.owned:
            return False
        return beat.heartbeat.owned[tp] == grant.epoch or beat.heartbeat.epoch >= grant.epoch

    def orphans(self) -> frozenset[Tp]:
        """Return the planned partitions whose owner is over."""
        return frozenset(tp for tp, _ in self._orphaned())

    def lost(self) -> dict[Tp, Grant]:
        """Return the planned partitions that their owner lost, with the grant that it had (rule 9).

        A worker that gave a partition back in order, or never could have begun, has not lost it: a rolling deployment is no loss.
        Nor has one that was heard last before a silence of all, controllers too, for half a lease: the brokers were away, and
        took no commit either. Whether an expired owner had begun is not asked, because a record may end the process before a
        heartbeat says so.
        """
        return {tp: g for tp, g in self._orphaned() if self._lost(tp, g)}

    def out_of_range(self) -> dict[Tp, int]:
        """Return the partitions that stand still at their planned owner because this committed offset is out of range."""
        return {
            tp: offset
            for worker, beat in self.beats.items()
            for tp, offset in beat.heartbeat.out_of_range
            if worker not in self.over and self.plan and tp in self.plan.grants and self.plan.grants[tp].owner == worker
        }

    def parked(self) -> dict[Tp, int]:
        """Return the parked partitions that no operator has released, and the epoch that parked each (rule 9)."""
        plan = self.plan.parked if self.plan else {}
        return {tp: epoch for tp, epoch in plan.items() if self._unparked.get(tp, 0) < epoch}

    def unparked(self) -> frozenset[Tp]:
        """Return the partitions that the latest plan parks and an operator has released since."""
        return frozenset(self.plan.parked if self.plan else ()) - frozenset(self.parked())

    def unattended(self) -> frozenset[Tp]:
        """Return the partitions whose offsets only the controller can keep (rule 10): parked, or their owner is gone."""
        return frozenset(self.parked()) | self.orphans()

    def pending(self) -> frozenset[Tp]:
        """Return the planned partitions whose owner is not over and has not taken them yet."""
        return frozenset(tp for tp, g in self._grants() if g.owner not in self.over and not self.has_taken(tp, g))

    def moved(self) -> tuple[Moved, ...]:
        """Return the partitions that have arrived since the last call, each once per granting epoch.

        After a restart, takings still in the heartbeat log are told again: the audit records them by partition and epoch.
        """
        out = []
        for tp, grant in sorted(self._grants()):
            held = self._held.get(grant.owner, {}).get(tp)
            if held is None or held.epoch != grant.epoch or self._reported.get(tp) == grant.epoch:
                continue
            self._reported[tp] = grant.epoch
            if held.seen:
                out.append(self._arrival(tp, grant, held))
        return tuple(out)

    def forgettable(self, log_start: int) -> tuple[tuple[str | int, ...], ...]:
        """Return the keys to delete of incarnations and releases that matter no more (rule 11), in the fenced transaction.

        A heartbeat older than ``log_start``, the first offset still in the heartbeat log, cannot bring an incarnation back.
        """
        named = named_by(self.plan) if self.plan else frozenset()
        gone = [w for w in self.over if w not in named and (w not in self.beats or self.beats[w].offset < log_start)]
        if self.silence_proven():  # died with a heartbeat log that is no more: no worker waits for it
            known = named | self.over.keys() | self.beats.keys()
            gone += {w for releases in self._released.values() for w in releases} - known
        keys: list[tuple[str | int, ...]] = []
        for worker in sorted(gone):
            keys += [(kind, self.group, worker.name, worker.uuid) for kind in ("expired", "left")]
            keys += [
                ("released", self.group, tp.topic_id, tp.partition, worker.name, worker.uuid)
                for tp in sorted(t for t, r in self._released.items() if worker in r)
            ]
        done = sorted(frozenset(self._unparked) - self.unparked()) if self.plan else []
        return (*keys, *(("unparked", self.group, tp.topic_id, tp.partition) for tp in done))

    def spent(self) -> tuple[tuple[str | int, ...], ...]:
        """Return the keys of releases that are needed no more, to delete with the next plan (rule 11).

        Needed are those that the latest plan waits for, those of a partition that has not arrived yet, and its owners' own, which
        say whether they lost it. What the next plan waits for is written after it, so no release that counts can be deleted.
        """
        if self.plan is None:
            return ()
        needed = {(tp, w.worker) for tp, waits in self.plan.waits.items() for w in waits}
        needed |= {(tp, g.owner) for tp, g in self._grants()}
        pending = self.pending()
        return tuple(
            ("released", self.group, tp.topic_id, tp.partition, worker.name, worker.uuid)
            for tp, releases in sorted(self._released.items())
            if tp not in pending
            for worker in sorted(releases)
            if (tp, worker) not in needed
        )

    def _grants(self) -> Iterable[tuple[Tp, Grant]]:
        return self.plan.grants.items() if self.plan else ()

    def _lost(self, tp: Tp, grant: Grant) -> bool:
        release = self._released.get(tp, {}).get(grant.owner)
        if release is not None and release.epoch >= grant.epoch:
            return release.failed
        beat = self.beats.get(grant.owner)
        if beat is not None and beat.offset < self._silent_before:
            return False
        if grant.owner in self._left:
            return beat is not None and tp in beat.heartbeat.owned
        return not self.unreleased(tp)

    def _orphaned(self) -> Iterable[tuple[Tp, Grant]]:
        gone = self._owners & self.over.keys()
        return ((tp, g) for tp, g in self._grants() if g.owner in gone) if gone else ()

    def _satisfied(self, tp: Tp, wait: Wait) -> bool:
        if wait.worker in self.over:
            return True
        release = self._released.get(tp, {}).get(wait.worker)
        return release is not None and release.epoch >= wait.epoch

    def _arrival(self, tp: Tp, grant: Grant, held: _Held) -> Moved:
        source = self._sources.get(tp, (0, None))[1]
        release = self._released.get(tp, {}).get(source) if source is not None else None
        released = release if release is not None and release.epoch >= grant.epoch else None
        topics = self.plan.topics if self.plan else {}
        return Moved(
            tp=tp,
            topic=topics.get(tp.topic_id, tp.topic_id),
            epoch=grant.epoch,
            source=source,
            owner=grant.owner,
            released_at=released.at if released else None,
            taken_at=held.at,
            offset=held.offset if held.offset >= 0 or released is None else released.offset,
        )


def named_by(plan: Plan) -> frozenset[Incarnation]:
    """Return every incarnation that a plan names, as owner or in a wait."""
    return frozenset({g.owner for g in plan.grants.values()} | {w.worker for waits in plan.waits.values() for w in waits})
