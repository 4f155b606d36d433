"""OpenAI's Chat Completions, which many other servers offer as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

from toolstile_hookspecs import Dialect
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import Delta, ModelRequest, ThoughtDelta
from toolstile_hookspecs.support.process import new_id
from toolstile_plugins.agent.providers import base
from toolstile_plugins.dialects.openai import OpenAI
from toolstile_plugins.dialects.openai_strict import strict_schema
from toolstile_plugins.dialects.parse import field, mapping, text_of
from toolstile_plugins.dialects.streams import ChatCalls

OF_TOOLS: Final = ("tool_choice", "parallel_tool_calls")
"""Settings that the API rejects without tools."""

_TAKEN: Final = (
    *("temperature", "top_p", "stop", "seed", "reasoning_effort", "verbosity", "service_tier"),
    *("frequency_penalty", "presence_penalty", "logit_bias", "prompt_cache_key", "metadata"),
    *("safety_identifier", "store", "extra_headers", "extra_body", "max_tokens", *OF_TOOLS),
)
_CHOICES: Final = frozenset({"auto", "none", "required"})
_STOPS: Final = {
    "tool_calls": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSED,
}


class OpenAIChat(base.ClientAdapter):
    """A model behind Chat Completions; `base_url` may name any compatible server.

    The setting `max_tokens` limits the reply with its reasoning; OpenAI receives it as
    `max_completion_tokens`.
    """

    name: ClassVar[str] = "openai"
    dialect: ClassVar[Dialect] = OpenAI()
    library: ClassVar[str] = "openai"
    clients: ClassVar[tuple[str, str]] = ("OpenAI", "AsyncOpenAI")
    takes: ClassVar[Mapping[str, str]] = {name: name for name in _TAKEN}
    reader: ClassVar[type[Any]] = ChatCalls

    def arguments(self, request: ModelRequest) -> dict[str, Any]:
        settings = self.settings(request.settings)
        if (name := chosen_tool(settings)) is not None:
            settings["tool_choice"] = {"type": "function", "function": {"name": name}}
        said: list[dict[str, Any]] = [{"role": "system", "content": request.system}]
        for message in self.portable(request.messages):
            own = message.dialect == self.dialect.name
            if own_messages := own and _own(message):
                said += own_messages
            elif message.role is Role.TOOL:
                said += [
                    {"role": "tool", "tool_call_id": answer.call_id, "content": answer.text}
                    for answer in message.answers
                ]
            else:
                calls = [_call(call) for call in message.calls]
                more = {"content": message.text or None, "tool_calls": calls} if calls else {}
                said.append({"role": message.role.value, "content": message.text, **more})
        given = {"model": self.model, "messages": said, **settings}
        given = with_tools(given, request, self.dialect)
        if request.output is not None:
            schema = {"name": "answer", **answer_schema(request.output)}
            given["response_format"] = {"type": "json_schema", "json_schema": schema}
        return given

    def method(self, client: Any) -> Callable[..., Any]:

        def create(**given: Any) -> Any:
            if "max_tokens" in given and "openai" in client.base_url.host:
                given["max_completion_tokens"] = given.pop("max_tokens")
            if given.get("stream"):
                given["stream_options"] = {"include_usage": True}
            return client.chat.completions.create(**given)

        return create

    def deltas(self, event: Any, stream: base.StreamedReply) -> Iterator[Delta]:
        """Yield the deltas of a chunk; of several choices the first counts.

        The chunk is corrected for the library, which trusts each index, id and name.
        """
        event.choices = event.choices or list[Any]()
        if not event.choices and (error := base.error_in(event)):
            raise base.fault_in(error, self.name)
        for choice in event.choices:
            if choice.delta is None:
                choice.delta = _delta(field(choice, "message"))
        for choice in event.choices[:1]:
            said: Any = choice.delta
            if not isinstance(content := said.content, str | None):
                said.content = text_of(content)
            if thought := field(said, "reasoning_content", "reasoning"):
                yield ThoughtDelta(str(thought))
            if text := said.content or getattr(said, "refusal", None):
                yield text
            for part in said.tool_calls or ():
                yield from self._placed(part, stream.reader)

    def _placed(self, part: Any, calls: ChatCalls) -> Iterator[Delta]:
        made = len(calls.known)
        if (call := calls.add(part)) is None:
            return
        part.index = next(n for n, (*_, each) in enumerate(calls.known) if each is call)
        if len(calls.known) == made:
            part.id = part.function.name = None
        else:
            part.id = call.made_id = part.id or new_id()
            part.function.name = call.name
        yield base.delta_of(call, part.function.arguments)

    def whole(self, stream: base.StreamedReply) -> Any:
        from openai.lib.streaming.chat import ChatCompletionStreamState  # of an extra

        state: Any = ChatCompletionStreamState()
        for chunk in stream.events:
            state.handle_chunk(chunk)
        return state.current_completion_snapshot

    def turn(self, reply: Any) -> Turn:
        """Read a completion; of several choices the first counts."""
        choice = next(iter(reply.choices or ()), None)
        usage = usage_of(reply.usage, "prompt", "completion")
        error = field(reply, "error") or field(choice, "error")
        if choice is None:
            error = base.error_in(reply)
        if error:
            raise base.fault_in(error, self.name, usage)
        if choice is None or choice.finish_reason in {None, "error"}:
            raise self.cut_off(usage)
        said, calls = choice.message, self.calls(reply)
        stop = _STOPS.get(choice.finish_reason, StopReason.TOOL_USE if calls else StopReason.END)
        refusal = getattr(said, "refusal", None)
        text = text_of(said.content) or refusal or ""
        message = Message(Role.ASSISTANT, text, calls, (), self.dialect.name, (_item(said),))
        stop = StopReason.REFUSED if refusal else stop
        return Turn(message, stop, usage, reply.model, reply.id or "")


def chosen_tool(settings: Mapping[str, Any]) -> str | None:
    """Return the tool that `tool_choice` names, or None."""
    choice = settings.get("tool_choice")
    return choice if isinstance(choice, str) and choice not in _CHOICES else None


def with_tools(given: dict[str, Any], request: ModelRequest, dialect: Dialect) -> dict[str, Any]:
    """Return arguments with the tools; without tools, the settings about them are left out."""
    if not request.tools:
        return {name: value for name, value in given.items() if name not in OF_TOOLS}
    return {**given, "tools": dialect.schemas(request.tools)}


def answer_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer for both APIs, strict if possible."""
    strict = strict_schema(dict(schema))
    return {"schema": dict(schema) if strict is None else strict, "strict": strict is not None}


def usage_of(usage: Any, read: str, written: str) -> Usage | None:
    """Return the tokens of a reply, under the names of either API."""
    if usage is None:
        return None

    def detail(side: str, name: str) -> int:
        return getattr(getattr(usage, f"{side}_tokens_details", None), name, None) or 0

    # The second name is LiteLLM's.
    made = detail(read, "cache_write_tokens") or detail(read, "cache_creation_tokens")
    total, out = (getattr(usage, f"{side}_tokens", None) or 0 for side in (read, written))
    cached, reasoning = detail(read, "cached_tokens"), detail(written, "reasoning_tokens")
    return Usage(total, out, cached, made, reasoning)


def _delta(said: object) -> Any:
    """Return the delta of a chunk that has none, or a whole message in its place."""
    from openai.types.chat.chat_completion_chunk import ChoiceDelta  # of an extra

    return ChoiceDelta.construct(**mapping(said))


def _own(message: Message) -> list[dict[str, Any]]:
    """Return a message as received, with its calls; empty if a call is missing in it."""
    item = message.items[0] if message.items else dict[str, Any]()
    made: list[dict[str, Any]] = item.get("tool_calls") or []
    if not item or len(made) != len(message.calls):
        return []
    if not made:
        return [item]
    calls = [_call(call) for call in message.calls]
    for given, call in zip(made, calls, strict=True):
        call["function"] = {**(given.get("function") or {}), **call["function"]}
    return [{**item, "tool_calls": [{**old, **new} for old, new in zip(made, calls, strict=True)]}]


def _call(call: CallMade) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _item(said: Any) -> dict[str, Any]:
    """Return a message as received, without nulls and the library's additions."""
    item: dict[str, Any] = said.to_dict(mode="json", warnings=False)
    for call in item.get("tool_calls") or ():
        call.pop("index", None)
        call.get("function", {}).pop("parsed_arguments", None)
    kept = {name: value for name, value in item.items() if value is not None and name != "parsed"}
    return {"role": "assistant", "content": None, **kept}
