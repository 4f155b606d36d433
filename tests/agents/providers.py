"""Models on loopback, in the forms of OpenAI's Responses and of Gemini, that play a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Mapping[str, Any]
"""A call of a tool: its `name` and `arguments`, and the `namespace` of the name if it has one."""
Reply = Callable[[list[str]], Step | None]
"""Returns the next call for the results so far; None to end the turn."""


class Played:
    """A model, with the results that it has read."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.results: list[str] = []
        self.said: list[str] = []
        """The texts of each request's last message."""
        self.read = ""
        """The whole of the last request."""
        self.url = ""


@contextmanager
def played(reply: Reply, form: Callable[[Played, str, dict[str, Any]], str]) -> Iterator[Played]:
    """Serve a model; `form` returns the body of a stream for a request."""
    model = Played(reply)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send("application/json", '{"models": [], "data": []}')

        def do_POST(self) -> None:
            read = self.rfile.read(int(self.headers.get("content-length", 0)))
            self._send("text/event-stream", form(model, self.path, json.loads(read or b"{}")))

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


def responses(model: Played, _: str, request: dict[str, Any]) -> str:
    """Answer in the form of OpenAI's Responses."""
    given = request.get("input", [])
    outputs = [each for each in given if each.get("type") == "function_call_output"]
    model.results = [str(each["output"]) for each in outputs]
    model.said.append(json.dumps(given[-1:]))
    model.read = json.dumps(given)
    step, number = model.reply(model.results), len(given)
    item: dict[str, Any] = {"type": "message", "role": "assistant", "id": f"m{number}"}
    item["content"] = [{"type": "output_text", "text": "done"}]
    if step is not None:
        item = {"type": "function_call", "id": f"f{number}", "call_id": f"call_{number}"}
        item |= {**step, "arguments": json.dumps(step["arguments"])}
    made = {"id": f"r{number}"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    events = {
        "response.created": {"response": made},
        "response.output_item.done": {"output_index": 0, "item": item},
        "response.completed": {"response": {**made, "usage": usage}},
    }
    return "".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n"
        for name, data in events.items()
    )


def gemini(model: Played, path: str, request: dict[str, Any]) -> str:
    """Answer in the form of Gemini."""
    contents = request.get("contents", [])
    parts = [part for each in contents for part in each.get("parts", ())]
    outputs = [part["functionResponse"] for part in parts if "functionResponse" in part]
    model.results = [json.dumps(each["response"]) for each in outputs]
    model.said.append(json.dumps(contents[-1:]))
    model.read = json.dumps(contents)
    step = model.reply(model.results) if request.get("tools") else None
    part: dict[str, Any] = {"text": "done"}
    if step is not None:
        part = {"functionCall": {"name": step["name"], "args": step["arguments"]}}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    text = json.dumps({"candidates": [candidate], "usageMetadata": usage})
    return f"data: {text}\n\n" if "stream" in path else text
