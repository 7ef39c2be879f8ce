"""The loop that balances the brokers of one cluster: read, decide, carry out, record.

Put together by ``jobs/balance_brokers.py``.
Knows neither Spark nor Kafka: rates and consumers that are handed over come from callables, the cluster and the journal are
ports. One thread calls ``look`` again and again; in between nothing happens.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.brokers.carry_out import Step, begin, cancel, held_by, moves_of, proceed, unended
from autoscaler.brokers.journal import NOTHING, Journal, Move, can_be_written
from autoscaler.brokers.measured import Rate, Wanted, numbered, snapshot_of
from autoscaler.brokers.ports import ClusterAdmin, Entry, JournalLog
from autoscaler.brokers.throttle import left_on
from autoscaler.brokers.view import Cancel, Elect, Reassign, View
from autoscaler.config.balance import Balance
from autoscaler.core.messages import in_words
from autoscaler.errors import PermanentError, SettingsError
from autoscaler.goals import (
    GOALS,
    Action,
    Memory,
    Name,
    Settings,
    Snapshot,
    batches,
    decide,
    estimate,
    loads_explained,
    obstacles,
    problem_of,
    ranked,
    see,
)
from autoscaler.goals import explained as findings_of
from autoscaler.model import Finding, TopicPartition, What
from autoscaler.ports import Clock
from autoscaler.topic_selection import means, names, unmatched

log = logging.getLogger("balance")

_WATCH_S = 10.0  # between looks at a batch that runs, at most
_AGAIN_S = 600.0  # after which it is said again for whom a batch waits
_DAY_S = 86_400.0  # after which anything is said again: the page reads no older days than it must
_SAID = 20  # actions of a plan in the log; the audit has all
_ASKED = {Reassign: "the reassignment", Cancel: "to cancel the reassignment", Elect: "the election of the leader"}
_MOVES = frozenset({What.LEADERSHIP_MOVED, What.REPLICA_MOVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the loop is given.

    Attributes:
        admin: The cluster.
        journal: Of what is begun; only read where mode is advise.
        rates: Returns what was measured last, with its age now.
        busy: Returns topics whose consumers are just handed over.
        record: Takes rows for the audit.
        clock: Time.
    """

    admin: ClusterAdmin
    journal: JournalLog
    rates: Callable[[], Mapping[TopicPartition, Rate]]
    busy: Callable[[], frozenset[str]]
    record: Callable[[Sequence[Entry]], None]
    clock: Clock


@dataclass(frozen=True, slots=True)
class Waiting:
    """A plan that is carried out batch by batch."""

    id: str
    batches: deque[tuple[Action, ...]]
    forced: bool  # it empties brokers or spreads racks


@dataclass
class Balancer:
    """The loop of one cluster.

    Raises:
        FencedError: Another job has taken over: this one changes nothing any more.
        TransientError: The cluster did not answer; what was begun is looked at again by the next ``look``.
        PermanentError: The cluster refuses, until an operator changes something.
    """

    balance: Balance
    world: World
    journal: Journal = NOTHING
    memory: Memory = field(default_factory=Memory)
    numbers: dict[TopicPartition, int] = field(default_factory=dict)
    waiting: Waiting | None = None
    _slow: dict[int, int] = field(default_factory=dict)  # in how many looks in a row a broker has answered slowly
    _said: tuple[object, ...] = ()
    _said_at: float = 0.0
    _unended: tuple[Finding, ...] = ()  # by another job, where this one only advises
    _may_be_unended: bool = True

    @property
    def acts(self) -> bool:
        """Say whether plans are carried out."""
        return self.balance.mode == "act"

    def take_over(self) -> None:
        """Take the journal, and go on with what a job before this one had begun."""
        self.journal = self.world.journal.take()
        if self.journal != NOTHING:
            said = ", ".join(f"{p} to {m.after}" for p, m in sorted(self.journal.moves.items())[:5]) or "a throttle is left"
            log.warning("batch %s was begun by a job before this one and is followed to its end: %s", self.journal.batch, said)

    def look(self) -> float:
        """Do what is to be done now, and return after how many seconds to look again."""
        if not self.acts:
            self._look_back()
        elif not self.journal.moves:
            self.world.journal.write(self.journal)  # fails if another job has taken over
        moving = bool(self.journal.moves)
        if self.journal != NOTHING:
            self._carry_out(proceed(self.world.admin.observe(self.journal.topics), self.journal, self.world.clock.now()))
        if not moving and self.waiting is not None:
            self._go_on_with(self.waiting)
        elif not moving:
            self._decide()
        running = self.journal.moves or self.waiting is not None
        return min(_WATCH_S, self.balance.every_s) if running else self.balance.every_s

    def end(self) -> bool:
        """Cancel what still copies and take the throttle away, as far as one look allows; return whether that is done.

        Of a broker that does not answer the throttle stays, and stays in the journal.
        """
        self.waiting = None
        if self.journal != NOTHING:
            self._carry_out(cancel(self.world.admin.observe(self.journal.topics), self.journal))
        return not self.journal.moves

    def _look_back(self) -> None:
        """Find what a job in mode act has begun and not ended, as long as there is any: this one leaves it as it is."""
        if not self._may_be_unended:
            return
        try:
            found = unended(self.world.journal.read())
        except (PermanentError, SettingsError) as e:
            log.info("whether a job in mode act has left anything begun is not known: %s", e)
            found = ()
        if found != self._unended:
            self._tell(found)
        self._unended, self._may_be_unended = found, bool(found)

    def _decide(self) -> None:
        if not (rates := self.world.rates()):
            self._tell((*self._unended, Finding.of(What.NO_RATES_YET)))
            return
        now, view = self.world.clock.monotonic(), self.world.admin.observe(())
        self.numbers = {p: n for p, n in self.numbers.items() if p in view.partitions}
        snapshot, settings = self._snapshot(view, rates), settings_of(self.balance, view)
        cycle = decide(snapshot, self.memory, settings, now)
        self.memory = cycle.memory
        label = {n: p for p, n in self.numbers.items()}
        named, left = unmatched_names(self.balance, view), left_on(view, self.journal.throttle)
        found = (*self._unended, *findings_of(cycle, label.__getitem__), *named, *left, *loads_explained(cycle.problem))
        if cycle.plan is None or not cycle.plan.actions:
            self._tell(found)
            return
        actions = cycle.plan.actions
        expected = estimate(actions, self.balance.throttle_bytes_per_s)
        cost = Finding.of(
            What.BALANCE_ESTIMATE, leaderships=expected.leaderships, replicas=expected.replicas,
            copied_mb=round(expected.copied_bytes / 1e6), least_s=expected.seconds,
        )  # fmt: skip
        held = held_by(view) or self._waits(sorted({label[a.partition] for a in actions})) if self.acts else ()
        new = self._tell((*(f for f in found if f.what not in _MOVES), cost, *held), actions)
        if held or not self.acts:
            if new:
                self._record_plan(found, "held" if held else "advised")
            return
        plan = self._record_plan(found, "planned")
        self.waiting = Waiting(plan, deque(batches(snapshot, actions, settings)), forced=cycle.plan.forced > 0)
        self._begin(self.waiting, snapshot)

    def _snapshot(self, view: View, rates: Mapping[TopicPartition, Rate]) -> Snapshot:
        """Return what is known now; partitions that have come since keep the numbers that they get."""
        self.numbers = numbered(self.numbers, view.partitions)
        late = [n for n, b in view.brokers.items() if b.answered_s > self.balance.slow_after_s]
        self._slow = {n: self._slow.get(n, 0) + 1 for n in late}
        slow = [n for n, looks in self._slow.items() if looks >= self.balance.rounds]
        return snapshot_of(view, rates, self.numbers, wanted_of(self.balance), slow)

    def _go_on_with(self, waiting: Waiting) -> None:
        """Begin the next batch of a plan, if the rest of it is still right by what is measured now; else plan anew."""
        view, now = self.world.admin.observe(()), self.world.clock.monotonic()
        snapshot, settings = self._snapshot(view, self.world.rates()), settings_of(self.balance, view)
        seen = see(snapshot, self.memory, settings, now)
        self.memory = seen.memory
        rest = [a for batch in waiting.batches for a in batch]
        if found := obstacles(problem_of(seen.problem.snapshot, settings), waiting.batches[0], rest, forced=waiting.forced):
            self._tell(found)
            self.waiting = None
        else:
            self._begin(waiting, snapshot)

    def _waits(self, partitions: Sequence[TopicPartition]) -> tuple[Finding, ...]:
        """Return what holds a plan of which nothing can begin, because the consumers of all its topics are handed over."""
        busy = self.world.busy()
        return (Finding.of(What.CONSUMERS_MOVE, partitions=partitions),) if all(p.topic in busy for p in partitions) else ()

    def _begin(self, waiting: Waiting, snapshot: Snapshot) -> None:
        """Begin the next batch of a plan; what does not fit any more is left to the next plan."""
        names = {n: p for p, n in self.numbers.items()}
        view = self.world.admin.observe({names[a.partition].topic for a in waiting.batches[0]})
        busy = self.world.busy()
        while True:
            batch = waiting.batches[0]
            wanted = {names[n]: _as_it_stands(view, names[n], m) for n, m in moves_of(snapshot, batch).items()}
            throttle = self.balance.throttle_bytes_per_s
            step = begin(view, waiting.id, wanted, throttle=throttle, busy=busy, left=self.journal)
            if can_be_written(step.ahead) or len(batch) == 1:
                break
            waiting.batches[0] = batch[len(batch) // 2 :]
            waiting.batches.appendleft(batch[: len(batch) // 2])
        self._tell(step.findings)
        if not step.commands and step.findings:
            self.waiting = None  # it is planned again from what is measured then
            return
        waiting.batches.popleft()
        self.waiting = waiting if waiting.batches else None
        if step.commands:
            self._carry_out(step)
            self._record([self._outcome(p, "begun", m) for p, m in self.journal.moves.items()])

    def _carry_out(self, step: Step) -> None:
        """Give commands, each after a write of the journal, which fails if another job has taken over."""
        self.journal = step.ahead
        refused: dict[TopicPartition, str] = {}
        for command in step.commands:
            self.world.journal.write(step.ahead)
            found = self.world.admin.execute(command)
            if found:
                said = ", ".join(f"{p} ({why})" for p, why in sorted(found.items())[:5])
                log.warning("the brokers refuse %s of %d partitions: %s", _ASKED[type(command)], len(found), said)
            refused |= found
        moves = step.ahead.moves
        after = step.after
        if step.after is step.ahead and refused:  # a batch that begins: what was refused was not begun
            after = replace(after, moves={p: m for p, m in after.moves.items() if p not in refused})
            self._record([self._outcome(p, f"refused: {why}", moves[p]) for p, why in refused.items()])
        if step.commands or after != step.ahead:
            self.world.journal.write(after)
        self.journal = after
        self._tell(step.findings)
        if step.ended:
            for p, how in sorted(step.ended.items()):
                log.info("%s: %s", p, how)
            now = self.world.clock.monotonic()
            self.memory = self.memory.moved([self.numbers[p] for p in step.ended if p in self.numbers], now)
            self._record([self._outcome(p, how, moves[p], step.ahead.batch) for p, how in sorted(step.ended.items())])

    def _outcome(self, partition: TopicPartition, status: str, move: Move, batch: str = "") -> Entry:
        return Entry(
            kind="outcome", plan=batch or self.journal.batch, at=self.world.clock.now(), status=status, partition=partition,
            replicas=move.after,
        )  # fmt: skip

    def _record_plan(self, found: Sequence[Finding], status: str) -> str:
        """Write the actions of a plan down, and return its id."""
        at = self.world.clock.now()
        plan = f"{at:.3f}"
        moved = [f for f in found if f.what in _MOVES]
        self._record([
            Entry(kind="action", plan=plan, at=at, status=status, partition=f.partitions[0], findings=(f,)) for f in moved
        ])  # fmt: skip
        for f in moved[:_SAID]:
            log.info("%s: %s", status, in_words(f))
        return plan

    def _tell(self, found: Sequence[Finding], actions: Sequence[Action] = ()) -> bool:
        """Log what was found and write it down, unless that was just said; return whether it was new."""
        said = (
            *((f.what, f.partitions, *f.texts.values()) for f in found),
            *((a.partition, a.source, a.target) for a in actions),
        )
        now = self.world.clock.monotonic()
        again = now - self._said_at >= (_AGAIN_S if any(f.what is What.BATCH_WAITS for f in found) else _DAY_S)
        if not found or (said == self._said and not again):
            return False
        self._said, self._said_at = said, now
        for f in found:
            if f.what is not What.BROKER_LOADS:  # for the audit and the page
                log.info("%s", in_words(f))
        self._record([Entry(kind="look", plan="", at=self.world.clock.now(), findings=tuple(found))])
        return True

    def _record(self, rows: Sequence[Entry]) -> None:
        if rows:
            self.world.record(rows)


def _as_it_stands(view: View, partition: TopicPartition, move: Move) -> Move:
    """Return a move with the replicas in the order in which they stand now: what it is rolled back to."""
    holders = view.partitions.get(partition)
    same = holders is not None and set(holders.replicas) == set(move.before)
    return replace(move, before=holders.replicas) if holders is not None and same else move


def wanted_of(balance: Balance) -> Wanted:
    """Return what the configuration says of brokers."""
    capacity: dict[int, dict[str, float]] = {}
    for name, limits in balance.limits.items():
        for broker, most in limits.items():
            capacity.setdefault(broker, {})[name] = most
    return Wanted(leaving=frozenset(balance.leaving), capacity=capacity, disk_ratio=balance.disk_ratio, reads=balance.reads)


def unmatched_names(balance: Balance, view: View) -> tuple[Finding, ...]:
    """Return what the configuration names that the cluster does not have: brokers, topics, patterns that mean none."""
    brokers = view.brokers.keys() | {b for h in view.partitions.values() for b in h.replicas}
    topics = {p.topic for p in view.partitions}
    absent: dict[str, Sequence[object]] = {
        "leaving": sorted(set(balance.leaving) - brokers),
        "limits": sorted({b for limits in balance.limits.values() for b in limits} - brokers),
        "excluded": [*sorted(set(names(balance.excluded)) - topics), *unmatched(balance.excluded, topics)],
    }
    return tuple(Finding.of(What.NAMES_NOTHING, setting=k, names=[str(n) for n in v]) for k, v in absent.items() if v)


def settings_of(balance: Balance, view: View) -> Settings:
    """Return what the configuration says of a plan; topics are numbered as in the snapshot of this view."""
    topics = sorted({p.topic for p, h in view.partitions.items() if h.replicas})
    return Settings(
        goals=ranked([Name(n) for n in balance.goals]) or GOALS,
        excluded=frozenset(i for i, t in enumerate(topics) if means(balance.excluded, t)),
        rounds=balance.rounds,
        smoothing_s=balance.smoothing_s,
        cooldown_s=balance.stays_s,
        stale_after_s=max(60.0, 2 * balance.every_s),
    )
