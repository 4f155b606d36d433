"""The options of a host and of its executors, declared once and checked by pydantic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, InstanceOf, StrictBool

from toolstile.settings import Settings, load, validate_table
from toolstile.state.session import Session
from toolstile_hookspecs import (
    Binding,
    BudgetTracker,
    Clock,
    Deadline,
    Heartbeat,
    PolicyStoreLocation,
    Principal,
    Prompt,
    RunContext,
    Secret,
)
from toolstile_hookspecs.execution.options import Purpose
from toolstile_hookspecs.resources import as_bindings
from toolstile_hookspecs.tools import HostDefault


class _Checked:
    """Options that are made of the arguments of a function."""

    __slots__ = ()
    source: ClassVar[str]

    @classmethod
    def checked(cls, arguments: dict[str, Any]) -> Self:
        """Return the options of the `locals()` or keywords; the error names every faulty option."""
        given = {**arguments, "resources": as_bindings(arguments.get("resources", ()))}
        given.pop("self", None)
        return validate_table(cls, given, plugin=None, source=cls.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions(_Checked):
    """The options of a host; `Host` explains each."""

    source = "Host"
    config: Path | None
    settings: InstanceOf[Settings] | None
    plugins: tuple[Any, ...]
    plugin_files: tuple[Path, ...]
    block: tuple[str, ...]
    discover: StrictBool | tuple[str, ...]
    tools: tuple[Any, ...]
    policies: tuple[Any, ...]
    resources: tuple[InstanceOf[Binding[Any]], ...]
    approver: Callable[..., Any] | None
    clock: InstanceOf[Clock] | None
    timeout: Any
    interrupts: tuple[type[BaseException], ...]
    purpose: Purpose

    def configuration(self) -> Settings:
        """Return the given settings, or the settings of the file, with the given timeout."""
        found, file = self.settings, self.config
        if found is None:
            found = load(config=file) if self.discover or file else Settings()
        if isinstance(self.timeout, HostDefault):
            return found
        return found.replaced(timeout=self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOptions:
    """The options of a child; `ChildArguments` explains each."""

    name: Annotated[str, Field(pattern=r"^[^/\x00-\x1f]{1,64}$")]
    tools: tuple[str, ...] | None = None
    rules: tuple[Any, ...] = ()
    budget: InstanceOf[BudgetTracker] | None = None
    session: Literal["share", "fork", "own"] = "share"
    deadline: InstanceOf[Deadline] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions(_Checked):
    """The options of an executor; `Host.executor` explains each."""

    source = "host.executor"
    session: InstanceOf[Session] | None = None
    session_id: str | None = None
    prompt: InstanceOf[Prompt] | None = None
    tools: tuple[Any, ...] = ()
    approver: Callable[..., Any] | None = None
    deadline: InstanceOf[Deadline] | None = None
    principal: InstanceOf[Principal] | None = None
    request: Any = ()
    user_id: str | None = None
    auth: InstanceOf[Secret] | None = None
    client: Any = None
    adapter: Any = None
    heartbeat: InstanceOf[Heartbeat] | None = None
    run_context: InstanceOf[RunContext] | None = None
    resources: tuple[InstanceOf[Binding[Any]], ...] = ()
    on_answer: Callable[..., Any] | None = None
    on_progress: Callable[..., Any] | None = None
    dry_run: StrictBool = False
    clock: InstanceOf[Clock] | None = None
    kept_apart: InstanceOf[PolicyStoreLocation] | None = None
    tags: tuple[str, ...] = ()
    without_tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.session is not None and self.session_id is not None:
            raise ValueError("session and session_id are both given; the session has its id")
        if self.principal is not None and (self.user_id, self.auth) != (None, None):
            told = "principal stands beside user_id or auth; write Principal(source, id, auth=...)"
            raise ValueError(told)
