"""One history: workers, controllers and a broker in simulated time, what goes wrong, and what must hold at every step.

``World(schedule).run()`` raises ``Violation`` when a promise is broken: two active owners, a record lost, a token that goes back,
a partition without an owner for longer than the bound once faults have stopped, a control log that keeps what nobody needs.
"""

import random
from collections import Counter
from dataclasses import replace
from itertools import count

from autoscaler.handover.codec import decode, encode, key_of
from autoscaler.handover.commit_metadata import commit_metadata
from autoscaler.handover.records import Heartbeat, Incarnation, Plan, TakeOver, Tp, Unparked
from tests.handover.simulation.broker import ControlLog, Coordinator, HeartbeatLog, Offsets
from tests.handover.simulation.controller import TX, Controller
from tests.handover.simulation.runtime import FINE, Agenda, Fate, Process
from tests.handover.simulation.schedule import FAULTS_END_S, LEASE_S, WORKERS, Fault, Kind, Schedule
from tests.handover.simulation.strange import strange
from tests.handover.simulation.transactions import Open, Transactions
from tests.handover.simulation.violation import Promise, Violation
from tests.handover.simulation.worker import GROUP, Run, Worker, live

RECORDS_PER_S = 5
BOUND_S = 16.0  # from the last fault until every partition has been worked off
LOOK_EVERY_S = 0.5
MESSAGES = frozenset({Kind.LOSE, Kind.LOSE_ACK, Kind.LATE})
_STANDING_BY_S = 0.3
_RESTART_S = 1.0
_DROP_TOMBSTONES_S = 6.0


class World(Agenda):
    """Everything; see ``reached_hazards`` for what a history came to."""

    def __init__(self, schedule: Schedule, trace: list[str] | None = None) -> None:
        super().__init__(schedule.seed)
        self.schedule = schedule
        if schedule.steady:
            self.random = lambda: 0.5
        self.trace = trace
        self.reached_hazards: set[str] = set()
        self._ids = count()
        self.control = ControlLog(self.new_id("control"))
        self.heartbeats = HeartbeatLog(self.new_id("heartbeats"))
        self.coordinator = Coordinator()
        self.offsets = Offsets()
        self.transactions = Transactions()
        self.topic_id = self.new_id("topic")
        self.wishes: dict[int, str] = {}
        self.away_until: dict[str, float] = {}
        self._visits: Counter[str] = Counter()
        self._armed: dict[tuple[str, int], list[Fault]] = {}
        self._made_at: dict[Tp, float] = {Tp(self.topic_id, n): 0.0 for n in range(schedule.partitions)}
        self._done: dict[Tp, int] = dict.fromkeys(self._made_at, 0)  # all below was processed by somebody
        self._seen: dict[Tp, int] = dict.fromkeys(self._made_at, 0)  # delivered to somebody, for duplicates
        self.log_start: dict[Tp, int] = {}
        self.duplicates = 0
        self.settled_at = 0.0
        self._tokens: dict[Tp, tuple[str, int]] = {}
        self._by_heartbeats: set[Incarnation] = set()
        self.workers: list[Worker] = []
        self.controllers: list[Controller] = []
        self._leader: Controller | None = None
        for name in WORKERS:
            self.start_worker(name)
        self.start_controller()
        self._arm()

    # --- names, chance, the trace ---

    def new_id(self, of: str) -> str:
        return f"{of}#{next(self._ids)}"

    def delay(self) -> float:
        slow = self.schedule.slow
        if slow and self.random() < slow:
            return 0.05 + self.random()
        return 0.002 + 0.02 * self.random()

    def rate(self) -> float:
        return 1.0 + self.schedule.drift * self.rng.choice((-1.0, 0.0, 1.0))

    def note(self, process: Process, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.t:7.3f} s  {process.name}: {what}")

    def reached(self, hazard: str) -> None:
        self.reached_hazards.add(hazard)

    # --- processes ---

    def start_worker(self, name: str) -> None:
        self.workers = [w for w in self.workers if w.alive]
        if any(w.name == name for w in self.workers):
            return
        self.workers.append(Worker(self, name, self.rate(), self.new_id("instance")))

    def start_controller(self) -> None:
        self.controllers = [c for c in self.controllers if c.alive]
        self.controllers.append(Controller(self, self.new_id("controller"), self.rate()))

    def ended(self, worker: Worker, back_after_s: float) -> None:
        """End a process; the platform sees it, or does not, and starts another one under the name."""
        worker.end()
        if self.schedule.platform:
            for controller in self.controllers:
                self.later(0.1 + self.random(), lambda c=controller: c.ended(worker.instance))  # type: ignore[misc]
        self.later(back_after_s, lambda: self.start_worker(worker.name))

    def left(self, worker: Worker) -> None:
        self.note(worker, "has ended")
        self.ended(worker, worker.back_after_s)

    def succeeded(self, controller: Controller) -> None:
        """Hear that a controller ends because another one has taken over: that must have done so later."""
        if controller is self._leader:
            raise Violation(Promise.LATEST_LEADS, f"{controller.name} ends and is the latest")

    def end_transaction(self, epoch: int, log: ControlLog) -> bool:
        """Commit what a controller has written; the controller that the log says has taken over last is the latest from then on.

        That may be one whose transaction got no marker: this one brings it.
        """
        done = self.coordinator.commit(TX, epoch, log)
        if done and log is self.control:
            records = (e.decoded(log.topic_id).record for e in reversed(log.entries) if e.tx is None)
            latest = next((r for r in records if isinstance(r, TakeOver) and r.group == GROUP), None)
            self._leader = next((c for c in self.controllers if latest and c.incarnation == latest.incarnation), None)
        return done

    def taken_over(self, controller: Controller) -> None:
        if any(c is not controller and c.alive and c.open for c in self.controllers):
            self.reached("concurrent controllers")

    # --- the group's offsets and records ---

    def tps(self) -> frozenset[Tp]:
        return frozenset(tp for tp in self._made_at if tp.topic_id == self.topic_id)

    def produced(self, tp: Tp, by: float | None = None) -> int:
        """Return how many records a partition has; one of a topic that is no more brings nothing."""
        if tp.topic_id != self.topic_id:
            return 0
        at = self.t if by is None else by
        if tp.partition == 0 and self.schedule.quiet_from is not None:
            at = min(at, self.schedule.quiet_from)
        return int(max(0.0, at - self._made_at[tp]) * RECORDS_PER_S)

    def commit(self, offsets: list[tuple[Tp, int, int]]) -> bool:
        """Take a commit: none may cover a record that nobody has processed."""
        for tp, offset, epoch in offsets:
            if offset > self._done[tp]:
                raise Violation(Promise.NOTHING_LOST, f"{tp} committed at {offset}, processed up to {self._done[tp]}")
            self.offsets.committed[tp.partition] = (offset, commit_metadata(tp.topic_id, epoch, ""))
        return True

    # --- the workers' transactions ---

    def write(self, uuid: str, epoch: int, transaction: Open) -> bool:
        """Take what a transaction is to bring; it is aborted and its producer fenced if that takes long."""
        number = transaction.number
        written = self.transactions.write(uuid, epoch, transaction)
        if written:
            self.later(LEASE_S, lambda: self._too_long(uuid, number))
        return written

    def _too_long(self, uuid: str, number: int) -> None:
        found = self.transactions.open.get(uuid)
        if found is not None and found.number == number:
            self.reached("a transaction that took too long")
            self.transactions.init(uuid)

    def complete(self, uuid: str, epoch: int, number: int) -> bool:
        """Commit: readers see the outputs, once each, and the offsets with them."""
        found = self.transactions.take(uuid, epoch, number)
        if not isinstance(found, Open):
            return found
        if twice := self.transactions.show(found.outputs):
            raise Violation(Promise.ONCE, f"{twice[0]} by {uuid}")
        for tp, first, end in found.outputs:
            self.processed(tp, first, end)
        for tp, offset, _ in found.offsets:
            if self.committed_or(tp, 0) > offset:
                raise Violation(Promise.OFFSETS_GROW, f"{tp} from {self.committed_or(tp, 0)} to {offset} by {uuid}")
        return self.commit(list(found.offsets))

    def fence(self, uuid: str) -> bool:
        if uuid in self.transactions.open:
            self.reached("a fence that aborts a transaction")
        self.transactions.init(uuid)
        return True

    def committed_or(self, tp: Tp, otherwise: int) -> int:
        found = self.offsets.read(tp.partition, tp.topic_id)
        return otherwise if found is None else found

    def committed(self, asked: list[tuple[Tp, int]]) -> tuple[tuple[Tp, int, int | None], ...] | None:
        """Return committed offsets; no answer as long as a transaction is open that would change one of them."""
        if self.transactions.pending(tp for tp, _ in asked):
            self.reached("an offset that is not known yet")
            return None
        return tuple((tp, epoch, self.offsets.read(tp.partition, tp.topic_id)) for tp, epoch in asked)

    def taken(self, worker: Worker, run: Run) -> None:
        """Judge a partition that begins at a worker: nobody else may own it, nothing be skipped, no token go back."""
        self._alone(worker, run.tp)
        if run.position > self._done[run.tp]:
            raise Violation(Promise.NOTHING_LOST, f"{run.tp} begins at {run.position}, processed up to {self._done[run.tp]}")
        token = (worker.loop.control_id, run.epoch)
        last = self._tokens.get(run.tp, token)
        if worker.valid(worker.loop) and token[0] == self.control.topic_id and token[1] < last[1]:  # of whichever topic it was
            raise Violation(
                Promise.TOKENS_GROW, f"{run.tp} was granted under {last[1]}, {worker.loop.me} takes it under {token[1]}"
            )
        self._tokens[run.tp] = token

    def _alone(self, worker: Worker, tp: Tp) -> None:
        if not worker.valid(worker.loop):
            return
        for other in self.workers:
            if other is not worker and other.owns(tp):
                raise Violation(Promise.ONE_OWNER, f"{tp} is in the hands of {worker.loop.me} and of {other.loop.me}")

    def delivered(self, worker: Worker, run: Run, first: int, end: int) -> None:
        """Judge records handed to the application."""
        self._alone(worker, run.tp)
        if first < self._seen[run.tp]:
            self.duplicates += 1
        self._seen[run.tp] = max(end, self._seen[run.tp])

    def processed(self, tp: Tp, first: int, end: int) -> None:
        if first <= self._done[tp] < end:
            self._done[tp] = end

    # --- what controllers have done ---

    def published(self, controller: Controller, plan: Plan) -> None:
        """Judge a plan that its controller takes for committed: it is in the log, or a later one is."""
        if plan.epoch.control_id != self.control.topic_id:
            return
        key = encode(plan)[0]
        found = [e.decoded(self.control.topic_id).record for e in self.control.entries if e.key == key and e.tx is None]
        if not any(p == plan or (isinstance(p, Plan) and p.epoch.number > plan.epoch.number) for p in found):
            raise Violation(Promise.FENCED_IS_FENCED, f"{controller.name} acts on plan {plan.epoch.number}")
        if any(isinstance(p, Plan) and p != plan and p.epoch.number == plan.epoch.number for p in found):
            raise Violation(Promise.EPOCHS_DIFFER, f"two plans are number {plan.epoch.number}")

    def expired(self, worker: Incarnation, *, by_heartbeats: bool) -> None:
        if worker in self._by_heartbeats:
            return
        self._by_heartbeats.add(worker)
        self.reached("expiry" if by_heartbeats else "over otherwise")

    # --- faults ---

    def _arm(self) -> None:
        for fault in self.schedule.faults:
            if fault.on:
                self._armed.setdefault((fault.on, fault.nth), []).append(fault)
            else:
                self.later(fault.at, lambda f=fault: self._strike(f, None))  # type: ignore[misc]

    def visit(self, process: Process, site: str) -> None:
        """Count a step, and let happen what was to happen at it."""
        if not self._armed or self.t >= FAULTS_END_S:
            return
        n = self._visits[site]
        self._visits[site] = n + 1
        for fault in self._armed.pop((site, n), ()):
            if fault.kind in MESSAGES:
                continue
            self._strike(fault, process)

    def fate(self, process: Process, site: str) -> Fate:
        """Say what becomes of a message."""
        if not self._armed or self.t >= FAULTS_END_S:
            return FINE
        n = self._visits[site]
        self._visits[site] = n + 1
        fate = FINE
        for fault in self._armed.pop((site, n), ()):
            if fault.kind in MESSAGES:
                self.note(process, f"[{fault.kind} {site} {fault.for_s:.2f} s]")
                self.reached(fault.kind)
                lost, unanswered = fault.kind is Kind.LOSE, fault.kind is Kind.LOSE_ACK
                fate = Fate(lost, unanswered, fault.for_s if fault.kind is Kind.LATE else 0.0)
            else:  # the message has left
                self.later(0.0, lambda f=fault: self._strike(f, process))  # type: ignore[misc]
        return fate

    def _strike(self, fault: Fault, process: Process | None) -> None:
        victim = process or next((w for w in live(self.workers) if w.name == fault.who), None)
        if victim is not None:
            self.note(victim, f"[{fault}]")
        elif self.trace is not None:
            self.trace.append(f"{self.t:7.3f} s  [{fault}]")
        self.reached(fault.kind)
        match fault.kind:
            case Kind.CRASH if isinstance(victim, Worker) and victim.alive:
                self.ended(victim, fault.for_s)
            case Kind.CRASH if isinstance(victim, Controller):
                victim.end()
            case Kind.PAUSE if victim is not None:
                self._pause(victim, fault.for_s)
            case Kind.CUT if victim is not None:
                victim.cut_until = max(victim.cut_until, min(self.t + fault.for_s, FAULTS_END_S))
            case Kind.LEAVE if isinstance(victim, Worker):
                victim.stopping, victim.back_after_s = True, fault.for_s
            case Kind.CRASH_CONTROLLER | Kind.PAUSE_CONTROLLER | Kind.SECOND:
                self._strike_controller(fault, process)
            case _:
                self._strike_cluster(fault)

    def _pause(self, victim: Process, for_s: float) -> None:
        until = min(self.t + for_s, FAULTS_END_S)
        victim.paused_until = max(victim.paused_until, until)
        if isinstance(victim, Worker) and victim.loop.runs and (until - self.t) * victim.rate > LEASE_S:
            self.later(until - self.t, lambda: self._resumed(victim))

    def _resumed(self, worker: Worker) -> None:
        if worker.alive and worker.loop.runs:
            self.reached("zombie resume")

    def _strike_controller(self, fault: Fault, process: Process | None) -> None:
        victims = [process] if isinstance(process, Controller) else [c for c in self.controllers if c.alive][-1:]
        if fault.kind is Kind.SECOND:
            self.later(fault.for_s if process is not None else 0.0, self.start_controller)
        for victim in victims:
            if fault.kind is Kind.CRASH_CONTROLLER:
                victim.end()
            elif fault.kind is Kind.PAUSE_CONTROLLER:
                self._pause(victim, fault.for_s)

    def _strike_cluster(self, fault: Fault) -> None:  # noqa: C901, PLR0912  (one case per kind)
        match fault.kind:
            case Kind.MOVE:
                self.wishes[fault.partition] = fault.to
            case Kind.HANG:
                tx = self.new_id("other group")
                self.control.append((b'["plan","other"]', b"{}"), self.t, tx)
                log = self.control
                self.later(fault.for_s, lambda: log.close(tx, commit=self.random() < 0.5))
            case Kind.FAILOVER:
                self.away_until[fault.to] = min(FAULTS_END_S, self.t + fault.for_s)
            case Kind.LEADERLESS:
                where = self.coordinator if fault.to == "control" else self.transactions
                where.leaderless = True
                self.later(fault.for_s, lambda: setattr(where, "leaderless", False))
            case Kind.TRIM:
                self.heartbeats.trim(fault.partition)
            case Kind.COMPACT:
                self.control.compact(self.t - _DROP_TOMBSTONES_S)
            case Kind.STRANGE:
                self._say_something_strange(random.Random(fault.for_s))
            case Kind.RECORDS_GONE:
                self._let_records_go(Tp(self.topic_id, fault.partition))
            case Kind.UNPARK:
                self._unpark()
            case Kind.ADD_PARTITION:
                self._make(Tp(self.topic_id, len(self.tps())))
            case Kind.CONTROL_ANEW:
                self.control = ControlLog(self.new_id("control"))
            case Kind.HEARTBEATS_ANEW:
                self.heartbeats = HeartbeatLog(self.new_id("heartbeats"))
            case Kind.TOPIC_ANEW:
                n = len(self.tps())
                self.offsets.committed.clear()  # the broker deletes them with the topic
                self.topic_id = self.new_id("topic")
                for partition in range(n):
                    self._make(Tp(self.topic_id, partition))
            case _:
                pass

    def _let_records_go(self, tp: Tp) -> None:
        """Let retention delete all that a partition has; nobody promises to process that."""
        if tp in self._done:
            self.log_start[tp] = self.produced(tp)
            self._done[tp] = max(self._done[tp], self.log_start[tp])

    def _unpark(self) -> None:
        """Let an operator release what the latest plan parks."""
        plan = self._latest_plan()
        for tp in plan.parked if plan else ():
            self.reached("unparked")
            record = Unparked(group=GROUP, tp=tp, control_id=self.control.topic_id, epoch=plan.epoch.number if plan else 0)
            self.control.append(encode(record), self.t)

    def _latest_plan(self) -> Plan | None:
        read = (e.decoded(self.control.topic_id).record for e in reversed(self.control.entries) if e.tx is None)
        return next((r for r in read if isinstance(r, Plan)), None)

    def _make(self, tp: Tp) -> None:
        self._made_at[tp] = self.t
        self._done[tp] = self._seen[tp] = 0

    def _say_something_strange(self, rng: random.Random) -> None:
        """Append what no reader can make anything of, to both logs."""
        for entry in self.control.entries[-6:]:
            if entry.value is not None and entry.tx is None and (record := entry.decoded(self.control.topic_id).record):
                self.control.append(strange((entry.key, entry.value), self.control.topic_id, rng), self.t)
                foreign = encode(replace(record, group="other"))
                self.control.append(foreign, self.t)
                self.control.append((foreign[0], None), self.t)
        if plan := self._latest_plan():
            for _ in range(20):  # most fields are a plan's
                self.control.append(strange(encode(plan), self.control.topic_id, rng), self.t)
        for said in self.heartbeats.records[-6:]:
            if not isinstance(said, tuple):
                self.heartbeats.append(strange(encode(said), None, rng), self.t)
                self.heartbeats.append(replace(said, group="other"), self.t)
        self.heartbeats.append((None, b"{}"), self.t)

    # --- running ---

    def run(self) -> "World":
        """Run to the end of the faults, and then until everything is as promised, at most ``BOUND_S``."""
        self.later(LOOK_EVERY_S, self._restart)
        self.run_until(FAULTS_END_S)
        while not self._settled():
            self._unpark()
            if self.t > FAULTS_END_S + BOUND_S:
                raise Violation(Promise.PROGRESS, self._standing_still())
            self.run_until(self.t + LOOK_EVERY_S)
        self.settled_at = self.t
        self._all_seen()
        if self.schedule.tidy:
            self._tidy_up()
        return self

    def _all_seen(self) -> None:
        """What is committed has an output, but for records that were deleted first."""
        for tp in self.tps() if self.schedule.exactly_once else ():
            if missing := set(range(self.log_start.get(tp, 0), self.committed_or(tp, 0))) - self.transactions.seen[tp]:
                raise Violation(Promise.NOTHING_LOST, f"{tp} has no output of {sorted(missing)}")

    def _restart(self) -> None:
        """The platform starts a controller where there is none."""
        self.later(LOOK_EVERY_S, self._restart)
        if not any(c.alive for c in self.controllers):
            self.controllers = []
            self.later(_RESTART_S, lambda: None if self.controllers else self.start_controller())

    def _settled(self) -> bool:
        return all(
            self._done[tp] >= self.produced(tp, FAULTS_END_S) and any(w.owns(tp) for w in self.workers) for tp in self.tps()
        )

    def _standing_still(self) -> str:
        late = [tp for tp in sorted(self.tps()) if self._done[tp] < self.produced(tp, FAULTS_END_S)]
        owners = {tp.partition: [w.loop.me.uuid for w in self.workers if w.owns(tp)] for tp in sorted(self.tps())}
        return f"{late} are behind, owners {owners}"

    def _tidy_up(self) -> None:
        """Let old heartbeats go; then nothing may be left in the control log of incarnations that no plan names."""
        for _ in range(2):
            self.heartbeats.trim(3)
            self.run_until(self.t + 4.0)
        self.control.compact(self.t)
        self._bounded()
        if [c for c in self.controllers if c.alive] != [self._leader]:
            raise Violation(Promise.LATEST_LEADS, f"{[c.name for c in self.controllers if c.alive]} go on")

    def _bounded(self) -> None:
        plan = self._latest_plan()
        if plan is None:
            return
        known = {w.loop.me.uuid for w in self.workers} | {g.owner.uuid for g in plan.grants.values()}
        known |= {w.worker.uuid for waits in plan.waits.values() for w in waits}
        read = (decode(*r).record if isinstance(r, tuple) else r for r in self.heartbeats.records)
        known |= {r.worker.uuid for r in read if isinstance(r, Heartbeat)}
        left = []
        for entry in self.control.entries:
            record = entry.decoded(self.control.topic_id).record
            if record is None or isinstance(record, Plan | TakeOver) or key_of(record)[1] != GROUP:
                continue
            if str(key_of(record)[-1]) not in known:
                left.append(record)
        if left:
            raise Violation(Promise.BOUNDED, f"keeps {left[0]}")
