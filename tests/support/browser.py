"""A real Chromium for tests of pages: Debian's, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.polling import PATIENCE_S

CHROMIUM = shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser. Skips the test where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium (chromium) on this machine")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_S * 1000
        )
        yield browser
        browser.close()


class Watched:
    """A page, with all that it asked for and complained about."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = self.context.new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console",
            lambda message: (
                self.complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        self.page.goto(url)

    def close(self) -> None:
        """Close it. Fails if anything was amiss."""
        self.context.close()
        assert self.complaints == []
