"""The digest as a section: a text of the session, an override, an automatic one, or none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import cache

from toolstile_hookspecs import (
    Binding,
    Filesystem,
    MarkdownSection,
    ResourceResolver,
    SessionProtocol,
    ToolstileError,
    Visibility,
)
from toolstile_hookspecs.execution.prompt_parts import SectionText
from toolstile_plugins.workspace_digest.model import (
    KEY,
    Source,
    latest_workspace_digest,
    register_reducers,
)
from toolstile_plugins.workspace_digest.settings import DigestConfig
from toolstile_plugins.workspace_digest.survey import Survey, Texts
from toolstile_plugins.workspace_digest.text import Made, few, make_digest, one_line
from toolstile_plugins.workspace_digest.tools import digest_tools

log = logging.getLogger("toolstile.workspace_digest")

PLACEHOLDER = (
    "The digest of the workspace is not made yet.\n\n"
    "Use `digest_directory` to look at one directory after the other, and `refresh_digest` for a "
    "digest of all of it."
)


class AutomaticDigests:
    """The automatic digests of a workspace, each made once; a resource of the session.

    Args:
        files: The workspace outside of any call; None where there is none.
    """

    def __init__(self, files: Filesystem | None) -> None:
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
    """A digest of the workspace, with tools that show more of it and make it anew.

    Its text is the session's digest, else an overridden text, else one that is made without a
    model when it is first shown, else a placeholder.

    Args:
        session: Gets the reducers at once; else each session does when it is first used.
        config: The bounds.
        key: The key, by which the session keeps the digest.
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
        """Return the digest that a session shows, and say which files have changed since."""
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
                    _tell_once(self.key, "there is no workspace, and no digest was set")
                else:
                    body, sources = made.body, made.sources
            stale = [] if automatic is None else automatic.changed(config, sources)
        except (OSError, ToolstileError) as error:
            _tell_once(self.key, str(error))
        summary = config.summary or _first_line(body)
        told = f"\n\n{_stale_line(stale)}" if stale else ""
        return SectionText(f"{body}{told}", f"{summary}{told}")


def _automatic(resources: ResourceResolver) -> AutomaticDigests:
    # A protocol serves as the key, which mypy does not foresee for type[T].
    return AutomaticDigests(resources.get(Filesystem, None))  # type: ignore[type-abstract]


def _first_line(body: str) -> str:
    return one_line(body.strip().partition("\n")[0])


def _stale_line(changed: list[str]) -> str:
    return f"Stale: {few(changed)} changed since this was made. Call refresh_digest."


@cache
def _tell_once(key: str, why: str) -> None:
    """Log, at the first rendering alone, that a section shows no digest."""
    log.warning("The section %r shows no digest of the workspace: %s", key, why)
