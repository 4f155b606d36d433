"""The digest as a section, and its tools."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from toolstile_hookspecs import (
    Binding,
    Filesystem,
    MarkdownSection,
    ResourceResolver,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolExample,
    ToolResult,
    ToolstileError,
    Visibility,
    tool,
)
from toolstile_hookspecs.execution.prompt_parts import SectionText
from toolstile_hookspecs.support.caches import cached
from toolstile_plugins.vfs.tools.checks import ROOT, checking, shown
from toolstile_plugins.workspace_digest.settings import DigestConfig
from toolstile_plugins.workspace_digest.survey import (
    KEY,
    DirectoryDigest,
    Made,
    Source,
    Survey,
    Texts,
    WorkspaceDigest,
    few,
    latest_workspace_digest,
    make_digest,
    one_line,
    register_reducers,
    set_workspace_digest,
)

# --- Tools


_LEVEL = "src: 2 files, 12 bytes\nKinds: 2 .py (12 bytes)\n\nFiles:\napp.py\nwire.py"


@cached(64)
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
        """Show one level of a directory, and its changes since it was shown last."""
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
        """Make a new digest of the workspace, from its present files."""
        with checking(context, "Cannot make the digest") as checks:
            made = make_digest(Survey(checks.files, self.config), self.config)
        digest = WorkspaceDigest(self.key, made.body, context.clock.now(), made.of, made.sources)
        set_workspace_digest(context.session, digest)
        return ToolResult.ok(made.body, message="The digest is new.")


# --- The section


log = logging.getLogger("toolstile.workspace_digest")

PLACEHOLDER = (
    "The digest of the workspace is not made yet.\n\n"
    "Use `digest_directory` to look at one directory after the other, and `refresh_digest` for a "
    "digest of all of it."
)


class AutomaticDigests:
    """The automatic digests of a workspace, each made once; a resource of the session."""

    def __init__(self, files: Filesystem | None) -> None:
        # The workspace outside of any call.
        self._files = files
        self._lock = threading.Lock()
        self._made: dict[DigestConfig, Made] = {}
        self._texts: Texts = {}

    def digest(self, config: DigestConfig) -> Made | None:
        """Return the digest, made when it is first asked for; None without a workspace."""
        if self._files is None:
            return None
        with self._lock:
            if config not in self._made:
                survey = Survey(self._files, config, self._texts)
                self._made[config] = make_digest(survey, config)
            return self._made[config]

    def changed(self, config: DigestConfig, sources: Sequence[Source]) -> list[str]:
        """Return the paths that have changed; looks at the sources alone."""
        if self._files is None or not sources:
            return []
        return Survey(self._files, config, self._texts).changed(sources)


class WorkspaceDigestSection(MarkdownSection):
    """A digest of the workspace, with tools that show more of it and refresh it.

    Its text is the session's digest, else an overridden text, else an automatic digest, made
    without a model when it is first shown, else a placeholder.

    Args:
        session: Gets the reducers at once; by default each session gets them at its first use.
        config: The limits.
        key: The key of the section and of its digest in the session.
        visibility: Whether the model sees all of it or, at first, its summary.
        accepts_overrides: Whether its text and the tools' descriptions may be overridden.

    Example:
        >>> [tool.name for tool in WorkspaceDigestSection().tools]
        ['digest_directory', 'refresh_digest']
    """

    def __init__(
        self,
        session: SessionProtocol | None = None,
        *,
        config: DigestConfig | None = None,
        key: str = KEY,
        visibility: Visibility = Visibility.SUMMARY,
        accepts_overrides: bool = True,
    ) -> None:
        config = config or DigestConfig()
        super().__init__(
            key=key,
            title="Workspace digest",
            template=PLACEHOLDER,
            tools=digest_tools(key, config, accepts_overrides=accepts_overrides),
            resources=(Binding(AutomaticDigests, _automatic),),
            on_session=register_reducers,
            visibility=visibility,
            summary=config.summary or _first_line(PLACEHOLDER),
            accepts_overrides=accepts_overrides,
        )
        object.__setattr__(self, "config", config)
        if session is not None:
            register_reducers(session)

    def text_in(
        self, session: SessionProtocol | None, resources: ResourceResolver | None, body: str
    ) -> SectionText:
        """Return the digest that a session shows, and name the files that have changed since."""
        config: DigestConfig = vars(self)["config"]
        sources: Sequence[Source] = ()
        stale: list[str] = []
        kept = None if session is None else latest_workspace_digest(session, self.key)
        try:
            automatic = None if resources is None else resources.get(AutomaticDigests, None)
            if kept is not None:
                body, sources = kept.body, kept.sources
            elif automatic is not None and body == self.template:
                made = automatic.digest(config)
                if made is None:
                    _tell_once(self.key, "it has no workspace, and no digest was set")
                else:
                    body, sources = made.body, made.sources
            stale = [] if automatic is None else automatic.changed(config, sources)
        except (OSError, ToolstileError) as error:
            _tell_once(self.key, str(error))
        summary = config.summary or _first_line(body)
        told = (
            f"\n\nStale: {few(stale)} changed since this was made. Call refresh_digest."
            if stale
            else ""
        )
        return SectionText(f"{body}{told}", f"{summary}{told}")


def _automatic(resources: ResourceResolver) -> AutomaticDigests:
    # A protocol serves as the key, which mypy does not foresee for type[T].
    return AutomaticDigests(resources.get(Filesystem, None))  # type: ignore[type-abstract]


def _first_line(body: str) -> str:
    return one_line(body.strip().partition("\n")[0])


@cache
def _tell_once(key: str, why: str) -> None:
    log.warning("The section %r shows no digest of the workspace: %s", key, why)
