"""Attributes of a call's span: by the GenAI conventions, and our own."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from toolstile_hookspecs import (
    Interrupt,
    Status,
    Tool,
    ToolInvoked,
    TransactionEnded,
    VisibilityExpansionRequired,
    calls,
)
from toolstile_hookspecs.codecs import encodable
from toolstile_hookspecs.execution.principal import MAIN_AGENT

SCOPE: Final = "toolstile_plugins.otel"
VERSION: Final = version("toolstile")
"""The instrumentation scope of all spans and metrics, and its version."""

OPERATION_NAME: Final = "gen_ai.operation.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
CALL_ID: Final = "gen_ai.tool.call.id"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
ERROR_TYPE: Final = "error.type"

TOOL_VERSION: Final = "toolstile.tool.version"
OUTCOME: Final = "toolstile.outcome"
EXECUTED: Final = "toolstile.executed"
SESSION_ID: Final = "toolstile.session.id"
STAGE: Final = "toolstile.stage"
ROLLED_BACK: Final = "toolstile.rolled_back"
POLICY_NAMES: Final = "toolstile.policy.names"
POLICY_VERDICTS: Final = "toolstile.policy.verdicts"
POLICY_REASONS: Final = "toolstile.policy.reasons"
APPROVAL: Final = "toolstile.approval"
LEDGER_STATE: Final = "toolstile.ledger.state"
REPLAYED: Final = "toolstile.replayed"
RERUNS: Final = "toolstile.reruns"
OWN_CALL_ID: Final = "toolstile.call.id"
PARENT_CALL_ID: Final = "toolstile.parent.call.id"
PENDING_PARENT: Final = "toolstile.pending_parent"
DRY_RUN: Final = "toolstile.dry_run"
TRANSACTION: Final = "toolstile.transaction"
TRANSACTION_ID: Final = "toolstile.transaction.id"
AGENT: Final = "toolstile.agent"

EXECUTE_TOOL: Final = "execute_tool"
FUNCTION: Final = "function"
"""The type of all tools here: the host runs them on the model's behalf."""
MAX_NAME: Final = 128
"""The most characters of the name of an unknown tool, which a model may have made up."""

NOTED: Final = {calls.APPROVAL: APPROVAL, calls.DRY_RUN: DRY_RUN, "ledger.state": LEDGER_STATE}
"""Attributes that plugins set on a call, and their names on the span."""

_ERROR_TYPES: Final = {Status.FAILED: "tool_error", Status.TIMED_OUT: "timeout"}
_NO_ERRORS: Final = frozenset({Status.SUCCEEDED, Status.PENDING})
_BY_CLASS: Final = frozenset({Status.ERROR, Status.RAISED})
_NOT_FAILING: Final = (Interrupt, VisibilityExpansionRequired)

Attributes = dict[str, Any]


def span_name(tool: str) -> str:
    """Return the name of a span for the name of a tool, known or not."""
    return f"{EXECUTE_TOOL} {_shown(tool)}"


def of_name(name: str) -> Attributes:
    """Return the attributes of a call before its tool is found, for sampling."""
    return {OPERATION_NAME: EXECUTE_TOOL, TOOL_NAME: _shown(name)}


def of_tool(tool: Tool[Any, Any]) -> Attributes:
    """Return the attributes that all calls of a tool share."""
    version_of = {} if tool.version is None else {TOOL_VERSION: tool.version}
    return {
        OPERATION_NAME: EXECUTE_TOOL,
        TOOL_NAME: tool.name,
        TOOL_TYPE: FUNCTION,
        TOOL_DESCRIPTION: tool.description,
        **version_of,
    }


def of_event(event: ToolInvoked, *, capture: bool) -> Attributes:
    """Return the attributes of an outcome; with `capture`, arguments and value, secrets masked.

    Lone surrogates are replaced: an exporter leaves out text that holds one.
    """
    attributes: Attributes = {OUTCOME: event.status.value, SESSION_ID: encodable(event.session_id)}
    attributes[CONVERSATION_ID] = attributes[SESSION_ID]
    if event.status is not Status.SUCCEEDED:
        attributes[STAGE] = event.stage.value
        if (error := error_type(event)) is not None:
            attributes[ERROR_TYPE] = error
    if event.handler_duration is None:
        attributes[EXECUTED] = False
    if event.parent_id is not None:
        attributes[PARENT_CALL_ID] = encodable(event.parent_id)
        if event.pending_parent:
            attributes[PENDING_PARENT] = True
    if event.attributes:
        _add_noted(attributes, event)
    if event.decisions:
        made = event.decisions
        attributes[POLICY_NAMES] = [encodable(decision.policy or "") for decision in made]
        attributes[POLICY_VERDICTS] = [decision.verdict.value for decision in made]
        attributes[POLICY_REASONS] = [encodable(decision.reason or "") for decision in made]
    is_of_child = event.agent != MAIN_AGENT
    if event.rolled_back or event.replayed or event.reruns or event.transaction or is_of_child:
        _add_unusual_fields(attributes, event)
    if capture:
        _add_content(attributes, event)
    return attributes


def of_transaction(event: TransactionEnded) -> Attributes:
    """Return the attributes of the end of a transaction."""
    said = {"id": event.id, "title": event.title, "reason": event.reason}
    session = encodable(event.session_id)
    return {
        **{f"{TRANSACTION}.{name}": encodable(text) for name, text in said.items() if text},
        f"{TRANSACTION}.calls": len(event.calls),
        OUTCOME: event.status.value,
        CONVERSATION_ID: session,
        SESSION_ID: session,
    }


def error_type(event: ToolInvoked) -> str | None:
    """Return the class of error of a failed call, else None.

    The handler reports `tool_error`, `timeout` is its timeout. An exception has the name of its
    class, another failure the name of the outcome. A call that waits for approval, pauses the run
    or opens sections has not failed.
    """
    status = event.status
    if status in _NO_ERRORS or isinstance(event.error, _NOT_FAILING):
        return None
    if status in _BY_CLASS and event.error is not None:
        return type(event.error).__qualname__
    return _ERROR_TYPES.get(status, status.value)


def _shown(name: str) -> str:
    # Because of a lone surrogate in the name of a span, its exporter would lose the whole batch.
    return encodable(name[:MAX_NAME])


def _add_noted(attributes: Attributes, event: ToolInvoked) -> None:
    for noted, name in NOTED.items():
        value = event.attributes.get(noted)
        if isinstance(value, str):
            attributes[name] = encodable(value)
        elif isinstance(value, bool):
            attributes[name] = value


def _add_unusual_fields(attributes: Attributes, event: ToolInvoked) -> None:
    found: Attributes = {
        ROLLED_BACK: event.rolled_back,
        REPLAYED: event.replayed,
        RERUNS: event.reruns,
        TRANSACTION_ID: event.transaction,
        AGENT: encodable(event.agent) if event.agent != MAIN_AGENT else None,
    }
    attributes.update({name: value for name, value in found.items() if value})


def _add_content(attributes: Attributes, event: ToolInvoked) -> None:
    if (arguments := event.shown_arguments) is not None:
        attributes[ARGUMENTS] = arguments
    if (value := event.shown_value) is not None:
        attributes[RESULT] = value
    elif event.success and event.text:
        attributes[RESULT] = event.hide(event.text)
