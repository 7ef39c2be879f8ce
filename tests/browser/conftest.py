"""What a test of a page may ask for: an installed Chromium."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import MISSING, chromium, launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        started = launched(playwright)
        yield started
        started.close()
