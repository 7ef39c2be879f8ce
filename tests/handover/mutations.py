"""Every rule broken once, in the text of the modules that production runs, and what notices it.

A mutation that chance finds names the seed of a schedule that breaks a promise under it; the others name a directed check: a
function that takes a copy of the modules and raises ``AssertionError`` if the rule is broken there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.handover import directed
from tests.handover.mutants import Copy, Edit

WORKER, STATE, PLANNING, EXPIRY = "handover.worker_state", "handover.controller_state", "handover.planning", "handover.expiry"
_CONTROLLER = "tests.handover.simulation.controller"
_APPLICATION = "tests.handover.simulation.worker"
_TRANSACTIONS, _OFFSETS = "worker.transactions", "worker.offsets"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A broken rule.

    Attributes:
        name: What is done wrong.
        edits: How.
        seed: Of a schedule that breaks a promise under it.
        directed: A check that fails under it.
    """

    name: str
    edits: tuple[Edit, ...]
    seed: int | None = None
    directed: Callable[[Copy], None] | None = None


LISTED = (
    Mutation(
        "a worker takes a release of any epoch",
        (Edit(WORKER, "state.released.get((tp, w.worker), -1) >= w.epoch for w", "(tp, w.worker) in state.released for w"),),
        seed=0,
    ),
    Mutation(
        "the controller takes a release of any epoch",
        (Edit(STATE, "return release is not None and release.epoch >= wait.epoch", "return release is not None"),),
        seed=63,
    ),
    Mutation(
        "waits are not carried forward",
        (Edit(PLANNING, "{w.worker: w.epoch for w in state.unreleased(tp)} | dict", "dict"),),
        seed=15,
    ),
    Mutation(
        "an owner that never started is not waited for",
        (
            Edit(
                PLANNING,
                "if previous is not None and moved and previous.owner not in state.over:",
                "if previous is not None and moved and previous.owner not in state.over and state.has_taken(tp, previous):",
            ),
        ),
        seed=0,
    ),
    Mutation(
        "a partition is resumed after its release was sent",
        (
            Edit(
                WORKER,
                "    if tp in state.kept:\n        return True",
                "    if tp in state.kept or tp in state.answered:\n        return True",
            ),
        ),
        seed=0,
    ),
    Mutation(
        "a wait is answered while draining",
        (Edit(WORKER, "not (tp in state.active or tp in state.draining or tp in state.wanted)", "tp not in state.wanted"),),
        seed=0,
    ),
    Mutation(
        "no second look after the offset has been read",
        (
            Edit(WORKER, "elif state.wanted.get(tp) == epoch and _free(state, tp):", "else:"),
            Edit(WORKER, "if state.wanted.get(tp) == epoch}", "}"),
            Edit(WORKER, "if not (lost or dropped) and len(reading) == len(state.reading):", "if not (lost or dropped):"),
        ),
        directed=directed.what_was_taken_away_meanwhile_is_not_started,
    ),
    Mutation(
        "the lease runs from the acknowledgement",
        (
            Edit(
                WORKER,
                "return _settle(_acknowledge(state, stamp, offset), now)",
                "return _settle(_acknowledge(state, stamp, offset, now), now)",
            ),
            Edit(
                WORKER,
                "def _acknowledge(state: WorkerState, stamp: float, offset: int)",
                "def _acknowledge(state: WorkerState, stamp: float, offset: int, now: float)",
            ),
            Edit(WORKER, "newest = stamp if state.acked_stamp is None else max(stamp, state.acked_stamp)", "newest = now"),
        ),
        directed=directed.lease_from_the_stamp,
    ),
    Mutation(
        "a late acknowledgement revives",
        (
            Edit(
                WORKER, "    if _overdue(state, now):", "    if _overdue(state, now) and not isinstance(event, HeartbeatAcked):"
            ),
            Edit(
                WORKER,
                "    if state.lapsed or state.left:\n        return state, ()",
                "    if state.left:\n        return state, ()",
            ),
        ),
        directed=directed.a_late_acknowledgement_does_not_revive,
    ),
    Mutation(
        "the lease is valid before the first acknowledgement",
        (
            Edit(WORKER, "if self.lapsed or self.left or self.acked_stamp is None:", "if self.lapsed or self.left:"),
            Edit(
                WORKER,
                "return self.acked_stamp + self.lease_s",
                "return (self.acked_stamp or self.first_sent or 0.0) + self.lease_s",
            ),
            Edit(WORKER, "    if state.acked_stamp is not None:\n        state = _stop", "    if True:\n        state = _stop"),
        ),
        directed=directed.nothing_before_the_first_acknowledgement,
    ),
    Mutation(
        "an expired worker does not lapse when it reads so",
        (Edit(WORKER, "    if state.me in over:\n", "    if False:\n"),),
        directed=directed.own_end_is_a_lapse,
    ),
    Mutation(
        "the stamp of a record that is not acknowledged is evidence",
        (Edit(EXPIRY, "source.acked.append(acked)", "source.acked.append(offset)"),),
        directed=directed.only_acknowledged_records_are_evidence,
    ),
    Mutation(
        "a failed record is taken for acknowledged",
        (
            Edit(
                WORKER,
                "return _beat(replace(state, in_flight=None, due=now) if state.in_flight == stamp else state, now, ())",
                "return _settle(_acknowledge(state, stamp, state.acked_offset or 0), now)",
            ),
        ),
        directed=directed.a_failed_heartbeat_gives_no_lease,
    ),
    Mutation(
        "a gap is ignored",
        (Edit(EXPIRY, "        self._sources.clear()\n        self._floor = log_start - 1", "        self._floor = -1"),),
        directed=directed.a_gap_voids_the_evidence,
    ),
    Mutation(
        "stamps of two boots are joined",
        (Edit(EXPIRY, "if source is None or source.boot_id != boot_id:", "if source is None:"),),
        directed=directed.two_boots_are_two_clocks,
    ),
    Mutation(
        "stamps of two incarnations are joined",
        (
            Edit(STATE, "self.log.add(beat.worker.uuid,", 'self.log.add("anybody",'),
            Edit(STATE, "self.log.add(tick.incarnation,", 'self.log.add("anybody",'),
            Edit(EXPIRY, "if source is None or source.boot_id != boot_id:", "if source is None:"),
            Edit(EXPIRY, "if source.stamps and (stamp < source.stamps[-1] or acked < source.acked[-1]):", "if False:"),
        ),
        directed=directed.two_incarnations_are_two_clocks,
    ),
    Mutation(
        "a lapsed process joins under its old uuid",
        (
            Edit(
                _APPLICATION,
                "me = Incarnation(self.name, world.new_id(self.name))",
                'me = self.loop.me if hasattr(self, "loop") else Incarnation(self.name, world.new_id(self.name))',
            ),
        ),
        seed=17,
    ),
    Mutation(
        "the planned owner stands in its own wait",
        (Edit(PLANNING, "            epochs.pop(grant.owner, None)", "            pass"),),
        seed=2,
    ),
    Mutation(
        "records of an incarnation that the plan names are deleted",
        (Edit(STATE, "w not in named and (", "("),),
        directed=directed.a_plan_keeps_the_records,
    ),
    Mutation(
        "records of an incarnation whose heartbeats are in the log are deleted",
        (Edit(STATE, " and (w not in self.beats or self.beats[w].offset < log_start)]", "]"),),
        directed=directed.a_retained_heartbeat_keeps_the_records,
    ),
    Mutation(
        "the first plan waits for no worker",
        (
            Edit(
                PLANNING,
                "suspects = [w for w in state.beats if w not in state.over] if behind else []",
                "suspects: list[Incarnation] = []",
            ),
        ),
        directed=directed.the_first_plan_waits_for_everybody,
    ),
    Mutation(
        "no margin", (Edit(EXPIRY, "return 0.5 + 0.1 * lease_s", "return 0.0"),), directed=directed.the_margin_is_waited_for
    ),
    Mutation(
        "an epoch's number is used again",
        (
            Edit(
                PLANNING,
                "number = max(state.plan.epoch.number if state.plan else 0, state.heard_epoch, intended.epochs_before) + 1",
                "number = max(1, state.plan.epoch.number) if state.plan else 1",
            ),
        ),
        directed=directed.numbers_grow,
        seed=0,
    ),
    Mutation(
        "released before it is drained",
        (Edit(WORKER, "        draining={**state.draining, **{tp: state.active[tp] for tp in lost}},\n", ""),),
        seed=0,
    ),
    Mutation(
        "the broker's clock is evidence",
        (Edit(STATE, "boot_id=beat.boot_id, stamp=beat.stamp,", "boot_id=beat.boot_id, stamp=at,"),),
        directed=directed.only_a_sources_own_stamps_count,
    ),
    Mutation(
        "a clock that stops in suspend",
        (Edit("worker.clock", "return a if a > b else b", "return b"),),
        directed=directed.a_suspended_machine_loses_its_lease,
    ),
    Mutation(
        "what is fetched counts as processed",
        (Edit("worker.delivery", "                run.processed = offset\n", "                run.processed = run.position\n"),),
        directed=directed.only_what_was_handed_out_is_processed,
    ),
)
OWN = (
    Mutation(
        "an expired owner's release is waited for, for ever",
        (
            Edit(STATE, "        if wait.worker in self.over:\n            return True\n", ""),
            Edit(WORKER, "w.worker in state.over or ", ""),
        ),
        seed=1,
    ),
    Mutation(
        "a partition that stays is granted anew with every plan",
        (Edit(PLANNING, "    return present.owner != owner and (", "    return ("),),
        directed=directed.a_partition_that_stays_keeps_its_token,
    ),
    Mutation(
        "a partition not released yet is moved again",
        (Edit(PLANNING, "(present.owner in state.over or not state.unreleased(tp))", "True"),),
        directed=directed.what_is_not_released_is_not_moved_again,
    ),
    Mutation(
        "a lost release is not sent again",
        (Edit(WORKER, "again = {tp} if state.answered.get(tp) == epoch else set()", "again: set[Tp] = set()"),),
        seed=11,
    ),
    Mutation(
        "tokens begin again with a control topic made anew",
        (Edit(PLANNING, "state.heard_epoch, intended.epochs_before) + 1", "0) + 1"),),
        directed=directed.tokens_go_on,
    ),
    Mutation(
        "a topic that is not seen for one plan loses its waits",
        (
            Edit(
                PLANNING, "for tp in sorted({*intended.partitions, *grants, *carried, *before}):", "for tp in sorted({*grants}):"
            ),
        ),
        directed=directed.an_unseen_topic_keeps_its_waits,
    ),
    Mutation(
        "a release that is waited for is deleted",
        (Edit(STATE, "needed = {(tp, w.worker) for tp, waits in self.plan.waits.items() for w in waits}", "needed = set()"),),
        directed=directed.a_plan_keeps_the_releases_that_it_waits_for,
    ),
    Mutation(
        "what is lost while the brokers are away counts as poison",
        (Edit(STATE, "        if beat is not None and beat.offset < self._silent_before:\n            return False\n", ""),),
        directed=directed.an_outage_is_no_loss,
    ),
    Mutation(
        "one that is leaving takes partitions",
        (Edit(WORKER, " and not state.leaving}", "}"),),
        directed=directed.a_leaving_worker_takes_nothing,
    ),
    Mutation(
        "an older plan replaces a newer one",
        (Edit(WORKER, "if plan is None or record.epoch.number > plan.epoch.number:", "if True:"),),
        directed=directed.an_older_plan_says_nothing,
    ),
    Mutation(
        "a second heartbeat is sent while one is in flight",
        (Edit(WORKER, "now < state.due or state.in_flight is not None or", "now < state.due or"),),
        directed=directed.one_heartbeat_in_flight,
    ),
    Mutation(
        "the lease is counted from the first heartbeat that was sent",
        (
            Edit(
                WORKER,
                "newest = stamp if state.acked_stamp is None else max(stamp, state.acked_stamp)",
                "newest = stamp if state.acked_stamp is None else state.acked_stamp",
            ),
        ),
        seed=1,
    ),
    Mutation(
        "a start is resolved anew with every plan",
        (Edit(PLANNING, "published.get(tp, start)", "start"),),
        directed=directed.a_published_start_stays,
    ),
    Mutation(
        "an acknowledgement from behind its own record is evidence",
        (Edit(EXPIRY, "if acked is None or acked >= offset:", "if acked is None:"),),
        directed=directed.an_impossible_acknowledgement_is_no_evidence,
    ),
    Mutation(
        "half of the lease and margin is enough",
        (Edit(EXPIRY, "span_s = lease_s + margin_s(lease_s)", "span_s = (lease_s + margin_s(lease_s)) / 2"),),
        directed=directed.the_margin_is_waited_for,
        seed=138,
    ),
    Mutation(
        "fetching is not stopped",
        (Edit(WORKER, "        effects.append(StopFetching(tps=tuple(lost)))", "        pass"),),
        seed=20,
    ),
    Mutation(
        "the newest plan's new epoch does not reach what is running",
        (
            Edit(
                WORKER,
                "active = {tp: wanted.get(tp, epoch) for tp, epoch in state.active.items()}",
                "active = dict(state.active)",
            ),
        ),
        directed=directed.a_running_partition_gets_the_new_token,
    ),
    Mutation(
        "a controller does not fence its predecessor",
        (
            Edit(
                _CONTROLLER,
                "lambda: world.coordinator.init(TX, world.control)",
                "lambda: world.coordinator.epochs.setdefault(TX, 1)",
            ),
        ),
        seed=134,
    ),
    Mutation(
        "a controller takes itself for its successor",
        (Edit(STATE, " and latest.incarnation != incarnation", ""),),
        directed=directed.only_a_successor_ends_a_controller,
    ),
    Mutation(
        "a controller takes its predecessor for its successor",
        (Edit(STATE, "latest.number > number", "latest.number >= number"),),
        directed=directed.only_a_successor_ends_a_controller,
    ),
    Mutation(
        "a controller that has been replaced goes on",
        (Edit(STATE, "return latest is not None and latest.number > number and", "return False and"),),
        seed=23,
    ),
    Mutation(
        "being fenced is taken for having been replaced",
        (Edit(_CONTROLLER, "        self.unsure = self.refused = True\n", "        self.fenced = self.unsure = True\n"),),
        seed=5,
    ),
    Mutation(
        "a controller's number is not above the one before it",
        (
            Edit(
                _CONTROLLER,
                "number = 1 + max(self.number or 0, self.state.number)",
                "number = max(self.number or 0, self.state.number)",
            ),
        ),
        seed=23,
    ),
    Mutation(
        "a controller does not say that it has taken over",
        (
            Edit(
                _CONTROLLER,
                "if (yield from self._fence_predecessor()) and (yield from self._take_over()):",
                "if (yield from self._fence_predecessor()):",
            ),
        ),
        seed=4,
    ),
    Mutation(
        "numbers begin again with a control topic made anew",
        (Edit(STATE, "            self.heard_number = max(self.heard_number, tick.number)\n", "            pass\n"),),
        directed=directed.numbers_go_on_by_the_ticks,
    ),
    Mutation(
        "a decision before the own last commit is read",
        (
            Edit(_CONTROLLER, "            if self.read >= self.barrier:\n", "            if True:\n"),
            Edit(_CONTROLLER, "if self.read >= min(at_least, world.control.stable):", "if True:"),
        ),
        seed=94,
    ),
    Mutation(
        "a plan that is not committed is read",
        (Edit("tests.handover.simulation.broker", "return min(self.open.values(), default=self.end)", "return self.end"),),
        seed=95,
    ),
    Mutation(
        "a commit of what is fetched",
        (
            Edit(
                _APPLICATION,
                "wanted = {r: r.processed for r in runs if r.processed > r.committed}",
                "wanted = {r: max(r.position, r.processed) for r in runs if r.position > r.committed}",
            ),
        ),
        seed=0,
    ),
    Mutation(
        "a lapsed process has left before its application has returned",
        (
            Edit(
                _APPLICATION,
                "                loop.idle.fill(None)\n",
                '                loop.idle.fill(None)\n                self._send_control("left", self._left(loop))\n',
            ),
        ),
        seed=9,
    ),
)
EXACTLY_ONCE = (
    Mutation(
        "a controller reads only what is committed before it decides",
        (Edit(_CONTROLLER, "end, beats = world.control.end, world", "end, beats = world.control.stable, world"),),
        seed=234,
    ),
    Mutation(
        "who commits in transactions is said to be over before it is fenced",
        (
            Edit(STATE, "unfenced = frozenset(self.to_fence())", "unfenced = frozenset[Incarnation]()"),
            Edit(_CONTROLLER, "        yield from self._fence()\n", ""),
        ),
        directed=directed.no_worker_is_over_before_it_is_fenced,
        seed=34,
    ),
    Mutation(
        "a committed offset is read before its last owner is over",
        (Edit(WORKER, "state.stalled.get(tp, now) <= now and _free(state, tp))", "state.stalled.get(tp, now) <= now)"),),
        seed=212,
    ),
    Mutation(
        "who is to be fenced is forgotten with its heartbeats",
        (Edit(STATE, " or (self.plan is not None and worker in self.plan.exactly_once)", ""),),
        directed=directed.the_plan_remembers_whom_to_fence,
    ),
    Mutation(
        "a zombie takes its transactional id again",
        (
            Edit(
                _APPLICATION,
                "lambda: world.write(uuid, epoch, transaction)",
                "lambda: world.write(uuid, world.transactions.init(uuid), transaction)",
            ),
            Edit(
                _APPLICATION,
                "lambda: world.complete(uuid, epoch, number)",
                "lambda: world.complete(uuid, world.transactions.epochs[uuid], number)",
            ),
        ),
        seed=34,
    ),
    Mutation(
        "offsets are committed outside of the transaction",
        (
            Edit(
                _APPLICATION,
                "Open(number, outputs, tuple((r.tp, o, r.epoch) for r, o in wanted.items()))",
                "Open(number, outputs, ())",
            ),
            Edit(
                _APPLICATION,
                '        if not done:\n            world.reached("a zombie\'s commit refused")',
                "        offsets = [(r.tp, o, r.epoch) for r, o in wanted.items()]\n"
                "        if done:\n"
                '            yield self.send("commit", lambda: world.commit(offsets), to="offsets", timeout_s=_CALL_S)\n'
                "        else:\n"
                '            world.reached("a zombie\'s commit refused")',
            ),
        ),
        seed=45,
    ),
    Mutation(
        "an incarnation writes on after its outputs were given up",
        (
            Edit(_TRANSACTIONS, " or (outputs and refused is None):", ":"),
            Edit(_APPLICATION, "    OVER = auto()\n", "    OVER = auto()\n    ABORTED = auto()\n"),
            Edit(
                _APPLICATION,
                '            world.reached("given up")\n            return Outcome.OVER\n',
                "            give_up = partial(world.transactions.abort, uuid, number)\n"
                '            yield self.send("commit", give_up, to="offsets", timeout_s=_CALL_S)\n'
                "            return Outcome.ABORTED\n",
            ),
        ),
        directed=directed.outputs_that_are_given_up_are_the_last,
        seed=21,
    ),
    Mutation(
        "an incarnation writes on after an output was refused",
        (Edit(_TRANSACTIONS, " or (outputs and self._aborted_outputs):", ":"),),
        directed=directed.outputs_that_are_given_up_are_the_last,
    ),
    Mutation(
        "an incarnation writes on after a connection was lost while it committed",
        (Edit(_OFFSETS, "if outcome is Outcome.OVER or self._transactions.over:", "if outcome is Outcome.OVER:"),),
        directed=directed.a_commit_whose_connection_was_lost_is_the_last,
    ),
)
ALL = (*LISTED, *OWN, *EXACTLY_ONCE)
