"""Every hook, in the order of life: first the host is set up, then a call passes.

A plugin is a module (or object) with functions of these names, marked `hookimpl`. An
implementation takes the arguments it wants, by name. Later versions add arguments, or
fields to the objects passed; they take none away.

Rules that hold for all hooks:

- *First result*: implementations are asked until one answers something other than None.
  `False`, `0` and `""` are answers. *All*: every implementation is asked.
- Order is pluggy's: `tryfirst` before, `trylast` after the others, later registered first.
- In the stages of a call an implementation may return an awaitable when it must wait. Do
  not block: the async driver logs a sync hook that takes over 50 ms, with its plugin's name.
- At registration an exception, or a name or type that another plugin has already, refuses
  the plugin: it is reported and not registered.
- After a conflict the host calls the hooks from check to on_result a second time.
- `wrapper=True` works on parse, execute and render only, `hookwrapper=True` on no hook.

Arguments that several hooks take, or that a line explains:

- `settings`: The plugin's own validated settings, or None.
- `state`: The object that the plugin's lifespan yields for this host, or None.
- `host`: The host; dispatch calls with it while it is open.
- `catalog`: The tools of all plugins.
- `request`: The question for a person.
- `call`: The call as it came. Its arguments are JSON text, with secrets in clear.
- `tool`: The tool that is called.
- `params`: The typed params; no plugin can change the params of another.
- `context`: The call's context. Its session can be changed from snapshot to on_result.
- `result`: The result of the handler, or of the plugin that answered in its place.
- `reason`: The cause of a rollback, in the words for the model.
- `event`: All there is to know of a call; `shown_arguments` and `shown_value` have no secrets.
- `changes`: The call's changes to the session as JSON for `Redoable.redo`, or why there is none;
  secrets are in clear. Made only if an implementation takes it.
- `diff`: The call's changes as an approver reads them, secrets masked, also if they were rolled
  back; "" for a call that did not run. Made only if an implementation takes it.
- `bound`: The name of the plugin that offers a resource, by the type of the resource.
"""

# ruff: noqa: PLR0913, PLR0917 - the module's docstring explains the other arguments

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
    from toolstile_hookspecs.diagnostics import Diagnostic, StatusPart
    from toolstile_hookspecs.errors import SnapshotError
    from toolstile_hookspecs.execution.approval_card import ApprovalCard, CardAnswer
    from toolstile_hookspecs.execution.transaction_end import TransactionEnded
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

    Called once, when the plugin is registered; every plugin answers for itself.

    Returns:
        The model, or None, with which a table for the plugin is an error, as any unknown key is.
        The host sets a field `durability: Durability`, which is not a key. `awaited_tools` may hold
        names and globs of later tools, which policies may name; `governed_tools` of the tools that
        the plugin takes away or asks about. Attributes of its state with these names come first.

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

    Called when the plugin is registered, and again after `catalog.invalidate(plugin)`. A text
    `toolstile_on_request` of the plugin, which says how to ask, withholds the tools until then;
    as texts by the tools' names, it also leaves the sections unbuilt.

    Returns:
        Sections, or None.

    Example:
        >>> @hookimpl
        ... def toolstile_sections():
        ...     return [MarkdownSection(key="math", title="Math", tools=[add])]
    """


@hookspec
def toolstile_policies(settings: Any) -> Mapping[str, type[Any] | str] | None:
    """Offer types of policies that configuration and sections can make.

    Called when the plugin is registered, before policies are made.

    Returns:
        From a name to a dataclass or pydantic model that is a `ToolPolicy`, or to the text
        "module:Class" of one, imported when needed. Its fields are the keys of a policy's table.

    Example:
        >>> @hookimpl
        ... def toolstile_policies():
        ...     return {"office_hours": OfficeHours}
    """


@hookspec
def toolstile_resources(settings: Any) -> Iterable[Binding[Any]] | None:
    """Offer resources that handlers get by type.

    Called when the plugin is registered. Bindings of applications and sections win.

    Returns:
        Bindings, or None.

    Example:
        >>> @hookimpl
        ... def toolstile_resources(settings):
        ...     return [Binding(Tracker, lambda resources: Tracker(settings.url))]
    """


@hookspec
def toolstile_commands() -> Iterable[Command] | None:
    """Add commands to the command line, or options to commands that exist.

    Called when the command line starts.

    Returns:
        Commands, or None. After an exception the plugin is reported and adds none.

    Example:
        >>> @hookimpl
        ... def toolstile_commands():
        ...     return [Command("tickets", "List open tickets.", run=list_tickets)]
    """


@hookspec
def toolstile_dialects() -> Iterable[Dialect] | None:
    """Offer the message shapes of a provider.

    Called when the first dialect is asked for.

    Returns:
        Dialects, or None. After an exception, or for a taken name, a dialect is left out.

    Example:
        >>> @hookimpl
        ... def toolstile_dialects():
        ...     return [MyProvider()]
    """


@hookspec
def toolstile_lifespan(
    host: HostHandle, settings: Any
) -> AbstractContextManager[Any] | AbstractAsyncContextManager[Any] | None:
    """Keep something running while the host is open: a connection, a server.

    Called when the host opens; left in reverse order when the host closes, or after the last call
    under way when the plugin is unregistered. Async ones live on the host's background loop. To
    look, a host enters only `@effect_free` ones. Hooks of a call take the yielded object as
    `state`; providers and handlers get it by its type, unless that is built in.

    Returns:
        A sync or async context manager, or None. An exception on entering is a `PluginError`
        that keeps the host closed; one on leaving is logged.

    Example:
        >>> from contextlib import contextmanager
        >>> @hookimpl
        ... @contextmanager
        ... def toolstile_lifespan(host, settings):
        ...     with connect(settings.url) as database:
        ...         yield database
    """


@hookspec
def toolstile_diagnose(
    host: HostHandle, settings: Any, bound: Mapping[type[Any], str]
) -> Iterable[Diagnostic] | None:
    """Report whether the plugin finds all that it relies on: a file, a server, a program.

    Called by `toolstile doctor`, on a host that is not open. It changes nothing, within seconds.

    Returns:
        Diagnostics, good and bad, or None. An exception becomes one.

    Example:
        >>> @hookimpl
        ... def toolstile_diagnose(settings):
        ...     if not settings.file.exists():
        ...         yield Diagnostic.error(str(settings.file), "It is not there.", "Make it.")
    """


@hookspec
def toolstile_status(host: HostHandle, settings: Any) -> Iterable[StatusPart] | None:
    """Report the present state: governed tools, waiting questions, last calls, possible undos.

    Called by `toolstile status`, on a host that is open to look. It changes nothing, and is quick.

    Returns:
        Parts, or None. An exception becomes a warning.

    Example:
        >>> @hookimpl
        ... def toolstile_status(settings):
        ...     yield StatusPart("queue", [{"jobs": 3}], ["3 jobs wait."])
    """


# --- A call, stage by stage ------------------------------------------------------------


@hookspec
def toolstile_trace(
    call: ToolCall, settings: Any, state: Any
) -> AbstractContextManager[None] | None:
    """Wrap a call as a whole: where a span opens.

    Called first, for every call; the context manager is left last, after telemetry, in
    reverse order. Context variables set on entering hold for all stages of the call, in
    any thread, for the calls made within it, and in `toolstile_telemetry`.

    Returns:
        A sync context manager, or None; a `StageTrace` gets every stage, a `CrossingTrace`
        enters the process of an isolated handler. An exception, also on leaving, is logged.

    Example:
        >>> @hookimpl
        ... def toolstile_trace(call):
        ...     return tracer.start_as_current_span(f"execute_tool {call.name}")
    """


@hookspec(firstresult=True)
def toolstile_lookup(
    call: ToolCall, catalog: Catalog, settings: Any, state: Any
) -> Tool[Any, Any] | Awaitable[Tool[Any, Any] | None] | None:
    """Find the tool that a call means.

    Called for every call, after trace. Without an answer the host looks up the name, then
    the wire name, among the tools of the prompt.

    Returns:
        A tool, or None for "not mine". An exception fails the call.

    Example:
        >>> @hookimpl
        ... def toolstile_lookup(call, catalog):
        ...     return catalog.get(ALIASES.get(call.name, call.name))
    """


@hookspec(firstresult=True)
def toolstile_parse(tool: Tool[Any, Any], call: ToolCall, settings: Any, state: Any) -> Any:
    """Turn the arguments into the tool's typed params.

    Called when a tool is found, and again after an approver edited the arguments. Without
    an answer the host parses strict JSON against the tool's types. Wrappers work here.

    Returns:
        The params, or None for "not mine". `ToolValidationError` refuses the arguments
        with its text, which names every fault at once; any other exception fails the call.

    Example:
        >>> @hookimpl(wrapper=True)
        ... def toolstile_parse(tool, call):
        ...     return (yield)
    """


@hookspec
def toolstile_check(
    tool: Tool[Any, Any], params: Any, context: ToolContext, settings: Any, state: Any
) -> PolicyDecision | Awaitable[PolicyDecision | None] | None:
    """Decide whether a call may run.

    Called with the policies before the handler; again after an approval, a conflict or a
    wait for a serial tool. The host combines all answers: deny over ask over allow.

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
    request: ApprovalRequest, settings: Any, state: Any
) -> ApprovalAnswer | bool | Awaitable[ApprovalAnswer | bool | None] | None:
    """Answer when a policy or the tool asks for a person.

    Called only for the one plugin that the configuration names as approver. While it waits, the
    deadline runs, and the tool's timeout stops.

    Returns:
        An answer; `True` approves. `False`, None, an exception, a timeout and anything else
        deny. `ApprovalAnswer.pending()` has the call resumed later, instead of waiting.

    Example:
        >>> @hookimpl
        ... def toolstile_approve(request):
        ...     return ask_on_chat(request.tool.name, request.arguments, request.reasons)
    """


@hookspec
def toolstile_approve_turn(  # noqa: D417 - see above
    card: ApprovalCard, settings: Any, state: Any
) -> CardAnswer | Awaitable[CardAnswer | None] | None:
    """Answer the questions of a turn or of a transaction together.

    Called in place of `toolstile_approve`; a plugin that leaves it out is asked for each call.

    Args:
        card: The questions, in the order of the calls, and one diff if the calls have run.

    Returns:
        One answer for all, or answers by the ids of the calls; a call without an answer, None
        and an exception deny.

    Example:
        >>> @hookimpl
        ... def toolstile_approve_turn(card):
        ...     return {row.call.id: ask_on_chat(row.arguments) for row in card.rows}
    """


@hookspec
def toolstile_snapshot(
    context: ToolContext, tool: Tool[Any, Any], settings: Any, state: Any
) -> Participant | Awaitable[Participant | None] | None:
    """Take part in the call's transaction.

    Called when the call has its place among those in flight, before the handler runs.

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
    tool: Tool[Any, Any], params: Any, context: ToolContext, settings: Any, state: Any
) -> Any:
    """Answer in the handler's place.

    Called before the handler, which runs without an answer. Wrappers work here, around the
    handler.

    Returns:
        A `ToolResult`, a `Replay` (a ledger's hit), an awaitable of one, or None for "not mine".
        Or a callable `(params, *, context)`, which the host runs as the handler, with its timeout
        and `context.on_abandoned`. An exception fails the call; the model reads the text of a
        `CallRefused`. A tool with `isolation="process"` fails if no plugin answers.

    Example:
        >>> @hookimpl
        ... def toolstile_execute(tool, params, context):
        ...     if "remote" in tool.tags:
        ...         return partial(run_on_worker, tool.name)
    """


@hookspec(firstresult=True)
def toolstile_render(
    tool: Tool[Any, Any], result: ToolResult[Any], settings: Any, state: Any
) -> str | None:
    """Turn a result into the text that the model reads.

    Called when the handler has succeeded; sync. Without an answer the text is the message, then
    the rendered value. Wrappers work here.

    Returns:
        The text, or None for "not mine". An exception is logged, and the host renders.

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
    state: Any,
) -> Awaitable[None] | None:
    """See a success before it is committed.

    Called after a success, in the session's commit turn, with the policies' `on_result`.
    Its changes in the session are committed with the call.

    Returns:
        Nothing. An exception vetoes the call, which is rolled back and fails.

    Example:
        >>> @hookimpl
        ... def toolstile_on_result(tool, params, result, context):
        ...     context.session.dispatch(ToolUsed(tool.name))
    """


@hookspec
def toolstile_rollback(
    tool: Tool[Any, Any], params: Any, context: ToolContext, reason: str, settings: Any, state: Any
) -> None:
    """Learn that a call's changes are gone.

    Called after the rollback of a call that passed its checks. The session is closed; attributes
    of the call's event can still be set. An exception is logged and changes nothing.

    Example:
        >>> @hookimpl
        ... def toolstile_rollback(tool, reason):
        ...     log.info("%s rolled back: %s", tool.name, reason)
    """


@hookspec
def toolstile_telemetry(
    event: ToolInvoked, changes: str | SnapshotError, diff: str, settings: Any, state: Any
) -> None:
    """Observe a call and its outcome.

    Called once for every call, before its parent ends, and again if it ends otherwise because a
    person refused or edited calls of its turn. An exception is logged and changes nothing.

    Example:
        >>> @hookimpl
        ... def toolstile_telemetry(event, state):
        ...     state.insert(event.tool_name, event.status)
    """


@hookspec
def toolstile_transaction(event: TransactionEnded, settings: Any, state: Any) -> None:
    """Observe the end of a transaction, which decides on the changes of its calls.

    Called once for every transaction and savepoint, when nothing can change its end any more. An
    exception is logged and changes nothing.

    Example:
        >>> @hookimpl
        ... def toolstile_transaction(event, state):
        ...     state.settle(event.id, event.status)
    """
