"""What the assignor of a native group will do with the load as it is: the figures that a cycle's rules go by."""

from dataclasses import dataclass, replace

from autoscaler.config.policy import Policy
from autoscaler.core.assignors.consumer_count import fewest
from autoscaler.core.assignors.forecast import Roof
from autoscaler.core.assignors.group_model import NativeGroup
from autoscaler.core.assignors.group_reader import Unpredictable, read_group, unplaceable
from autoscaler.core.group.kinds import Kind
from autoscaler.core.group.limits import Limits
from autoscaler.core.load.group_load import GroupLoad
from autoscaler.core.sizing.size import Size
from autoscaler.model import GroupMembers, LoadSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A native group, ready for deciding.

    Attributes:
        group: As its assignor sees it, or why its assignment cannot be predicted; ``None``: it follows a placement, by load.
        members: How many there are.
        enough: The smallest number, up to the most that may be, with no consumer above the usable rate; ``None`` if none does.
        calm: How few of those that are there would do with a tolerance kept free on each; ``None`` if all are needed.
    """

    group: NativeGroup | Unpredictable | None
    members: int
    enough: int | None = None
    calm: int | None = None


def look_ahead(snapshot: LoadSnapshot, kind: Kind, load: GroupLoad, policy: Policy, limits: Limits) -> Outlook | None:
    """Return the outlook of a native group; ``None`` for a managed one, and while its members are not known or not settled."""
    members = kind.members
    if not kind.native or not kind.stable or members is None:
        return None
    if kind.follows:
        return Outlook(group=unplaceable(members, load.partitions, kind.started), members=len(members.members))
    ids = {x.partition.topic: x.topic_id for x in snapshot.loads if x.topic_id}
    group = read_group(members, load.partitions, ids, leaving(members, policy.group))
    if isinstance(group, Unpredictable) or not load.rates:
        return Outlook(group=group, members=len(members.members))
    now, floor = len(members.members), max(1, min(limits.least, len(load.partitions)))
    most = min(limits.most, len(load.partitions))
    usable, calmly = roofs(policy)
    enough = fewest(group, load.rates, usable, at_least=floor, at_most=most)
    least = 1 if floor > 1 else now if enough is None else enough  # what is not enough is not calm either: not looked at twice
    calm = fewest(group, load.rates, calmly, at_least=least, at_most=min(now - 1, most))
    if calm is None and len(load.partitions) < now:
        calm = len(load.partitions)  # the others hold nothing
    return Outlook(group=group, members=now, enough=enough, calm=calm)


def roofs(policy: Policy) -> tuple[Roof, Roof]:
    """Return what a consumer may get where the group grows, and where fewer must do with a tolerance kept free."""
    usable, tolerance = policy.usable_bytes_per_s, policy.tolerance_ratio
    return Roof(usable, usable, tolerance), Roof(policy.calm_bytes_per_s, usable, tolerance)


def counts_by_assignor(outlook: Outlook | None) -> bool:
    """Say whether the group's assignor tells how many consumers the load takes: no placement by load is asked for that."""
    return outlook is not None and outlook.enough is not None


def sized(size: Size, outlook: Outlook | None) -> Size:
    """Return a cycle's figures with the numbers of consumers that the group's own assignor takes."""
    if outlook is None or not isinstance(outlook.group, NativeGroup) or not size.wanted:
        return size
    wanted = size.wanted if outlook.enough is None else outlook.enough
    return replace(size, wanted=wanted, calm=outlook.members if outlook.calm is None else outlook.calm)


def leaving(members: GroupMembers, group: str) -> tuple[str, ...]:
    """Return the members in the order in which they are ended, the highest number first, if all of them carry their numbers.

    A consumer does that by taking its ``client.id`` from AUTOSCALER_WORKER_NAME.
    """
    numbers = {m.member_id: m.client_id.removeprefix(f"{group}-") for m in members.members}
    if not all(n.isdecimal() for n in numbers.values()) or len(set(numbers.values())) < len(numbers):
        return ()
    return tuple(sorted(numbers, key=lambda m: -int(numbers[m])))
