"""Write `llms.txt` and `llms-full.txt` into the built site, for models: `python tools/llms.py`.

`llms.txt` names each page of the navigation with its first paragraph, `llms-full.txt` has the
texts of all pages but the reference. The form is that of https://llmstxt.org.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SITE: Final = ROOT / "build/site"
_ENTRY: Final = re.compile(
    r"^(?P<depth> *)- (?P<title>[^:]+):(?: (?P<page>\S+\.md))?$", re.MULTILINE
)
_FIRST: Final = re.compile(
    r"^# .+\n+(?:!\[.*\n+|<.*\n+)*(?P<text>(?:[^\n#`|].*\n?)+)", re.MULTILINE
)


def navigation() -> Iterator[tuple[str, str, str]]:
    """Yield the group, the title and the file of each page."""
    group = ""
    for entry in _ENTRY.finditer((ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]):
        if entry["page"] is None:
            group = entry["title"]
        else:
            yield group, entry["title"], entry["page"]


def main(site: Path = SITE) -> None:
    """Write both files into a built site."""
    intro = _first_paragraph((ROOT / "docs/index.md").read_text("utf-8"))
    index, full = [f"# Toolstile\n\n> {intro}\n"], list[str]()
    before = ""
    for group, title, page in navigation():
        text = (ROOT / "docs" / page).read_text("utf-8")
        if group != before:
            index.append(f"\n## {group}\n")
            before = group
        about = _first_paragraph(text)
        index.append(f"- [{title}]({page.removesuffix('.md')}.html): {about}".removesuffix(": "))
        if not page.startswith("reference/"):
            full.append(text.strip())
    (site / "llms.txt").write_text("\n".join(index) + "\n", "utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(full) + "\n", "utf-8")


def _first_paragraph(text: str) -> str:
    found = _FIRST.search(text)
    paragraph = "" if found is None else " ".join(found["text"].split())
    # Links of a page lead nowhere from here.
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", paragraph)


if __name__ == "__main__":
    main()
