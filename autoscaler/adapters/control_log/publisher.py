"""The fenced control log of one managed group: implements ``ports.PlanPublisher`` on Kafka.

Executes what ``handover.controller_state`` and ``handover.planning`` say: reads both logs through ``reader``, publishes plans,
expiries and tombstones in transactions of one transactional id, so that a newer controller's start makes this one's writes fail.
It takes no decision. Whether another controller has taken over is judged by what that one has written in its own fenced
transaction, a number above this one's: being fenced is no proof, because a predecessor does it that does not know yet that it is
one.

Times of releases and takings are the broker's (both topics use LogAppendTime). With several brokers the two partitions may have
different leaders, whose clocks differ: ``HandoverDone.pause_s`` is then off by that difference, and never below zero.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal
from uuid import uuid4

from autoscaler.adapters.control_log.group_view import Latencies, active_by_slot, view
from autoscaler.adapters.control_log.offsets import ControlOffsets
from autoscaler.adapters.control_log.reader import LogReader, fold, tick_every_s
from autoscaler.adapters.control_log.transactions import TRANSACTION_TIMEOUT_S, ControlTransactions
from autoscaler.adapters.control_log.worker_warnings import WorkerWarnings
from autoscaler.adapters.kafka.control_topics import (
    Connection,
    TopicFacts,
    admin_client,
    answering,
    check_control_topics,
    chosen,
    client_log,
    describe,
    ensure_control_topics,
)
from autoscaler.adapters.kafka.durability import Durability
from autoscaler.adapters.kafka.fencing import fence
from autoscaler.adapters.kafka.open_transactions import open_transactions
from autoscaler.clients.secrets import stamp
from autoscaler.errors import FencedError, SettingsError, TransientError
from autoscaler.handover.codec import encode, encode_key, partition_for
from autoscaler.handover.commit_metadata import epoch_of
from autoscaler.handover.controller_state import ControllerState
from autoscaler.handover.expiry import margin_s
from autoscaler.handover.planning import Intended, next_plan
from autoscaler.handover.records import CONTROL_TOPIC, HEARTBEAT_TOPIC, Expired, TakeOver, Tp
from autoscaler.model import GroupState, TopicPartition
from autoscaler.ports import Clock, PlanIntent
from autoscaler.topic_selection import means, names

_CALL_S = 5.0
_LOOK_S = 2.0
_STALE_S = 3.0  # beyond the tick's interval: the log cannot be read right now
_REOPEN_S = 30.0
_HIDDEN_S = 1.0
_SAYS_SO_S = 1.0  # within which a successor that has fenced this controller says that it is one
_POLL_S = 0.02
_TRIES = 5
_CHECK_S = 300.0  # between two looks at the configuration of the control log's topics


class KafkaControl:
    """One group's control log; starting one fences its predecessor. ``reset_policy`` and ``park_after`` as in ``ControlOffsets``.

    Workers of which no heartbeat has told a lease have ``lease_s``. The two topics, where they have to be created, get
    ``replication_factor`` replicas; ``None``: 3, or the number of brokers if fewer.

    Raises:
        SettingsError: A topic does not exist or is configured wrongly, or a permission is missing; says what to do.
        TransientError: The cluster does not answer.
    """

    def __init__(  # noqa: PLR0913  (what one group is)
        self,
        *,
        connection: Connection,
        group: str,
        topics: tuple[str, ...],
        reset_policy: Literal["earliest", "latest"],
        lease_s: float,
        replication_factor: int | None,
        slot_of: Callable[[str], int | None],
        clock: Clock,
        park_after: int | None = 3,
    ) -> None:
        self._connection, self._group, self._topics = dict(connection), group, topics
        self._lease_s, self._replication_factor, self._slot_of, self._clock = lease_s, replication_factor, slot_of, clock
        self._tick_s = tick_every_s(lease_s)
        self._durability, self._check_at = Durability(group, replication_factor), 0.0
        self._stamp = stamp(connection)
        self._admin = admin_client(connection)
        self._log: LogReader | None = None
        self._transactions = ControlTransactions(self._connection)
        self._offsets = ControlOffsets(self._connection, group, reset_policy=reset_policy, park_after=park_after)
        self._state = ControllerState(group, "", lease_s)
        self._latencies, self._warnings = Latencies(), WorkerWarnings(group, slot_of, lease_s)
        self._ended: frozenset[str] = frozenset()
        self._control = self._beats = ""  # ids of the two topics
        self._partition = 0
        self._barrier = 0  # what must have been read before anything is decided
        self._fenced = False
        self._incarnation = str(uuid4())
        self._number: int | None = None  # of this controller; None: it has not taken over yet, so no other can have from it
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    # --- ports.PlanPublisher ---

    def observe(self) -> GroupState:
        """Return the group's state, see ``ports.PlanPublisher``."""
        log = self._catch_up()
        self._expire(log)
        self._offsets.count_losses(self._state, self._names(log))
        self._offsets.commit_again(self._state, self._names(log), self._transactions)
        completed = self._state.moved()
        self._latencies.keep(w for w in self._state.beats if w not in self._state.over)
        self._warnings.say(self._state)
        return view(self._state, self._slot_of, self._latencies, completed, self._names(log), self._offsets.poison())

    def publish(self, intent: PlanIntent) -> int:
        """Publish a plan, see ``ports.PlanPublisher``.

        Where the broker went away in between, the next ``observe`` shows what stands. A successor goes by whatever is in the log,
        this plan included if it is.
        """
        log = self._catch_up()
        plan = next_plan(self._state, self._intended(intent, log))
        spent: list[tuple[bytes, bytes | None]] = [(encode_key(key), None) for key in self._state.spent()]
        try:
            self._commit([*spent, encode(plan)])
        except TransientError:
            self._resolve(log)
            if self._state.plan != plan:
                raise
        return plan.epoch.number

    def ended(self, instances: frozenset[str]) -> None:
        """Tell which process or container instances the platform has seen end (rule 8a)."""
        self._ended |= instances
        self._state.ended(instances)

    def last_summary(self) -> str | None:
        """Return the summary of the latest committed plan, to complete the audit after a restart."""
        return self._state.plan.summary if self._state.plan else None

    def close(self) -> None:
        """Release connections; the plan stays."""
        if self._log is not None:
            self._log.close()
            self._log = None
        self._offsets.close()
        self._transactions.drop()

    # --- start, and starting again ---

    def _open(self) -> LogReader:
        """Start as rule 1 says: fence the predecessor, then read both logs to the end."""
        self.close()
        self._stamp = stamp(self._connection)
        self._admin = admin_client(self._connection)  # an old one finds no leaders of a topic that was made anew
        answering(self._admin, self._connection, timeout_s=_CALL_S)
        found = ensure_control_topics(self._admin, lease_s=self._lease_s, replication_factor=self._replication_factor)
        self._durability.look(self._admin, found)
        self._check_at = time.monotonic() + _CHECK_S
        facts = describe(self._admin, chosen(self._admin, self._topics))
        if missing := [t for t in names(self._topics) if t not in facts]:
            raise SettingsError(tuple(f"groups.{self._group}.topics: topic {t!r} does not exist: create it" for t in missing))
        self._control, self._beats = found[CONTROL_TOPIC].topic_id, found[HEARTBEAT_TOPIC].topic_id
        self._partition = partition_for(self._group, found[CONTROL_TOPIC].partitions)
        self._state = ControllerState(self._group, self._control, self._lease_s)
        self._state.ended(self._ended)
        self._barrier, self._transactions.unsure = 0, False
        self._offsets.begin(self._admin)
        self._take_id()
        log = LogReader(
            self._connection,
            self._admin,
            group=self._group,
            partition=self._partition,
            control_id=self._control,
            topics=self._topics,
            tick_s=self._tick_s,
            clock=self._clock,
        )
        log.facts = found | facts
        try:
            log.start()
            self._read_to_end(log)
            self._fold(log)
            self._take_over(log)
        except BaseException:
            log.close()
            raise
        self._log = log  # not earlier: a controller that has not read all of it and taken it over starts anew
        return log

    def _take_id(self) -> None:
        """Fence every other controller of this group, and end what was begun."""
        self._transactions.take(f"{CONTROL_TOPIC}/{self._partition}/{self._group}", self._partition)

    def _take_over(self, log: LogReader) -> None:
        """Say in the log that this is the latest controller; a predecessor that has fenced it meanwhile reads that (rule 1)."""
        for _ in range(_TRIES):
            self._end_if_superseded()
            latest = self._state.controller
            if latest is not None and latest.incarnation == self._incarnation:
                self._number = log.number = latest.number
                return
            number = 1 + max(self._number or 0, self._state.number)
            record = TakeOver(group=self._group, control_id=self._control, number=number, incarnation=self._incarnation)
            try:
                self._commit([encode(record)])
                self._read_own_commit(log)
            except TransientError:
                self._resolve(log)
        raise TransientError(f"the control log of group {self._group} could not be taken over: others take it time and again")

    def _end_if_superseded(self) -> None:
        """Raise ``FencedError`` if another controller has taken over from this one."""
        if self._fenced or (self._number is not None and self._state.superseded(self._incarnation, self._number)):
            self._fenced = True
            raise FencedError(f"another controller has taken over group {self._group}")

    def _read_to_end(self, log: LogReader) -> None:
        """Read what was written before now; an open transaction of another group ends within its timeout.

        A broker that crashed right after it accepted a commit may restart with the transaction complete for the coordinator and
        without its marker in this log (seen with 4.3.1): everything behind it stays hidden, for ever. The next commit of the same
        transactional id writes a marker that closes it, so one is made that changes nothing.
        """
        try:
            log.wait_for(CONTROL_TOPIC, log.end(CONTROL_TOPIC), timeout_s=_HIDDEN_S)
        except TransientError:
            self._commit([(encode_key(("left", self._group, "", "")), None)])
            self._wait_for_control(log, log.end(CONTROL_TOPIC), timeout_s=TRANSACTION_TIMEOUT_S + 2 * _CALL_S)
        log.wait_for(HEARTBEAT_TOPIC, log.end(HEARTBEAT_TOPIC), timeout_s=_CALL_S)

    # --- reading ---

    def _catch_up(self) -> LogReader:
        """Return the log, read past the own last commit, with everything that came folded in."""
        self._end_if_superseded()
        if self._log is not None and self._refers_to_others(self._log):
            self.close()
        log = self._log or self._open()
        self._check_topics(log)
        if self._transactions.unsure:
            self._resolve(log)
        self._check_fresh(log)
        self._check_configuration(log)
        self._read_own_commit(log)
        self._end_if_superseded()
        return log

    def _read_own_commit(self, log: LogReader) -> None:
        """Read past the own last commit, or a decision would be taken on a view older than the own plan.

        If it stays hidden, the next call takes the transactional id again and makes it visible.
        """
        try:
            self._wait_for_control(log, self._barrier, timeout_s=_CALL_S)
        except TransientError:
            self._transactions.unsure = True
            raise
        self._fold(log)

    def _wait_for_control(self, log: LogReader, offset: int, *, timeout_s: float) -> None:
        """Wait until the control log has been read so far; where an open transaction hides it, say which one and what ends it."""
        try:
            log.wait_for(CONTROL_TOPIC, offset, timeout_s=timeout_s)
        except TransientError as e:
            here = [TopicPartition(topic=CONTROL_TOPIC, partition=self._partition)]
            found = open_transactions(self._connection, here, older_than_s=2 * TRANSACTION_TIMEOUT_S)
            raise TransientError("; ".join((str(e), *found))) from e

    def _fold(self, log: LogReader) -> None:
        fold(log, self._state, self._latencies, self._group)

    def _check_topics(self, log: LogReader) -> None:
        """Epochs and offsets of a control topic made anew start over, and so must everything that was read."""
        found = (log.facts.get(t) for t in (CONTROL_TOPIC, HEARTBEAT_TOPIC))
        control, beats = (None if f is None else f.topic_id for f in found)
        if log.lost or (control, beats) != (self._control, self._beats):
            self._fold(log)  # a controller that has been replaced is to learn it from what has been read
            self._end_if_superseded()
        if log.lost:
            client_log.warning(
                "group %s: a broker came back without the last records of the control log: reading it anew", self._group
            )
            self.close()
            msg = "a broker came back without the last records of the control log; it is read anew"
            raise TransientError(msg)
        if (control, beats) != (self._control, self._beats):
            client_log.warning("group %s: the topics of the control log were made anew or deleted: starting over", self._group)
            self.close()
            self._open()
            msg = "the topics of the control log were made anew; started over"
            raise TransientError(msg)

    def _refers_to_others(self, log: LogReader) -> bool:
        """Say whether the log is silent and its clients know a password or a certificate that has been replaced since."""
        if log.silent_s <= self._tick_s + _STALE_S or stamp(self._connection) == self._stamp:
            return False
        client_log.warning("group %s: what its connection refers to has changed: connecting anew", self._group)
        return True

    def _check_fresh(self, log: LogReader) -> None:
        silent_s = log.silent_s
        if log.refused:
            if time.monotonic() - log.refused_at > _REOPEN_S:
                self.close()  # a client does not notice by itself that it may read again: ask with the next call
            raise TransientError("; ".join(log.refused.values()))
        if silent_s <= self._tick_s + _STALE_S:
            return
        if silent_s > _REOPEN_S and log.failure is None:
            self.close()  # the cluster answers and this client does not recover: begin again with the next call
        raise TransientError(f"the control log could not be written and read back for {silent_s:.0f} s: is the broker away?")

    def _check_configuration(self, log: LogReader) -> None:
        """Look now and then whether the topics have been altered, once the broker has just been heard; else another time.

        What would break the protocol is raised as ``SettingsError``, with the next call too.
        """
        if time.monotonic() < self._check_at:
            return
        facts = log.facts  # another thread replaces it
        try:
            check_control_topics(
                self._admin, self._lease_s, {t: facts[t] for t in (CONTROL_TOPIC, HEARTBEAT_TOPIC) if t in facts}
            )
        except TransientError as e:
            client_log.info("group %s: the configuration of the control log's topics is not known now: %s", self._group, e)
        self._check_at = time.monotonic() + _CHECK_S

    # --- writing ---

    def _expire(self, log: LogReader) -> None:
        """Record which workers are over, and delete records of those that matter no more (rules 8 and 11).

        A worker that commits in transactions is fenced first: before a new owner reads the committed offset, and before it is
        read here, because it cannot be as long as a transaction with it is open.
        """
        for worker in fence(self._connection, self._group, self._state.to_fence()):
            self._state.fenced(worker)
        over = self._state.to_expire()
        records: list[tuple[bytes, bytes | None]] = [
            encode(Expired(group=self._group, worker=worker, control_id=self._control, evidence=evidence))
            for worker, evidence in sorted(over.items())
        ]
        records += [(encode_key(key), None) for key in self._state.forgettable(log.log_start)]
        if records:
            self._commit(records)
            self._read_own_commit(log)

    def _commit(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write records in one transaction and remember what must be read before the next decision.

        Where it fails, the next call finds out what became of it, before anything else is written.
        """
        self._barrier = max(self._barrier, self._transactions.commit(records))

    def _resolve(self, log: LogReader) -> None:
        """Find out what became of an unfinished transaction, by ending it and reading the log.

        A controller that has been fenced waits first for its successor's record: taking the transactional id again fences that
        one. If no such record comes, the coordinator has ended a transaction that took too long, or a predecessor has resolved
        one of its own.
        """
        limit = time.monotonic() + (_SAYS_SO_S if self._transactions.refused else 0.0)
        self._end_if_superseded()
        while time.monotonic() < limit:
            time.sleep(_POLL_S)
            self._fold(log)
            self._end_if_superseded()
        self._transactions.refused = False
        self._take_id()
        self._read_to_end(log)
        self._fold(log)
        self._transactions.unsure = False
        self._end_if_superseded()

    # --- a plan ---

    def _names(self, log: LogReader) -> dict[str, str]:
        return {f.topic_id: t for t, f in self._facts(log).items()}

    def _facts(self, log: LogReader) -> dict[str, TopicFacts]:
        return {t: facts for t, facts in log.facts.items() if means(self._topics, t)}

    def _intended(self, intent: PlanIntent, log: LogReader) -> Intended:
        facts = self._facts(log)
        if any(p.topic not in facts for p in intent.target):
            log.list_soon()  # the measurement has seen it earlier
        slots = {
            Tp(facts[p.topic].topic_id, p.partition): s
            for p, s in intent.target.items()
            if p.topic in facts and p.partition < facts[p.topic].partitions
        }
        partitions = sorted(Tp(f.topic_id, n) for f in facts.values() for n in range(f.partitions))
        active = active_by_slot(self._state, self._slot_of)
        names = self._names(log)
        lost = self._state.lost().keys() | self._state.parked().keys()
        committed = self._offsets.committed(partitions, names)
        if self._state.plan is None and committed and not self._state.silence_proven():
            wait_s = self._lease_s + margin_s(self._lease_s)
            raise TransientError(
                f"group {self._group} has committed offsets and the control log knows no worker: "
                f"the heartbeat log is observed for {wait_s:.1f} s before the first plan"
            )
        return Intended(
            owners={tp: active[s] for tp, s in sorted(slots.items()) if s in active},
            topics=names,
            partitions=frozenset(partitions),
            starts=self._offsets.starts(partitions, names, committed, self._state.plan),
            requested=tuple(sorted(intent.requested)),
            summary=intent.summary,
            at=self._clock.now(),
            losses=self._offsets.losses,
            recommit_s=self._offsets.recommit_s,
            epochs_before=max((epoch_of(x.metadata) for x in committed.values()), default=0),
            resets={Tp(facts[p.topic].topic_id, p.partition): r for p, r in intent.resets.items() if p.topic in facts},
            parked=frozenset(tp for tp in partitions if (names[tp.topic_id], tp.partition) in intent.parked and tp in lost),
        )
