"""The tools of a digest: one directory after the other, and the whole of it anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from toolstile_hookspecs import Tool, ToolContext, ToolExample, ToolResult, tool
from toolstile_plugins.vfs.tools.checks import ROOT, checking, shown
from toolstile_plugins.workspace_digest.model import (
    DirectoryDigest,
    WorkspaceDigest,
    set_workspace_digest,
)
from toolstile_plugins.workspace_digest.settings import DigestConfig
from toolstile_plugins.workspace_digest.survey import Survey
from toolstile_plugins.workspace_digest.text import few, make_digest

_LEVEL = "src: 2 files, 12 bytes\nKinds: 2 .py (12 bytes)\n\nFiles:\napp.py\nwire.py"


def digest_tools(
    key: str, config: DigestConfig, *, accepts_overrides: bool = True
) -> Sequence[Tool[Any, Any]]:
    """Return the tools of the digest of a key."""
    handlers = _Handlers(key, config)
    example = ToolExample("Look at one directory", {"path": "src"}, _LEVEL)
    options: Any = {
        "category": "read",
        "consequence": "low",
        "contained": True,
        "tags": ("files",),
        "accepts_overrides": accepts_overrides,
    }
    return (
        tool(**options, examples=(example,))(handlers.digest_directory),
        tool(**options)(handlers.refresh_digest),
    )


@dataclass(frozen=True)
class _Handlers:
    key: str
    config: DigestConfig

    def digest_directory(
        self,
        path: Annotated[str, "The directory; the root when empty."] = "",
        *,
        context: ToolContext,
    ) -> ToolResult[str]:
        """Show one level of a directory, and what has changed since it was shown last."""
        with checking(context, f"Cannot show {shown(path) if path else ROOT}") as checks:
            stat = checks.directory(path)
            checks.pass_or_refuse()
            path = path if stat is None else stat.path
            shown_before = context.session[DirectoryDigest].where(lambda known: known.path == path)
            changed = [
                name
                for before in shown_before[-1:]
                for name in Survey(checks.files, self.config).changed(before.sources)
            ]
            made = make_digest(Survey(checks.files, self.config), self.config, path, depth=1)
        told = "Nothing has changed since it was shown." if shown_before else ""
        if changed:
            told = f"Changed since it was shown: {few(changed)}."
        context.session.dispatch(DirectoryDigest(path, made.sources))
        return ToolResult.ok(made.body, message=told)

    def refresh_digest(self, *, context: ToolContext) -> ToolResult[str]:
        """Make the digest of the workspace anew, from the files as they are now."""
        with checking(context, "Cannot make the digest") as checks:
            made = make_digest(Survey(checks.files, self.config), self.config)
        digest = WorkspaceDigest(self.key, made.body, context.clock.now(), made.of, made.sources)
        set_workspace_digest(context.session, digest)
        return ToolResult.ok(made.body, message="The digest is made anew.")
