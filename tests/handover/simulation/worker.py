"""A worker's process: what ``autoscaler.worker`` does with the machine's effects, without clients.

Three threads as there: one looks at the clock and reads the control log, one starts, stops and commits, one is the application.
``Loop`` is one incarnation; a lapsed one is replaced in the same process when the application has returned.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from autoscaler.handover import worker_events
from autoscaler.handover import worker_state as machine
from autoscaler.handover.codec import Key, encode
from autoscaler.handover.records import Expired, Heartbeat, Incarnation, Left, Plan, Released, Tp
from tests.handover.simulation.runtime import Answer, Process, Thread
from tests.handover.simulation.schedule import LEASE_S
from tests.handover.simulation.transactions import Copied, Open
from tests.handover.simulation.violation import Promise, Violation

if TYPE_CHECKING:
    from tests.handover.simulation.world import World

GROUP = "g"
MAX_BATCH_S = 2.0
_BUSY_S = 0.02
_COMMIT_EVERY_S = 0.5
_CALL_S = 1.0

Commits = Generator["float | Answer", object, bool]
Transacted = Generator["float | Answer", object, "Outcome"]
LogEntry = Plan | Expired | Released | Left | Key


class Outcome(Enum):
    """What became of a transaction, as ``transactions.Outcome``."""

    COMMITTED = auto()
    OVER = auto()


@dataclass(slots=True, eq=False)
class Run:
    """One partition from its start to its release, as ``intake.Run``; records before ``handed_to`` are with the application."""

    tp: Tp
    epoch: int
    position: int
    processed: int
    committed: int
    stopping: bool = False
    out_of_range: bool = False
    handed_to: int = -1  # -1: the batch in hand has nothing of it


@dataclass(eq=False)
class Loop:
    """One incarnation."""

    me: Incarnation
    control_id: str
    state: machine.WorkerState
    read: int = 0
    runs: dict[Tp, Run] = field(default_factory=dict)  # taken and not released
    pending: list[Run] = field(default_factory=list)  # of those, not fetched yet
    fetched: list[Run] = field(default_factory=list)
    work: list[worker_events.Effect] = field(default_factory=list)
    idle: Answer = field(default_factory=Answer)
    closed: bool = False
    epoch: int = 0  # of its transactional id
    transactions: int = 0
    transacting: bool = False
    exposed: bool = False  # an answer was lost while it committed
    given_back: tuple[Released, ...] = ()
    awake: Answer = field(default_factory=Answer)


class Worker(Process):
    """A process that runs the application under one stable name."""

    def __init__(self, world: "World", name: str, rate: float, instance: str) -> None:
        super().__init__(world, name, rate)
        self.instance = instance
        self.stopping = False
        self.back_after_s = 0.0
        self.batch: list[Run] = []
        self.busy_since: float | None = None
        self.loop = self._join()
        self.spawn(self._application(), world.random() * 0.3)

    def _join(self) -> Loop:
        world = self.world
        me = Incarnation(self.name, world.new_id(self.name))
        control_id = world.control.topic_id
        state = machine.WorkerState(
            group=GROUP,
            me=me,
            control_id=control_id,
            lease_s=LEASE_S,
            boot_id=self.name,
            instance=self.instance,
            max_batch_s=MAX_BATCH_S,
            exactly_once=world.schedule.exactly_once,
        )
        loop = Loop(me, control_id, state, epoch=world.transactions.init(me.uuid))
        world.note(self, f"joins as {me.uuid}")
        self.spawn(self._turns(loop), world.random() * 0.2)
        self.spawn(self._work(loop))
        return loop

    def valid(self, loop: Loop) -> bool:
        """Return whether it may act, by its own clock."""
        return self.clock() < loop.state.valid_until

    def owns(self, tp: Tp) -> bool:
        """Return whether it may be acting on a partition at this moment."""
        return self.alive and tp in self.loop.runs and self.valid(self.loop)

    # --- heartbeats and the control log ---

    def _turns(self, loop: Loop) -> Thread:
        world = self.world
        ready = False
        while not (loop.closed or loop.state.left):
            if world.random() < 0.9:
                self.step(loop, worker_events.Elapsed(busy_since=self.busy_since))
            if world.random() < 0.9:
                self._read_log(loop)
                if not ready and loop.read >= world.control.stable:
                    ready = True
                    self.step(loop, worker_events.Ready())
            yield 0.2 + 0.6 * world.random()

    def _read_log(self, loop: Loop) -> None:
        log = self.world.control
        if self.world.t < self.cut_until:
            return
        if log.topic_id != loop.control_id:
            if self.world.random() < 0.3:
                self.step(loop, worker_events.LogReplaced())
            return
        if loop.read >= log.stable:
            return
        entries, loop.read = log.read(loop.read, 1 if self.world.random() < 0.1 else 1000)
        taken: list[LogEntry] = []
        for entry in entries:
            said = entry.decoded(loop.control_id)
            if said.key is None or said.key[1] != GROUP:
                continue
            if said.tombstone:
                taken.append(said.key)
            elif isinstance(said.record, Plan | Expired | Released | Left):
                taken.append(said.record)
        if taken:
            self.reach("plan read")
            self.step(loop, worker_events.LogRead(records=tuple(taken)))

    # --- the machine ---

    def step(self, loop: Loop, event: worker_events.Event) -> None:
        """Let the machine take an event, and do what it says, in order; announced, so that it may end in between."""
        loop.state, effects = machine.step(loop.state, event, self.clock())
        for effect in effects:
            self._perform(loop, effect)

    def _perform(self, loop: Loop, effect: worker_events.Effect) -> None:
        match effect:
            case worker_events.SendHeartbeat(heartbeat=heartbeat):
                self._send_heartbeat(loop, heartbeat)
            case worker_events.SendReleased(released=released):
                self.reach("released")
                self._send_released(loop, released)
            case worker_events.SendLeft(left=left):
                self._send_control("left", left)
            case _:
                loop.work.append(effect)
                loop.awake.fill(None)

    def _send_heartbeat(self, loop: Loop, heartbeat: Heartbeat) -> None:
        world = self.world
        if not loop.runs and loop.state.first_sent == heartbeat.stamp:
            self.reach("joined")
        record = encode(heartbeat) if world.schedule.spelled else heartbeat
        log = world.heartbeats.topic_id

        def land() -> int | None:
            return world.heartbeats.append(record, world.t) if world.heartbeats.topic_id == log else None

        def done(offset: object) -> None:
            if isinstance(offset, int):
                self.step(loop, worker_events.HeartbeatAcked(stamp=heartbeat.stamp, offset=offset))
            else:
                self.step(loop, worker_events.HeartbeatFailed(stamp=heartbeat.stamp))

        self.send("heartbeat", land, to="heartbeats", timeout_s=LEASE_S, ordered=True).then(done)

    def _send_released(self, loop: Loop, released: Released) -> None:
        world = self.world
        world.note(self, f"releases p{released.tp.partition} as of {released.epoch}")
        if released.tp in loop.runs:
            raise Violation(Promise.RELEASED_IS_RELEASED, f"{loop.me} releases {released.tp} that it still has in hand")

        def done(offset: object) -> None:
            if offset is None:
                self.step(loop, worker_events.ReleaseLost(tp=released.tp, epoch=released.epoch))

        self._send_control("release", released).then(done)

    def _send_control(self, site: str, record: Released | Left) -> Answer:
        world, pair = self.world, encode(record)
        return self.send(site, lambda: world.control.append(pair, world.t), to="control", timeout_s=LEASE_S, ordered=True)

    # --- the thread that starts, stops and commits ---

    def _work(self, loop: Loop) -> Thread:
        world = self.world
        commit_at = 0.0
        while not loop.closed:
            if not loop.work:
                loop.awake = Answer()
                world.later(_COMMIT_EVERY_S, partial(loop.awake.fill, None))
                yield loop.awake
            asked: list[tuple[Tp, int]] = []
            while loop.work:
                asked += self._do(loop, loop.work.pop(0))
            yield from self._drain(loop)
            yield from self._report_astray(loop)
            if asked:
                yield from self._read_offsets(loop, asked)
            yield from self._fetch_pending(loop)
            if self.clock() >= commit_at:
                commit_at = self.clock() + _COMMIT_EVERY_S
                yield from self._commit(loop, list(loop.runs.values()), [])

    def _do(self, loop: Loop, work: worker_events.Effect) -> tuple[tuple[Tp, int], ...]:
        match work:
            case worker_events.StopFetching(tps=tps):
                self.reach("stop")
                for tp in tps:
                    if tp in loop.runs:
                        loop.runs[tp].stopping = True
            case worker_events.ReadOffsets(asked=asked):
                self.reach("free")
                return asked
            case worker_events.Start(takings=takings):
                self.reach("started")
                for taking in takings:
                    self._start(loop, taking)
            case worker_events.Lapse(why=why):
                self.world.note(self, f"lapses: {why}")
                self.world.reached("lapse")
                for run in loop.runs.values():
                    run.stopping = True
                loop.runs.clear()
                loop.idle.fill(None)
                self.reach("lapse")
            case _:
                raise AssertionError(work)
        return ()

    def _start(self, loop: Loop, taking: worker_events.Taking) -> None:
        world = self.world
        world.note(self, f"takes p{taking.tp.partition} at {taking.offset} under {taking.epoch}")
        committed = -1 if taking.unclaimed else taking.offset
        run = Run(taking.tp, taking.epoch, taking.offset, taking.offset, committed)
        if loop.state.lapsed:
            return
        loop.runs[taking.tp] = run
        loop.pending.append(run)
        world.taken(self, run)

    def _drain(self, loop: Loop) -> Thread:
        done = [r for r in loop.runs.values() if r.stopping and r.handed_to < 0]
        ok: list[Run] = []
        if not done:
            return
        yield from self._commit(loop, done, ok)
        if len(ok) < len(done) or loop.state.lapsed:
            return
        for run in done:
            del loop.runs[run.tp]
        self.reach("drained")
        self.step(loop, worker_events.Drained(offsets=tuple((r.tp, r.processed) for r in done)))

    def _report_astray(self, loop: Loop) -> Thread:
        """Stop what is out of range, and say so, after everything processed is committed."""
        for run in [r for r in loop.runs.values() if r.out_of_range and not r.stopping and r.handed_to < 0]:
            ok: list[Run] = []
            yield from self._commit(loop, [run], ok)
            if ok and loop.runs.get(run.tp) is run and not loop.state.lapsed:
                run.stopping = True
                del loop.runs[run.tp]
                self.world.note(self, f"finds p{run.tp.partition} out of range at {run.processed}")
                self.world.reached("out of range")
                self.step(loop, worker_events.OutOfRange(tp=run.tp, offset=run.processed))

    def _commit(self, loop: Loop, runs: list[Run], done: list[Run]) -> Thread:
        """Commit what is processed; ``done`` gets the runs of which everything processed is committed."""
        world = self.world
        if world.schedule.exactly_once:
            yield from self._transact(loop, (), lambda: {r: r.processed for r in runs if r.processed > r.committed})
            done += [r for r in runs if r.processed <= r.committed]
            return
        wanted = {r: r.processed for r in runs if r.processed > r.committed}
        done += [r for r in runs if r not in wanted]
        if not wanted:
            return
        if not self.valid(loop):
            return
        offsets = [(r.tp, o, r.epoch) for r, o in wanted.items()]
        landed = yield self.send("commit", lambda: world.commit(offsets), to="offsets", timeout_s=_CALL_S)
        if landed is None:
            return
        for run, offset in wanted.items():
            run.committed = offset
        done += wanted

    def _read_offsets(self, loop: Loop, asked: list[tuple[Tp, int]]) -> Thread:
        world = self.world
        found = yield self.send("offsets", lambda: world.committed(asked), to="offsets", timeout_s=_CALL_S)
        if isinstance(found, tuple):
            self.step(loop, worker_events.OffsetsRead(offsets=found))
        else:
            self.step(loop, worker_events.OffsetsUnread(asked=tuple(asked)))

    def _fetch_pending(self, loop: Loop) -> Thread:
        """Fetch what was taken; a first owner's start is committed before its first batch."""
        runs = loop.pending = [r for r in loop.pending if not r.stopping]
        ok: list[Run] = []
        if not runs:
            return
        yield from self._commit(loop, runs, ok)
        if len(ok) == len(runs) and self.valid(loop):
            loop.fetched += [r for r in runs if not r.stopping]
            loop.pending = []

    # --- transactions ---

    def _transact(self, loop: Loop, outputs: tuple[Copied, ...], look: Callable[[], dict[Run, int]]) -> Transacted:
        """Write outputs and offsets in one transaction, one after the other; what is to be committed is looked up then."""
        while loop.transacting:
            yield _BUSY_S
        wanted = look()
        if not wanted:
            return Outcome.COMMITTED
        loop.transacting = True
        outcome = (yield from self._complete(loop, outputs, wanted)) if self.valid(loop) else Outcome.OVER
        loop.transacting = False
        if outcome is Outcome.COMMITTED:
            for run, offset in wanted.items():
                run.committed = offset
        if outcome is Outcome.OVER or loop.exposed:
            loop.given_back = machine.given_back(loop.state)
            self.step(loop, worker_events.GivenUp(why="its transactions are over"))
        return outcome

    def _complete(self, loop: Loop, outputs: tuple[Copied, ...], wanted: dict[Run, int]) -> Transacted:
        world, uuid, epoch = self.world, loop.me.uuid, loop.epoch
        loop.transactions += 1
        number = loop.transactions
        transaction = Open(number, outputs, tuple((r.tp, o, r.epoch) for r, o in wanted.items()))
        self.reach("transaction")
        written = yield self.send("commit", lambda: world.write(uuid, epoch, transaction), to="offsets", timeout_s=_CALL_S)
        if written is None:
            world.reached("given up")
            return Outcome.OVER
        if not written:
            world.reached("a zombie's transaction refused")
            return Outcome.OVER
        self.reach("written")
        while True:
            done = yield self.send("commit", lambda: world.complete(uuid, epoch, number), to="offsets", timeout_s=_CALL_S)
            if done is not None or not self.valid(loop):
                break
            world.reached("a transaction's end asked for again")
            loop.exposed = True
        if not done:
            world.reached("a zombie's commit refused")
        return Outcome.COMMITTED if done else Outcome.OVER

    def _fence_own(self, loop: Loop) -> Commits:
        """Take the lapsed incarnation's own id before saying that it has left; nothing is said if that fails."""
        if not self.world.schedule.exactly_once:
            return True
        uuid = loop.me.uuid
        fenced = yield self.send("fence", lambda: self.world.fence(uuid), to="offsets", timeout_s=_CALL_S)
        return fenced is not None

    # --- the application ---

    def _application(self) -> Thread:
        world = self.world
        while True:
            loop = self.loop
            yield from self._finish(loop)
            if self.stopping:
                yield from self._close(loop)
                return
            if loop.state.lapsed:
                yield from self._rejoin(loop)
                continue
            self._fetch(loop)
            if self.batch:
                self.reach("batch")
            yield 0.2 + 0.5 * world.random()

    def _fetch(self, loop: Loop) -> None:
        loop.fetched = [r for r in loop.fetched if not r.stopping]
        for run in loop.fetched:
            if run.position < self.world.log_start.get(run.tp, 0):
                run.out_of_range = True
                continue
            end = min(run.position + 4, self.world.produced(run.tp))
            if end > run.position and self.valid(loop):
                run.handed_to = run.position
                self.batch.append(run)
                self._hand(run, run.position + 1)
        self.busy_since = self.clock() if self.batch else None

    def _hand(self, run: Run, to: int) -> None:
        self.world.delivered(self, run, run.handed_to, to)
        run.handed_to = run.position = to

    def _finish_once(self, loop: Loop) -> Thread:
        """Hand out the rest, write what came of it, and count as processed only what is committed with it."""
        for run in self.batch:
            if not run.stopping:
                self._hand(run, min(run.handed_to + 9, self.world.produced(run.tp)))
        reached = {r: r.handed_to for r in self.batch}
        copied = tuple((r.tp, r.processed, end) for r, end in reached.items())
        outcome = yield from self._transact(loop, copied, lambda: reached)
        self.batch, self.busy_since = [], None
        for run, end in reached.items():
            run.handed_to = -1
            if outcome is Outcome.COMMITTED:
                run.processed = end
            else:
                run.position = run.processed
        if any(r.stopping for r in reached):
            loop.awake.fill(None)

    def _finish(self, loop: Loop) -> Thread:
        """Hand out the rest of the batch as far as that may be, and count as processed what was handed out."""
        if self.world.schedule.exactly_once and self.batch and self.valid(loop):
            yield from self._finish_once(loop)
            return
        batch, self.batch, self.busy_since = self.batch, [], None
        woken = False
        for run in batch:
            if not self.valid(loop):
                run.handed_to = -1
                continue
            if not run.stopping:
                self._hand(run, min(run.handed_to + 9, self.world.produced(run.tp)))
            self.world.processed(run.tp, run.processed, run.handed_to)
            run.processed, run.handed_to = run.handed_to, -1
            woken = woken or run.stopping
        if woken:
            loop.awake.fill(None)

    def _rejoin(self, loop: Loop) -> Thread:
        yield loop.idle
        if (yield from self._fence_own(loop)):
            yield self._send_left(loop)
        loop.closed = True
        self.world.reached("rejoin")
        self.loop = self._join()

    def _close(self, loop: Loop) -> Thread:
        if not loop.state.lapsed:
            self.step(loop, worker_events.Leave())
        while not (loop.state.left or loop.state.lapsed):
            yield 0.05
        if loop.state.lapsed:
            yield loop.idle
            if (yield from self._fence_own(loop)):
                yield self._send_left(loop)
        yield 0.1
        self.world.left(self)

    def _send_left(self, loop: Loop) -> Answer:
        for released in loop.given_back:
            self._send_released(loop, released)
        return self._send_control("left", self._left(loop))

    def _left(self, loop: Loop) -> Left:
        if self.batch:
            raise Violation(Promise.RELEASED_IS_RELEASED, f"{loop.me} says that it has left and has a batch in hand")
        return Left(group=GROUP, worker=loop.me, control_id=self.world.control.topic_id)


def live(workers: Iterable[Worker]) -> Iterator[Worker]:
    """Yield those whose process has not ended."""
    return (w for w in workers if w.alive)
