"""Links of the README and the documentation lead somewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from linking import pages, web

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.slow
def test_links_between_files_lead_to_files_and_headings():
    assert len(PAGES) > 20
    assert not pages.dead(PAGES), "\n".join(pages.dead(PAGES))


@pytest.mark.docs
def test_links_to_elsewhere_lead_somewhere():
    addresses = [each for each in pages.external(PAGES) if web.is_meant(each)]
    assert addresses
    if os.environ.get("LINKS") == "internal" or not web.has_network():
        pytest.skip(f"no network, so {len(addresses)} links to elsewhere were not followed")
    assert not web.dead(addresses), "\n".join(web.dead(addresses))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "other.md").write_text("# A `name`: what's new?\n\n## Twice\n\n## Twice\n")
    return tmp_path / "page.md"


@pytest.mark.parametrize(
    "link",
    [
        "[a](other.md)",
        "[a](other.md#a-name-whats-new)",
        "[a](other.md#twice-1)",
        "[a](#here)",
        "[a][b]\n\n[b]: other.md",
        "![a](picture%20one.svg)",
        "`[a](nowhere.md)`",
        "<!-- [a](nowhere.md) -->",
        "```text\n[a](nowhere.md)\n```",
    ],
)
def test_what_leads_somewhere_is_left_alone(tree, link):
    tree.write_text(f"# Here\n\n{link}\n")
    (tree.parent / "picture one.svg").write_text("")
    assert pages.dead([tree]) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[a](nowhere.md)", "there is no nowhere.md"),
        ('=== "Sync"\n\n    [a](nowhere.md)\n', "there is no nowhere.md"),
        ("| a |\n| --- |\n| [a](nowhere.md) |", "there is no nowhere.md"),
        ("[a](other.md#thrice)", "there is no heading 'thrice'"),
        ("[a](#there)", "there is no heading 'there'"),
        ("![a](picture.svg)", "there is no picture.svg"),
        ("[a][b]\n\n[b]: nowhere.md", "there is no nowhere.md"),
    ],
)
def test_what_leads_nowhere_is_told_with_its_place(tree, link, why):
    tree.write_text(f"# Here\n\n{link}\n")
    (found,) = pages.dead([tree])
    assert found.startswith(f"{tree}:")
    assert found.endswith(why)


class Site(BaseHTTPRequestHandler):
    """A site with a few pages."""

    ANSWERS: ClassVar = {"/here": 200, "/moved": 302, "/private": 403, "/gone": 404, "/broken": 500}

    def do_GET(self) -> None:
        self.send_response(self.ANSWERS[self.path])
        if self.path == "/moved":
            self.send_header("Location", "/here")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_pages_that_are_not_there_are_told_and_no_others(site):
    addresses = [f"{site}{path}" for path in Site.ANSWERS]
    told = web.dead(addresses)
    assert [each.partition(": the answer is ")[::2] for each in told] == [
        (f"{site}/gone", "404 Not Found"),
        (f"{site}/broken", "500 Internal Server Error"),
    ]


@pytest.mark.slow
def test_what_cannot_be_reached_says_nothing_about_a_page(site):
    port = int(site.rpartition(":")[2])
    assert web.has_network("127.0.0.1", port)
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as closed:
        nobody = closed.server_port
    assert not web.has_network("127.0.0.1", nobody)
    assert web.dead([f"http://127.0.0.1:{nobody}/here"]) == []


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("https://docs.python.org/3/", True),
        ("https://mcp.example.org/mcp", False),
        ("http://localhost:8000", False),
        ("mailto:a@b.de", False),
    ],
)
def test_examples_of_addresses_are_not_followed(address, meant):
    assert web.is_meant(address) is meant
