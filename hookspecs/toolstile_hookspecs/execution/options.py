"""The options of a host and its executors: arguments, purposes and durability."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypedDict, TypeVar

from toolstile_hookspecs.approval import Approver
from toolstile_hookspecs.calls import ToolCall
from toolstile_hookspecs.context import RunContext
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.execution.foreign_tools import ForeignCall
from toolstile_hookspecs.execution.principal import Principal
from toolstile_hookspecs.execution.request import RequestTexts
from toolstile_hookspecs.limits import Clock, Deadline, Heartbeat
from toolstile_hookspecs.masking import Secret
from toolstile_hookspecs.policies import Verdict
from toolstile_hookspecs.prompts import Prompt
from toolstile_hookspecs.resources import Binding
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Tool

Progress = Callable[[ToolCall, float, float | None, str | None], None]
"""Called with a call, the work done, the total and a message, on its thread; must not wait."""
PlainTool = Tool[Any, Any] | Callable[..., Any]
"""A tool, or a plain function that becomes one."""


@dataclass(frozen=True, slots=True)
class PolicyStoreLocation:
    """A folder for the records of an executor's policies, in place of their own files.

    Args:
        folder: The folder; executors that share it share the records.
        anew: Whether records begin empty, not as a copy of the policies' own files.
    """

    folder: Path
    anew: bool = False


class ExecutorArguments(TypedDict, total=False):
    """The arguments of `host.executor(...)`; each may be left out.

    Args:
        session: The session the calls run in; else a new one.
        session_id: The id of the new one; made up where none is given.
        prompt: The prompt whose tools can be called; else that of all plugins.
        tools: Tools, and plain functions that become tools, beside those of the prompt.
        approver: Answers when a policy or a tool asks for a person; else the host's.
        deadline: The end of the evaluation.
        principal: The user or the program for whom the calls run.
        request: The texts in which the user says what is wanted; see `ToolContext.request`.
        user_id: The id of a principal of whom no more is known.
        auth: The credentials of `user_id`; masked wherever they could be written.
        client: The application's own client, for handlers.
        adapter: The adapter that talks to the provider, for handlers.
        heartbeat: Extends a lease during long work.
        run_context: Ids for correlation.
        resources: Resources that win over all others, by type or as bindings.
        on_answer: Receives what each policy on a call says when it is asked, nothing included.
        on_progress: Receives the progress that handlers report.
        dry_run: Keeps nothing, denies what is not contained, and notes what each call would
            change in its event, as `toolstile.diff`.
        clock: The source of time for its calls; else the host's.
        kept_apart: The place of its policies' records; else as the host says.
        tags: The tags of which a tool needs one to be offered; without any, all tools are.
        without_tags: The tags of tools that are not offered.
    """

    session: SessionProtocol | None
    session_id: str | None
    prompt: Prompt | None
    tools: Iterable[PlainTool]
    approver: Approver | None
    deadline: Deadline | None
    principal: Principal | None
    request: RequestTexts
    user_id: str | None
    auth: Secret | None
    client: Any
    adapter: Any
    heartbeat: Heartbeat | None
    run_context: RunContext | None
    resources: Mapping[type[Any], Any] | Iterable[Binding[Any]]
    on_answer: Callable[[PolicyAnswer], object] | None
    on_progress: Progress | None
    dry_run: bool
    clock: Clock | None
    kept_apart: PolicyStoreLocation | None
    tags: Collection[str]
    without_tags: Collection[str]


class ResumeArguments(TypedDict, total=False):
    """The further arguments with which a pending call is resumed.

    Args:
        using: Runs a `ForeignTool` that has no callable: as at first, it is kept nowhere.
        changes: The change set that was shown; kept as it is, without another run, unless what
            it stands on has changed.
    """

    using: ForeignCall | None
    changes: ChangeSet | None


class PolicyAnswer(NamedTuple):
    """The answer of one policy, also where it has nothing to say.

    Args:
        policy: The name of the policy.
        verdict: The verdict; None where it says nothing.
        why: The reason, or why it says nothing, as far as the policy tells.
        in_shadow: Whether it decides nothing.
    """

    policy: str
    verdict: Verdict | None
    why: str = ""
    in_shadow: bool = False


F = TypeVar("F", bound=Callable[..., Any])

Purpose = Literal["look", "call", "serve"]
"""`look` starts nothing, `call` all that calls need, `serve` ports for others, too."""
Durability = Literal["power", "process"]
"""`power`: a commit survives a loss of power. `process`: it survives the death of a process."""
EFFECT_FREE: Final = "toolstile_effect_free"


def effect_free(function: F) -> F:
    """Enter a `toolstile_lifespan` also for commands that only look.

    Such a lifespan opens no port, starts no thread or process, and writes no file while
    `host.purpose` is `"look"`. Commands that only look skip all other lifespans.

    Example:
        >>> from contextlib import closing
        >>> from toolstile_hookspecs import hookimpl
        >>> @hookimpl
        ... @effect_free
        ... def toolstile_lifespan(settings):
        ...     return closing(settings)
    """
    setattr(function, EFFECT_FREE, True)
    return function
