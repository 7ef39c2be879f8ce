"""The job's page in Chromium: three widths, dark and light, by keyboard, under axe's rules, hostile names, old data."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, expect

from autoscaler.adapters.http.server import Server
from tests.adapters.http.example import LASTS_S, NAMES, QUIET, Example, told_at

pytestmark = pytest.mark.browser
expect.set_options(timeout=20_000)  # a busy machine; the page asks every 2 s

WIDTHS = (360, 768, 1440)
GROUPS = "#groups > li"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
OUTSIDE = """
() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll > table, svg"))
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map((e) => e.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def example() -> Example:
    return Example()


@contextmanager
def served(example: Example) -> Iterator[tuple[Server, str]]:
    server = Server(("127.0.0.1", 0), example.answers())
    server.start()
    try:
        yield server, f"http://127.0.0.1:{server.port()}/"
    finally:
        server.close()


@pytest.fixture(scope="module")
def address(example: Example) -> Iterator[str]:
    with served(example) as (_, at):
        yield at


@contextmanager
def opened(browser: Browser, url: str, width: int = 1440) -> Iterator[tuple[Page, list[str]]]:
    """Open the page; say what it complained of, what it asked others for, and what a name of a group has run."""
    said: list[str] = []

    def refuse(dialog: Dialog) -> None:
        said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    window = browser.new_page(viewport={"width": width, "height": 900})
    window.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    window.on("pageerror", lambda error: said.append(f"error: {error}"))
    window.on("dialog", refuse)
    own = url.split("#", maxsplit=1)[0]
    window.on("request", lambda r: said.append(f"asks {r.url}") if not r.url.startswith((own, "data:")) else None)
    try:
        window.goto(url)
        window.wait_for_selector("#news.good, #news.bad")
        yield window, said
    finally:
        window.close()


def names(window: Page) -> list[str]:
    return window.locator(f"{GROUPS} a").all_text_contents()


def violations(window: Page) -> list[tuple[str, list[str]]]:
    """Return which of axe's rules a page breaks when it is light, and which of those that look at colours when it is dark."""
    window.emulate_media(color_scheme="light")
    broken = Axe().run(window).response["violations"]
    window.emulate_media(color_scheme="dark")
    broken += Axe().run(window, options=COLOURS).response["violations"]
    return [(v["id"], [n["html"] for n in v["nodes"]]) for v in broken]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("place", ["", "#orders", "#/brokers", "#%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%2F%26%22'"])
def test_it_is_accessible_fits_and_asks_and_runs_nothing_else(browser: Browser, address: str, place: str, width: int) -> None:
    with opened(browser, address + place, width) as (window, said):
        assert window.evaluate(OUTSIDE) == []
        assert violations(window) == []
        assert window.locator("main img, main script, main b").count() == 0
        for scheme in SCHEMES:
            window.emulate_media(color_scheme=scheme)
            back = window.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (back == "rgb(255, 255, 255)") is (scheme == "light")
            assert window.evaluate(OUTSIDE) == []
    assert said == []


def test_it_sorts_filters_and_opens_a_group_by_keyboard_only(browser: Browser, address: str) -> None:
    with opened(browser, address) as (window, _):
        assert names(window)[0] == QUIET, "what is old comes first"
        assert window.locator(GROUPS).count() == len(NAMES)
        window.keyboard.press("Tab")
        expect(window.locator("#sort")).to_be_focused()
        window.keyboard.type("waste")
        assert names(window)[0] == "bills"
        window.keyboard.press("ArrowUp")
        assert names(window)[0].startswith("<img")
        window.keyboard.press("Tab")
        window.keyboard.type("ord")
        assert names(window) == ["orders"]
        window.keyboard.press("Tab")
        window.keyboard.press("Enter")
        expect(window.locator("#title")).to_have_text("orders")
        expect(window.locator("#title")).to_be_focused()
        expect(window.locator("#holders tr")).to_have_count(6)
        assert window.locator("#chart .marktop").count() == 2
        window.locator("#decisions summary").first.focus()
        window.keyboard.press("Enter")
        expect(window.locator("#decisions li li").first).to_be_visible()
        window.locator("#back a").focus()
        window.keyboard.press("Enter")
        expect(window.locator("#all")).to_be_visible()
        assert names(window) == ["orders"], "the filter stays"


def test_a_decision_is_opened_by_its_mark_and_says_why_and_what_it_cost(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}#orders") as (window, said):
        window.locator("#chart .mark").first.click()
        first = window.locator("#decisions > li").first
        expect(first.locator("dl")).to_contain_text("5 seen to change hands; they stood still for 40\u00a0ms in the middle")
        expect(first.locator("dl")).to_contain_text("why not 5")
        expect(first.locator("dl")).to_contain_text("why not 7")
        expect(first.locator("summary")).to_be_focused()
        assert Axe().run(window).response["violations"] == []
        window.set_viewport_size({"width": 360, "height": 800})
        assert window.evaluate(OUTSIDE) == []
    assert said == []


def test_it_says_first_that_data_is_old_and_then_that_the_job_does_not_answer(browser: Browser) -> None:
    example = Example()
    with served(example) as (server, at), opened(browser, at) as (window, _):
        news = window.locator("#news")
        expect(news).to_contain_text(f"Data is old: {QUIET}.")
        window.locator(f"{GROUPS} a").first.focus()
        example.clock.advance(60.0)
        expect(news).to_contain_text("No group is decided since 22:28:20 UTC")
        for told in told_at(LASTS_S + 60):
            example.board.take(told)
        expect(news).not_to_contain_text("No group is decided")
        expect(window.locator(f"{GROUPS} a").first).to_be_focused()
        server.close()
        expect(news).to_contain_text("The job does not answer since 22:29:20 UTC")
        assert window.locator(GROUPS).count() == len(NAMES), "what was known stays"


def test_it_shows_brokers_by_goal_and_the_latest_plan_and_the_way_back(browser: Browser, address: str) -> None:
    with opened(browser, address) as (window, _):
        window.get_by_role("link", name="How brokers are balanced").click()
        expect(window.locator("#title")).to_have_text("Brokers")
        east = window.get_by_role("region", name="Brokers of east")
        loads = east.get_by_role("region", name="Loads of east").locator("tbody tr")
        expect(loads).to_have_count(3)
        expect(loads.nth(2)).to_contain_text("52 GB · outside")
        expect(loads.nth(2)).to_contain_text("at most 50 GB")
        actions = east.get_by_role("region", name="Actions of east").locator("tbody tr")
        expect(actions.first).to_contain_text("moved")
        expect(actions.nth(1)).to_contain_text("<img")
        expect(window.get_by_role("region", name="Brokers of west")).to_contain_text("No plan yet.")
        window.locator("#back a").click()
        expect(window.locator("#all")).to_be_visible()


def test_a_group_that_is_not_there_is_said(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}#other") as (window, _):
        expect(window.locator("#news")).to_contain_text("this group has had no cycle since the job began")
