"""Diagnosis of the workspace, for `toolstile doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from toolstile_hookspecs import Finding
from toolstile_plugins.vfs.backends.disk.journal import STATES
from toolstile_plugins.vfs.paths import RESERVED
from toolstile_plugins.vfs.settings import VfsConfig


def diagnosed(settings: VfsConfig) -> Iterator[Finding]:
    """Yield what is the case with the directory and the mounts that the settings name."""
    if settings.root is None:
        yield Finding.ok("workspace", "In memory, empty at first.")
    else:
        yield _of_root(settings.root, readonly=settings.readonly)
    for each in settings.mounts:
        source = Path(each.source).expanduser()
        if "://" not in each.source and not source.exists():
            yield Finding.error(
                f"mount {each.target}",
                f"{each.source} is not there.",
                "Mend the source in plugins.vfs.mounts.",
            )


def _of_root(root: Path, *, readonly: bool) -> Finding:
    subject = f"workspace {root}"
    if not root.is_dir():
        return Finding.error(
            subject, "There is no such directory.", "Make it, or mend plugins.vfs.root."
        )
    if not os.access(root, os.R_OK | os.X_OK | (0 if readonly else os.W_OK)):
        return Finding.error(
            subject,
            f"It cannot be {'read' if readonly else 'read and written'}.",
            "Give this user the right to, or configure another directory.",
        )
    pending = [each.parent.name for state in STATES for each in root.glob(f"{RESERVED}/*/{state}")]
    if pending:
        return Finding.warning(
            subject,
            f"{len(pending)} commits wait to be finished, or are being made by a running host.",
            f"Where no host works here: call any tool in it, which finishes them; if it cannot, "
            f"it says what is in the way. They are in {RESERVED}.",
        )
    return Finding.ok(subject, "It is there, and no commit waits to be finished.")
