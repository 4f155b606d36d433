"""A release of a bakery's price list, in a directory: a whole plugin in a single file.

    toolstile run --example workspace --approve all
    toolstile mcp --example workspace

The directory is a copy of the files beside this one, which is removed in the end. The tools of
this plugin do not depend on the plugin that makes the workspace: they use any `Filesystem`. The
changes of a call are kept if the call succeeds, and rolled back if it fails.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from toolstile_hookspecs import (
    Command,
    ConfigurationError,
    Filesystem,
    MarkdownSection,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

FILES = Path(__file__).with_name("workspace_files")
VERSION = re.compile(r"(version\s*=?\s*)(\d+\.\d+)")
VERSIONED = ("prices.ini", "README.md")
"""The files that name the version."""

_copies = ExitStack()


def files_of(context: ToolContext) -> Filesystem:
    """Return the workspace of a call."""
    if context.filesystem is None:
        raise FileNotFoundError("There is no workspace; load the plugin `vfs`.")
    return context.filesystem


@tool(category="read", consequence="low")
def show_version(*, context: ToolContext) -> str:
    """Say which version each file names."""
    files = files_of(context)
    found = {path: VERSION.search(files.read(path)) for path in VERSIONED}
    return ", ".join(f"{path}: {match[2] if match else 'none'}" for path, match in found.items())


@tool(category="write", contained=True)
def set_version(version: str, *, context: ToolContext) -> ToolResult[None]:
    """Set the version in all files that name it; the changelog must describe it.

    Args:
        version: The new version.
        context: The call's.
    """
    files = files_of(context)
    for path in VERSIONED:
        files.write(path, VERSION.sub(rf"\g<1>{version}", files.read(path)))
    if f"## {version}\n" not in files.read("CHANGELOG.md"):
        return ToolResult.error(
            f"{' and '.join(VERSIONED)} were changed, but CHANGELOG.md has no section "
            f"'## {version}', so nothing is kept. Add it, then retry."
        )
    return ToolResult.ok(message=f"{' and '.join(VERSIONED)} say {version} now.")


@hookimpl
def toolstile_sections() -> list[MarkdownSection]:
    """Offer the tools, with the guidance that goes with them."""
    return [
        MarkdownSection(
            key="release",
            title="Release",
            template="Describe a version in the changelog before you set it.",
            tools=[show_version, set_version],
        )
    ]


@hookimpl
def toolstile_commands() -> list[Command]:
    """Let the calls work on a copy of the example's files, unless a workspace is given."""
    commands = [Command(name, extends=True, settings=work_on_a_copy) for name in ("run", "call")]
    return [*commands, Command("mcp", extends=True, optional=True, settings=work_on_a_copy)]


def work_on_a_copy(args: argparse.Namespace) -> dict[str, str]:
    """Make the workspace a fresh copy; refuse to change files of the user by the session."""
    if getattr(args, "workspace", None) is not None:
        if args.command == "run" and args.file is None:
            raise ConfigurationError(
                "--workspace: the session of this example works on files of its own, and would "
                f"change those in {args.workspace}. Leave --workspace out, or give a file of calls."
            )
        return {}
    root = _copies.enter_context(TemporaryDirectory(prefix="toolstile-example-"))
    shutil.copytree(FILES, root, dirs_exist_ok=True)
    return {"plugins.vfs.root": root}


@hookimpl
@contextmanager
def toolstile_lifespan() -> Generator[None]:
    """Remove the copy when the host closes."""
    with _copies:
        yield
