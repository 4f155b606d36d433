"""The site is built without a warning, from all pages, and needs nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import llms
import pytest
import search_check

ROOT = Path(__file__).parents[2]

#: What a page loads to be shown, rather than where it leads.
LOADING = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src")}

#: Tells search engines and browsers about a page, and is not loaded.
TELLING = {"canonical", "next", "prev"}


@dataclass
class Page(HTMLParser):
    """The resources, links and anchors of a page."""

    file: Path
    loads: list[str] = field(default_factory=list)
    leads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self):
        super().__init__()
        self.feed(self.file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        for name, value in given.items():
            if (tag, name) in LOADING and given.get("rel") not in TELLING:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.leads.append(value)


def built(folder):
    """Builds the site in a folder of its own; returns what was said, and the site."""
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "tools/theme", folder / "tools/theme")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert done.returncode == 0, said
    return said, folder / "build" / "site"


@pytest.mark.docs
def test_the_site_is_built_without_a_warning_and_every_link_in_it_leads_somewhere(tmp_path):
    said, site = built(tmp_path)
    assert "warning" not in said.lower()

    pages = {file: Page(file) for file in site.rglob("*.html")}
    written = {
        file.relative_to(ROOT / "docs").with_suffix(".html")
        for file in (ROOT / "docs").rglob("*.md")
        if file.name != "README.md"
    }
    assert written <= {file.relative_to(site) for file in pages}

    elsewhere, dead = [], []
    for file, page in pages.items():
        where = file.relative_to(site)
        for link in [*page.loads, *page.leads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads:
                    elsewhere.append(f"{where}: {link}")
                continue
            path, anchor = urldefrag(link)
            base = site if file.name == "404.html" else file.parent
            target = Path(base, unquote(path).lstrip("/")).resolve() if path else file
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            if not target.exists() or (anchor and known and unquote(anchor) not in known.anchors):
                dead.append(f"{where}: {link}")
    assert not elsewhere, "pages load from elsewhere:\n" + "\n".join(elsewhere)
    assert not dead, "links lead nowhere:\n" + "\n".join(dead)
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", styles)


def test_every_page_is_in_the_navigation_once():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r": ([\w/.-]+\.md)$", navigation, re.MULTILINE)
    pages = {
        file.relative_to(ROOT / "docs").as_posix()
        for file in (ROOT / "docs").rglob("*.md")
        if file.name != "README.md"
    }
    assert sorted(named) == sorted(pages)


@pytest.mark.docs
@pytest.mark.skipif(not search_check.CHROMIUM.exists(), reason="Chromium is not installed.")
def test_readers_find_pages_by_their_own_words(tmp_path, capsys):
    _, site = built(tmp_path)
    assert search_check.main(site=site) == 0, capsys.readouterr().out


def test_models_find_each_page_in_one_list_and_the_texts_in_one_file(tmp_path):
    llms.main(tmp_path)
    index, full = ((tmp_path / name).read_text("utf-8") for name in ("llms.txt", "llms-full.txt"))
    pages = {file for file in (ROOT / "docs").rglob("*.md") if "examples" not in file.parts}
    for file in pages:
        page = file.relative_to(ROOT / "docs")
        assert f"]({page.with_suffix('.html')})" in index
        title = file.read_text("utf-8").splitlines()[0]
        assert (title in full.splitlines()) is (page.parts[0] != "reference")
    assert index.count("](") == len(pages)
