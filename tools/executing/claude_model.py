"""A model on loopback, which Claude Code takes for that of its provider."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolstile_hookspecs import ToolCall

Request = Mapping[str, Any]
Reply = Callable[[Request], Sequence[ToolCall] | str]
"""Returns the calls of a turn, or the last words, for a request to the model."""


class PlayedModel:
    """A model that answers each request as a function says.

    Attributes:
        requests: The requests in which tools were offered, in order.
        streams: Whether it streams; where it does not, Claude Code asks again without.
    """

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests: list[Request] = []
        self.streams = True
        self.url = ""

    def read(self) -> dict[str, tuple[str, bool]]:
        """Return what it has read of its calls, by their ids: text, and whether it is an error."""
        found: dict[str, tuple[str, bool]] = {}
        for request in self.requests:
            for message in request["messages"]:
                for block in _blocks(message["content"]):
                    if block["type"] == "tool_result":
                        is_error = bool(block.get("is_error"))
                        found[block["tool_use_id"]] = _text(block["content"]), is_error
        return found

    def said(self) -> str:
        """Return the whole of its last request, as text."""
        return json.dumps(self.requests[-1]["messages"])


def scripted(script: Sequence[Sequence[ToolCall]]) -> Reply:
    """Return what calls a script's turns, by the number of the replies so far, and is done."""

    def reply(request: Request) -> Sequence[ToolCall] | str:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        return script[turn] if turn < len(script) else "done"

    return reply


def following(tasks: Mapping[str, Sequence[Sequence[tuple[str, str, Any]]]]) -> Reply:
    """Return what makes the calls of the task that it is given, and says what it read last.

    Args:
        tasks: The calls of each turn, by tasks: an id, the end of the name of a tool, and
            arguments.
    """

    def reply(request: Request) -> Sequence[ToolCall] | str:
        asked = [message["content"] for message in request["messages"] if message["role"] == "user"]
        blocks = [block for said in asked for block in _blocks(said)]
        turns = next(tasks[said] for block in blocks if (said := block.get("text")) in tasks)
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if turn >= len(turns):
            return next(_text(said["content"]) for said in reversed(blocks) if "content" in said)
        full = {each["name"].rpartition("__")[2]: each["name"] for each in request["tools"]}
        return [ToolCall(full[name], given, id=id_) for id_, name, given in turns[turn]]

    return reply


@contextmanager
def played(reply: Reply) -> Generator[PlayedModel]:
    """Serve a model."""
    model = PlayedModel(reply)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if not request.get("tools"):
                answer: Sequence[ToolCall] | str = "A title"
            elif request.get("stream") and not model.streams:
                return self._send("text/event-stream", "")
            else:
                model.requests.append(request)
                answer = model.reply(request)
            message = _message(f"msg_{len(model.requests)}", request["model"], answer)
            if request.get("stream"):
                return self._send("text/event-stream", "".join(_events(message)))
            return self._send("application/json", json.dumps(message))

        def _send(self, kind: str, body: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Do nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield model
        finally:
            server.shutdown()


def _message(id_: str, name: str, answer: Sequence[ToolCall] | str) -> dict[str, Any]:
    if isinstance(answer, str):
        content: list[dict[str, Any]] = [{"type": "text", "text": answer}]
    else:
        content = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in answer
        ]
    return {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "model": name,
        "content": content,
        "stop_reason": "end_turn" if isinstance(answer, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(message: Mapping[str, Any]) -> Iterator[str]:
    yield _event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=stopped, usage={"output_tokens": 1})
    yield _event("message_stop")


def _event(name: str, **data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n"


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: Any) -> str:
    return "".join(block["text"] for block in _blocks(content) if block["type"] == "text")
