"""What stands beside a committed offset (rule 14): for which topic, under which grant and by whom. Pure.

A commit can land late: on a topic that was deleted and made anew, where its offset would skip records that nobody has seen.
"""

import json


def commit_metadata(topic_id: str, epoch: int, uuid: str) -> str:
    """Return what a worker writes beside an offset: topic id, granting epoch and the uuid of its incarnation."""
    return json.dumps([topic_id, epoch, uuid], separators=(",", ":"))


def is_of_topic(metadata: str | None, topic_id: str) -> bool:
    """Say whether an offset is one of this topic: not if it names another; what was not written by a worker names none."""
    try:
        said = json.loads(metadata or "null")
    except ValueError:
        return True
    named = isinstance(said, list) and len(said) == 3  # noqa: PLR2004  (as ``commit_metadata`` writes)
    return not named or said[0] == topic_id
