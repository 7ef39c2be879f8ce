"""Takes the documentation's pictures of the page and of a report: ``python -m tests.docs.page_pictures``; needs Chromium."""

import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

from autoscaler.adapters.http.server import Server
from tests.adapters.http.example import Example
from tests.browser.chromium import launched
from tests.cli.recorded_groups import SPAN, tables_of_groups
from tests.cli.test_reading import run

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
PICTURES: tuple[tuple[str, str, int, int, Literal["light", "dark"]], ...] = (
    ("page-groups", "/", 1280, 760, "light"),
    ("page-group", "/#orders", 1280, 1600, "light"),
    ("page-groups-dark", "/", 1280, 760, "dark"),
    ("page-phone", "/", 360, 800, "dark"),
)


def main() -> None:
    """Write each picture."""
    server = Server(("127.0.0.1", 0), Example(plain=True).answers())
    server.start()
    try:
        with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
            browser = launched(playwright)
            for name, path, width, height, scheme in PICTURES:
                _take(browser, name, f"http://127.0.0.1:{server.port()}{path}", (width, height), scheme)
            _take(browser, "report", report(Path(directory)).as_uri(), (1280, 1160))
            browser.close()
    finally:
        server.close()


def report(directory: Path) -> Path:
    """Write a report of made-up tables, and return where."""
    tables_of_groups(directory / "tables")
    file = directory / "orders.html"
    run("report", "orders", "--tables", directory / "tables", *SPAN, "--output", file).check_returncode()
    return file


def _take(browser: Browser, name: str, url: str, size: tuple[int, int], scheme: Literal["light", "dark"] = "light") -> None:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("#all:not([hidden]), #one:not([hidden])")
    if page.locator("#one").is_visible():
        page.locator("#decisions summary").first.click()
        page.wait_for_selector("#decisions dl")
        page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()


if __name__ == "__main__":
    main()
