"""Tools of a coding agent beside those for files; write your own in their place."""

from __future__ import annotations

import subprocess
from urllib.request import urlopen

from toolstile_hookspecs import MarkdownSection, Section, ToolResult, hookimpl, tool


@tool(category="side_effect", consequence="high")
def run_command(command: str) -> ToolResult[str]:
    """Run a command line in a shell."""
    return _run(["sh", "-c", command])


@tool(category="side_effect", consequence="medium")
def git_push(branch: str, *, force: bool = False) -> ToolResult[str]:
    """Push the commit that is checked out to a branch of origin."""
    return _run(["git", "push", *(["--force"] if force else []), "origin", f"HEAD:{branch}"])


@tool(category="read")
def fetch_page(url: str) -> str:
    """Fetch a page of the web."""
    with urlopen(url) as page:  # noqa: S310 - the rules say which
        text: str = page.read().decode(errors="replace")
    return text


def _run(command: list[str]) -> ToolResult[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    text = done.stdout + done.stderr
    return ToolResult.error(text) if done.returncode else ToolResult.ok(text)


@hookimpl
def toolstile_sections() -> list[Section]:
    """Offer the tools."""
    return [
        MarkdownSection(key="coding", title="Coding", tools=[run_command, git_push, fetch_page])
    ]
