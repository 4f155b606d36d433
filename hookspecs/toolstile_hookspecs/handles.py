"""Handles of the host: plugins drive calls through them and never import the host."""

# pyright: reportReturnType=false

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, Unpack

from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.calls import Outcome, ToolCall
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import VisibilityExpansionRequired
from toolstile_hookspecs.execution.foreign_tools import ForeignCall
from toolstile_hookspecs.execution.options import (
    BatchArguments,
    ChildArguments,
    ExecutorArguments,
    PolicyStoreLocation,
    Purpose,
    ResumeArguments,
)
from toolstile_hookspecs.execution.principal import RequestTexts
from toolstile_hookspecs.execution.transaction_end import TransactionEnded
from toolstile_hookspecs.limits import Clock
from toolstile_hookspecs.policies import ToolPolicy
from toolstile_hookspecs.prompts import Prompt, RenderedPrompt
from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.stops import Stop
from toolstile_hookspecs.tools import Tool


class Catalog(Protocol):
    """The tools of all plugins, by name."""

    def get(self, name: str) -> Tool[Any, Any] | None:
        """Return the tool of a name or wire name, or None."""

    def names(self) -> Sequence[str]:
        """Return all names, in order."""

    def plugin_of(self, name: str) -> str | None:
        """Return the plugin that offers the tool, or None."""

    def invalidate(self, plugin: str) -> None:
        """Ask a plugin for its sections again; its tools may have changed."""

    def __iter__(self) -> Iterator[Tool[Any, Any]]:
        """Yield the tools in order."""


class ExecutorHandle(Protocol):
    """Dispatches calls in one session."""

    @property
    def session(self) -> SessionProtocol:
        """The session the calls run in."""

    @property
    def prompt(self) -> Prompt:
        """The prompt whose tools can be called."""

    @property
    def resources(self) -> ResourceResolver:
        """The resources outside of any call: nothing there is rolled back."""

    def request(self, said: RequestTexts) -> None:
        """Add to the request of the session, for calls from now on; see `ToolContext.request`."""

    def dispatch(self, call: ToolCall, *, using: ForeignCall | None = None) -> Outcome:
        """Dispatch a call and wait for it; `using` runs a `ForeignTool` that has no callable."""

    def adispatch(self, call: ToolCall, *, using: ForeignCall | None = None) -> Awaitable[Outcome]:
        """Dispatch a call; see `dispatch`."""

    def dispatch_all(
        self, calls: Iterable[ToolCall], **more: Unpack[BatchArguments]
    ) -> list[Outcome | BaseException]:
        """Dispatch calls in parallel, isolated from one another; results in call order."""

    def adispatch_all(
        self, calls: Iterable[ToolCall], **more: Unpack[BatchArguments]
    ) -> Awaitable[list[Outcome | BaseException]]:
        """Dispatch calls in parallel; see `dispatch_all`."""

    def adispatch_each(
        self, calls: Iterable[ToolCall], *, using: Sequence[ForeignCall | None] = ()
    ) -> Sequence[Coroutine[Any, Any, Outcome]]:
        """Return the calls of one batch as coroutines; await them all."""

    def resume(
        self, call: ToolCall, token: str, answer: GivenAnswer, **more: Unpack[ResumeArguments]
    ) -> Outcome:
        """Dispatch a pending call again, in all stages; new params or a new diff are asked about.

        Args:
            call: The call as it was.
            token: The `approval_token` of its outcome; holds once, for a time, for its principal.
            answer: The answer of the person.
            more: A foreign callable, and the change set; see `ResumeArguments`.
        """

    def aresume(
        self, call: ToolCall, token: str, answer: GivenAnswer, **more: Unpack[ResumeArguments]
    ) -> Awaitable[Outcome]:
        """Dispatch a pending call again; see `resume`."""

    def expand(self, request: VisibilityExpansionRequired) -> RenderedPrompt:
        """Open the sections that a call asked for, and render the prompt again."""

    def child(
        self, name: str, **given: Unpack[ChildArguments]
    ) -> AbstractContextManager[ExecutorHandle]:
        """Return an executor with a part of this one's authority; see `ChildArguments`."""

    def transaction(
        self, title: str, *, timeout: float | None = None, approve: bool = False
    ) -> TransactionHandle:
        """Begin a transaction: one decision keeps the changes of all its calls, or of none.

        Args:
            title: The title, for people.
            timeout: Seconds after which it is rolled back, None for never.
            approve: Whether a person is shown all of it on one card before the end.
        """


class TransactionHandle(ExecutorHandle, Protocol):
    """Dispatches calls that are kept together: at the end of its block, or by `commit`.

    Attributes:
        id: Its id, which the events of its calls name.
        ended: The event of its end; None before.
    """

    id: str
    ended: TransactionEnded | None

    def changes(self) -> str:
        """Return the changes that the calls have made together so far, without secrets."""

    def view(self) -> ToolContext:
        """Return a context with a copy of the session, and the files, as its calls see them now."""

    def commit(self) -> None:
        """Keep everything, or raise `TransactionFailed`."""

    def acommit(self) -> Awaitable[None]:
        """Keep everything, or raise `TransactionFailed`."""

    def rollback(self, reason: str = ...) -> None:
        """Put everything back."""

    def arollback(self, reason: str = ...) -> Awaitable[None]:
        """Put everything back."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...


class HostHandle(Protocol):
    """The host as its plugins see it.

    Attributes:
        kept_apart: The folder for policies' records of executors that name none; None for the
            policies' own files. A plugin that answers in the tools' place sets it meanwhile.
        purpose: How much of the host is opened; plugins open ports only to `"serve"`.
    """

    kept_apart: PolicyStoreLocation | None
    purpose: Purpose

    @property
    def catalog(self) -> Catalog:
        """The tools of all plugins."""

    @property
    def clock(self) -> Clock:
        """The source of time."""

    @property
    def prompt(self) -> Prompt:
        """The prompt made of the sections of all plugins."""

    @property
    def policies(self) -> Sequence[ToolPolicy]:
        """The policies of the configuration and the application."""

    def settings(self, plugin: str) -> Any:
        """Return a plugin's validated settings, or None without any."""

    def state(self, plugin: str) -> Any:
        """Return the object that a plugin's lifespan has yielded, or None."""
        ...

    def dialect(self, name: str) -> Dialect:
        """Return a provider's dialect; the error for an unknown name lists the known."""

    def session(self, text: str, *, kinds: Iterable[type[Any]] = ()) -> SessionProtocol:
        """Return the session that `snapshot().to_json()` wrote; `kinds` as no section has them."""

    def executor(
        self, **arguments: Unpack[ExecutorArguments]
    ) -> AbstractContextManager[ExecutorHandle]:
        """Return an executor, in a new session unless one is given; see `ExecutorArguments`."""

    def stops(self) -> Sequence[Stop]:
        """Return the stops that are in force."""

    def stop(
        self, reason: str, *, by: str = ..., seconds: float | None = ..., **scope: Any
    ) -> None:
        """Stop calls of one `tool`, `server`, `session` or `principal`, or all; see `Stop`.

        Raises `StateError` if a decision under way does not end; all else is stopped.
        """

    @property
    def is_alone(self) -> bool:
        """True without a configuration file and a database: a stop is for this process alone."""

    def go(self, *stops: Stop) -> None:
        """End these stops; by default all."""

    def decides(self, words: Sequence[str]) -> bool:
        """Tell whether the command with these words needs a person; see `Command.decides`."""

    def register(self, plugin: object, name: str | None = None) -> None:
        """Register one more plugin; on a `PluginError` nothing of it stays."""

    def unregister(self, name: str) -> None:
        """Remove a plugin with all it offers; `PluginError` when there is none of that name."""


class Dialect(Protocol):
    """The message shapes of one provider, both ways."""

    @property
    def name(self) -> str:
        """The name for `HostHandle.dialect`."""

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[Any]:
        """Return the tools in the provider's shape."""

    def calls(self, reply: Any) -> list[ToolCall]:
        """Return the calls in a model's reply."""

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[Any]:
        """Return outcomes as the messages that answer the model."""

    def recorded(self, document: Any) -> list[ToolCall] | None:
        """Return the calls of a recorded conversation, or None if it has another shape."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line, or more options for an existing command.

    Args:
        name: The name that is typed.
        help: One line for `toolstile --help`.
        run: Runs it and returns the exit status. None with `extends`.
        configure: Adds arguments to its parser.
        extends: Whether `name` is a command that exists and gets the options. The host has the
            names `log`, `out` and `stopping` then: an option `--out` needs another `dest`.
        settings: Turns the parsed arguments into configuration for this run, by dotted key. It
            wins over file and environment, and cannot change which plugins are loaded.
        defaults: Configuration for this command, by dotted key, below file and environment.
        optional: Whether, with `extends`, the command of another plugin may not be there.
        purpose: How much of the host it needs open; or a function of the parsed arguments.
        decides: Whether the words after its name make it a person's decision. While the hook of a
            coding agent is installed, it then needs a terminal that is not the agent's.

    Example:
        >>> Command(
        ...     "run",
        ...     extends=True,
        ...     configure=lambda parser: parser.add_argument("--workspace"),
        ...     settings=lambda args: {"plugins.vfs.root": args.workspace},
        ... ).name
        'run'
    """

    name: str
    help: str = ""
    run: Callable[[HostHandle, argparse.Namespace], int] | None = None
    configure: Callable[[argparse.ArgumentParser], object] = lambda _: None
    extends: bool = False
    settings: Callable[[argparse.Namespace], Mapping[str, Any]] = lambda _: {}
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    optional: bool = False
    purpose: Purpose | Callable[[argparse.Namespace], Purpose] = "call"
    decides: Callable[[Sequence[str]], bool] = lambda _: False
