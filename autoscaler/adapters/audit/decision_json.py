"""A decision as the text that its plan record carries, and back.

Stands between the controller, which publishes the text with the plan, and the audit, which completes its tables from the text
after a crash. Pure: knows no Spark, no Kafka and no clock. Compact, because it travels in every plan record: partitions are
written as ranges per topic and slot, so that thousands of them stay far below a broker's record limit.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields

from autoscaler.model import (
    Action,
    AddWorkers,
    CapacitySource,
    Decision,
    Finding,
    MovePartition,
    ParkPartition,
    Reason,
    RemoveWorkers,
    ResetOffset,
    TopicPartition,
)
from autoscaler.model.findings import What

VERSION = 1
# Of a decision, by their types: numbers and texts, which are written as they are, and tuples of partitions
PLAIN = tuple(f.name for f in fields(Decision) if f.type in {str, int, float, int | None, float | None})
_PARTITIONS = tuple(f.name for f in fields(Decision) if f.type == tuple[TopicPartition, ...])


def summarise(decision: Decision) -> str:
    """Return the decision as one line of JSON, from which ``restore`` makes an equal decision.

    It holds no per-partition loads: those are in the audit's tables or lost with the cycle that measured them.
    """
    data: dict[str, object] = {"v": VERSION} | {name: getattr(decision, name) for name in PLAIN}
    data["reason"] = decision.reason.value
    data["limited_by"] = decision.limited_by and decision.limited_by.value
    data["capacity_source"] = decision.capacity_source.value
    data["own"] = [[slot, rate] for slot, rate in sorted(decision.own_bytes_per_s.items())]
    data["requested"] = sorted(decision.requested)
    held: dict[int, list[TopicPartition]] = {}
    for partition, slot in decision.target.items():
        held.setdefault(slot, []).append(partition)
    data["target"] = {str(slot): _grouped(held[slot]) for slot in sorted(held)}
    data["actions"] = _steps(decision.actions)
    data["findings"] = [_written(f) for f in decision.findings]
    data |= {name: [[p.topic, p.partition] for p in getattr(decision, name)] for name in _PARTITIONS}
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def restore(summary: str) -> Decision:
    """Return the decision that ``summarise`` was given.

    Raises:
        ValueError: The text is none of ``summarise``'s, or of a version that this one cannot read.
    """
    try:
        data = json.loads(summary)
        if data["v"] != VERSION:
            raise ValueError(f"a plan's summary has version {data['v']}; this release reads version {VERSION}")
        plain = {name: data[name] for name in PLAIN if name in data}  # one with a default may be missing in an older summary
        plain |= {name: tuple(TopicPartition(topic=t, partition=n) for t, n in data.get(name, ())) for name in _PARTITIONS}
        return Decision(
            **plain,
            reason=Reason(data["reason"]),
            limited_by=Reason(data["limited_by"]) if data["limited_by"] else None,
            requested=frozenset(data["requested"]),
            target={p: int(slot) for slot, topics in data["target"].items() for p in _partitions(topics)},
            actions=tuple(_actions(data["actions"])),
            capacity_source=CapacitySource(data.get("capacity_source", CapacitySource.CONFIGURED)),
            own_bytes_per_s={int(slot): rate for slot, rate in data.get("own", ())},
            findings=tuple(_finding(*f) for f in data.get("findings", ())),
        )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as e:
        raise ValueError(f"not a decision's summary ({type(e).__name__}: {e}): {summary[:80]!r}") from e


def _written(finding: Finding) -> list[object]:
    """Return a finding in the order in which ``_finding`` takes it."""
    partitions = [[p.topic, p.partition] for p in finding.partitions]
    said = [finding.what.value, finding.reason and finding.reason.value, finding.limit and finding.limit.value]
    return [*said, partitions, list(finding.consumers), dict(finding.numbers), dict(finding.texts)]


def _finding(  # noqa: PLR0917  as it is written
    what: str,
    reason: str | None,
    limit: str | None,
    partitions: Iterable[tuple[str, int]],
    consumers: Iterable[int],
    numbers: Mapping[str, float],
    texts: Mapping[str, str],
) -> Finding:
    return Finding(
        what=What(what),
        reason=Reason(reason) if reason else None,
        limit=Reason(limit) if limit else None,
        partitions=tuple(TopicPartition(topic=t, partition=n) for t, n in partitions),
        consumers=tuple(consumers),
        numbers=numbers,
        texts=texts,
    )


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    numbers: dict[str, list[int]] = {}
    for p in sorted(partitions):
        numbers.setdefault(p.topic, []).append(p.partition)
    return {topic: _ranges(ns) for topic, ns in numbers.items()}


def _partitions(topics: Mapping[str, str]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic=t, partition=n) for t, text in topics.items() for n in _numbers(text))


def _ranges(numbers: list[int]) -> str:
    """Return ascending numbers as ``0-3,7``."""
    spans: list[list[int]] = []
    for n in numbers:
        if spans and n == spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _numbers(text: str) -> Iterable[int]:
    for span in text.split(","):
        first, _, last = span.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _steps(actions: Iterable[Action]) -> list[list[object]]:
    """Return actions in their order, neighbouring moves between the same two slots as one step."""
    steps: list[list[object]] = []
    run: list[int] = []
    for action in actions:
        match action:
            case ParkPartition(partition=p, owners=owners, offset=offset):
                steps.append(["park", p.topic, p.partition, owners, offset])
            case ResetOffset(partition=p, offset=offset, start=start):
                steps.append(["reset", p.topic, p.partition, offset, start])
            case AddWorkers(slots=slots):
                steps.append(["add", *slots])
            case RemoveWorkers(slots=slots):
                steps.append(["remove", *slots])
            case MovePartition(partition=p, source=source, target=target):
                head: list[object] = ["move", p.topic, source, target]
                if steps and steps[-1][:4] == head and p.partition > run[-1]:
                    run.append(p.partition)
                else:
                    run = [p.partition]
                    steps.append(head)
                steps[-1][4:] = [_ranges(run)]
    return steps


def _actions(steps: Iterable[list[object]]) -> Iterable[Action]:
    for step in steps:
        match step:
            case ["park", str() as topic, int() as number, int() as owners, int() as offset]:
                yield ParkPartition(partition=TopicPartition(topic=topic, partition=number), owners=owners, offset=offset)
            case ["reset", str() as topic, int() as number, int() as offset, int() as start]:
                yield ResetOffset(partition=TopicPartition(topic=topic, partition=number), offset=offset, start=start)
            case ["add", *slots]:
                yield AddWorkers(slots=tuple(int(str(s)) for s in slots))
            case ["remove", *slots]:
                yield RemoveWorkers(slots=tuple(int(str(s)) for s in slots))
            case ["move", str() as topic, None | int() as source, int() as target, str() as text]:
                yield from (
                    MovePartition(partition=TopicPartition(topic=topic, partition=n), source=source, target=target)
                    for n in _numbers(text)
                )
            case _:
                raise ValueError(f"not a step of a plan: {step!r}")
