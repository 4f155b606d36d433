"""Writes the pages of the reference that come from the code: `python tools/write_reference.py`."""

from __future__ import annotations

import sys

from documenting.reference import PAGES, ROOT


def main() -> int:
    """Write them; say what is without documentation."""
    undocumented: list[str] = []
    for file, write in PAGES.items():
        page = write()
        file.write_text(page.text, encoding="utf-8", newline="\n")
        undocumented += [f"{file.relative_to(ROOT)}: {name}" for name in page.undocumented]
    for each in undocumented:
        print(f"without documentation: {each}", file=sys.stderr)
    return 1 if undocumented else 0


if __name__ == "__main__":
    sys.exit(main())
