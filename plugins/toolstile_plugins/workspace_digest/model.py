"""Digests as the session keeps them, and the functions that read and change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolstile_hookspecs import DefinitionError, SessionProtocol

KEY = "workspace-digest"
"""The key of a digest's section, unless another is given."""


@dataclass(frozen=True, slots=True)
class Source:
    """The state of something that a digest was made from.

    Args:
        path: The path; the empty one is the root.
        state: A hash of the names in a directory, the size of a file that is listed, or the hash
            of one that was read.
    """

    path: str
    state: str


@dataclass(frozen=True, slots=True)
class WorkspaceDigest:
    """The digest of a section; one slice of the session holds one for each key.

    Args:
        section_key: The key of the section.
        body: The text, whose first line is its summary.
        made_at: When it was made.
        of: The hash of its sources; empty for a text that was made elsewhere.
        sources: Everything that it was made from.
    """

    section_key: str
    body: str
    made_at: datetime
    of: str = ""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectoryDigest:
    """A directory as it was shown last; one slice of the session holds one for each path.

    Args:
        path: The directory.
        sources: Everything that was shown of it.
    """

    path: str
    sources: tuple[Source, ...]


def register_reducers(session: SessionProtocol) -> None:
    """Let digests that are dispatched replace those of the same key."""
    session[WorkspaceDigest].register(WorkspaceDigest, _put_digest)
    session[DirectoryDigest].register(DirectoryDigest, _put_directory)


def _put_digest(digests: Sequence[Any], event: WorkspaceDigest) -> Sequence[Any]:
    return [*(digest for digest in digests if digest.section_key != event.section_key), event]


def _put_directory(shown: Sequence[Any], event: DirectoryDigest) -> Sequence[Any]:
    return [*(before for before in shown if before.path != event.path), event]


def set_workspace_digest(session: SessionProtocol, digest: WorkspaceDigest) -> WorkspaceDigest:
    """Make a digest that of its section in a session, and return it as it is kept.

    Spaces around its key and its text are dropped, and so are those at the ends of lines.

    Raises:
        DefinitionError: When its key or its text is empty.
    """
    key = _key(digest.section_key)
    body = "\n".join(line.rstrip() for line in digest.body.strip().splitlines())
    if not body:
        raise DefinitionError(f"The digest of {key!r} is empty; clear it, or give it a text.")
    kept = WorkspaceDigest(key, body, digest.made_at, digest.of, digest.sources)
    session[WorkspaceDigest].replace(*_put_digest(session[WorkspaceDigest].all(), kept))
    return kept


def latest_workspace_digest(
    session: SessionProtocol, section_key: str = KEY
) -> WorkspaceDigest | None:
    """Return the digest of a section in a session, or None."""
    key = _key(section_key)
    found = session[WorkspaceDigest].where(lambda digest: digest.section_key == key)
    return found[-1] if found else None


def clear_workspace_digest(session: SessionProtocol, section_key: str = KEY) -> None:
    """Remove the digest of a section from a session."""
    key = _key(section_key)
    session[WorkspaceDigest].clear(lambda digest: digest.section_key == key)


def _key(section_key: str) -> str:
    if key := section_key.strip():
        return key
    raise DefinitionError("A digest belongs to a section; give the section's key.")
