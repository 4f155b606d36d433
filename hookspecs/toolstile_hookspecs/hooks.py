"""Every hook, in the order of life: first the host is set up, then a call passes.

A plugin is a module (or object) with functions of these names, marked `hookimpl`. Each
takes the arguments it wants of those listed, by name. Hooks are only ever extended, by
new arguments or by fields on the objects they pass.

Rules that hold for all stages of a call:

- *First result*: implementations are asked until one answers something other than None.
  `False`, `0` and `""` are answers. *All*: every implementation is asked.
- Order is pluggy's: `tryfirst` before, `trylast` after the others, later registered first.
- An implementation may return an awaitable when it must wait. One that awaits and
  answers None passes on. Do not block: under the async driver a sync hook that takes
  over 50 ms is logged with its plugin's name.
- `wrapper=True` works on parse, execute and render. Other wrappers, and
  `hookwrapper=True`, are refused at registration.
- No params that a plugin receives can be changed by another.
- Each gives an implementation that wants them its plugin's own `settings`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any

from toolstile_hookspecs.markers import hookspec

if TYPE_CHECKING:
    from pydantic import BaseModel

    from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest
    from toolstile_hookspecs.calls import ToolCall, ToolInvoked
    from toolstile_hookspecs.context import ToolContext
    from toolstile_hookspecs.diagnostics import Diagnostic
    from toolstile_hookspecs.errors import SnapshotError
    from toolstile_hookspecs.handles import Catalog, Command, Dialect, HostHandle
    from toolstile_hookspecs.policies import PolicyDecision
    from toolstile_hookspecs.resources import Binding
    from toolstile_hookspecs.results import ToolResult
    from toolstile_hookspecs.sections import Section
    from toolstile_hookspecs.tools import Tool
    from toolstile_hookspecs.transactions import Participant


# --- Set-up: once in the host's life --------------------------------------------------


@hookspec(firstresult=True)
def toolstile_settings() -> type[BaseModel] | None:
    """Declare the pydantic model that the plugin's table in the configuration must fit.

    Called once, when the plugin is registered. Every plugin answers for itself; nothing
    stops it.

    Returns:
        The model, or None. Without a model a table for the plugin is an error. Unknown
        keys are refused whatever the model says. An exception means the plugin is
        reported and not registered.

    Example:
        >>> from pydantic import BaseModel
        >>> class Settings(BaseModel):
        ...     url: str = "http://localhost"
        >>> @hookimpl
        ... def toolstile_settings():
        ...     return Settings
    """


@hookspec
def toolstile_sections(settings: Any) -> Iterable[Section] | None:
    """Offer tools, in sections that tell the model how to use them.

    Called when the plugin is registered, and again after `catalog.invalidate(plugin)`.
    Every plugin is asked.

    Args:
        settings: The plugin's own validated settings, or None.

    Returns:
        Sections, or None. A tool name that another plugin has already, or an exception,
        means this plugin is reported and not registered.

    Example:
        >>> @hookimpl
        ... def toolstile_sections():
        ...     return [MarkdownSection(key="math", title="Math", tools=[add])]
    """


@hookspec
def toolstile_policies(settings: Any) -> Mapping[str, type[Any]] | None:
    """Offer kinds of policies that configuration and sections can make.

    Called when the plugin is registered, before policies are made. Every plugin is asked.

    Args:
        settings: The plugin's own validated settings, or None.

    Returns:
        From the kind's name to a dataclass or pydantic model that is a `ToolPolicy`; its
        fields are the keys of a `[[policies]]` table. A kind that another plugin has
        already, or an exception, means this plugin is reported and not registered.

    Example:
        >>> @hookimpl
        ... def toolstile_policies():
        ...     return {"office_hours": OfficeHours}
    """


@hookspec
def toolstile_resources(settings: Any) -> Iterable[Binding[Any]] | None:
    """Offer resources that handlers get by type.

    Called when the plugin is registered. Every plugin is asked; the bindings of
    applications and sections win over those of plugins.

    Args:
        settings: The plugin's own validated settings, or None.

    Returns:
        Bindings, or None. A type that another plugin has bound already, or an
        exception, means this plugin is reported and not registered.

    Example:
        >>> @hookimpl
        ... def toolstile_resources(settings):
        ...     return [Binding(Tracker, lambda resources: Tracker(settings.url))]
    """


@hookspec
def toolstile_commands() -> Iterable[Command] | None:
    """Add commands to the command line, or options to those there are.

    Called when the command line starts. Every plugin is asked. An exception is
    reported, and the plugin's commands are not there.

    Returns:
        Commands, or None.

    Example:
        >>> @hookimpl
        ... def toolstile_commands():
        ...     return [Command("tickets", "List open tickets.", run=list_tickets)]
    """


@hookspec
def toolstile_dialects() -> Iterable[Dialect] | None:
    """Offer the message shapes of a provider.

    Called when the first dialect is asked for. Every plugin is asked. A name that
    another plugin has already, or an exception, is reported, and the dialect is not there.

    Returns:
        Dialects, or None.

    Example:
        >>> @hookimpl
        ... def toolstile_dialects():
        ...     return [MyProvider()]
    """


@hookspec
def toolstile_lifespan(
    host: HostHandle, settings: Any
) -> AbstractContextManager[None] | AbstractAsyncContextManager[None] | None:
    """Keep something running while the host is open: a connection, a server.

    Called when the host opens. Every plugin is asked; left in reverse order when the
    host closes, also after errors. Async ones live on the host's background loop.

    Args:
        host: The host, to dispatch calls with later, say.
        settings: The plugin's own validated settings, or None.

    Returns:
        A sync or async context manager, or None. An exception on entering ends opening
        with a `PluginError` that names the plugin: those entered are left again. One on
        leaving is logged.

    Example:
        >>> from contextlib import contextmanager
        >>> @hookimpl
        ... @contextmanager
        ... def toolstile_lifespan(host, settings):
        ...     with connect(settings.url):
        ...         yield
    """


@hookspec
def toolstile_diagnose(
    settings: Any, bound: Mapping[type[Any], str]
) -> Iterable[Diagnostic] | None:
    """Find out whether what the plugin relies on is there: a file, a server, a program.

    Called by `toolstile doctor` only, on a host that is not open; every plugin is asked.
    Change nothing, and wait for a few seconds at most.

    Args:
        settings: The plugin's own validated settings, or None.
        bound: The name of the plugin that offers a resource, by the type of the resource.

    Returns:
        Diagnostics, also of what is as it should be, or None. An exception becomes one.

    Example:
        >>> @hookimpl
        ... def toolstile_diagnose(settings):
        ...     if not settings.file.exists():
        ...         yield Diagnostic.error(str(settings.file), "It is not there.", "Make it.")
    """


# --- A call, stage by stage ------------------------------------------------------------


@hookspec
def toolstile_trace(call: ToolCall, settings: Any) -> AbstractContextManager[None] | None:
    """Wrap a call as a whole: where a span opens.

    Called first of all, for every call; the context manager is left last of all, after
    telemetry. Every plugin is asked; left in reverse order. Context variables that are set
    on entering hold for all stages of the call, in whatever thread they run, for the calls
    made within it, and in `toolstile_telemetry`.

    A context manager may be more than that: a `StageTrace`, which hears of every stage, or
    a `CrossingTrace`, which goes along into the process of an isolated handler.

    Args:
        call: The call as it came, with an object that was read already as JSON text again, so
            that nobody can change it; its arguments are in clear.
        settings: The plugin's own validated settings, or None.

    Returns:
        A sync context manager, or None. What it swallows or raises on leaving changes
        nothing; an exception is logged.

    Example:
        >>> @hookimpl
        ... def toolstile_trace(call):
        ...     return tracer.start_as_current_span(f"execute_tool {call.name}")
    """


@hookspec(firstresult=True)
def toolstile_lookup(
    call: ToolCall, catalog: Catalog, settings: Any
) -> Tool[Any, Any] | Awaitable[Tool[Any, Any] | None] | None:
    """Say which tool a call means.

    Called for every call, after trace. The first answer wins; with none the host looks
    up the name, then the wire name, among the tools of the prompt.

    Args:
        call: The call as it came, its arguments as text; see `toolstile_trace`.
        catalog: The tools there are.
        settings: The plugin's own validated settings, or None.

    Returns:
        A tool, or None for "not mine". An exception fails the call.

    Example:
        >>> @hookimpl
        ... def toolstile_lookup(call, catalog):
        ...     return catalog.get(ALIASES.get(call.name, call.name))
    """


@hookspec(firstresult=True)
def toolstile_parse(tool: Tool[Any, Any], call: ToolCall, settings: Any) -> Any:
    """Turn the arguments into the tool's typed params.

    Called once a tool is found, and again after an approver edited the arguments. The
    first answer wins; with none the host parses strict JSON against the tool's types.
    Wrappers work here.

    Args:
        tool: The tool.
        call: The call as it came, its arguments as text; see `toolstile_trace`.
        settings: The plugin's own validated settings, or None.

    Returns:
        The params, or None for "not mine". `ToolValidationError` refuses the arguments
        with its text, which names every fault at once; any other exception fails the call.

    Example:
        >>> @hookimpl(wrapper=True)
        ... def toolstile_parse(tool, call):
        ...     params = yield
        ...     return params
    """


@hookspec
def toolstile_check(
    tool: Tool[Any, Any], params: Any, context: ToolContext, settings: Any
) -> PolicyDecision | Awaitable[PolicyDecision | None] | None:
    """Say whether a call may go on.

    Called with the policies, before anything is reserved or changed, and again after an
    approval. All are asked, and the host combines: deny over ask over allow.

    Args:
        tool: The tool.
        params: The typed params; the plugin's own copy where they could be changed.
        context: The context; its session can only be read.
        settings: The plugin's own validated settings, or None.

    Returns:
        A decision, or None for no opinion. An exception denies the call.

    Example:
        >>> @hookimpl
        ... def toolstile_check(tool, params, context):
        ...     if tool.category == "delete":
        ...         return PolicyDecision.ask("Deletions are for good.")
    """


@hookspec(firstresult=True)
def toolstile_approve(
    request: ApprovalRequest, settings: Any
) -> ApprovalAnswer | bool | Awaitable[ApprovalAnswer | bool | None] | None:
    """Answer when a policy or the tool asks for a person.

    Called only for the one plugin that the configuration names as approver. The deadline
    goes on while it waits, the tool's timeout does not.

    Args:
        request: What to show.
        settings: The plugin's own validated settings, or None.

    Returns:
        An answer; `True` approves, `False` and None deny. An exception, a timeout and
        anything else deny, too. Where nobody can be waited for, `ApprovalAnswer.pending()`
        lets the call be resumed later.

    Example:
        >>> @hookimpl
        ... def toolstile_approve(request):
        ...     return ask_on_chat(request.tool.name, request.arguments, request.reasons)
    """


@hookspec
def toolstile_snapshot(
    context: ToolContext, tool: Tool[Any, Any], settings: Any
) -> Participant | Awaitable[Participant | None] | None:
    """Take part in the call's transaction.

    Called when the call is admitted and its branch forked, before the handler runs.
    Every plugin is asked.

    Args:
        context: The context, on the call's branch.
        tool: The tool.
        settings: The plugin's own validated settings, or None.

    Returns:
        A participant, or None. After an exception those begun are rolled back, the
        handler does not run, and the call fails.

    Example:
        >>> @hookimpl
        ... def toolstile_snapshot(context):
        ...     return Savepoint(database)
    """


@hookspec(firstresult=True)
def toolstile_execute(
    tool: Tool[Any, Any], params: Any, context: ToolContext, settings: Any
) -> Any:
    """Answer in the handler's place.

    Called before the handler would run. The first answer wins; with none the handler
    runs. Wrappers work here, around the handler.

    Args:
        tool: The tool.
        params: The typed params.
        context: The context, on the call's branch.
        settings: The plugin's own validated settings, or None.

    Returns:
        A `ToolResult`, a `Replay` (a ledger's hit), an awaitable of one, or a callable
        `(params, *, context)` that the host runs as it would the handler, with its
        timeout; None for "not mine". An exception fails the call; `CallRefused` does so
        with its text as it is.

    Example:
        >>> @hookimpl
        ... def toolstile_execute(tool, params, context):
        ...     if "remote" in tool.tags:
        ...         return partial(run_on_worker, tool.name)
    """


@hookspec(firstresult=True)
def toolstile_render(tool: Tool[Any, Any], result: ToolResult[Any], settings: Any) -> str | None:
    """Turn a result into the text that the model reads.

    Called once, when there is a result. The first answer wins; with none it is the
    message, then the rendered value. Wrappers work here. It is sync.

    Args:
        tool: The tool.
        result: The result.
        settings: The plugin's own validated settings, or None.

    Returns:
        The text, or None for "not mine". After an exception the host's own rendering is
        used, and the exception logged.

    Example:
        >>> @hookimpl(wrapper=True)
        ... def toolstile_render(tool, result):
        ...     return shorten((yield))
    """


@hookspec
def toolstile_on_result(
    tool: Tool[Any, Any],
    params: Any,
    result: ToolResult[Any],
    context: ToolContext,
    settings: Any,
) -> Awaitable[None] | None:
    """See a success before it is committed.

    Called after a success, in the session's commit turn, with the policies' `on_result`.
    Every plugin is asked.

    Args:
        tool: The tool.
        params: The typed params.
        result: The result.
        context: The context, on the call's branch; what it changes is committed with it.
        settings: The plugin's own validated settings, or None.

    Returns:
        Nothing. An exception vetoes the call, which is rolled back and fails.

    Example:
        >>> @hookimpl
        ... def toolstile_on_result(tool, params, result, context):
        ...     context.session.dispatch(ToolUsed(tool.name))
    """


@hookspec
def toolstile_rollback(
    tool: Tool[Any, Any], params: Any, context: ToolContext, reason: str, settings: Any
) -> None:
    """Hear that a call's changes are gone.

    Called after the rollback of a call that was admitted. Every plugin is asked, each by
    itself: an exception is logged and changes nothing.

    Args:
        tool: The tool.
        params: The typed params.
        context: The context; its session is closed, and it can still set attributes.
        reason: What went wrong, as the model is told.
        settings: The plugin's own validated settings, or None.

    Example:
        >>> @hookimpl
        ... def toolstile_rollback(tool, reason):
        ...     log.info("%s rolled back: %s", tool.name, reason)
    """


@hookspec
def toolstile_telemetry(event: ToolInvoked, changes: str | SnapshotError, settings: Any) -> None:
    """Observe a call, whatever became of it.

    Called once per call, after commit or rollback. Every plugin is asked, each by
    itself: an exception is logged and changes nothing.

    Args:
        event: Everything there is to know. Write its arguments and value down as
            `shown_arguments` and `shown_value` give them: there no secret is in clear.
        changes: What the call did to the session, as JSON for `Redoable.redo`, or why that
            cannot be told; secrets are in clear. It is made only where an implementation
            takes it.
        settings: The plugin's own validated settings, or None.

    Example:
        >>> @hookimpl
        ... def toolstile_telemetry(event):
        ...     counter.add(1, {"tool": event.tool_name, "status": event.status})
    """
