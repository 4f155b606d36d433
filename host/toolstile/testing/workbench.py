"""An executor with short ways to call tools, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from toolstile.executor import Executor
from toolstile.host import Host
from toolstile.options import ExecutorOptions
from toolstile.settings import Settings
from toolstile.state.session import Session
from toolstile.testing.doubles import Answers
from toolstile.testing.hosts import Hosts, Tables, with_plugin_table
from toolstile_hookspecs import ConfigurationError, Outcome, StateError, ToolCall, ToolInvoked
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.text import nearest

Driver = Literal["sync", "async"]

HOST_OPTIONS: Final = frozenset({"approver", "clock", "interrupts", "policies", "timeout"})
"""The options of a host; all others belong to an executor."""

OPTIONS: Final = HOST_OPTIONS | {each.name for each in fields(ExecutorOptions)}
"""The options of a host and an executor."""

OWN_OPTIONS: Final = frozenset({"answers", "settings"})
"""The options that `toolstile_tools` itself interprets."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """Calls tools in one session of one host.

    Args:
        host: The host.
        executor: The executor that dispatches its calls.
        driver: Through which driver `call` and its like go.
        answers: The stand-in of the handlers, if there is one.

    Example:
        >>> tools = toolstile_tools(add)  # doctest: +SKIP
        >>> tools.call("add", a=1, b=2).text  # doctest: +SKIP
        '3'
    """

    host: Host
    executor: Executor
    driver: Driver = "sync"
    answers: Answers | None = None

    @property
    def session(self) -> Session:
        """The session that the calls run in."""
        return self.executor.home

    @property
    def events(self) -> tuple[ToolInvoked, ...]:
        """The events of all calls so far, oldest first; nested calls before their callers."""
        return tuple(self.session[ToolInvoked].all())

    def settings_of(self, plugin: object) -> Any:
        """Return the validated settings of a given plugin; None if it declares no settings."""
        plugins = self.host.plugins
        loaded = (plugins.loaded(each.name) for each in plugins.reports if each.hooks)
        own = (each.contribution.settings for each in loaded if each.plugin is plugin)
        return next(own, None)

    def call(self, name: str, /, **arguments: Any) -> Outcome:
        """Call a tool, and wait for its outcome."""
        return self.dispatch(ToolCall(name, arguments))

    def acall(self, name: str, /, **arguments: Any) -> Coroutine[Any, Any, Outcome]:
        """Call a tool from async code."""
        return self.executor.adispatch(ToolCall(name, arguments))

    def call_all(self, *calls: tuple[str, Mapping[str, Any]]) -> list[Outcome | BaseException]:
        """Call several tools at once, each a name with its arguments; see `dispatch_all`."""
        return self.dispatch_all(_made(calls))

    def acall_all(
        self, *calls: tuple[str, Mapping[str, Any]]
    ) -> Coroutine[Any, Any, list[Outcome | BaseException]]:
        """Call several tools at once from async code; see `call_all`."""
        return self.executor.adispatch_all(_made(calls))

    def dispatch(self, call: ToolCall) -> Outcome:
        """Dispatch a call, through the driver that was chosen."""
        if self.driver == "sync":
            return self.executor.dispatch(call)
        _refuse_on_loop("await tools.acall(...)")
        return asyncio.run(self.executor.adispatch(call))

    def dispatch_all(self, calls: Iterable[ToolCall]) -> list[Outcome | BaseException]:
        """Dispatch calls at once, through the driver that was chosen."""
        if self.driver == "sync":
            return self.executor.dispatch_all(calls)
        _refuse_on_loop("await tools.acall_all(...)")
        return asyncio.run(self.executor.adispatch_all(calls))


class Workbenches:
    """Makes workbenches, each over a new host; all are closed with the test.

    Args:
        hosts: Opens hosts.
        driver: Through which driver they call.

    Example:
        >>> tools = toolstile_tools("planning")  # doctest: +SKIP
    """

    def __init__(self, hosts: Hosts, driver: Driver = "sync") -> None:
        self._hosts = hosts
        self._driver: Driver = driver
        self._stack = ExitStack()
        self._answers: list[Answers] = []

    def __call__(
        self,
        *plugins: object,
        settings: Tables | Settings | None = None,
        answers: Answers | Mapping[str, Any] | Path | str | None = None,
        **options: Any,
    ) -> Workbench:
        """Open a host with chosen plugins, and an executor in a new session.

        Args:
            plugins: As `Hosts` takes them: modules, objects, names of installed plugins, tools.
            settings: The plugins' tables by name, or the settings as a whole.
            answers: The stand-in of the handlers: a mapping from tools to answers, see
                `Answers`, or the file of a record.
            options: Arguments of a host (`policies`, `approver`, `clock`, `timeout`,
                `interrupts`), and of an executor (`session`, `session_id`, `prompt`,
                `resources`, `user_id`, `dry_run` and so on).

        Raises:
            PluginError: A plugin is wrong or not installed; names the cause and the remedy.
            ConfigurationError: When a setting or an option does not fit.
        """
        known = sorted(OPTIONS | OWN_OPTIONS)
        for name in (name for name in options if name not in known):
            near = nearest(name, known)
            hint = f"Did you mean {near}?" if near else f"There are {', '.join(known)}."
            raise ConfigurationError(f"toolstile_tools has no option {name}. {hint}")
        chosen = list(plugins)
        given = None
        if isinstance(answers, (str, Path)):
            chosen.append("record")
            settings = with_plugin_table(settings, "record", {"replay": str(answers)})
        elif answers is not None:
            given = answers if isinstance(answers, Answers) else Answers(answers)
            chosen.append(given)
            self._answers.append(given)
        of_host = {name: value for name, value in options.items() if name in HOST_OPTIONS}
        others = {name: value for name, value in options.items() if name not in HOST_OPTIONS}
        host = self._hosts(*chosen, settings=settings, **of_host)
        executor = self._stack.enter_context(host.executor(**others))
        return Workbench(host, executor, self._driver, given)

    def close(self) -> list[str]:
        """Close the executors; return the calls that had no answer."""
        self._stack.close()
        return [why for each in self._answers for why in each.unexpected]


def _made(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> list[ToolCall]:
    return [ToolCall(name, arguments) for name, arguments in calls]


def _refuse_on_loop(instead: str) -> None:
    if is_on_loop():
        raise StateError(f"This test runs on an event loop; write: {instead}")
