"""Both machines of the handover against a log in memory: delays, losses, crashes, pauses, drifting clocks, one seed per history.

Time is simulated; equal seeds give equal histories. What the world checks by itself raises ``Violation``: two active owners of a
partition, a commit that covers a record nobody processed, and (at the end) a record that nobody processed. A ``Mutation`` breaks
one rule on purpose, so that a test can show that the checks would notice.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from autoscaler.handover import worker_state as machine
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.planning import Intended, next_plan
from autoscaler.handover.records import Expired, Heartbeat, Incarnation, Left, Plan, Released, Tick, Tp

GROUP, CONTROL, TOPIC, LEASE_S = "g", "control-id", "topic-id", 3.0
TPS = tuple(Tp(TOPIC, p) for p in range(4))
WORKERS = ("w-0", "w-1", "w-2")
FAULTS_UNTIL_S, END_S, RECORDS_PER_S = 25.0, 60.0, 5

ControlRecord = Plan | Expired | Released | Left


class Violation(AssertionError):  # noqa: N818  (it is the word)
    """A promise of the protocol was broken."""


class Mutation(Enum):
    """A rule that is broken on purpose."""

    NONE = auto()
    RELEASE_WITHOUT_EPOCH = auto()
    WAIT_NOT_CARRIED = auto()
    RESUME_AFTER_RELEASE = auto()
    LEASE_REVIVED = auto()
    COMMIT_FETCHED = auto()
    ANSWER_WHILE_DRAINING = auto()


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How often what goes wrong, per second and process (or per message)."""

    crash: float = 0.0
    pause: float = 0.0
    leave: float = 0.0
    lose: float = 0.0
    controller: float = 0.0
    slow: float = 0.0

    @property
    def none(self) -> bool:
        """Return whether only planned moves happen."""
        return self == Faults()


CALM = Faults()
ROUGH = Faults(crash=0.02, pause=0.04, leave=0.02, lose=0.02, controller=0.03, slow=0.05)


@dataclass
class Run:
    """One partition at one worker: ``fetched`` records are in the application's hands up to ``processed``."""

    next: int
    fetched: int
    stopping: bool = False


@dataclass(eq=False)
class Process:
    """A worker process; a pause makes it late for everything, a crash ends it."""

    name: str
    rate: float  # of its clock
    state: machine.WorkerState
    paused_until: float = 0.0
    alive: bool = True
    read: int = 0
    sent_until: float = 0.0  # its producer keeps order
    runs: dict[Tp, Run] = field(default_factory=dict)
    gave_up: set[Tp] = field(default_factory=set)  # for RESUME_AFTER_RELEASE

    def clock(self, t: float) -> float:
        return t * self.rate


class World:
    """Everything outside the two machines."""

    def __init__(self, seed: int, faults: Faults, mutation: Mutation = Mutation.NONE) -> None:
        self.rng = random.Random(seed)
        self.faults, self.mutation = faults, mutation
        self.t = 0.0
        self.control: list[ControlRecord] = []
        self.heartbeats: list[Heartbeat | Tick] = []
        self.committed: dict[Tp, int] = {}
        self.processed: dict[Tp, dict[int, int]] = {tp: {} for tp in TPS}
        self.uuids = itertools.count()
        self.order = itertools.count()
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.processes: list[Process] = []
        self.controller = ControllerState(GROUP, CONTROL, LEASE_S)
        self.restart_controller()
        for name in WORKERS:
            self.spawn(name)
        self.later(1.0, self.cycle)

    # --- time and chance ---

    def later(self, delay: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (self.t + delay, next(self.order), what))

    def chance(self, per_s: float, dt: float) -> bool:
        return self.t < FAULTS_UNTIL_S and self.rng.random() < per_s * dt

    def delay(self) -> float:
        slow = self.t < FAULTS_UNTIL_S and self.rng.random() < self.faults.slow
        return self.rng.uniform(0.5, 4.0) if slow else self.rng.uniform(0.001, 0.05)

    def run(self) -> None:
        while self.agenda and self.agenda[0][0] < END_S:
            self.t, _, what = heapq.heappop(self.agenda)
            what()
        for tp in TPS:
            missing = [o for o in range(self.end(tp, FAULTS_UNTIL_S)) if o not in self.processed[tp]]
            if missing:
                raise Violation(f"{tp} stands still at {missing[0]} of {self.end(tp, FAULTS_UNTIL_S)}")
        if self.faults.none and any(n > 1 for done in self.processed.values() for n in done.values()):
            raise Violation(f"a planned move cost a duplicate under {self.faults}")

    def end(self, _tp: Tp, t: float) -> int:
        return int(t * RECORDS_PER_S)

    # --- workers ---

    def spawn(self, name: str) -> None:
        me = Incarnation(name, f"{name}-{next(self.uuids)}")
        state = machine.WorkerState(group=GROUP, me=me, control_id=CONTROL, lease_s=LEASE_S, boot_id=me.uuid, instance=me.uuid)
        process = Process(name, self.rng.uniform(0.98, 1.02), state)
        self.processes.append(process)
        self.later(self.rng.uniform(0, 0.5), lambda: self.turn(process))

    def turn(self, p: Process) -> None:
        """One round of a process: look at the clock, read some of the log, process some records, perhaps commit."""
        dt = self.rng.uniform(0.05, 0.15)
        if not p.alive:
            return
        if self.t < p.paused_until:
            self.later(p.paused_until - self.t, lambda: self.turn(p))
            return
        if self.chance(self.faults.crash, dt):
            p.alive = False
            self.later(self.rng.uniform(0.2, 2), lambda: self.controller.ended([p.state.me.uuid]))
            self.later(self.rng.uniform(0.5, 3), lambda: self.spawn(p.name))
            return
        if self.chance(self.faults.pause, dt):
            p.paused_until = self.t + self.rng.uniform(0.5, 8)
        if self.chance(self.faults.leave, dt):
            self.feed(p, machine.Leave())
        self.feed(p, machine.Elapsed())
        upto = self.rng.randint(p.read, len(self.control))
        records, p.read = tuple(self.control[p.read : upto]), upto
        if records:
            self.feed(p, machine.LogRead(records=tuple(self.seen(r) for r in records)))
        self.work(p)
        self.later(dt, lambda: self.turn(p))

    def seen(self, record: ControlRecord) -> ControlRecord:
        if self.mutation is Mutation.RELEASE_WITHOUT_EPOCH and isinstance(record, Released):
            return replace(record, epoch=10**9)
        return record

    def valid(self, p: Process) -> bool:
        return p.clock(self.t) < p.state.valid_until

    def work(self, p: Process) -> None:
        for tp, run in p.runs.items():
            if not run.stopping:
                run.fetched = min(self.end(tp, self.t), run.fetched + self.rng.randint(0, 3))
            while run.next < run.fetched and self.valid(p) and self.rng.random() < 0.8:
                self.processed[tp][run.next] = self.processed[tp].get(run.next, 0) + 1
                run.next += 1
            if self.rng.random() < 0.2 and self.valid(p) and not run.stopping:
                self.commit(tp, run.fetched if self.mutation is Mutation.COMMIT_FETCHED else run.next)

    def commit(self, tp: Tp, offset: int) -> None:
        if any(o not in self.processed[tp] for o in range(self.committed.get(tp, 0), offset)):
            raise Violation(f"{tp} committed at {offset} over a record that nobody processed")
        self.committed[tp] = offset

    # --- the worker machine's effects ---

    def feed(self, p: Process, event: machine.Event) -> None:
        now = p.clock(self.t)
        if self.mutation is Mutation.LEASE_REVIVED and p.state.acked_stamp is not None:
            p.state = replace(p.state, acked_stamp=max(p.state.acked_stamp, now - LEASE_S / 2))
        if self.mutation is Mutation.RESUME_AFTER_RELEASE:
            back = {tp: e for tp, e in p.state.wanted.items() if tp in p.gave_up and tp not in p.state.active}
            p.state = replace(p.state, kept={**p.state.kept, **back})
        p.state, effects = machine.step(p.state, event, now)
        for effect in effects:
            self.perform(p, effect)

    def reply(self, p: Process, delay: float, event: Callable[[], machine.Event]) -> None:
        """Give an answer to the process that asked, when it runs again, if it still runs and is the same incarnation."""
        me = p.state.me

        def arrive() -> None:
            if not p.alive or p.state.me != me:
                return
            if self.t < p.paused_until:
                self.later(p.paused_until - self.t, arrive)
                return
            self.feed(p, event())

        self.later(delay, arrive)

    def perform(self, p: Process, effect: machine.Effect) -> None:  # noqa: C901  (one case per effect)
        match effect:
            case machine.SendHeartbeat(heartbeat=h):
                self.send_heartbeat(p, h)
            case machine.SendReleased(released=r):
                p.gave_up.add(r.tp)
                self.append(p, r)
            case machine.SendLeft(left=left):
                self.append(p, left)
                p.alive = False
                self.later(self.rng.uniform(0.5, 2), lambda: self.spawn(p.name))
            case machine.StopFetching(tps=tps):
                for tp in tps:
                    if tp in p.runs:
                        p.runs[tp].stopping = True
                    if self.mutation is Mutation.ANSWER_WHILE_DRAINING:
                        early = Released(group=GROUP, tp=tp, worker=p.state.me, control_id=CONTROL, epoch=p.state.epoch, offset=0)
                        self.append(p, early)
                    self.reply(p, self.rng.uniform(0, 1), lambda tp=tp: self.drain(p, tp))  # type: ignore[misc]
            case machine.ReadOffsets(asked=asked):
                self.read_offsets(p, asked)
            case machine.Start(takings=takings):
                for t in takings:
                    self.start(p, t)
            case machine.Lapse():
                p.runs.clear()
                self.later(self.rng.uniform(0.1, 1), lambda: self.rejoin(p))

    def send_heartbeat(self, p: Process, h: Heartbeat) -> None:
        if self.chance(self.faults.lose, 1.0):
            self.reply(p, 0.5, lambda: machine.HeartbeatFailed(stamp=h.stamp))
            return
        arrives, back = self.delay(), self.delay()

        def append() -> None:
            self.heartbeats.append(h)
            offset = len(self.heartbeats) - 1
            self.reply(p, back, lambda: machine.HeartbeatAcked(stamp=h.stamp, offset=offset))

        self.later(arrives, append)

    def append(self, p: Process, record: Released | Left) -> None:
        """Append to the control log, in the order sent, perhaps much later, even if the process is dead by then."""
        if isinstance(record, Released) and self.chance(self.faults.lose, 1.0):
            self.reply(p, 0.5, lambda: machine.ReleaseLost(tp=record.tp, epoch=record.epoch))
            return
        at = p.sent_until = max(p.sent_until, self.t + self.delay())
        self.later(at - self.t, lambda: self.control.append(record))

    def drain(self, p: Process, tp: Tp) -> machine.Event:
        run = p.runs.pop(tp, None)
        if run is None:
            return machine.Drained(offsets=((tp, -1),))
        if self.valid(p):
            while run.next < run.fetched:
                self.processed[tp][run.next] = self.processed[tp].get(run.next, 0) + 1
                run.next += 1
            self.commit(tp, run.next)
        return machine.Drained(offsets=((tp, run.next),))

    def read_offsets(self, p: Process, asked: tuple[tuple[Tp, int], ...]) -> None:
        there, back = self.delay(), self.delay()

        def look() -> None:
            answer = tuple((tp, epoch, self.committed.get(tp)) for tp, epoch in asked)
            self.reply(p, back, lambda: machine.OffsetsRead(offsets=answer))

        self.later(there, look)

    def start(self, p: Process, taking: machine.Taking) -> None:
        for other in self.processes:
            if other is not p and other.alive and taking.tp in other.runs and self.valid(other):
                raise Violation(f"{taking.tp} starts at {p.state.me} while {other.state.me} owns it")
        if taking.unclaimed:
            self.committed[taking.tp] = taking.offset
        p.runs[taking.tp] = Run(taking.offset, taking.offset)

    def rejoin(self, p: Process) -> None:
        if not p.alive:
            return
        if self.t < p.paused_until:
            self.later(p.paused_until - self.t, lambda: self.rejoin(p))
            return
        p.alive = False
        self.append(p, Left(group=GROUP, worker=p.state.me, control_id=CONTROL))
        self.spawn(p.name)

    # --- the controller ---

    def restart_controller(self) -> None:
        self.controller = ControllerState(GROUP, CONTROL, LEASE_S)
        self.controller.log.started(0)
        self.read_control = self.read_heartbeats = 0
        self.incarnation = f"controller-{next(self.uuids)}"
        self.tick_acked: int | None = None

    def cycle(self) -> None:
        """One cycle: read everything, expire, plan something new now and then, tick."""
        if self.chance(self.faults.controller, 1.0):
            self.restart_controller()
            self.later(self.rng.uniform(1, 6), self.cycle)
            return
        state = self.controller
        self.catch_up()
        for worker, evidence in state.to_expire().items():
            self.control.append(Expired(group=GROUP, worker=worker, control_id=CONTROL, evidence=evidence))
        self.catch_up()
        self.publish(state)
        self.heartbeats.append(
            Tick(group=GROUP, incarnation=self.incarnation, stamp=self.t, boot_id=self.incarnation, acked=self.tick_acked)
        )
        self.tick_acked = len(self.heartbeats) - 1
        self.later(self.rng.uniform(0.5, 1.5), self.cycle)

    def catch_up(self) -> None:
        for i in range(self.read_control, len(self.control)):
            self.controller.fold(self.control[i], offset=i, at=self.t)
        for i in range(self.read_heartbeats, len(self.heartbeats)):
            self.controller.fold(self.heartbeats[i], offset=i, at=self.t)
        self.read_control, self.read_heartbeats = len(self.control), len(self.heartbeats)

    def publish(self, state: ControllerState) -> None:
        live = sorted(w for w in state.beats if w not in state.over)
        grants = state.plan.grants if state.plan else {}
        if not live:
            return
        moving = self.t < FAULTS_UNTIL_S
        owners = {
            tp: self.rng.choice(live)
            for tp in TPS
            if tp not in grants or grants[tp].owner in state.over or (moving and self.rng.random() < 0.3)
        }
        if not owners:
            return
        plan = next_plan(
            state,
            Intended(
                owners=owners,
                topics={TOPIC: "topic"},
                partitions=frozenset(TPS),
                starts={tp: 0 for tp in TPS if tp not in self.committed},
                requested=(),
                summary="",
                at=self.t,
            ),
        )
        if self.mutation is Mutation.WAIT_NOT_CARRIED:
            new = {tp: tuple(w for w in ws if w.epoch == plan.epoch.number) for tp, ws in plan.waits.items()}
            plan = replace(plan, waits={tp: ws for tp, ws in new.items() if ws})
        self.control.append(plan)
        state.fold(plan, offset=len(self.control) - 1, at=self.t)
        self.read_control = len(self.control)


__all__ = ["CALM", "ROUGH", "Mutation", "Violation", "World"]
