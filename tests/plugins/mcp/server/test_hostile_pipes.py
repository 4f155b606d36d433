"""Clients over standard input and output that are broken, or leave when they like."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from .conftest import COMMAND, LONGEST, NEWEST, peak_memory

pytestmark = pytest.mark.slow

BAKERY = Path(__file__).with_name("bakery.py")
CONFIGURATION = """\
[plugins.vfs]
root = "shop"

[plugins.record]
file = "calls.jsonl"
"""
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}


#: Time to say so much that keeping the answers would take more memory than this.
SOME_SECONDS = 8
SOME_MEMORY = 200 * 1024 * 1024


class Pipe:
    """A server at the other end of a pipe, to which anything can be said."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.envelope: dict[str, Any] = {"_meta": ENVELOPE}
        self._heard: Queue[bytes] = Queue()

    def listen(self) -> None:
        """Read what the server writes, from now on."""
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._heard.put(line)
        self._heard.put(b"")

    def say(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def hear(self, number: object) -> dict[str, Any]:
        """The answer to the request of that number; what comes before it is passed over."""
        while line := self._heard.get(timeout=LONGEST):
            message = json.loads(line)
            if message.get("id") == number:
                return message
        raise AssertionError(f"the server ended before it answered {number}")

    def request(self, number: int, method: str, **params: Any) -> bytes:
        """A request as the era has it."""
        body = {"id": number, "method": method, "params": {**params, **self.envelope}}
        return json.dumps({"jsonrpc": "2.0", **body}).encode()

    def call(self, number: int, tool: str, arguments: object) -> bytes:
        """A request that calls a tool."""
        return self.request(number, "tools/call", name=tool, arguments=arguments)

    def begin(self) -> None:
        """Begin as the older era does."""
        self.envelope = {}
        self.say(self.request(0, "initialize", **INITIALIZE))
        assert self.hear(0)["result"]["protocolVersion"] == "2025-11-25"
        self.say(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def adds(self, number: int) -> int:
        """The answer to a decent call."""
        self.say(self.call(number, "add", {"a": number, "b": 1}))
        return self.hear(number)["result"]["structuredContent"]["result"]


@pytest.fixture(params=["newer", pytest.param("older", marks=pytest.mark.long)])
def pipe(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipe]:
    with piped(tmp_path) as opened:
        if request.param == "older":
            opened.begin()
        yield opened


@contextmanager
def piped(folder: Path, *, listens: bool = True) -> Iterator[Pipe]:
    """A server that runs in a folder."""
    (folder / "shop").mkdir()
    (folder / "toolstile.toml").write_text(CONFIGURATION)
    with subprocess.Popen(
        [str(COMMAND), "--plugin", str(BAKERY), "mcp"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        pipe = Pipe(process)
        if listens:
            pipe.listen()
        try:
            yield pipe
        finally:
            process.kill()


MALFORMED = [
    (b"", None, -32700),
    (b"{", None, -32700),
    (b"\xff\xfe\x00", None, -32700),
    (b"[" * 100_000, None, -32700),
    (b'{"a":' * 9_000, None, -32700),
    (b"null", None, -32600),
    (b"[]", None, -32600),
    (b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": []}', 5, -32600),
    (b'{"jsonrpc": "1.0", "id": "six", "method": "ping"}', "six", -32600),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": "\\ud83d"}}', 7, -32700),
    (b'{"jsonrpc": "2.0", "id": "\\ud83d", "method": "ping"}', None, -32700),
    (b'{"jsonrpc": "2.0", "id": true, "method": 1}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": 8, "result": 1}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": null, "method": "tools/call"}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": [], "method": "initialize"}', None, -32600),
]


def test_what_is_malformed_is_a_protocol_error(pipe: Pipe) -> None:
    assert pipe.adds(1) == 2

    for line, number, code in MALFORMED:
        pipe.say(line)
        assert pipe.hear(number)["error"]["code"] == code, line[:80]

    assert pipe.adds(2) == 3


@pytest.mark.long
def test_answers_to_what_nobody_asked_are_passed_over(pipe: Pipe) -> None:
    assert pipe.adds(1) == 2

    pipe.say(
        b'{"jsonrpc": "2.0", "id": 7, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 8, "error": {"code": 1, "message": "no"}}',
    )

    assert pipe.adds(2) == 3


@pytest.mark.long
def test_arguments_that_are_none_are_a_protocol_error(pipe: Pipe) -> None:
    for number, arguments in enumerate(("a and b", [1, 2], 7), start=1):
        pipe.say(pipe.call(number, "add", arguments))
        assert pipe.hear(number)["error"]["code"] == -32602


def test_what_is_too_large_is_refused_and_forgotten(pipe: Pipe) -> None:
    pipe.say(pipe.call(1, "add", {"a": "1" * 20_000_000, "b": 2}))
    refused = pipe.hear(1)

    assert refused["result"]["isError"] is True
    assert "Send less" in refused["result"]["content"][0]["text"]
    assert pipe.adds(2) == 3


def test_a_flood_is_answered_and_what_is_no_request_is_not(pipe: Pipe) -> None:
    notice = b'{"jsonrpc": "2.0", "method": "notifications/odd", "params": {}}'
    late = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}'
    for number in range(1, 301):
        pipe.say(*[notice, late] * 10, pipe.request(number, "no/such/method"))

    codes = {pipe.hear(number)["error"]["code"] for number in range(1, 301)}

    assert codes == {-32601}
    assert pipe.adds(301) == 302


def test_of_whoever_leaves_in_the_middle_of_a_call_nothing_stays(
    pipe: Pipe, tmp_path: Path
) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"
    arguments = {"began": str(began), "ended": str(ended)}
    pipe.say(pipe.call(1, "bake", arguments))
    end = time.monotonic() + LONGEST
    while not began.exists():
        assert time.monotonic() < end
        time.sleep(0.01)

    assert pipe.process.stdin is not None
    pipe.process.stdin.close()
    pipe.process.wait(LONGEST)

    assert ended.exists()
    assert not (tmp_path / "shop" / "bread.txt").exists()
    lines = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines if line["kind"] == "call"] == ["cancelled"]
    assert lines[-1]["kind"] == "end"


@pytest.mark.long
def test_whoever_does_not_read_is_not_read_either(tmp_path: Path) -> None:
    with piped(tmp_path, listens=False) as pipe:
        patience = threading.Event()

        def speak() -> None:
            for number in range(10_000):
                if not patience.is_set():
                    pipe.say(pipe.call(number, "recite", {"size": 100_000}))

        speaking = threading.Thread(target=speak, daemon=True)
        speaking.start()
        speaking.join(SOME_SECONDS)
        grown = peak_memory(pipe.process)
        assert speaking.is_alive()
        assert grown < SOME_MEMORY

        patience.set()
        pipe.listen()
        speaking.join(LONGEST)
        assert pipe.adds(10_000) == 10_001


def test_a_server_whose_client_is_gone_ends(tmp_path: Path) -> None:
    with piped(tmp_path) as pipe:
        assert pipe.adds(1) == 2
        assert pipe.process.stdin is not None
        pipe.process.stdin.close()
        assert pipe.process.wait(LONGEST) == 0
