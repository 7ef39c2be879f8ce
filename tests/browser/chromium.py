"""Chromium as it is installed on this machine."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

MISSING = "Chromium is not here: run `make browser YES=1`, or set CHROMIUM to its path"


def chromium() -> str | None:
    """Return where Chromium is; ``None`` if it is not here."""
    names = [os.environ["CHROMIUM"]] if "CHROMIUM" in os.environ else ["chromium", "chromium-browser", "google-chrome"]
    return next((path for name in names if (path := shutil.which(name))), None)


def launched(playwright: Playwright) -> Browser:
    """Start it; the caller closes it."""
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # root cannot have one
    return playwright.chromium.launch(executable_path=chromium(), args=sandbox)
