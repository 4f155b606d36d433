"""A client that speaks JSON-RPC by hand, so that no library hides a field."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

COMMAND = str(Path(sysconfig.get_path("scripts")) / "toolstile")
LONGEST = 60.0
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
CAPABILITIES = {"elicitation": {}, "roots": {"listChanged": True}, "sampling": {}}
INFO = {"name": "wire", "version": "1"}

Json = dict[str, Any]
Respond = Callable[[Json], Json | None]


def accept(request: Json) -> Json | None:
    """Answer a request of a server as a willing person would."""
    match request["method"]:
        case "elicitation/create":
            return {"action": "accept", "content": {}}
        case "roots/list":
            return {"roots": [{"uri": "file://localhost/nowhere", "name": "nowhere"}]}
        case "sampling/createMessage":
            said = {"type": "text", "text": "a sample"}
            return {"role": "assistant", "content": said, "model": "none", "stopReason": "endTurn"}
    return None


def decline(request: Json) -> Json:
    return {"action": "decline"}


class Wire:
    """A client of a server that is started here; `heard` has all that no request asked for."""

    def __init__(
        self,
        command: Sequence[str],
        era: str = LEGACY,
        respond: Respond = accept,
        capabilities: Json = CAPABILITIES,
        **options: Any,
    ) -> None:
        self.era = era
        self.capabilities = capabilities
        self.respond = respond
        self.heard: list[Json] = []
        self.said: list[str] = []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self._answers: queue.Queue[Json | None] = queue.Queue()
        self._last = 0
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._read, self._listen)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Leave, and return the exit status."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            return self.process.wait(LONGEST)
        finally:
            self.process.kill()
            for thread in self._threads:
                thread.join(LONGEST)
            self.process.stdout.close()
            self.process.stderr.close()

    def send(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, **({"params": params} if params else {})})

    def ask(self, method: str, /, **params: Any) -> int:
        """Send a request, and return its id."""
        self._last += 1
        if self.era == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                "io.modelcontextprotocol/clientInfo": INFO,
            }
            params["_meta"] = {**meta, **params.get("_meta", {})}
        self.send({"id": self._last, "method": method, "params": params})
        return self._last

    def answer(self) -> Json:
        """Return the next answer; `AssertionError` if the server has left without one."""
        found = self._answers.get(timeout=LONGEST)
        assert found is not None, "".join(self.said)
        return found

    def request(self, method: str, /, **params: Any) -> Json:
        """Return the result or the error of a request, without its id.

        The questions of a result are answered, and the request is repeated with the answers.
        """
        number = self.ask(method, **params)
        answer = self.answer()
        assert answer.pop("id") == number
        assert answer.pop("jsonrpc") == "2.0"
        result = answer.get("result", {})
        if result.get("resultType") != "input_required":
            return answer
        asked = result["inputRequests"]
        self.heard += asked.values()
        answers = {key: self.respond(request) for key, request in asked.items()}
        state = {key: result[key] for key in ("requestState",) if key in result}
        return self.request(method, **{**params, **state, "inputResponses": answers})

    def call(self, name: str, /, **arguments: Any) -> Json:
        return self.request("tools/call", name=name, arguments=arguments)

    def begin(self) -> Json:
        """Greet the server as the era has it."""
        if self.era == MODERN:
            return self.request("server/discover")
        found = self.request(
            "initialize",
            protocolVersion=LEGACY,
            capabilities=self.capabilities,
            clientInfo=INFO,
        )
        self.notify("notifications/initialized")
        return found

    def _read(self) -> None:
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self._answers.put(message)
                continue
            self.heard.append(message)
            if "id" in message and (result := self.respond(message)) is not None:
                self.send({"id": message["id"], "result": result})
        self._answers.put(None)

    def _listen(self) -> None:
        for line in self.process.stderr:
            self.said.append(line.decode())


def wrapped(*command: str, options: Sequence[str] = ()) -> list[str]:
    """Return the command of a wrapped server."""
    return [COMMAND, "wrap", *options, "--", *command]


def environment(state: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(state), **more}


PYTHON = sys.executable
