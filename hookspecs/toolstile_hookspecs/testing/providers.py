"""Strict fakes of providers, for tests of adapters: each answers from a script, on loopback."""

# pyright: reportReturnType=false

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, Protocol, Self

from toolstile_hookspecs.agents.messages import StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import FaultType, ProviderError

Json = dict[str, Any]
Events = Sequence["Json | str"]
"""The events of a stream; the `type` of one is its name as well."""

STATUS: Final = {
    FaultType.RATE_LIMIT: 429,
    FaultType.QUOTA: 429,
    FaultType.TIMEOUT: 408,
    FaultType.UNAVAILABLE: 500,
    FaultType.REFUSED: 400,
}


class ProviderApi(Protocol):
    """The shapes of an API.

    Attributes:
        path: The end of its path.
    """

    path: str

    def faults(self, body: Json) -> Iterator[str]:
        """Yield how a request breaks the protocol."""

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        """Return a turn as the reply to a request; calls without an id get one."""

    def events(self, reply: Json, body: Json) -> Events:
        """Return a reply as the events of a stream."""

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        """Return the status and the body of a fault."""


class FakeProvider:
    """Answers each request with the next entry of a script.

    An entry is a `Turn`, with ids and arguments as odd as they are given; a `ProviderError`; or an
    answer as it stands, with the status of a good one: a whole reply, or the events of a stream.

    Args:
        api: The API: `ChatApi()`, `ResponsesApi()` or `AnthropicApi()`.
        script: The entries.

    Attributes:
        url: The address without the path of the API.
        requests: The requests so far.
        refused: The faults of the requests that broke the protocol.

    Example:
        >>> from toolstile_hookspecs.testing.providers import ChatApi
        >>> with FakeProvider(ChatApi(), {"error": {"message": "No.", "code": 503}}) as fake:
        ...     fake.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, api: ProviderApi, *script: Turn | ProviderError | Json | Events) -> None:
        self.api = api
        self.requests: list[Json] = []
        self.refused: list[str] = []
        self._script = iter(script)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: Json) -> tuple[int, Json | Events]:
        """Return the status of the answer to a request, and the answer."""
        with self._lock:
            self.requests.append(body)
            number, entry = len(self.requests), None
            faults = [] if path.endswith(self.api.path) else [f"Unknown path: {path}."]
            faults += self.api.faults(body)
            if not faults and (entry := next(self._script, None)) is None:
                faults = ["The script is at its end."]
            self.refused += faults
        if entry is None:
            entry = ProviderError(faults[0], FaultType.REFUSED)
        if isinstance(entry, ProviderError):
            return self.api.error(entry)
        if isinstance(entry, Turn):
            entry = self.api.reply(entry, number, body)
            return 200, self.api.events(entry, body) if body.get("stream") else entry
        return 200, entry


def _handler(fake: FakeProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, told = fake.answer(self.path, body)
            kind, text = "application/json", json.dumps(told)
            if not isinstance(told, dict):
                kind, text = "text/event-stream", "".join(map(event_text, told))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its word
            pass

    return Handler


def event_text(event: Json | str) -> str:
    """Return an event in its form on the wire."""
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def pieces(text: str, size: int = 5) -> list[str]:
    """Return a text in pieces, as streams bring it."""
    return [text[start : start + size] for start in range(0, len(text), size)]


NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class CallsInOrder:
    """The calls of a request's history: each has a unique id, and one result after it.

    Args:
        ids: The ids that the provider takes.
    """

    def __init__(self, ids: str = r"(?s).+") -> None:
        self._ids = re.compile(ids)
        self._made: set[str] = set()
        self._waiting: list[str] = []

    def call(self, id_: Any, name: Any, arguments: Any) -> Iterator[str]:
        """Note a call; yield its faults."""
        if not isinstance(id_, str) or not self._ids.fullmatch(id_):
            yield f"{id_!r} is not an id of a call"
        if id_ in self._made:
            yield f"{id_!r} is the id of two calls"
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield f"{name!r} is not a name of a function"
        try:
            read = json.loads(arguments) if isinstance(arguments, str) else arguments
            json.dumps(read, allow_nan=False, ensure_ascii=False).encode()
        except ValueError:
            yield f"the arguments of {name} are not JSON"
        else:
            if not isinstance(read, dict):
                yield f"the arguments of {name} are no object"
        self._made.add(id_)
        self._waiting.append(id_)

    def result(self, id_: Any) -> Iterator[str]:
        """Note a result; yield its fault."""
        if not self._waiting or self._waiting.pop(0) != id_:
            yield f"{id_!r} is not the id of the next call without a result"

    def others(self) -> Iterator[str]:
        """Yield the fault of anything else at this place: a call before it without a result."""
        if self._waiting:
            yield f"{self._waiting[0]!r} has no result"


_FINISHES: Final = {StopReason.TOOL_USE: "tool_calls", StopReason.MAX_TOKENS: "length"}


class _OpenAI:
    """The shapes that both APIs of OpenAI share."""

    _errors: ClassVar[Mapping[FaultType, tuple[str, str | None]]] = {
        FaultType.RATE_LIMIT: ("requests", "rate_limit_exceeded"),
        FaultType.QUOTA: ("insufficient_quota", "insufficient_quota"),
        FaultType.REFUSED: ("invalid_request_error", None),
    }

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        type_, code = self._errors.get(fault.type, ("server_error", None))
        told = {"message": str(fault), "type": type_, "param": None, "code": code}
        return STATUS[fault.type], {"error": told}

    def _usage(self, used: Usage | None, read: str, written: str) -> Json | None:
        if used is None:
            return None
        return {
            f"{read}_tokens": used.input_tokens,
            f"{written}_tokens": used.output_tokens,
            "total_tokens": used.total_tokens,
            f"{read}_tokens_details": {
                "cached_tokens": used.cached_tokens,
                "cache_write_tokens": used.cache_written_tokens,
            },
            f"{written}_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        }


class ChatApi(_OpenAI):
    """Chat Completions, as the strictest of the servers that speak it."""

    path = "/chat/completions"

    def faults(self, body: Json) -> Iterator[str]:
        calls = CallsInOrder()
        for message in body["messages"]:
            said = message.get("content") or message.get("refusal")
            if message["role"] == "tool":
                yield from calls.result(message["tool_call_id"])
                continue
            yield from calls.others()
            made = message.get("tool_calls")
            if made == [] or message.get("function_call") or not (made or said):
                yield f"a message of the {message['role']} has no content, or an empty tool_calls"
            for each in made or ():
                function = each["function"]
                if each["type"] != "function" or not isinstance(function["arguments"], str):
                    yield "a call is not a function, or its arguments are not a text"
                yield from calls.call(each["id"], function["name"], function["arguments"])
        yield from calls.others()

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        del body
        is_refused = turn.stop_reason is StopReason.REFUSED
        said = {"refusal": turn.text} if is_refused else {"content": turn.text or None}
        calls = [
            {
                "id": call.id or f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(turn.tool_calls)
        ]
        more = {"tool_calls": calls} if calls else {}
        message = {"role": "assistant", "content": None, **said, **more}
        finish = _FINISHES.get(turn.stop_reason, "stop")
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1_764_000_000,
            "model": "fake",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": self._usage(turn.usage, "prompt", "completion"),
        }

    def events(self, reply: Json, body: Json) -> Events:
        """Return a completion as chunks; the tokens come where they are asked for."""
        choice = reply["choices"][0]
        deltas = self.deltas(choice["message"])
        chosen = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        chosen.append([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
        base = {**reply, "object": "chat.completion.chunk", "usage": None}
        chunks: list[Json | str] = [{**base, "choices": each} for each in chosen]
        if body.get("stream_options", {}).get("include_usage"):
            chunks.append({**base, "choices": [], "usage": reply["usage"]})
        return [*chunks, "[DONE]"]

    def deltas(self, message: Json) -> list[Json]:
        """Return a message in pieces."""
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        for name in ("reasoning_content", "content", "refusal"):
            deltas += [{name: piece} for piece in pieces(message.get(name) or "")]
        for index, call in enumerate(message.get("tool_calls", ())):
            begun = {**call, "function": {**call["function"], "arguments": ""}}
            given = pieces(call["function"]["arguments"])
            parts = [begun, *({"function": {"arguments": piece}} for piece in given)]
            deltas += [{"tool_calls": [{"index": index, **part}]} for part in parts]
        return deltas


class ResponsesApi(_OpenAI):
    """The Responses API."""

    path = "/responses"

    def faults(self, body: Json) -> Iterator[str]:
        calls = CallsInOrder(r"(?s).{1,64}")
        ids = [item["id"] for item in body["input"] if item.get("id")]
        if len(ids) > len({*ids}):
            yield "two items have the same id"
        last = ""
        for item in body["input"]:
            type_ = item.get("type", "message")
            if type_ not in {"function_call_output", last}:
                yield from calls.others()  # the calls of one reply stand side by side
            if type_ == "function_call_output":
                yield from calls.result(item["call_id"])
            if type_ == "function_call":
                if not isinstance(item["arguments"], str):
                    yield "the arguments of a call are no text"
                yield from calls.call(item["call_id"], item["name"], item["arguments"])
            last = type_
        yield from calls.others()

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        del body
        is_cut = turn.stop_reason is StopReason.MAX_TOKENS
        status = {"status": "incomplete" if is_cut else "completed"}
        output: list[Json] = []
        if turn.text:
            part: Json = {"type": "output_text", "annotations": [], "text": turn.text}
            if turn.stop_reason is StopReason.REFUSED:
                part = {"type": "refusal", "refusal": turn.text}
            message = {"type": "message", "role": "assistant", "content": [part]}
            output.append({"id": f"msg_{number}", **message, **status})
        for index, call in enumerate(turn.tool_calls):
            ids = {"id": f"fc_{number}_{index}", "call_id": call.id or f"call_{number}_{index}"}
            made = {"type": "function_call", "name": call.name, "arguments": call.arguments}
            output.append({**ids, **made, **status})
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1_764_000_000,
            "model": "fake",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            **status,
            "usage": self._usage(turn.usage, "input", "output"),
        }

    def events(self, reply: Json, body: Json) -> Events:
        del body
        events: list[Json] = []

        def tell(name: str, **data: Any) -> None:
            events.append({"type": f"response.{name}", "sequence_number": len(events), **data})

        tell("created", response={**reply, "status": "in_progress", "output": [], "usage": None})
        for index, item in enumerate(reply["output"]):
            here = {"output_index": index, "item_id": item["id"]}
            names = [name for name in ("content", "arguments") if name in item]
            empty = {name: type(item[name])() for name in names}
            tell("output_item.added", output_index=index, item={**item, **empty})
            for part in item.get("content", ()):
                text = part.get("text") or part.get("refusal")
                for piece in pieces(text):
                    tell(f"{part['type']}.delta", **here, content_index=0, delta=piece, logprobs=[])
            for piece in pieces(item.get("arguments", "")):
                tell("function_call_arguments.delta", **here, delta=piece)
            tell("output_item.done", output_index=index, item=item)
        tell(reply["status"], response=reply)
        return events


_ERRORS: Final = {
    FaultType.RATE_LIMIT: (429, "rate_limit_error"),
    FaultType.QUOTA: (402, "billing_error"),
    FaultType.TIMEOUT: (504, "timeout_error"),
    FaultType.UNAVAILABLE: (529, "overloaded_error"),
}
_STOPS: Final = {
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSED: "refusal",
    StopReason.INCOMPLETE: "pause_turn",
}


class AnthropicApi:
    """The Messages API."""

    path = "/v1/messages"

    def faults(self, body: Json) -> Iterator[str]:
        calls = CallsInOrder(r"[a-zA-Z0-9_-]+")
        if body["messages"][0]["role"] != "user":
            yield "the first message is not the user's"
        for message in body["messages"]:
            content = message["content"]
            if not content:
                yield "a message is empty"
            for block in (
                [{"type": "text", "text": content}] if isinstance(content, str) else content
            ):
                yield from self._faults_of(block, calls)
            if message["role"] == "user":
                yield from calls.others()
        yield from calls.others()

    def _faults_of(self, block: Json, calls: CallsInOrder) -> Iterator[str]:
        match block["type"]:
            case "tool_result":
                yield from calls.result(block["tool_use_id"])
            case "tool_use":
                if not isinstance(block["input"], dict):
                    yield "the input of a call is not an object"
                yield from calls.call(block["id"], block["name"], block["input"])
            case "text" if not block["text"].strip():
                yield "a text is empty"
            case _:
                yield from calls.others()

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        del body
        content: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
        for index, call in enumerate(turn.tool_calls):
            use = {"id": call.id or f"toolu_{number}_{index}", "name": call.name}
            content.append({"type": "tool_use", **use, "input": _parsed(call.arguments)})
        used = turn.usage
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "fake",
            "content": content,
            "stop_reason": _STOPS.get(turn.stop_reason, "end_turn"),
            "stop_sequence": None,
            "usage": used
            and {
                "input_tokens": used.input_tokens - used.cached_tokens - used.cache_written_tokens,
                "cache_creation_input_tokens": used.cache_written_tokens,
                "cache_read_input_tokens": used.cached_tokens,
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"thinking_tokens": used.reasoning_tokens},
            },
        }

    def events(self, reply: Json, body: Json) -> Events:
        del body
        usage = {**reply["usage"], "output_tokens": 1}
        begun: Json = {**reply, "content": [], "stop_reason": None, "usage": usage}
        events: list[Json] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(reply["content"]):
            at = {"index": index}
            empty = {name: type(block[name])() for name in _FIELDS if name in block}
            if block["type"] == "tool_use":
                empty["input"] = {}
            events.append({"type": "content_block_start", **at, "content_block": block | empty})
            added = {"type": "content_block_delta", **at}
            events += [{**added, "delta": each} for each in _deltas(block)]
            events.append({"type": "content_block_stop", **at})
        ended = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ended, "usage": reply["usage"]})
        return [*events, {"type": "message_stop"}]

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        status, type_ = _ERRORS.get(fault.type, (STATUS[fault.type], "invalid_request_error"))
        return status, {"type": "error", "error": {"type": type_, "message": str(fault)}}


_FIELDS: Final = ("text", "thinking", "signature")


def _parsed(arguments: str) -> Any:
    """Return arguments as a whole reply has them; broken JSON stays a text."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _deltas(block: Json) -> list[Json]:
    if block["type"] == "tool_use":
        given = block["input"]
        text = given if isinstance(given, str) else json.dumps(given)
        return [{"type": "input_json_delta", "partial_json": part} for part in ["", *pieces(text)]]
    names = [name for name in _FIELDS if name in block]
    return [{"type": f"{name}_delta", name: part} for name in names for part in pieces(block[name])]
