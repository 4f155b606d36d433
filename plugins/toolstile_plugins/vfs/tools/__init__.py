"""The file tools, over any `Filesystem`."""

from __future__ import annotations

from typing import Any, Final

from toolstile_hookspecs import FileMatch, Tool, ToolExample
from toolstile_hookspecs.selectors import CONSEQUENCES
from toolstile_hookspecs.support.caches import cached
from toolstile_hookspecs.tools import Category
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.tools import models
from toolstile_plugins.vfs.tools.handlers import Handlers

_DOCS: Final = (
    models.Entry("docs/guides", "directory"),
    models.Entry("docs/index.md", "file", 1200),
)
_TOOLS: Final[dict[str, tuple[Category, str, ToolExample[Any, Any]]]] = {
    "list_directory": (
        "read",
        "List the entries of a directory of the workspace, with sizes.",
        ToolExample(
            "List a directory that holds one file and one directory",
            models.ListDirectory("docs"),
            models.Listing("docs", _DOCS, 1, 2),
        ),
    ),
    "read_file": (
        "read",
        "Read a text file, or some of its lines with offset and limit.",
        ToolExample(
            "Read lines 41 and 42, with their numbers",
            models.ReadFile("src/app.py", offset=41, limit=2, line_numbers=True),
            models.FileText("src/app.py", "import os\nimport sys\n", 41, 42, 90, line_numbers=True),
        ),
    ),
    "write_file": (
        "write",
        "Write a whole text file; overwrite=true replaces a file that was read.",
        ToolExample(
            "Create a file",
            models.WriteFile("notes/todo.md", "- water the plants\n"),
            models.Written("notes/todo.md", 19, created=True),
        ),
    ),
    "edit_file": (
        "write",
        (
            "Replace a piece of text in a file that was read before; old_text must match exactly, "
            "and once unless replace_all=true."
        ),
        ToolExample(
            "Change one setting",
            models.EditFile("app.ini", "debug = true", "debug = false"),
            models.Edited("app.ini", 1, (3,), 120),
        ),
    ),
    "delete_file": (
        "delete",
        "Delete a file that was read before, or a directory; recursive=true with everything in it.",
        ToolExample(
            "Delete a directory with everything in it",
            models.DeleteFile("build", recursive=True),
            models.Deleted("build", 12),
        ),
    ),
    "copy_file": (
        "write",
        (
            "Copy a file or a directory to a path that is free; overwrite=true replaces a file "
            "that was read before."
        ),
        ToolExample(
            "Copy a file",
            models.CopyFile("config/app.ini", "config/app.old.ini"),
            models.Transferred("config/app.ini", "config/app.old.ini", 1),
        ),
    ),
    "move_file": (
        "write",
        (
            "Move or rename a file or a directory; overwrite=true replaces a file that was read "
            "before."
        ),
        ToolExample(
            "Rename a directory with three files",
            models.MoveFile("doc", "docs"),
            models.Transferred("doc", "docs", 3),
        ),
    ),
    "glob_files": (
        "read",
        "Find files and directories by a pattern of their paths, such as **/*.py.",
        ToolExample(
            "Find all Python files",
            models.GlobFiles("**/*.py"),
            models.Found((models.Entry("src/app.py", "file", 840),), 1, 1),
        ),
    ),
    "grep_files": (
        "read",
        "Find lines in text files by a regular expression.",
        ToolExample(
            "Find where something is defined",
            models.GrepFiles(r"def main\b", glob="**/*.py"),
            models.Matches((FileMatch("src/app.py", 12, "def main() -> int:"),), 1, more=False),
        ),
    ),
}
"""The category, description and example of each tool; its handler is the method of its name."""


@cached(64)
def file_tools(config: VfsConfig, *, accepts_overrides: bool = True) -> tuple[Tool[Any, Any], ...]:
    """Return the file tools."""
    handlers = Handlers(config)
    return tuple(
        Tool[Any, Any](
            name=name,
            description=description,
            handler=getattr(handlers, name),
            category=category,
            consequence=CONSEQUENCES[category],
            requires_confirmation=category == "delete" and config.confirm_deletes,
            contained=True,
            tags=("files",),
            accepts_overrides=accepts_overrides,
            examples=(example,),
        )
        for name, (category, description, example) in _TOOLS.items()
    )
