"""A real headless Chromium for the tests of the page: found, started with no network of its own, watched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str | None:
    """Why the page cannot be tested here; None if it can."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed (extra `dev`)"
    return None if path_of_browser() else "no Chromium is installed (Debian: apt-get install chromium)"


def path_of_browser() -> str | None:
    """Chromium or Chrome on the path; EGOMAP_BROWSER names another one."""
    found = os.environ.get("EGOMAP_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    return found if found and Path(found).exists() else None


class Watched:
    """A page, and everything that it asked for or complained about."""

    def __init__(self, context: Any) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))

    def _heard(self, message: Any) -> None:
        if "willReadFrequently" not in message.text:  # it is the tests that read canvases, not the page
            self.complaints.append(f"{message.type}: {message.text}")

    def open(self, path: Path, decision: int = 0) -> Any:
        """Open the file and wait until it shows."""
        self.page.goto(f"{path.as_uri()}#{decision}")
        self.page.wait_for_selector("body.ready", timeout=60_000)
        return self.page


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser with a fresh profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path_of_browser(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
