"""Makes every block of the README and the documentation a test.

``pytest docs README.md`` does what they tell a reader to do: the blocks of one page share a
directory and a namespace and are carried out in their order, each a test of its own.
`tools/executing` says what is done with which kind of block, and none is left out.
"""

from __future__ import annotations

from typing import Any

import pytest
from executing.blocks import Execution
from sybil import Sybil

execution = Execution()

pytest_collect_file = Sybil(
    parsers=execution.parsers,
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    setup=execution.begin,
    teardown=execution.end,
).pytest()

# The packages there bring tests of their own, which run where they are installed.
collect_ignore_glob = ["docs/examples/*/tests"]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the process that tells of the run know what this one has done."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["documentation"] = dict(execution.done)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what another process has done."""
    execution.done.update(getattr(node, "workeroutput", {}).get("documentation", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how much of the documentation was carried out."""
    done = execution.done
    if done:
        terminalreporter.write_line(
            f"documentation: {done['python']} python examples, {done['commands']} commands in "
            f"{done['console']} console blocks, {done['toml']} toml blocks "
            f"({done['configurations']} configurations), {done['json']} json blocks, "
            f"{done['text']} texts; none skipped"
        )


def pytest_unconfigure() -> None:
    """Remove what the documentation was carried out in."""
    execution.close()
