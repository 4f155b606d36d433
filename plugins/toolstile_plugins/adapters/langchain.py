"""LangChain and LangGraph: our tools in their agents and graphs, theirs behind our stages.

LangGraph resumes an interrupted node by running it again from its beginning, with all its calls.
So the outcome of a call is found by the run of its node, and the answer of a person by the id of
the call. Neither depends on an order, since the calls of a node run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    ExecutorHandle,
    ForeignCall,
    ForeignTool,
    Outcome,
    Status,
    ToolCall,
    ToolInvoked,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.execution.schemas import ToolSchema
from toolstile_plugins.adapters import shared
from toolstile_plugins.adapters.turns import Turns, id_in
from toolstile_plugins.dialects.parse import opened

with shared.importing("langchain"):
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig, ensure_config
    from langchain_core.tools import BaseTool, ToolException, tool as made_tool
    from langchain_core.utils.function_calling import convert_to_openai_function
    from langgraph.errors import GraphBubbleUp, GraphInterrupt
    from langgraph.prebuilt import ToolRuntime
    from langgraph.types import Interrupt, interrupt

TheirTool = BaseTool | Callable[..., Any]
"""A tool of LangChain, or a function that becomes one."""

CALL_ID: Final = "call_id"
"""The key of the model's id of a call in the question of a call that waits."""
OWN_ID: Final = "toolstile_call_id"
"""The key of the host's id, which an earlier release did not have."""
NODE_RUN: Final = "langgraph_checkpoint_ns"
"""The key in a call's `meta` of the run of its node: LangGraph's name for it."""
_CLOSED: Final[dict[str, Any]] = {"type": "object", "additionalProperties": False}
_ANSWERS: Final = (Answer.APPROVED, Answer.DENIED, Answer.EDITED)
_NOT_ENDED: Final = {Status.RAISED, Status.CANCELLED, Status.DEADLINE}


def toolset(tools: ExecutorHandle) -> list[BaseTool]:
    """Return the tools of an executor, for `create_agent` or a `ToolNode`.

    A call that a person must approve interrupts the graph. The value of the interrupt is plain
    JSON; return it with an answer: `Command(resume={**interrupt.value, "answer": True})`.
    """
    calls = _Calls(tools)
    return [OfferedTool.of(shown, calls) for shown in shared.offered(tools)]


def foreign_tools(theirs: Sequence[TheirTool]) -> list[ForeignTool]:
    """Return their tools for `host.executor(tools=...)`, under their own names."""
    found: list[ForeignTool] = []
    for each in map(_made, theirs):
        schema: dict[str, Any] = convert_to_openai_function(each).get("parameters") or {}
        # A model of pydantic drops unknown arguments; a written schema says it itself.
        if not isinstance(each.args_schema, dict):
            schema = {**_CLOSED, **schema}
        found.append(ForeignTool(each.name, each.description or each.name, schema))
    return found


def governed(theirs: Sequence[TheirTool], tools: ExecutorHandle) -> list[BaseTool]:
    """Return their tools, with each call behind the stages of an executor.

    Args:
        theirs: The tools; a function becomes a tool as by `@tool`.
        tools: An executor that knows them: `host.executor(tools=foreign_tools(theirs))`.
    """
    calls = _Calls(tools)
    return [GovernedTool.of(_made(each), calls) for each in theirs]


def _made(theirs: TheirTool) -> BaseTool:
    return theirs if isinstance(theirs, BaseTool) else made_tool(theirs)


class OfferedTool(BaseTool):
    """A tool of an executor; it passes the model's arguments on unchanged."""

    _calls: _Calls = cast("Any", None)  # set by `of`

    @classmethod
    def of(cls, shown: ToolSchema, calls: _Calls) -> OfferedTool:
        schema: dict[str, Any] = {"properties": {}, **shown.parameters}
        made = cls(name=shown.name, description=shown.description, args_schema=schema)
        made._calls = calls
        return made

    def _to_args_and_kwargs(
        self, tool_input: Any, tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tool_input, tool_call_id), {}

    def _run(self, given: Any, call_id: str | None, config: RunnableConfig) -> Any:
        node = _NodeRun.of(config)
        try:
            outcome = self._calls.dispatch(node.call(self.name, given, call_id), node)
        except VisibilityExpansionRequired as request:
            return opened(self._calls.tools, request)
        return _message(outcome, call_id, is_error=outcome.is_error)

    async def _arun(self, given: Any, call_id: str | None, config: RunnableConfig) -> Any:
        node = _NodeRun.of(config)
        try:
            outcome = await self._calls.adispatch(node.call(self.name, given, call_id), node)
        except VisibilityExpansionRequired as request:
            return opened(self._calls.tools, request)
        return _message(outcome, call_id, is_error=outcome.is_error)


class GovernedTool(BaseTool):
    """A tool of theirs, unchanged but that each call passes our stages."""

    _calls: _Calls
    _theirs: BaseTool
    _hidden: frozenset[str]

    @classmethod
    def of(cls, theirs: BaseTool, calls: _Calls) -> BaseTool:
        """Return a tool that is an instance of the class of theirs, too."""
        shared.foreign_tool(calls.tools, theirs.name, "foreign_tools(theirs)")
        made = theirs.model_copy()
        hidden, shown = frozenset[str](), theirs.tool_call_schema
        if not isinstance(shown, dict):  # LangGraph injects the arguments that are not shown
            fields = cast("type[BaseModel]", theirs.get_input_schema()).model_fields
            hidden = frozenset(fields) - frozenset(cast("type[BaseModel]", shown).model_fields)
        own = {"_calls": calls, "_theirs": theirs, "_hidden": hidden}
        private = {**(made.__pydantic_private__ or {}), **own}
        object.__setattr__(made, "__class__", _governed_class(type(theirs)))
        object.__setattr__(made, "__pydantic_private__", private)
        return made

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - their word
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run it with `arun`, even if theirs would run `invoke` on a thread."""
        return await BaseTool.ainvoke(self, input, config, **kwargs)

    def run(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        shown, whole = self._parted(tool_input)
        node, call_id = _NodeRun.of(kwargs.get("config")), kwargs.get("tool_call_id")
        one = _TheirRun()

        def call(arguments: dict[str, Any]) -> Any:
            return one.keep(self._theirs.run(whole(arguments), *args, **kwargs))

        with one.steering():
            outcome = self._calls.dispatch(
                node.call(self.name, shown, call_id), node, one.using_sync(call)
            )
        return one.answer(outcome, call_id)

    async def arun(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        shown, whole = self._parted(tool_input)
        node, call_id = _NodeRun.of(kwargs.get("config")), kwargs.get("tool_call_id")
        one = _TheirRun()

        async def call(arguments: dict[str, Any]) -> Any:
            return one.keep(await self._theirs.arun(whole(arguments), *args, **kwargs))

        with one.steering():
            outcome = await self._calls.adispatch(
                node.call(self.name, shown, call_id), node, one.using(call)
            )
        return one.answer(outcome, call_id)

    def _parted(
        self, given: str | dict[str, Any]
    ) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]:
        """Return the model's arguments, and a function that adds the injected ones."""
        if isinstance(given, str):
            name = next(iter(self.args))
            return {name: given}, lambda arguments: arguments[name]
        hidden: dict[str, Any] = {
            name: value
            for name, value in given.items()
            if name in self._hidden or isinstance(value, ToolRuntime)
        }
        shown = {name: value for name, value in given.items() if name not in hidden}
        return shown, lambda arguments: {**arguments, **hidden}


@lru_cache(maxsize=256)
def _governed_class(kind: type[BaseTool]) -> type[BaseTool]:
    if issubclass(kind, GovernedTool):
        return kind
    return type(f"Governed{kind.__name__}", (GovernedTool, kind), {"__module__": __name__})


class _TheirRun(shared.ForeignRun):
    def __init__(self) -> None:
        super().__init__((GraphBubbleUp,), (ToolException, ValidationError))
        self._object: Any = None
        self._content: Any = None

    def keep(self, returned: Any) -> Any:
        """Keep the object that their tool returned, and return its content for our record."""
        self._object = self._content = returned
        if isinstance(returned, ToolMessage):
            if returned.status == "error":
                raise ToolException(str(returned.text))
            self._content = cast("Any", returned).content
        return self._content

    def answer(self, outcome: Outcome, call_id: str | None) -> Any:
        """Return the result for their agent: the object that their tool returned, or our text."""
        if outcome.success and self.given(outcome) is self._content:
            return self._object
        return _message(outcome, call_id, is_error=not outcome.success)


def _message(outcome: Outcome, call_id: str | None, *, is_error: bool) -> ToolMessage | str:
    if call_id is None:
        return outcome.text
    status = "error" if is_error else "success"
    return ToolMessage(outcome.text, name=outcome.call.name, tool_call_id=call_id, status=status)


class _Calls:
    def __init__(self, tools: ExecutorHandle) -> None:
        self.tools = tools
        self.turns = Turns(tools)
        self._running: dict[str, set[asyncio.Future[None]]] = {}

    def dispatch(self, call: ToolCall, node: _NodeRun, using: ForeignCall | None = None) -> Outcome:
        """Dispatch a call, or resume it; raise `GraphInterrupt` if it waits for a person."""
        given = node.answer(call)
        call = _as_asked(call, given)
        if (known := self._known(call, node, given)) is not None:
            return node.interrupted_by(known)
        if given is None:
            return node.interrupted_by(self.tools.dispatch(call, using=using))
        answer = given[shared.TOKEN], _answer(given)
        return node.interrupted_by(self.tools.resume(call, *answer, using=using))

    async def adispatch(
        self, call: ToolCall, node: _NodeRun, using: ForeignCall | None = None
    ) -> Outcome:
        if node.name is None:
            return await self._outcome(call, node, using)
        ended = asyncio.get_running_loop().create_future()
        others = self._running.setdefault(node.name, set())
        others.add(ended)
        try:
            outcome = await self._outcome(call, node, using)
        finally:
            ended.set_result(None)
            others.discard(ended)
            if not others:
                del self._running[node.name]
        if outcome.status is Status.PENDING and others:
            # An interrupt ends the node, and its other calls would keep running.
            await asyncio.wait(others)
        return node.interrupted_by(outcome)

    async def _outcome(self, call: ToolCall, node: _NodeRun, using: ForeignCall | None) -> Outcome:
        given = node.answer(call)
        call = _as_asked(call, given)
        if (known := self._known(call, node, given)) is not None:
            return known
        if given is None:
            return await self.turns.dispatch(call, *node.turn(), using)
        return await self.tools.aresume(call, given[shared.TOKEN], _answer(given), using=using)

    def _known(self, call: ToolCall, node: _NodeRun, given: object) -> Outcome | None:
        """Return the outcome of the call in an earlier run of the node, unless it continues now."""
        if node.name is None or not node.values.get("__pregel_resuming"):
            return None  # no node of this step has run before
        for event in reversed(self.tools.session[ToolInvoked].all()):
            if event.call_id == call.id and event.call.meta.get(NODE_RUN) == node.name:
                continues = event.status in _NOT_ENDED or (
                    event.status is Status.PENDING and given is not None
                )
                return None if continues else Outcome(event)
        return None


def _as_asked(call: ToolCall, given: Mapping[str, Any] | None) -> ToolCall:
    return call if given is None else replace(call, id=_own_id(given))


def _own_id(given: Mapping[str, Any]) -> Any:
    return given.get(OWN_ID, given[CALL_ID])


def _answer(given: Mapping[str, Any]) -> ApprovalAnswer:
    """Return the answer in a value with which a graph is resumed; without one, the token stays."""
    said = given.get("answer")
    answer = {True: Answer.APPROVED, False: Answer.DENIED}.get(cast("Any", said), said)
    if answer not in _ANSWERS:
        raise ValueError(
            f"{said!r} does not answer the question of call {given[CALL_ID]!r}. Resume with "
            "'answer': 'approved', 'denied' (and a 'reason') or 'edited' (and 'arguments')."
        )
    edited = given["arguments"] if answer == Answer.EDITED else None
    return ApprovalAnswer(Answer(answer), given.get("reason"), edited)


@dataclass(frozen=True)
class _NodeRun:
    """The run of a node of a graph; without a name outside of graphs.

    The keys that begin with `__pregel` belong to LangGraph, whose tools use them, too.
    """

    values: Mapping[str, Any]
    name: str | None
    """The namespace of its checkpoints, the same in a repeated run."""

    @classmethod
    def of(cls, config: RunnableConfig | None) -> _NodeRun:
        values = ensure_config(config).get("configurable", {})
        is_graph = "__pregel_scratchpad" in values
        return cls(values, values["checkpoint_ns"] if is_graph else None)

    def call(self, tool: str, arguments: Any, call_id: str | None) -> ToolCall:
        meta = {} if self.name is None else {NODE_RUN: self.name}
        if call_id is None or self.name is None:  # called by hand
            return ToolCall(tool, arguments, meta=meta, provider_id=call_id or "")
        message_id, ids = self.turn()
        id_ = id_in(message_id or self.name, call_id, ids, arguments)
        return ToolCall(tool, arguments, id_, meta=meta, provider_id=call_id)

    def turn(self) -> tuple[str | None, list[str]]:
        """Return the id of the message whose calls the graph makes, and the ids of these calls."""
        try:
            messages = self.values["__pregel_read"]("messages")
        except KeyError:
            return None, []
        for message in reversed(messages):
            if isinstance(message, AIMessage):
                return message.id, [call["id"] or "" for call in message.tool_calls]
        return None, []

    def answer(self, call: ToolCall) -> dict[str, Any] | None:
        """Return the answer with which the graph was resumed, to the last question of a call."""
        if self.name is None:
            return None
        pad = self.values["__pregel_scratchpad"]
        answers = [
            cast("dict[str, Any]", given)
            for given in (*pad.resume, pad.get_null_resume())
            if isinstance(given, dict) and given.keys() >= {shared.TOKEN, CALL_ID}
        ]
        known = (call.provider_id, call.id), (call.provider_id, call.provider_id)
        answers = [given for given in answers if (given[CALL_ID], _own_id(given)) in known]
        if not answers:
            return None
        # An interrupt of their tool takes the values after it.
        with suppress(GraphInterrupt):
            while interrupt(None) != answers[-1]:
                pass
        return answers[-1]

    def interrupted_by(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a call; raise `GraphInterrupt` for a call that waits."""
        if outcome.status is not Status.PENDING or self.name is None:
            return outcome
        # The function `interrupt` could take the answer to the question of another call.
        event = outcome.event
        asked = {
            CALL_ID: event.call.wire_id,
            OWN_ID: event.call_id,
            "tool": event.tool_name,
            "arguments": event.shown_arguments,
            **shared.question(outcome),
        }
        raise GraphInterrupt((Interrupt.from_ns(asked, ns=self.name),))
