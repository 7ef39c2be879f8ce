"""``autoscaler check``: is there what a configuration names, may this user do what the job needs, and what would the job refuse?

It writes no record and touches no group; what it cannot see it says. Composes what ``config`` says is needed with what a cluster
shows.
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from autoscaler.adapters.kafka.membership import Described
from autoscaler.adapters.kafka.permissions import Seen, SeenTopic, look
from autoscaler.brokers.measured import ALL_TOPICS
from autoscaler.clients.secrets import naming
from autoscaler.config.clusters import Cluster
from autoscaler.config.permissions import EVERY, OWN, OWN_IDS, Need, Resource, needed, needed_to_balance
from autoscaler.config.settings import Group, load
from autoscaler.core.assignors.group_reader import NO_CONSUMERS, Unpredictable, read_group, unplaceable
from autoscaler.core.messages import in_words, many
from autoscaler.core.rules.readiness import foreign
from autoscaler.errors import Exit, TransientError
from autoscaler.model import Finding, GroupMembers, TopicPartition
from autoscaler.model.findings import What
from autoscaler.topic_selection import unmatched, wanted

BROKERS = "balance of brokers"  # in place of a group
_ORDER = ("missing", "without", "not seen")
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found of one group, or of the job that balances a cluster's brokers.

    Attributes:
        group: Its id; of that job ``BROKERS``.
        facts: What it is, and what it consumes.
        refused: Why the job would not act for it, or not size it.
        permissions: Each that the job needs, and whether it has it; ``None``: that cannot be seen.
    """

    group: str
    cluster: str
    facts: tuple[str, ...]
    refused: tuple[str, ...]
    permissions: tuple[tuple[Need, bool | None], ...]
    commands: tuple[str, ...]

    @property
    def fine(self) -> bool:
        """Say whether the job can do its work for this group, as far as that can be seen."""
        return not self.refused and not any(need.required and allowed is False for need, allowed in self.permissions)


def check(args: argparse.Namespace) -> int:
    """Check every cluster and group of a configuration; 1 if something that the job needs is missing.

    Raises:
        SettingsError: The configuration is wrong, or a connection cannot be used.
    """
    settings = load(args.config)
    found: list[Checked] = []
    unreached: dict[str, str] = {}
    for cluster, groups in settings.served:
        try:
            with naming(cluster.name):
                found += _of_cluster(cluster, groups)
        except TransientError as e:
            unreached[cluster.name] = str(e)
    if args.json:
        sys.stdout.write(json.dumps({"unreached": unreached, "groups": [_values(c) for c in found]}, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines(found, unreached))
    return Exit.FAILED if unreached or not all(c.fine for c in found) else 0


def _of_cluster(cluster: Cluster, groups: Sequence[Group]) -> list[Checked]:
    balances = "balance" in cluster.model_fields_set
    acts = any(g.mode == "act" for g in groups) or (balances and cluster.balance.mode == "act")
    topics = [*(g.topics for g in groups), *([ALL_TOPICS] if balances else [])]
    seen = look(cluster.connection, topics, [g.group for g in groups], own=OWN, take=f"{OWN_IDS}check" if acts else None)
    return [*(judged(cluster, g, seen) for g in groups), *([_balancing(cluster, seen)] if balances else [])]


def _balancing(cluster: Cluster, seen: Seen) -> Checked:
    """Return what was seen of a cluster as an answer about the job that balances its brokers."""
    needs = [n for n in needed_to_balance(acts=cluster.balance.mode == "act") if not _made(n, seen)]
    permissions = tuple((n, _allowed(n, seen)) for n in needs)
    return Checked(
        group=BROKERS,
        cluster=cluster.name,
        facts=(f"{_topics(seen.topics)} seen", f"mode {cluster.balance.mode}"),
        refused=(),
        permissions=permissions,
        commands=tuple(_commands([n for n, allowed in permissions if not allowed], cluster)),
    )


def _made(need: Need, seen: Seen) -> bool:
    """Say whether this is the permission to make a topic that is there."""
    return need.operation == "Create" and _there(need.name, seen)


def judged(cluster: Cluster, group: Group, seen: Seen) -> Checked:
    """Return what was seen of a cluster as an answer about one group that is on it."""
    members = seen.groups[group.group].members
    there = [t for t in seen.topics if _there(t, seen)]  # a pattern does not mean what only another group names
    consumed = {t: seen.topics[t] for t in sorted(wanted(group.topics, there))}
    placed = group.assignment == "native" and not isinstance(members, str) and any(m.name for m in members.members)
    needs = [n for n in needed(group, tuple(consumed), placed=placed) if not _made(n, seen)]
    permissions = tuple((n, _allowed(n, seen)) for n in needs)
    return Checked(
        group=group.group,
        cluster=cluster.name,
        facts=(_topics(consumed), *_members(members)),
        refused=tuple(_refused(group, consumed, members, placed=placed)),
        permissions=permissions,
        commands=tuple(_commands([n for n, allowed in permissions if not allowed], cluster)),
    )


def _there(topic: str, seen: Seen) -> bool:
    return seen.topics[topic].partitions is not None


def _allowed(need: Need, seen: Seen) -> bool | None:
    operation = _WORD.sub("_", need.operation).upper()
    match need.on:
        case Resource.TOPIC if need.name == EVERY:
            told = [t.allowed for t in seen.topics.values() if t.allowed is not None]
            return all(operation in allowed for allowed in told) if told else None
        case Resource.TOPIC:
            allowed = seen.topics[need.name].allowed
            everywhere = True if operation == "CREATE" and "CREATE" in seen.cluster else None
            return everywhere if allowed is None else operation in allowed or bool(everywhere)
        case Resource.GROUP:
            return operation in seen.groups[need.name].allowed
        case Resource.CLUSTER:
            return operation in seen.cluster
        case Resource.TRANSACTIONAL_ID:
            return seen.ids


def _topics(consumed: Mapping[str, SeenTopic]) -> str:
    there = [t.partitions for t in consumed.values() if t.partitions is not None]
    return f"{many(len(there), 'topic')} with {many(sum(there), 'partition')}"


def _members(found: Described) -> tuple[str, ...]:
    if isinstance(found, str):
        return ()
    if found.kind == "UNKNOWN":
        return ("no consumer has joined the group yet",)
    how = f" ({found.kind.lower()} protocol{', ' if found.assignor else ''}{found.assignor})"
    return (f"{many(len(found.members), 'member')}{how}, {found.state.lower().replace('_', ' ')}",)


def _refused(group: Group, consumed: Mapping[str, SeenTopic], found: Described, *, placed: bool) -> Iterator[str]:
    for topic, seen in consumed.items():
        if seen.allowed is None:
            yield f"topic {topic} is not there"
    if patterns := unmatched(group.topics, consumed):
        yield in_words(Finding.of(What.TOPICS_UNMATCHED, patterns=patterns))
    if isinstance(found, str):
        yield in_words(Finding.of(What.MEMBERS_UNREADABLE, error=found))
    elif found.kind in NO_CONSUMERS:
        yield in_words(Finding.of(What.NOT_CONSUMERS, kind=found.kind))
    elif why := _foreign(group, found) if group.assignment == "managed" else _native(group, consumed, found, placed=placed):
        yield in_words(why)


def _foreign(group: Group, found: GroupMembers) -> Finding | None:
    return foreign(found.members) if group.mode == "act" and found.members else None


def _native(group: Group, consumed: Mapping[str, SeenTopic], found: GroupMembers, *, placed: bool) -> Finding | None:
    if not found.members:
        return None if group.workers is not None else Finding.of(What.NO_SUCH_GROUP, group=group.group)
    partitions = [TopicPartition(topic=t, partition=n) for t, seen in consumed.items() for n in range(seen.partitions or 0)]
    why = unplaceable(found, partitions, None) if placed else read_group(found, partitions, dict.fromkeys(consumed, ""))
    return why.why if isinstance(why, Unpredictable) else None


def _commands(missing: Sequence[Need], cluster: Cluster) -> Iterator[str]:
    """Return what gives each resource's missing permissions, as Kafka's own tool takes it."""
    user = cluster.connection.get("sasl.username", "")
    principal = f"User:{user}" if isinstance(user, str) and user and not user.startswith(("env:", "file:")) else "User:NAME"
    where = f"kafka-acls.sh --bootstrap-server {cluster.connection['bootstrap.servers']} --add --allow-principal {principal}"
    resources: dict[tuple[Resource, str], list[str]] = {}
    for need in missing:
        resources.setdefault((need.on, need.name), []).append(need.operation)
    for (on, name), operations in resources.items():
        resource = f"--{on}" if on is Resource.CLUSTER else f"--{on} {shlex.quote(name)}"
        prefixed = " --resource-pattern-type prefixed" if on is Resource.TRANSACTIONAL_ID else ""
        yield f"{where} {' '.join(f'--operation {o}' for o in operations)} {resource}{prefixed}"


def _values(checked: Checked) -> dict[str, object]:
    permissions = [{**asdict(need), "allowed": allowed} for need, allowed in checked.permissions]
    return {**asdict(checked), "fine": checked.fine, "permissions": permissions}


def lines(found: Sequence[Checked], unreached: Mapping[str, str]) -> Iterator[str]:
    """Return what a person reads: of each group, and of each cluster that was not reached with the reason."""
    several = len({c.cluster for c in found} | set(unreached)) > 1
    for name, why in unreached.items():
        yield f"cluster {name}: not reached: {why}"
    for c in found:
        had = sum(allowed is True for _, allowed in c.permissions)
        on = f" on {c.cluster}" if several else ""
        yield f"{c.group}{on}: {'fine' if c.fine else 'NOT READY'}"
        yield f"  {'; '.join(c.facts)}; {had} of {many(len(c.permissions), 'permission')}"
        yield from (f"  refused: {r}" for r in c.refused)
        yield from _lacking(c.permissions)
        if c.commands:
            yield "  to give them:"
            yield from (f"    {command}" for command in c.commands)
    yield "What consumers themselves must be allowed was not looked at: docs/reference/permissions.md"


def _lacking(permissions: Sequence[tuple[Need, bool | None]]) -> Iterator[str]:
    """Return a line for each resource and each thing that is not possible on it, with the operations that it takes."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for need, allowed in permissions:
        resource = str(need.on) if need.on is Resource.CLUSTER else f"{need.on} {need.name}"
        if allowed is None:
            found.setdefault(("not seen", resource, "this shows when the topic is there"), []).append(need.operation)
        elif not allowed:
            found.setdefault(("missing" if need.required else "without", resource, need.without), []).append(need.operation)
    for (how, resource, why), operations in sorted(found.items(), key=lambda x: _ORDER.index(x[0][0])):
        yield f"  {how}: {', '.join(operations)} on {resource}: {why}"
