"""A digest of the workspace in the prompt, with tools to look further, offered on request.

Settings, `[plugins.workspace_digest]`: see `DigestConfig`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from toolstile_hookspecs import Section, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.workspace_digest.settings import DigestConfig

if TYPE_CHECKING:
    from toolstile_plugins.workspace_digest.digest import (
        DirectoryDigest,
        WorkspaceDigest,
        WorkspaceDigestSection,
        clear_workspace_digest,
        latest_workspace_digest,
        set_workspace_digest,
    )

__all__ = [
    "DigestConfig",
    "DirectoryDigest",
    "WorkspaceDigest",
    "WorkspaceDigestSection",
    "clear_workspace_digest",
    "latest_workspace_digest",
    "set_workspace_digest",
]

toolstile_on_request = dict.fromkeys(
    ("digest_directory", "refresh_digest"),
    "for a digest, add [plugins.workspace_digest] to the configuration",
)

__getattr__ = late_names(
    __name__,
    {
        "digest": "DirectoryDigest WorkspaceDigest WorkspaceDigestSection clear_workspace_digest "
        "latest_workspace_digest set_workspace_digest"
    },
)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return DigestConfig


@hookimpl
def toolstile_sections(settings: DigestConfig) -> list[Section]:
    """Offer the digest."""
    from toolstile_plugins.workspace_digest.digest import WorkspaceDigestSection

    return [WorkspaceDigestSection(config=settings)]
