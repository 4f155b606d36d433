"""The findings of `toolstile doctor` about a workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from toolstile_hookspecs import Diagnostic
from toolstile_plugins.vfs.paths import RESERVED
from toolstile_plugins.vfs.protected_paths import BY_CONTENT, PROTECTED, outside_repository, text_of
from toolstile_plugins.vfs.settings import VfsConfig


def findings(settings: VfsConfig) -> Iterator[Diagnostic]:
    """Yield whether the workspace can be worked in."""
    if settings.root is None:
        yield Diagnostic.ok("workspace", "In memory, empty at first.")
    else:
        yield _finding_of_root(settings.root, readonly=settings.readonly)
        if (finding := diagnose_repository(settings.root)) is not None:
            yield finding
    added, allowed = ", ".join(settings.protected), ", ".join(settings.unprotected)
    globs = " ".join(" ".join(PROTECTED.values()).split())
    yield Diagnostic.ok(
        "protected paths",
        f"A person is asked before a call changes {globs}, {BY_CONTENT}"
        f"{added and f'; also {added}'}{allowed and f'; but not {allowed}'}. To change "
        "the list, set protected and unprotected in [plugins.vfs].",
    )
    for mount in settings.mounts:
        if "://" not in mount.source and not Path(mount.source).expanduser().exists():
            yield Diagnostic.error(
                f"mount {mount.target}",
                f"{mount.source} does not exist.",
                "Fix the source in plugins.vfs.mounts.",
            )


def _finding_of_root(root: Path, *, readonly: bool) -> Diagnostic:
    subject = f"workspace {root}"
    if not root.is_dir():
        return Diagnostic.error(
            subject, "The directory does not exist.", "Make it, or fix plugins.vfs.root."
        )
    if not os.access(root, os.R_OK | os.X_OK | (0 if readonly else os.W_OK)):
        return Diagnostic.error(
            subject,
            f"It cannot be {'read' if readonly else 'read and written'}.",
            "Give this user the right to, or configure another directory.",
        )
    from toolstile_plugins.vfs.backends.disk.operations import STATES  # not on every platform

    pending = [path for state in STATES for path in root.glob(f"{RESERVED}/*/{state}")]
    if pending:
        return Diagnostic.warning(
            subject,
            f"{len(pending)} commits wait to be finished, or are being made by a running host.",
            "If no host uses the workspace, call any of its tools: the call finishes the commits "
            f"in {RESERVED}, or names the obstacle.",
        )
    return Diagnostic.ok(subject, "It exists, and no commit waits to be finished.")


def diagnose_repository(root: Path) -> Diagnostic | None:
    """Return how far git works for commands in a sandbox, None if nothing limits it."""
    repository = outside_repository(root)
    if repository is None:
        return None
    remedy = "To let them commit, use a clone as the workspace, or the repository of a submodule."
    # A relative pointer leads to another place in a sandbox, where the workspace is `/workspace`.
    if text_of(f"{root}/.git").startswith("gitdir: /"):
        remedy = f'With readable = ["{repository}"] in [plugins.sandbox] they read it. {remedy}'
    return Diagnostic.note(
        f"git in {root}",
        "The workspace is a linked git worktree or a submodule: its repository lies in "
        f"{repository}, so commands in a sandbox can neither read it nor commit.",
        remedy,
    )
