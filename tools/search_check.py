"""Type phrases into the search of the built site, and look for the wanted pages among the results.

`python tools/search_check.py` after `zensical build`. `search_phrases.txt` has the phrases; another
file of the same form can be given. Ends with status 1 if more than three pages are not found.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

ROOT: Final = Path(__file__).parents[1]
SITE: Final = ROOT / "build/site"
PHRASES: Final = ROOT / "tools/search_phrases.txt"
FIRST: Final = 3
"""The number of results that a reader looks at."""
ALLOWED: Final = 3
"""The number of phrases, of 40, that may lead elsewhere."""
RESULTS: Final = 'a[href*="?h="]'
CHROMIUM: Final = Path("/usr/bin/chromium")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log no request."""


def main(file: Path = PHRASES, site: Path = SITE) -> int:
    """Search for each phrase, print the misses and the count, and return the exit status."""
    lines = [line for line in file.read_text("utf-8").splitlines() if line[:1] not in {"", "#"}]
    wanted = dict(tuple(map(str.strip, line.split("|"))) for line in lines)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    missed = 0
    with sync_playwright() as playwright:
        installed = str(CHROMIUM) if CHROMIUM.exists() else None
        browser = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.wait_for_timeout(2_000)  # the page takes keys when its script has run
        page.keyboard.press("/")
        page.wait_for_timeout(1_000)
        for phrase, address in wanted.items():
            found = _search(page, phrase)
            if address not in found[:FIRST]:
                missed += 1
                print(
                    f"{phrase}: {address} is not among {', '.join(found[:FIRST]) or 'no results'}"
                )
        browser.close()
    server.shutdown()
    print(f"{len(wanted) - missed} of {len(wanted)} phrases lead to the wanted page.")
    return int(missed > ALLOWED)


def _search(page: Page, phrase: str) -> list[str]:
    """Return the pages of the results, in order."""
    page.keyboard.press("Control+A")
    page.keyboard.type(phrase)
    # The index answers in another thread; until then, the last results stay.
    page.wait_for_timeout(400)
    links = [link.get_attribute("href") or "" for link in page.locator(RESULTS).all()]
    return [urlsplit(link).path.lstrip("/") for link in links]


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
