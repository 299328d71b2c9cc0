"""The site builds without a warning, every link leads somewhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from tests.support.browser import Watched, chromium
from tests.support.commands import ROOT
from tests.support.polling import PATIENCE_S

OUTSIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "helpers" / "README.md"]
"""Pages beside the site, which may link to its sources."""


class Page(HTMLParser):
    """What a page of the site refers to, and what can be referred to in it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif "src" in given:
            self.resources.append(given["src"])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.resources.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}


def test_every_link_leads_to_a_page_and_a_place_in_it(pages: dict[Path, Page]) -> None:
    dead = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not parts.scheme and (
                target not in pages or unquote(parts.fragment) not in pages[target].anchors
            ):
                dead.append(f"{file.name}: {link}")
    assert dead == []


def test_links_of_pages_outside_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    dead = []
    for page in OUTSIDE:
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            parts = urlsplit(link)
            source = (page.parent / parts.path).resolve()
            built = site / source.relative_to(ROOT / "docs").with_suffix(".html") if parts.fragment else None
            if not parts.scheme and not (
                source.exists() and (built is None or parts.fragment in pages[built].anchors)
            ):
                dead.append(f"{page.name}: {link}")
    assert dead == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        for resource in page.resources:
            parts = urlsplit(resource)
            assert (parts.scheme, parts.netloc) == ("", ""), f"{file.name}: {resource}"
            assert (file.parent / parts.path).is_file(), f"{file.name}: {resource}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:|//)", style.read_text(encoding="utf-8")), style.name


def test_a_browser_finds_pages_by_searching_and_asks_nobody_else(site: Path) -> None:
    with _served(site) as url, chromium() as browser:
        watched = Watched(browser, f"{url}/index.html")
        # Typed, not filled in: the page looks at its field when a key is released.
        watched.page.get_by_role("textbox", name="Search").press_sequentially("quarantine")
        found = watched.page.locator(".md-search-result__link", has_text="Dead letters")
        found.first.wait_for(timeout=PATIENCE_S * 1000)
        watched.close()
        assert [each for each in watched.requests if not each.startswith((url, "blob:", "data:"))] == []


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    class Files(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
