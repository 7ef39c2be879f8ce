"""Logging in to the page in Chromium: the form under axe's rules, a wrong token, the right one, and one that is replaced."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.adapters.http.test_login import OTHER, Guarded

pytestmark = pytest.mark.browser
expect.set_options(timeout=20_000)


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    made = Guarded()
    yield made
    made.server.close()


def test_a_person_gets_in_by_keyboard_and_out_when_the_token_is_replaced(browser: Browser, guarded: Guarded) -> None:
    window = browser.new_page(viewport={"width": 360, "height": 800})
    try:
        window.goto(f"http://127.0.0.1:{guarded.server.port()}/#orders")
        assert Axe().run(window).violations_count == 0
        expect(window.locator("input")).to_be_focused()
        window.keyboard.type(OTHER)
        window.keyboard.press("Enter")
        expect(window.get_by_role("alert")).to_have_text("That is not the token.")
        assert Axe().run(window).violations_count == 0
        window.keyboard.type(guarded.token or "")
        window.keyboard.press("Enter")
        expect(window.locator("#groups > li")).to_have_count(4)
        assert window.url.endswith("/"), "and the token is in no address"
        (cookie,) = window.context.cookies()
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
        guarded.token = OTHER
        expect(window.locator("input[name=token]")).to_be_visible()
    finally:
        window.close()
