"""A controller's process: what ``adapters.control_log`` does around ``ControllerState`` and ``next_plan``.

Rule 1 as there: take over the transactional id, read both logs to the end, say so in the log, then cycle after cycle: read past
the own last commit, record who is over, publish. A transaction whose end is not known is resolved before anything else is
written.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from autoscaler.handover.codec import decode, encode, encode_key
from autoscaler.handover.commit_metadata import epoch_of
from autoscaler.handover.controller_state import BY_HEARTBEATS, ControllerState
from autoscaler.handover.planning import Intended, next_plan
from autoscaler.handover.poison_partitions import Reached, counted, poisonous, uncounted
from autoscaler.handover.records import Expired, Incarnation, Phase, Plan, TakeOver, Tick, Tp
from tests.handover.simulation.broker import Pair
from tests.handover.simulation.runtime import Answer, Process, Thread
from tests.handover.simulation.schedule import LEASE_S
from tests.handover.simulation.worker import GROUP

if TYPE_CHECKING:
    from tests.handover.simulation.world import World

TX = "controller"
TX_TIMEOUT_S = 1.5
_HIDDEN = 2  # looks, after which what hides the end of the log is taken for a transaction without its marker
_CALL_S = 1.0
_TICK_S = 0.4
_SAYS_SO_S = 1.0
_CYCLE_S = 0.5

Steps = Generator["float | Answer", object, bool]  # true: go on with the cycle


class Controller(Process):
    """One controller's process from its start to its end."""

    def __init__(self, world: "World", name: str, rate: float) -> None:
        super().__init__(world, name, rate)
        self.fenced = False
        self.incarnation = world.new_id("led by")
        self.number: int | None = None  # its own, once it has taken over
        self.ended_instances: set[str] = set()
        self._begin()
        self.spawn(self._main())
        self.spawn(self._ticks(), 0.05)

    def _begin(self) -> None:
        """Know nothing."""
        world = self.world
        self.state = ControllerState(GROUP, world.control.topic_id, LEASE_S)
        self.state.ended(self.ended_instances)
        self.place = (world.control.topic_id, world.heartbeats.topic_id)
        self.epoch = 0  # as the coordinator counts
        self.read = self.barrier = 0
        self.read_heartbeats = self.log_start = world.heartbeats.start
        self.state.log.started(self.log_start)
        self.ask_start_at = 0.0
        self.unsure = self.refused = False
        self.open = False
        self.uuid = world.new_id(self.name)
        self.acked: int | None = None

    def ended(self, instance: str) -> None:
        """Hear from the platform."""
        if self.alive:
            self.ended_instances.add(instance)
            self.state.ended([instance])

    # --- threads ---

    def _main(self) -> Thread:
        while not self.fenced:
            if not self.open or self.place != (self.world.control.topic_id, self.world.heartbeats.topic_id):
                yield from self._open()
            else:
                yield from self._cycle()
            yield _CYCLE_S * (0.8 + 0.6 * self.world.random())
        self.world.note(self, "has a successor and ends")
        self.world.reached("fenced")
        self.world.succeeded(self)
        self.end()

    def _ticks(self) -> Thread:
        world = self.world
        while True:
            uuid, log = self.uuid, world.heartbeats.topic_id
            number = (self.number or 0) if self.open else 0
            tick = Tick(group=GROUP, incarnation=uuid, stamp=self.clock(), boot_id=self.name, acked=self.acked, number=number)
            record = encode(tick) if world.schedule.spelled else tick

            def land(record: Tick | Pair = record, log: str = log) -> int | None:
                return world.heartbeats.append(record, world.t) if world.heartbeats.topic_id == log else None

            offset = yield self.send("tick", land, to="heartbeats", timeout_s=LEASE_S, ordered=True)
            if isinstance(offset, int) and uuid == self.uuid:
                self.acked = offset
            yield _TICK_S

    # --- start ---

    def _open(self) -> Thread:
        self._begin()
        if (yield from self._fence_predecessor()) and (yield from self._take_over()):
            self.open = True
            self.world.note(self, f"has taken over as {self.uuid}")
            self.world.taken_over(self)
            self.reach("opened")

    def _take_over(self) -> Steps:
        """Say in the log that this is the latest controller; who has fenced it meanwhile and is none goes by that."""
        for _ in range(5):
            if self._superseded():
                return False
            latest = self.state.controller
            if latest is not None and latest.incarnation == self.incarnation:
                self.number = latest.number
                return True
            number = 1 + max(self.number or 0, self.state.number)
            record = TakeOver(group=GROUP, control_id=self.place[0], number=number, incarnation=self.incarnation)
            done = yield from self._commit([encode(record)])
            if not ((done and (yield from self._caught_up())) or (yield from self._resolve())):
                return False
        return False

    def _superseded(self) -> bool:
        if self.number is not None and self.state.superseded(self.incarnation, self.number):
            self.fenced = True
        return self.fenced

    def _fence_predecessor(self) -> Steps:
        """Take the transactional id, then read what was written before now."""
        world = self.world
        epoch = yield self.send("init", lambda: world.coordinator.init(TX, world.control), to="control", timeout_s=_CALL_S)
        if not isinstance(epoch, int):
            return False
        self.epoch = epoch
        end, beats = world.control.end, world.heartbeats.end
        for n in range(8):
            self._read_available(beats)
            if self.read >= end:
                return True
            if n == _HIDDEN and TX in world.control.open:  # no marker: the next one closes it
                world.reached("a marker that was not written")
                yield from self._commit([(encode_key(("left", GROUP, "", "")), None)])
            yield 0.3
        return False

    # --- reading ---

    def _read_available(self, at_least_heartbeats: int) -> None:
        if self.world.t < self.cut_until:
            return
        self._read_control(self.barrier)
        self._read_beats(at_least_heartbeats)

    def _read_control(self, at_least: int) -> None:
        world = self.world
        if world.control.topic_id != self.place[0]:
            return
        most = 1_000_000 if world.random() < 0.9 else 3
        while True:
            entries, self.read = world.control.read(self.read, most)
            for entry in entries:
                said = entry.decoded(self.place[0])
                if said.record is not None:
                    self.state.fold(said.record, offset=entry.offset, at=entry.at)
                elif said.tombstone:
                    self.state.forget(said.key or ())
            if self.read >= min(at_least, world.control.stable):
                return

    def _read_beats(self, at_least: int) -> None:
        world = self.world
        log = world.heartbeats
        if log.topic_id != self.place[1]:
            return
        if self.read_heartbeats < log.start:
            world.reached("gap")
            self.state.log.started(log.start)
            self.read_heartbeats = self.log_start = log.start
        to = log.end if world.random() < 0.9 else max(min(at_least, log.end), self.read_heartbeats)
        for offset in range(self.read_heartbeats, to):
            said = log.records[offset - log.start]
            record = decode(*said).record if isinstance(said, tuple) else said
            if record is None:
                continue
            self.state.fold(record, offset=offset, at=log.times[offset - log.start])
        self.read_heartbeats = to
        if world.t >= self.ask_start_at:
            self.ask_start_at = world.t + 3 * world.random()
            self.log_start = log.start
        self.state.log.forget_before(self.log_start)

    def _caught_up(self) -> Steps:
        """Read past the own last commit, which may be hidden for a while behind somebody's open transaction."""
        for _ in range(4):
            self._read_available(0)
            if self.read >= self.barrier:
                return True
            self.world.reached("hidden")
            yield 0.3
        self.unsure = True
        return False

    # --- a cycle ---

    def _cycle(self) -> Thread:
        if self.unsure and not (yield from self._resolve()):
            return
        if not (yield from self._caught_up()) or self._superseded():
            return
        self._count_expiries()
        if not (yield from self._expire()):
            return
        for moved in self.state.moved():
            self.world.note(self, f"sees p{moved.tp.partition} arrived at {moved.owner.uuid}")
        if self.state.orphans() and self.state.pending():
            self.world.reached("orphans and arrivals at once")
        self.reach("decided")
        plan = self._plan()
        if plan is None:
            return
        spent = [(encode_key(key), None) for key in self.state.spent()]
        if spent:
            self.world.reached("releases deleted that nobody waits for")
        if (yield from self._commit([*spent, encode(plan)])):
            self.world.published(self, plan)

    def _fence(self) -> Thread:
        """Take the transactional ids of those who are over; who is not fenced is not said to be over."""
        for worker in self.state.to_fence():
            uuid = worker.uuid
            done = yield self.send("fence", lambda u=uuid: self.world.fence(u), to="offsets", timeout_s=_CALL_S)  # type: ignore[misc]
            if done is None:
                self.world.reached("a fence without an answer")
            else:
                self.world.note(self, f"has fenced {uuid}")
                self.state.fenced(worker)

    def _expire(self) -> Steps:
        yield from self._fence()
        over = self.state.to_expire()
        records: list[Pair] = [
            encode(Expired(group=GROUP, worker=worker, control_id=self.place[0], evidence=evidence))
            for worker, evidence in sorted(over.items())
        ]
        forgotten = self.state.forgettable(self.log_start)
        records += [(encode_key(key), None) for key in forgotten]
        if not records:
            return True
        for worker, evidence in over.items():
            self.world.note(self, f"finds {worker.uuid} over by {evidence}")
        if forgotten:
            self.world.reached("tombstone")
        if not (yield from self._commit(records)):
            return False
        return (yield from self._caught_up())

    def _count_expiries(self) -> None:
        for worker, evidence in self.state.over.items():
            self.world.expired(worker, by_heartbeats=evidence == BY_HEARTBEATS)

    def _plan(self) -> Plan | None:
        """Return the plan that the operators' wishes call for; ``None`` if all is as wished."""
        world, state = self.world, self.state
        if state.plan is None and world.offsets.committed and not state.silence_proven():
            world.reached("observed before the first plan")
            return None
        partitions = world.tps()
        planned = {tp for tp, r in (state.plan.resets if state.plan else {}).items() if state.out_of_range().get(tp) == r.offset}
        losses = counted(
            state,
            {
                tp: Reached(committed=world.committed_or(tp, -1), end=world.produced(tp))
                for tp in uncounted(state)
                if world.random() < 0.9
            },
        )
        parked = poisonous(losses, world.schedule.park_after) & frozenset(state.lost())
        resets = {
            tp: (offset, world.log_start.get(tp, 0))
            for tp, offset in state.out_of_range().items()
            if tp in partitions and tp not in planned
        }
        owners = self._owners(partitions)
        grants = state.plan.grants if state.plan else {}
        known = frozenset(grants) | frozenset(state.parked()) == partitions and not (losses or resets or state.unparked())
        if known and all(tp in grants and grants[tp].owner == w for tp, w in owners.items()):
            return None
        starts = {tp: 0 for tp in partitions if world.offsets.read(tp.partition, tp.topic_id) is None}
        topics = {world.topic_id: "topic"}
        plan = next_plan(
            state,
            Intended(
                owners=owners,
                topics=topics,
                partitions=partitions,
                starts=starts,
                requested=(0, 1, 2),
                summary="",
                at=world.t,
                losses=losses,
                resets=resets,
                parked=parked,
                epochs_before=max((epoch_of(metadata) for _, metadata in world.offsets.committed.values()), default=0),
            ),
        )
        if state.plan is not None and plan.grants == grants and plan.starts == state.plan.starts and world.random() < 0.5:
            return None
        self._count_moves(plan)
        if plan.parked:
            world.reached("parked")
        return plan

    def _owners(self, partitions: frozenset[Tp]) -> dict[Tp, Incarnation]:
        """Return who is to own what: as wished, or else whoever is there."""
        state = self.state
        beats = [b for w, b in state.beats.items() if w not in state.over and b.heartbeat.phase in {Phase.ACTIVE, Phase.STUCK}]
        newest: dict[str, Incarnation] = {}
        for beat in sorted(beats, key=lambda b: b.first_offset):
            newest[beat.heartbeat.worker.name] = beat.heartbeat.worker
        if not newest:
            return {}
        grants = state.plan.grants if state.plan else {}
        names = sorted(newest)
        out = {}
        for tp in sorted(partitions):
            wish, grant = self.world.wishes.get(tp.partition), grants.get(tp)
            if wish in newest and wish is not None:
                out[tp] = newest[wish]
            elif grant is None or grant.owner in state.over:
                out[tp] = newest[names[tp.partition % len(names)]]
        return out

    def _count_moves(self, plan: Plan) -> None:
        world, state = self.world, self.state
        before: Mapping[Tp, object] = state.plan.grants if state.plan else {}
        for tp, grant in plan.grants.items():
            if before.get(tp) != grant:
                world.note(
                    self, f"plans p{tp.partition} for {grant.owner.uuid} under {grant.epoch}, waits {plan.waits.get(tp, ())}"
                )
                if tp in before:
                    world.reached("move")
                    if state.unreleased(tp):
                        world.reached("re-move before release")

    # --- transactions ---

    def _commit(self, pairs: Sequence[Pair]) -> Steps:
        """Write in one transaction. False: refused, or nobody knows (then it is resolved before anything else)."""
        world, epoch, log = self.world, self.epoch, self.world.control
        self.reach("begun")

        def produce() -> tuple[int, ...] | None:
            if world.coordinator.leaderless and len(pairs) > 1:
                world.reached("a transaction sent by half")
                world.coordinator.produce(TX, epoch, log, pairs[: len(pairs) // 2], world.t)
                return None
            found = world.coordinator.produce(TX, epoch, log, pairs, world.t)
            if found is None:
                return ()
            world.later(TX_TIMEOUT_S, lambda at=world.t: world.coordinator.expire(TX, log, at))  # type: ignore[misc]
            return found

        offsets = yield self.send("begin", produce, to="control", timeout_s=_CALL_S)
        if offsets == ():
            return self._refused()
        if not isinstance(offsets, tuple):
            self.unsure = True
            return False
        self.reach("ended")
        done = yield self.send("end", lambda: world.end_transaction(epoch, log), to="control", timeout_s=_CALL_S)
        if done is None:
            world.reached("unknown commit")
            self.unsure = True
            return False
        if not done:
            return self._refused()
        self.barrier = max([self.barrier, *(o + 1 for o in offsets)])
        return True

    def _refused(self) -> bool:
        self.unsure = self.refused = True
        self.world.reached("fenced at its commit")
        return False

    def _resolve(self) -> Steps:
        """Find out what became of an unfinished transaction; who has fenced this controller is given time to say so."""
        limit = self.world.t + (_SAYS_SO_S if self.refused else 0.0)
        while not self._superseded() and self.world.t < limit:
            yield 0.2
            self._read_available(0)
        if self.fenced:
            return False
        self.refused = False
        if not (yield from self._fence_predecessor()) or self._superseded():
            return False
        self.unsure = False
        return True
