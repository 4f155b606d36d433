"""The plugin of llm: `llm -T Toolstile` offers the tools of the host that is configured here.

llm imports it in each of its commands, so nothing of Toolstile is loaded until a tool is asked for.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from types import MethodType
from typing import TYPE_CHECKING, Any

import llm

if TYPE_CHECKING:
    from toolstile import Executor


class Toolstile(llm.Toolbox):  # type: ignore[no-untyped-call]
    """The tools of the host that toolstile.toml configures, each call behind its policies."""

    plugin: str | None = None

    def __init__(self, config: str | None = None, session: str | None = None) -> None:
        self._settings = config
        self._session = session
        self._executor: Executor | None = None

    def tools(self) -> Iterator[llm.Tool]:
        """Yield the tools that can be called now; the first time, open the host."""
        from toolstile_plugins.adapters.llm import toolset

        made: list[Any] = [*toolset(self._opened(), prefix="Toolstile_", pauses=False)]
        for tool in made:
            tool.plugin = self.plugin
            # With these two, llm continues a logged conversation with the toolbox.
            tool.implementation = MethodType(tool.implementation, self)
            yield tool

    def _opened(self) -> Executor:
        if self._executor is None:
            from toolstile import Host
            from toolstile_cli.errors import report_faults

            with ExitStack() as opening, redirect_stdout(sys.stderr):
                host = opening.enter_context(Host(config=self._settings))
                report_faults(host)
                self._executor = opening.enter_context(host.executor(session_id=self._session))
                # With the toolbox, or with the process that ends before it.
                weakref.finalize(self, _close, opening.pop_all())
        return self._executor


def _close(opened: ExitStack) -> None:
    with redirect_stdout(sys.stderr):
        opened.close()


@llm.hookimpl
def register_tools(register: Callable[..., None]) -> None:
    """Offer the toolbox to llm."""
    register(Toolstile)
