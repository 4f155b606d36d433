"""The options of a host and its executors: arguments, purposes and durability."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypedDict, TypeVar

from toolstile_hookspecs._schema.secrets import Secret
from toolstile_hookspecs.approval import Approver, GivenAnswer
from toolstile_hookspecs.calls import ToolCall
from toolstile_hookspecs.context import RunContext
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.execution.foreign_tools import ForeignCall
from toolstile_hookspecs.execution.principal import Principal, RequestTexts
from toolstile_hookspecs.limits import BudgetTracker, Clock, Deadline, Heartbeat
from toolstile_hookspecs.policies import ToolPolicy, Verdict
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
    """A folder for the records of an executor's policies, in place of the policies' files.

    Args:
        folder: The folder; executors that share it share the records.
        anew: Whether records begin empty, not as a copy of the policies' files.
    """

    folder: Path
    anew: bool = False


class ExecutorArguments(TypedDict, total=False):
    """The arguments of `host.executor(...)`; each may be left out.

    Args:
        session: The session of the calls; by default a new one.
        session_id: The id of a new session; by default a new id.
        prompt: The prompt with the tools; by default that of all plugins.
        tools: More tools, and plain functions that become tools.
        approver: Answers when a policy or a tool asks for a person; by default the host's.
        deadline: The end of the evaluation.
        principal: The user or the program for whom the calls run.
        request: The texts of the user's request; see `ToolContext.request`.
        user_id: The id of a principal without further facts.
        auth: The credentials of `user_id`; masked wherever they could be written.
        client: The application's own client, for handlers.
        adapter: The adapter that talks to the provider, for handlers.
        heartbeat: Extends a lease during long work.
        run_context: Ids for correlation.
        resources: Resources that win over all others, by type or as bindings.
        on_answer: Receives the answer of each policy on a call, `None` included.
        on_progress: Receives the progress that handlers report.
        dry_run: Keeps nothing, denies tools that are not contained, and notes the changes of each
            call in its event, as `toolstile.diff`.
        clock: The source of time; by default the host's.
        kept_apart: The folder of the policies' records; by default the host's.
        tags: Offer only tools with one of these tags.
        without_tags: Offer no tool with one of these tags.
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


class ChildArguments(TypedDict, total=False):
    """The arguments of `executor.child(...)`; each may be left out.

    Args:
        tools: Names and globs of the parent's tools that the child may call; by default all.
        rules: Policies beside the parent's. They deny and ask, and allow nothing more.
        budget: A budget within the parent's; both must allow.
        session: `"share"` for the parent's session; `"fork"` for a transaction on it, which the
            parent commits or rolls back; `"own"` for new slices in memory, while policies still
            remember in the parent's session.
        deadline: The end of the evaluation, unless the parent's is earlier.
    """

    tools: Iterable[str] | None
    rules: Iterable[ToolPolicy]
    budget: BudgetTracker | None
    session: Literal["share", "fork", "own"]
    deadline: Deadline | None


class ResumeArguments(TypedDict, total=False):
    """The further arguments with which a pending call is resumed.

    Args:
        using: Runs a `ForeignTool` without a callable, as at first.
        changes: The change set that the person saw; committed without another run, unless its
            base has changed.
    """

    using: ForeignCall | None
    changes: ChangeSet | None


LaterAnswer = tuple[str, GivenAnswer, ChangeSet | None]
"""The token of a pending call, the person's answer, and the change set that the person saw."""


class BatchArguments(TypedDict, total=False):
    """The further arguments of a batch.

    Args:
        using: For each call, the callable of a `ForeignTool` that has none itself, or None.
        resumed: The answers to calls that were pending, by the ids of the calls. Calls that were
            shown with one diff are resumed in one batch.
    """

    using: Sequence[ForeignCall | None]
    resumed: Mapping[str, LaterAnswer]


class PolicyAnswer(NamedTuple):
    """The answer of one policy, with or without an opinion.

    Args:
        policy: The name of the policy.
        verdict: The verdict; None without an opinion.
        why: The reason of the verdict, or of its absence, if the policy gives one.
        in_shadow: Whether the answer decides nothing.
    """

    policy: str
    verdict: Verdict | None
    why: str = ""
    in_shadow: bool = False


F = TypeVar("F", bound=Callable[..., Any])

Purpose = Literal["look", "call", "serve"]
"""`look` starts nothing, `call` everything for calls, `serve` also ports for others."""
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
