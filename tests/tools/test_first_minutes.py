"""The three tutorials reach their first success within three commands and four imported names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import first_minutes
import pytest

ROOT = Path(__file__).parents[2]


class Shell:
    """A shell that reports success for each command."""

    def run(self, command: str, **_: Any) -> tuple[str, int]:
        assert command
        return "", 0


def walked(page: Path, folder: Path, shell: Any) -> first_minutes.Walk:
    walker = first_minutes.Walk(page.name, folder, shell)
    first_minutes.walk(page, walker, ROOT)
    return walker


@pytest.mark.parametrize("page", first_minutes.START)
def test_a_tutorial_needs_few_commands_and_names(page: str, tmp_path: Path) -> None:
    walker = walked(ROOT / page, tmp_path, Shell())

    assert walker.first_success is not None
    commands, _, names = walker.first_success
    assert 2 <= commands <= first_minutes.MOST_COMMANDS
    assert names <= first_minutes.MOST_NAMES
    assert str(ROOT) in walker.typed[0]


def test_the_files_that_a_page_takes_for_granted_are_written(tmp_path: Path) -> None:
    walked(ROOT / "docs/start/coding-agent.md", tmp_path, Shell())

    assert (tmp_path / "project" / ".mcp.json").exists()


def test_a_command_that_ends_otherwise_than_its_page_says_ends_the_walk(tmp_path: Path) -> None:
    class Failing(Shell):
        def run(self, command: str, **_: Any) -> tuple[str, int]:
            return "No such file.", 3

    page = tmp_path / "page.md"
    page.write_text("<!-- exit: 3 -->\n```console\n$ a\n```\n\n```console\n$ b\n```\n")

    with pytest.raises(SystemExit, match=r"page.md: that ended with 3, and the page says 0:"):
        walked(page, tmp_path, Failing())


def test_names_are_counted_until_the_first_success(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: a.py -->\n```python\nfrom toolstile import Host, tool\n```\n\n"
        "```console\n$ python a.py\n```\n\n"
        "```python\nfrom toolstile import Agent\n```\n"
    )
    walker = walked(page, tmp_path, Shell())

    assert walker.first_success is not None
    assert walker.first_success[::2] == (1, 2)
    assert walker.imported == {"Agent", "Host", "tool"}
