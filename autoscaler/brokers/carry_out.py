"""What to do next: a view and a journal in, commands and the journals before and after them out. Part of *brokers*.

The journal ``ahead`` is written before the commands are given, ``after`` once all of them were. So a job that comes after one
that was killed in between finds in it whatever may have been begun or set.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.brokers.journal import NOTHING, Journal, Move
from autoscaler.brokers.throttle import beside, left_on, taken_away, wanted
from autoscaler.brokers.view import Cancel, Command, Elect, Reassign, SetThrottle, View
from autoscaler.goals import Action, Snapshot, fitting, target_replicas
from autoscaler.model import Finding, TopicPartition, What

_DOUBTED = frozenset({"cancelled", "changed", "gone"})  # a broker may not know yet what the controller knows: asked twice
_ELECTIONS = 10  # after so many looks a leadership that does not move is given up


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What comes next.

    Attributes:
        ahead: The journal to write before the commands; it is written even if it has not changed, because that is what shows
            whether another job has taken over.
        commands: In order.
        after: The journal to write once all commands were given.
        ended: What became of partitions: moved, cancelled, changed (by another tool), gone, not_led.
        findings: What held it, and what was found.
    """

    ahead: Journal
    commands: tuple[Command, ...] = ()
    after: Journal
    ended: Mapping[TopicPartition, str]
    findings: tuple[Finding, ...] = ()


def moves_of(snapshot: Snapshot, batch: Sequence[Action]) -> dict[int, Move]:
    """Return the reassignment of each partition of a batch, by its number, without what does not fit what is there now.

    Args:
        snapshot: As it is now.
        batch: One of ``goals.batches``.
    """
    before = snapshot.state
    after, fits = fitting(snapshot, before, batch)
    touched = dict.fromkeys(a.partition for a in fits)
    found = {p: (target_replicas(snapshot, before, p), target_replicas(snapshot, after, p)) for p in touched}
    return {p: Move(before=a, after=b) for p, (a, b) in found.items()}


def foreign(view: View, journal: Journal) -> tuple[TopicPartition, ...]:
    """Return the partitions that another tool reassigns."""
    return tuple(sorted(p for p, to in view.running.items() if p not in journal.moves or journal.moves[p].after != to))


def held_by(view: View) -> tuple[Finding, ...]:
    """Return what keeps anything from being begun; empty: nothing does."""
    found = []
    if lacking := view.under_replicated():
        found.append(Finding.of(What.UNDER_REPLICATED, partitions=lacking))
    if others := foreign(view, NOTHING):
        found.append(Finding.of(What.REASSIGNED_ELSEWHERE, partitions=others))
    return tuple(found)


def unended(journal: Journal) -> tuple[Finding, ...]:
    """Return a finding of what a job has begun and not ended; none: nothing."""
    if journal == NOTHING:
        return ()
    throttled = sorted({f"{s.kind} {s.name}" for s in journal.throttle})
    return (Finding.of(What.BEGUN_BEFORE, partitions=sorted(journal.moves), throttled=throttled),)


def begin(
    view: View,
    batch: str,
    moves: Mapping[TopicPartition, Move],
    *,
    throttle: float | None,
    busy: Collection[str] = (),
    left: Journal = NOTHING,
) -> Step:
    """Begin a batch, as far as it fits what is there.

    Args:
        view: As it is now, with the throttles of the topics that move.
        batch: A new id.
        moves: What is wanted.
        throttle: Bytes/s that each broker sends and receives at most for it; ``None``: no limit.
        busy: Topics whose consumers are just handed over: nothing of them begins.
        left: The journal now: of a batch before it a throttle may be left.
    """
    found = list(held_by(view))
    if found:
        return Step(ahead=left, after=left, ended={}, findings=tuple(found))
    waiting = sorted(p for p in moves if p.topic in busy)
    if waiting:
        found.append(Finding.of(What.CONSUMERS_MOVE, partitions=waiting))
    fits = {p: m for p, m in moves.items() if p.topic not in busy and _fits(view, p, m)}
    if not fits:
        return Step(ahead=left, after=left, ended={}, findings=tuple(found))
    ours, kept = beside(view, wanted(fits, throttle) if throttle is not None else {}, left.throttle)
    journal = Journal(batch=batch, moves=fits, throttle={**left.throttle, **ours})
    commands: tuple[Command, ...] = (Reassign(replicas={p: m.after for p, m in fits.items()}),)
    if ours:
        commands = (SetThrottle(values=ours), *commands)
    return Step(ahead=journal, commands=commands, after=journal, ended={}, findings=(*found, *kept))


def _fits(view: View, partition: TopicPartition, move: Move) -> bool:
    holders = view.partitions.get(partition)
    return (
        holders is not None and set(holders.replicas) == set(move.before) and view.brokers.keys() >= {*move.before, *move.after}
    )


def proceed(view: View, journal: Journal, at: float) -> Step:
    """Go on with a batch that was begun, by this job or by one before it, until all of it has ended.

    Args:
        view: As it is now, with the throttles of the journal's topics.
        journal: What was begun.
        at: Now, in seconds since 1970.
    """
    seen = {p: how for p, m in journal.moves.items() if (how := _ended(view, p, m)) is not None}
    doubted = frozenset(p for p, how in seen.items() if how in _DOUBTED and p not in journal.doubted)
    ended = {p: how for p, how in seen.items() if p not in doubted}
    elect = {p for p, m in journal.moves.items() if p not in seen and _is_led_wrongly(view, p, m)}
    if journal.elections >= _ELECTIONS:
        ended |= dict.fromkeys(elect, "not_led")
        elect = set()
    left = {p: m for p, m in journal.moves.items() if p not in ended}
    if not left:
        return _over(view, journal, (), ended)
    found = [Finding.of(What.REASSIGNED_ELSEWHERE, partitions=others)] if (others := foreign(view, journal)) else []
    since, waits = _waits(view, journal, left, at)
    elections = journal.elections + bool(elect)
    now = replace(journal, moves=left, elections=elections, doubted=doubted, waits_since=since)
    commands: tuple[Command, ...] = (Elect(partitions=frozenset(elect)),) if elect else ()
    return Step(ahead=journal, commands=commands, after=now, ended=ended, findings=(*found, *waits))


def _waits(view: View, journal: Journal, left: Mapping[TopicPartition, Move], at: float) -> tuple[float, tuple[Finding, ...]]:
    """Return since when some of a batch cannot get on, and a finding that says for want of which brokers."""
    awaited = {p: found for p, m in left.items() if (found := _awaited(view, p, m))}
    if not awaited:
        return 0.0, ()
    since = journal.waits_since or at
    brokers = [str(b) for b in sorted(frozenset().union(*awaited.values()))]
    waited_s = max(0.0, at - since)
    return since, (Finding.of(What.BATCH_WAITS, partitions=sorted(awaited), brokers=brokers, waited_s=waited_s),)


def _awaited(view: View, partition: TopicPartition, move: Move) -> frozenset[int]:
    """Return the brokers without which a move cannot get on."""
    holders, running = view.partitions.get(partition), view.running.get(partition)
    if holders is None:
        return frozenset()
    if running == move.after:
        source = frozenset() if holders.leader in view.brokers else holders.in_sync or frozenset(move.before)
        return (source | frozenset(move.after)) - view.brokers.keys()
    lags = running is None and holders.replicas == move.after and move.after[0] not in holders.in_sync
    return frozenset({move.after[0]} if lags else ())


def _ended(view: View, partition: TopicPartition, move: Move) -> str | None:
    """Return how a move has ended; ``None``: it has not."""
    holders, running = view.partitions.get(partition), view.running.get(partition)
    if holders is None:
        return "gone"
    if running is not None:
        return None if running == move.after else "changed"
    if holders.replicas == move.after:
        return "moved" if holders.leader == move.after[0] else None
    return "cancelled" if set(holders.replicas) == set(move.before) else "changed"


def _is_led_wrongly(view: View, partition: TopicPartition, move: Move) -> bool:
    holders = view.partitions[partition]
    return partition not in view.running and holders.replicas == move.after and move.after[0] in holders.in_sync


def _over(view: View, journal: Journal, commands: tuple[Command, ...], ended: Mapping[TopicPartition, str]) -> Step:
    """Return the last step of a batch: the throttle goes, but for that of brokers that do not answer, which is kept in mind."""
    clearing, left = taken_away(view, journal.throttle)
    after = Journal(batch=journal.batch, throttle=left) if left else NOTHING
    found = left_on(view, left) if journal.moves else ()  # said once here, and by the job with what it decides from then on
    return Step(ahead=journal, commands=(*commands, *clearing), after=after, ended=ended, findings=found)


def cancel(view: View, journal: Journal) -> Step:
    """End a batch, look by look: what copies goes back to where it was, what has moved stays, no throttle is left.

    What became of a partition is what is seen of it afterwards: brokers may refuse, or a copy may have ended meanwhile. So one
    that is asked to go back stays in the journal until a later look.
    """
    running = frozenset(p for p, m in journal.moves.items() if view.running.get(p) == m.after)
    seen = {p: _ended(view, p, m) or "not_led" for p, m in journal.moves.items() if p not in running}
    doubted = frozenset(p for p, how in seen.items() if how in _DOUBTED - {"cancelled"} and p not in journal.doubted)
    ended = {p: how for p, how in seen.items() if p not in doubted}
    back = {p: journal.moves[p].before for p, how in ended.items() if how == "cancelled"}
    disordered = {p: to for p, to in back.items() if view.partitions[p].replicas != to}
    commands: tuple[Command, ...] = (Cancel(partitions=running),) if running else ()
    if disordered:  # Kafka puts replicas back in another order, and with it another preferred leader
        commands = (*commands, Reassign(replicas=disordered))
    left = {p: m for p, m in journal.moves.items() if p not in ended}
    if not left:
        return _over(view, journal, commands, ended)
    return Step(ahead=journal, commands=commands, after=replace(journal, moves=left, doubted=doubted), ended=ended)
