"""The git repository of a linked worktree or a submodule, which lies outside of the workspace."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from toolstile_hookspecs import Diagnostic

_POINTER: Final = "gitdir: "


def outside_repository(root: Path) -> Path | None:
    """Return the git directory that a workspace needs and does not contain, None if there is none.

    For a linked worktree it is the directory of the whole repository, which has the commits.

    Args:
        root: The directory of the workspace.
    """
    with suppress(OSError, ValueError):
        text = (root / ".git").read_text(encoding="utf-8")
        if text.startswith(_POINTER):
            found = root / text.removeprefix(_POINTER).strip()
            with suppress(FileNotFoundError):
                found /= (found / "commondir").read_text(encoding="utf-8").strip()
            if not found.resolve().is_relative_to(root.resolve()):
                return found.resolve()
    return None


def diagnose_repository(root: Path) -> Diagnostic | None:
    """Return how far git works for commands in a sandbox, None if nothing limits it."""
    repository = outside_repository(root)
    if repository is None:
        return None
    remedy = "To let them commit, use a clone as the workspace, or the repository of a submodule."
    # A relative pointer leads to another place in a sandbox, where the workspace is `/workspace`.
    if (root / ".git").read_text(encoding="utf-8").startswith(f"{_POINTER}/"):
        remedy = f'With readable = ["{repository}"] in [plugins.sandbox] they read it. {remedy}'
    return Diagnostic.note(
        f"git in {root}",
        "The workspace is a linked git worktree or a submodule: its repository lies in "
        f"{repository}, so commands in a sandbox can neither read it nor commit.",
        remedy,
    )
