"""Which member is to hold which partition, as the controller writes it down for an assignor. Pure.

Members are named by what they call themselves and keep over restarts, never by the id that the broker gives them. The leader of a
group follows a placement as far as it goes: partitions that it does not name, or of members that are not there, go to the member
that holds least.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

Tp = tuple[str, int]  # topic and partition
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What the controller wants."""

    group: str
    valid_s: float  # for how long it counts after it was written, if it is not written again
    owners: Mapping[Tp, str]  # name of the member that is to hold a partition
    writer: str = ""  # id of the job that wrote it, the same over its restarts; earlier releases did not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One member, as it presents itself when it joins."""

    member_id: str
    name: str
    topics: frozenset[str]
    owned: frozenset[Tp]  # what it holds, as far as it knows
    generation: int = -1  # of the group, in which it got that; -1 if it does not say


def introduced(user_data: bytes | None) -> tuple[str, frozenset[Tp], int]:
    """Return what a member that joins calls itself, what it holds, and since which generation.

    One that does not say it has no name, nothing, and -1.
    """
    try:
        said = json.loads(user_data or b"{}")
        owned = frozenset((str(t), int(p)) for t, ps in said.get("owned", {}).items() for p in ps)
        return str(said.get("name", "")), owned, int(said.get("generation", -1))
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return "", frozenset(), -1


_BEGINS = b'["placement",'
BALANCE_KEY = b'["brokers"]'  # of the journal of what is done to brokers, see ``adapters/control_log/balance_journal.py``


def key_of(group: str) -> bytes:
    """Return the key under which a group's placement is written."""
    return json.dumps(["placement", group], separators=(",", ":")).encode()


def is_key(key: bytes | None) -> bool:
    """Say whether a key is that of a group's placement or of brokers' journal: managed groups share their log with these."""
    return key is not None and (key.startswith(_BEGINS) or key == BALANCE_KEY)


def encode(placement: Placement) -> bytes:
    """Return a placement as it is written."""
    owners: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), name in sorted(placement.owners.items()):
        owners.setdefault(name, {}).setdefault(topic, []).append(partition)
    fields = {"v": _VERSION, "valid_s": placement.valid_s, "owners": owners, "writer": placement.writer}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(group: str, value: bytes) -> Placement:
    """Return what was written.

    Raises:
        ValueError: It is no placement, or of a version that this one does not know.
    """
    try:
        fields = json.loads(value)
        if fields["v"] != _VERSION:
            raise ValueError(f"version {fields['v']}, this library knows {_VERSION}")
        owners = {(t, int(p)): str(name) for name, topics in fields["owners"].items() for t, ps in topics.items() for p in ps}
        return Placement(group=group, valid_s=float(fields["valid_s"]), owners=owners, writer=str(fields.get("writer", "")))
    except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as e:
        raise ValueError(f"no placement: {type(e).__name__}: {e}") from e


def seated(placement: Placement | None, seats: Sequence[Seat], partitions: Collection[Tp]) -> dict[str, set[Tp]] | None:
    """Return who is to hold what, by member id; ``None`` if the placement says nothing that could be followed, or there is none.

    ``seats`` has every member, ``partitions`` every partition that a member subscribes to.
    """
    if placement is None:
        return None
    by_name = {s.name: s for s in sorted(seats, key=lambda s: s.member_id, reverse=True)}  # of two of one name, the first
    held: dict[str, set[Tp]] = {s.member_id: set() for s in seats}
    rest = []
    for tp in sorted(partitions):
        seat = by_name.get(placement.owners.get(tp, ""))
        if seat is not None and tp[0] in seat.topics:
            held[seat.member_id].add(tp)
        else:
            rest.append(tp)
    if len(rest) == len(partitions):
        return None
    now = holders(seats)
    for tp in rest:
        may = [s for s in seats if tp[0] in s.topics]
        if may:
            held[min(may, key=lambda s: (len(held[s.member_id]), now.get(tp) != s.member_id, s.member_id)).member_id].add(tp)
    return held


def holders(seats: Sequence[Seat]) -> dict[Tp, str | None]:
    """Return the id of the member that holds a partition, of those that members claim.

    The newest generation says it: a member that claims it from an older one missed the rebalance that took it away. ``None``: two
    claim it from the same one, and which is right cannot be told.
    """
    found: dict[Tp, str | None] = {}
    newest: dict[Tp, int] = {}
    for seat in seats:
        for tp in seat.owned:
            if tp not in newest or seat.generation > newest[tp]:
                found[tp], newest[tp] = seat.member_id, seat.generation
            elif seat.generation == newest[tp]:
                found[tp] = None
    return found


def withheld(wanted: Mapping[str, set[Tp]], seats: Sequence[Seat]) -> dict[str, set[Tp]]:
    """Return what may be assigned now where members keep what they hold: nothing that another one still holds (KIP-429)."""
    holds = holders(seats)
    return {member: {tp for tp in tps if holds.get(tp, member) == member} for member, tps in wanted.items()}
