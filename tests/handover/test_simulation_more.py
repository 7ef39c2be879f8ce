"""The other half of the ten thousand histories of a test run."""

import pytest

from tests.handover.simulation.tally import Tally

_CHUNK = 50


@pytest.mark.parametrize("first", range(5000, 10000, _CHUNK))
def test_no_schedule_breaks_a_promise(first: int) -> None:
    tally = Tally().run(range(first, first + _CHUNK))
    assert not tally.broken, "python -m tests.handover.soak --seed N shrinks one to its shortest trace"
