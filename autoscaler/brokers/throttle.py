"""What limits the copying of replicas: set for a batch beside what other tools have set, and taken away. Part of *brokers*.

Kafka limits by two kinds of keys: a rate of each broker, and lists of each topic's replicas that the rate holds for. A rate that
another tool has set stays. A list is shared: what moves is added to it, and only that is taken out again.
"""

from collections.abc import Iterator, Mapping

from autoscaler.brokers.journal import Move
from autoscaler.brokers.view import LISTS, RATES, ClearThrottle, Command, Setting, ShortenLists, View
from autoscaler.model import Finding, TopicPartition, What

_ALL = "*"  # a list of all replicas of a topic

Throttle = Mapping[Setting, str]


def wanted(moves: Mapping[TopicPartition, Move], bytes_per_s: float) -> dict[Setting, str]:
    """Return what limits the copying of these moves: without its list of replicas, a rate limits nothing."""
    return dict(_wanted({p: m for p, m in moves.items() if m.copies}, bytes_per_s))


def _wanted(copying: Mapping[TopicPartition, Move], bytes_per_s: float) -> Iterator[tuple[Setting, str]]:
    for broker in sorted({b for m in copying.values() for b in (*m.before, *m.after)}):
        yield from ((Setting("broker", str(broker), key), str(int(bytes_per_s))) for key in RATES)
    for topic in sorted({p.topic for p in copying}):
        mine = sorted((p.partition, m) for p, m in copying.items() if p.topic == topic)
        senders = ",".join(f"{n}:{b}" for n, m in mine for b in m.before)
        receivers = ",".join(f"{n}:{b}" for n, m in mine for b in m.after if b not in m.before)
        yield from ((Setting("topic", topic, key), value) for key, value in zip(LISTS, (senders, receivers), strict=True))


def beside(view: View, values: Throttle, left: Throttle) -> tuple[dict[Setting, str], tuple[Finding, ...]]:
    """Return what of a throttle is to be set beside what other tools have set, and a finding that names what of theirs holds.

    Args:
        view: What is set now.
        values: What is wanted.
        left: What is set now and is ours.
    """
    mine, theirs = dict[Setting, str](), list[Setting]()
    for setting, value in values.items():
        there = view.throttles.get(setting)
        if there is None or there == left.get(setting):
            mine[setting] = value
        elif setting.key in RATES or there == _ALL:
            theirs.append(setting)
        elif missing := [x for x in value.split(",") if x not in there.split(",")]:
            mine[setting] = ",".join(missing)
    said = sorted(f"{s.kind} {s.name} {s.key}" for s in theirs)
    return mine, (Finding.of(What.THROTTLE_KEPT, settings=said),) if said else ()


def taken_away(view: View, throttle: Throttle) -> tuple[tuple[Command, ...], dict[Setting, str]]:
    """Return what takes a throttle away, and what of it has to wait, because its broker does not answer.

    A rate that another tool has set since stays, and of a list what others have added.
    """
    clear, shorten = set[Setting](), dict[Setting, str]()
    for setting, value in throttle.items():
        there = view.throttles.get(setting)
        if there == value:
            clear.add(setting)
        elif there is not None and setting.key in LISTS:
            mine = [x for x in value.split(",") if x in there.split(",")]
            if len(mine) == len(there.split(",")):
                clear.add(setting)
            elif mine:
                shorten[setting] = ",".join(mine)
    commands: tuple[Command, ...] = (ClearThrottle(settings=frozenset(clear)),) if clear else ()
    if shorten:
        commands = (*commands, ShortenLists(values=shorten))
    return commands, {s: v for s, v in throttle.items() if s in _unanswered(view, throttle)}


def left_on(view: View, throttle: Throttle) -> tuple[Finding, ...]:
    """Return a finding of the brokers on which a throttle has to stay, because they do not answer."""
    brokers = sorted({s.name for s in _unanswered(view, throttle)}, key=int)
    return (Finding.of(What.THROTTLE_LEFT, brokers=brokers),) if brokers else ()


def _unanswered(view: View, throttle: Throttle) -> set[Setting]:
    return {s for s in throttle if s.kind == "broker" and int(s.name) not in view.brokers}
