"""What the tests of the evaluation may ask for."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data(request: pytest.FixtureRequest) -> Path:
    """The directory of recorded streams; nothing in the product needs it."""
    given: str | None = request.config.getoption("--data")
    if given is None:
        pytest.skip("optional data: --data DIR names the directory of the recorded streams")
    return Path(given)
