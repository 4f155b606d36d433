"""The page of published servers: what each offers behind the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from surveying.visiting import Visit

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mcp-servers.md"
BEGINNING = "<!-- begin: tools/survey_servers.py -->\n"
END = "<!-- end -->\n"


def page_with(visits: Sequence[Visit]) -> str:
    """Return the page with a new table."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGINNING)
    return f"{before}{BEGINNING}{_summary(visits)}\n\n{_table(visits)}{END}{rest.partition(END)[2]}"


def _summary(visits: Sequence[Visit]) -> str:
    reached = [seen for seen in visits if seen.fault is None]
    tools = sum(len(seen.tools) for seen in reached)
    left_out = sum(len(seen.left_out) for seen in reached)
    return (
        f"{len(reached)} of {len(visits)} servers are reached; they offer {tools} tools, and "
        f"{left_out} tools are left out."
    )


def _table(visits: Sequence[Visit]) -> str:
    lines = [
        "| server | package | protocol | tools | left out, and why |",
        "| --- | --- | --- | --- | --- |",
    ]
    for seen in visits:
        server = seen.installed.server
        where = "npm" if server.npm else "PyPI"
        package = f"{server.package} {seen.installed.version} ({where})"
        told = [f"`{name}`: {why}" for name, why in seen.left_out.items()]
        if seen.fault is not None:
            told = [f"not reached: {seen.fault}"]
        cells = (server.name, package, seen.protocol or "-", str(len(seen.tools)), "; ".join(told))
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"
