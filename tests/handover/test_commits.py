"""Which offsets are of a topic."""

import pytest

from autoscaler.handover.commit_metadata import commit_metadata, is_of_topic


@pytest.mark.parametrize(
    ("metadata", "mine"),
    [
        (commit_metadata("t", 3, "w"), True),
        (commit_metadata("another", 3, "w"), False),
        (None, True),  # committed by a consumer that subscribed, before the group was adopted
        ("", True),
        ("no json", True),
        ('["another"]', True),  # of somebody else's making
        ('{"topic": "another"}', True),
    ],
)
def test_an_offset_that_names_another_topic_is_none(metadata: str | None, *, mine: bool) -> None:
    assert is_of_topic(metadata, "t") is mine
