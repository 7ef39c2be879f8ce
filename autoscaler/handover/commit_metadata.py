"""What stands beside a committed offset (rule 14), and the name under which an incarnation commits in transactions. Pure.

Beside an offset stand the topic that it is of, the grant and the incarnation.

A commit can land late: on a topic that was deleted and made anew, where its offset would skip records that were never processed.
"""

import json

from autoscaler.handover.records import HEARD_MOST


def commit_metadata(topic_id: str, epoch: int, uuid: str) -> str:
    """Return what a worker writes beside an offset: topic id, granting epoch and the uuid of its incarnation."""
    return json.dumps([topic_id, epoch, uuid], separators=(",", ":"))


def is_of_topic(metadata: str | None, topic_id: str) -> bool:
    """Say whether an offset is one of this topic: not if it names another; what was not written by a worker names none."""
    said = _said(metadata)
    return said is None or said[0] == topic_id


def epoch_of(metadata: str | None) -> int:
    """Return the epoch under which an offset was committed; 0 if it names none."""
    said = _said(metadata)
    return said[1] if said is not None and type(said[1]) is int and 0 <= said[1] <= HEARD_MOST else 0


def _said(metadata: str | None) -> list[object] | None:
    try:
        said = json.loads(metadata or "null")
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, list) and len(said) == 3 else None  # noqa: PLR2004  (as ``commit_metadata`` writes)


def transactional_id(group: str, uuid: str) -> str:
    """Return the transactional id of an incarnation: taking it ends all that the incarnation could still commit."""
    return f"wk/{group}/{uuid}"
