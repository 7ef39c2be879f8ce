"""Takes the pictures of the job's page that the documentation shows: ``python -m tests.docs.page_pictures``; needs Chromium."""

from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

from autoscaler.adapters.http.server import Server
from tests.adapters.http.example import Example
from tests.browser.chromium import launched

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
PICTURES: tuple[tuple[str, str, int, int, Literal["light", "dark"]], ...] = (
    ("page-groups", "/", 1280, 760, "light"),
    ("page-group", "/#orders", 1280, 1260, "light"),
    ("page-groups-dark", "/", 1280, 760, "dark"),
    ("page-phone", "/", 360, 800, "dark"),
)


def main() -> None:
    """Write each picture."""
    server = Server(("127.0.0.1", 0), Example(plain=True).answers())
    server.start()
    try:
        with sync_playwright() as playwright:
            browser = launched(playwright)
            for name, path, width, height, scheme in PICTURES:
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto(f"http://127.0.0.1:{server.port()}{path}")
                page.wait_for_selector("#news.good, #news.bad")
                page.screenshot(path=IMAGES / f"{name}.png")
                page.close()
            browser.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()
