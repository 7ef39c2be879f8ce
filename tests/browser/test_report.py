"""The report in Chromium, opened as a file: three widths, dark and light, by keyboard, under axe's rules, without a network."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_job_page import OUTSIDE, WIDTHS, violations
from tests.cli.recorded_groups import HOSTILE, SPAN, tables_of_groups
from tests.cli.test_reading import run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of one group, named one, and of all of them, named all."""
    root = tmp_path_factory.mktemp("reports")
    tables_of_groups(root / "tables")
    for name, group in (("one", "orders"), ("all", "--all")):
        done = run("report", group, "--tables", root / "tables", *SPAN, "--output", root / f"{name}.html")
        assert done.returncode == 0, done.stderr
    return root


@contextmanager
def opened(browser: Browser, file: Path, place: str = "", width: int = 1440) -> Iterator[tuple[Page, list[str]]]:
    """Open a file; say what it complained of, and what else it asked for."""
    said: list[str] = []
    window = browser.new_page(viewport={"width": width, "height": 900})
    window.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    window.on("pageerror", lambda error: said.append(f"error: {error}"))
    window.on("request", lambda r: said.append(f"asks {r.url}") if not r.url.startswith((file.as_uri(), "data:")) else None)
    try:
        window.goto(file.as_uri() + place)
        window.wait_for_selector("#all:not([hidden]), #one:not([hidden])")
        yield window, said
    finally:
        window.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "place"), [("one", ""), ("all", ""), ("all", f"#{quote(HOSTILE)}")])
def test_it_is_accessible_fits_and_asks_for_nothing(browser: Browser, directory: Path, name: str, place: str, width: int) -> None:
    with opened(browser, directory / f"{name}.html", place, width) as (window, said):
        for summary in window.locator("#decisions summary").all():
            summary.click()
        assert window.evaluate(OUTSIDE) == []
        assert violations(window) == []
        assert window.evaluate(OUTSIDE) == [], "dark"
        assert window.locator("main script").count() == 0
        expect(window.locator("#news")).to_contain_text("Recorded between 2023-11-14 22:13:00 UTC and")
    assert said == []


def test_a_decision_says_why_what_moved_and_what_it_cost_by_keyboard_only(browser: Browser, directory: Path) -> None:
    with opened(browser, directory / "one.html") as (window, _):
        expect(window.locator("#title")).to_have_text("orders")
        expect(window.locator("#held")).to_have_text("Who held what at 22:23:20 UTC")
        expect(window.locator("#holders tr")).to_have_count(2)
        assert window.locator("#chart .marktop").count() == 2
        window.locator("#decisions summary").first.focus()
        window.keyboard.press("Enter")
        told = window.locator("#decisions > li").first.locator("dl")
        for said in (
            "move orders-1 0->1",
            "done",
            "2 partitions (60\u00a0B/s, 0.75 of what one consumer may have); 2 seen to change hands",
            "no placement on 1 consumer keeps each within 80 B/s",
            "3 consumers are not needed for it",
            "consumer 0: 135\u00a0B/s, 0-2",
        ):
            expect(told).to_contain_text(said)


def test_a_mark_opens_its_decision_and_groups_are_a_click_away(browser: Browser, directory: Path) -> None:
    with opened(browser, directory / "all.html") as (window, _):
        assert window.locator("#groups > li").count() == 3
        window.locator("#groups a", has_text="orders").click()
        window.locator("#chart .mark").last.click()
        expect(window.locator("#decisions details[open]")).to_have_count(1)
        window.locator("#back a").click()
        expect(window.locator("#groups > li", has_text="it's")).to_contain_text("nothing is recorded after 22:13:25\u00a0UTC")
        window.locator("#groups a", has_text="it's").click()
        expect(window.locator("#news")).to_contain_text("after it nothing is recorded up to the end of this time")
        expect(window.locator("#nodecisions")).to_have_text("None in this time.")


def test_who_held_what_is_read_on_a_phone_without_scrolling_aside(browser: Browser, directory: Path) -> None:
    with opened(browser, directory / "one.html", width=400) as (window, _):
        table = window.locator("#one .scroll")
        assert table.evaluate("e => e.scrollWidth - e.clientWidth") == 0
        row = window.locator("#holders tr").first
        expect(row).to_contain_text("orders-0")
        assert row.locator("td").last.evaluate("e => getComputedStyle(e, '::before').content") == '"Partitions"'


def test_moves_of_hardly_any_load_are_not_said_to_be_none(browser: Browser, directory: Path) -> None:
    with opened(browser, directory / "one.html") as (window, _):
        told = [window.evaluate("x => share(x)", x) for x in (0.75, 0.001, 0.0, None)]
    assert told == [", 0.75 of what one consumer may have", ", less than 0.01 of what one consumer may have", "", ""]
