"""Clients over HTTP that are broken or mean no good: they are refused, and others are served."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest

from .conftest import LONGEST, NEWEST, OVER_HTTP, Served, peak_memory, serving

pytestmark = pytest.mark.slow

BAKERY = Path(__file__).with_name("bakery.py")

CONFIGURATION = """\
[plugins.vfs]
root = "shop"

[plugins.record]
file = "calls.jsonl"

[plugins.mcp.serve]
max_request = 1_000_000

[plugins.mcp.serve.tokens]
ada = "the-token-of-ada"
ben = "the-token-of-ben"
"""
ADA = {"authorization": "Bearer the-token-of-ada"}
BEN = {"authorization": "Bearer the-token-of-ben"}

JSON = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
SESSION = "toolstile/session"

#: A connection for each request: what came before on another leaves no trace on it.
WEB = httpx2.Client(timeout=LONGEST, limits=httpx2.Limits(max_keepalive_connections=0))

#: What a server may grow by while it is sent what it should not keep.
SOME_MEMORY = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server runs."""
    folder = tmp_path_factory.mktemp("bakery")
    (folder / "shop").mkdir()
    (folder / "toolstile.toml").write_text(CONFIGURATION)
    return folder


@pytest.fixture(scope="module")
def bakery(folder: Path) -> Iterator[Served]:
    """One server for all of these clients: whatever one of them does, the next is served."""
    with serving(command=("-v", *OVER_HTTP), plugin=BAKERY, cwd=folder) as served:
        yield served


@pytest.fixture(autouse=True)
def others_are_served(bakery: Served) -> Iterator[None]:
    """After whatever a client did, a decent one finds the server as it should be."""
    yield
    answer = call(bakery, ADA, "add", a=20, b=22)
    assert answer["result"]["structuredContent"] == {"result": 42}


def request(tool: str, arguments: object, number: int = 1, **meta: Any) -> dict[str, Any]:
    """A call as a client of the newer era writes it."""
    params = {"name": tool, "arguments": arguments, "_meta": {**ENVELOPE, **meta}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def headers(tool: str, **more: str) -> dict[str, str]:
    """The headers that go with it."""
    newer = {"mcp-protocol-version": NEWEST, "mcp-method": "tools/call", "mcp-name": tool}
    return {**JSON, **newer, **more}


def call(
    served: Served, who: dict[str, str], tool: str, meta: dict[str, Any] | None = None, **arguments
) -> dict[str, Any]:
    """The answer to a call."""
    answer = WEB.post(
        served.url, json=request(tool, arguments, **(meta or {})), headers={**headers(tool), **who}
    )
    return answer.json()


def post(served: Served, body: Any, **sent: str) -> httpx2.Response:
    """Post a body that is no decent request, or one with headers that are none."""
    return WEB.post(
        served.url, content=body, headers={**headers("add"), **ADA, **sent}, timeout=LONGEST
    )


def older_session(served: Served) -> dict[str, str]:
    """The headers of a session that a client of the older era has begun."""
    begun = WEB.post(served.url, json=INITIALIZE, headers={**JSON, **ADA})
    return {**JSON, **ADA, "mcp-session-id": begun.headers["mcp-session-id"]}


def message_of(answer: httpx2.Response) -> dict[str, Any]:
    """The message that an answer is, or that the stream of its events holds."""
    if answer.headers["content-type"].startswith("application/json"):
        return answer.json()
    (data,) = (line for line in answer.text.splitlines() if line.startswith("data: {"))
    return json.loads(data.removeprefix("data: "))


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    end = time.monotonic() + LONGEST
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.01)


def connected(served: Served, message: bytes) -> socket.socket:
    """A connection over which something was sent, and of which nothing has been read."""
    address = urlsplit(served.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=LONGEST)
    connection.sendall(message)
    return connection


def raw(body: bytes, *, tool: str = "add", length: int | None = None) -> bytes:
    """A request as it goes over the wire, of which more may be announced than is sent."""
    lines = {
        **headers(tool),
        **ADA,
        "host": "localhost",
        "content-length": str(length or len(body)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


class TestMessages:
    """Input that is not a message, or too long."""

    GOOD = json.dumps(request("add", {"a": 1, "b": "@"}))

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"{", id="half"),
            pytest.param(b"\xff\xfe\x00", id="bytes"),
            pytest.param(b"null", id="null"),
            pytest.param(b"[]", id="empty-batch"),
            pytest.param(json.dumps([request("add", {})] * 2).encode(), id="batch"),
            pytest.param(b"[" * 100_000, id="deep"),
            pytest.param(GOOD.replace('"@"', "[" * 50_000 + "]" * 50_000).encode(), id="deep-list"),
            pytest.param(
                GOOD.replace('"@"', '{"a":' * 50_000 + "1" + "}" * 50_000).encode(),
                id="deep-object",
            ),
            pytest.param(GOOD.replace('"@"', "9" * 100_000).encode(), id="endless-number"),
            pytest.param(json.dumps({**request("add", {}), "jsonrpc": "1.0"}).encode(), id="1.0"),
            pytest.param(json.dumps({**request("add", {}), "params": []}).encode(), id="no-object"),
            pytest.param(json.dumps({**request("add", {}), "method": 7}).encode(), id="odd-method"),
            pytest.param(json.dumps(request("add", "a and b")).encode(), id="odd-arguments"),
        ],
    )
    @pytest.mark.parametrize("era", ["newer", "older"])
    def test_what_is_malformed_is_a_protocol_error(
        self, bakery: Served, body: bytes, era: str
    ) -> None:
        sent = headers("add") if era == "newer" else older_session(bakery)
        answer = WEB.post(bakery.url, content=body, headers={**sent, **ADA})

        message = message_of(answer)
        if "result" in message:
            # From Python 3.14 on, JSON is read however deep it goes; the tool refuses it then.
            assert "nested too deeply" in message["result"]["content"][0]["text"]
        else:
            assert message["error"]["code"] in {-32700, -32600, -32602}
        assert "Traceback" not in answer.text

    @pytest.mark.parametrize("number", [None, {}, [], True, 1.5])
    def test_numbers_of_requests_that_are_none_are_a_protocol_error(
        self, bakery: Served, number: object
    ) -> None:
        answer = post(bakery, json.dumps({**request("add", {}), "id": number}).encode())

        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == -32600

    @pytest.mark.parametrize(
        "value", ["NaN", "1e999", '"\\ud800"', '"\\u0000"', '{"a": {"b": [1, null]}}', "[[[[]]]]"]
    )
    def test_arguments_that_fit_nothing_are_told_to_the_model(
        self, bakery: Served, value: str
    ) -> None:
        answer = post(bakery, self.GOOD.replace('"@"', value).encode())

        assert answer.status_code == 200
        assert answer.json()["result"]["isError"] is True
        assert "Fix" in answer.json()["result"]["content"][0]["text"]

    def test_what_is_too_large_is_not_kept(self, bakery: Served) -> None:
        before = peak_memory(bakery.process)

        announced = post(bakery, b" " * 5_000_000)
        chunked = post(bakery, (b" " * 1_000_000 for _ in range(200)))
        begun = post(bakery, json.dumps(request("add", {"a": "1" * 2_000_000})).encode())

        assert [announced.status_code, chunked.status_code, begun.status_code] == [413] * 3
        assert peak_memory(bakery.process) - before < SOME_MEMORY

    def test_what_is_compressed_is_not_unpacked(self, bakery: Served) -> None:
        assert post(bakery, b"\x1f\x8b\x08\x00" * 10, **{"content-encoding": "gzip"}).is_error

    def test_headers_that_say_something_else_than_the_message_are_refused(
        self, bakery: Served
    ) -> None:
        answer = post(bakery, json.dumps(request("bake", {})).encode(), **{"mcp-name": "add"})

        assert answer.status_code == 400
        assert "error" in answer.json()


class TestWhoAndFromWhere:
    """Requests of pages in browsers, and of those who are not known."""

    GOOD = json.dumps(request("add", {"a": 1, "b": 2})).encode()

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "https://localhost.evil.example",
            "http://127.0.0.1.evil.example:80",
            "null",
            "file://",
        ],
    )
    def test_pages_of_other_origins_are_refused(self, bakery: Served, origin: str) -> None:
        assert post(bakery, self.GOOD, origin=origin).status_code == 403

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
    def test_names_that_were_rebound_are_refused(self, bakery: Served, host: str) -> None:
        assert post(bakery, self.GOOD, host=host).status_code == 421

    @pytest.mark.parametrize(
        "given",
        ["", "Bearer", "Bearer the-token", "Basic dGhlLXRva2Vu", "the-token-of-ada"],
    )
    def test_without_a_token_that_is_known_nobody_gets_in(self, bakery: Served, given: str) -> None:
        answer = post(bakery, self.GOOD, authorization=given)

        assert answer.status_code == 401
        assert "Bearer" in answer.headers["www-authenticate"]
        assert "the-token-of" not in answer.text

    def test_whether_it_is_well_everybody_may_know(self, bakery: Served) -> None:
        assert WEB.get(f"{bakery.base}/health").json()["status"] == "ok"

    def test_a_handle_is_of_no_use_to_another(self, bakery: Served) -> None:
        begun = call(bakery, ADA, "add", {SESSION: "new"}, a=1, b=2)
        handle = begun["result"]["_meta"][SESSION]

        stolen = call(bakery, BEN, "add", {SESSION: handle}, a=1, b=2)
        guessed = call(bakery, BEN, "add", {SESSION: "0" * len(handle)}, a=1, b=2)
        own = call(bakery, ADA, "add", {SESSION: handle}, a=1, b=2)

        assert stolen["error"]["code"] == -32602
        # Whether there is such a session of somebody else's is not told either.
        assert stolen["error"] == guessed["error"]
        assert own["result"]["structuredContent"] == {"result": 3}

    def test_a_session_of_the_older_era_is_of_no_use_to_another(self, bakery: Served) -> None:
        named = older_session(bakery)
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

        def pinged(who: dict[str, str]) -> int:
            sent = {**named, **who}
            return WEB.post(bakery.url, json=ping, headers=sent).status_code

        assert pinged(BEN) == 404
        assert WEB.delete(bakery.url, headers={**named, **BEN}).status_code == 404
        assert pinged(ADA) == 200

    def test_nobody_cancels_the_call_of_another(self, bakery: Served, tmp_path: Path) -> None:
        began, until = tmp_path / "began", tmp_path / "until"
        notice = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 1, "_meta": ENVELOPE},
        }
        with ThreadPoolExecutor(1) as pool:
            resting = pool.submit(call, bakery, ADA, "rest", began=str(began), until=str(until))
            wait_for(began)
            sent = {**JSON, **BEN, "mcp-protocol-version": NEWEST, "mcp-method": notice["method"]}
            WEB.post(bakery.url, json=notice, headers=sent)
            until.touch()
            assert resting.result(LONGEST)["result"]["content"][0]["text"] == "rested"


class TestManners:
    """Clients that ask too much, take nothing, or leave."""

    def test_whoever_never_reads_holds_up_nobody(self, bakery: Served) -> None:
        before = peak_memory(bakery.process)
        long = json.dumps(request("recite", {"size": 200_000})).encode()

        with ExitStack() as open_connections:
            for _ in range(20):
                connection = connected(bakery, raw(long, tool="recite") * 100)
                open_connections.enter_context(connection)
            answers = [call(bakery, BEN, "add", a=n, b=1) for n in range(20)]

        assert [a["result"]["structuredContent"]["result"] for a in answers] == [*range(1, 21)]
        # Of 400 MB of answers no more is made than what is under way on each connection.
        assert peak_memory(bakery.process) - before < 3 * SOME_MEMORY

    def test_whoever_never_ends_a_request_holds_up_nobody(self, bakery: Served) -> None:
        with ExitStack() as open_connections:
            for begun in (b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nhost: ", raw(b"{", length=900)):
                for _ in range(30):
                    open_connections.enter_context(connected(bakery, begun))
            answer = call(bakery, BEN, "add", a=1, b=2)

        assert answer["result"]["structuredContent"] == {"result": 3}

    def test_a_flood_of_requests_is_answered_each_by_itself(self, bakery: Served) -> None:
        def ask(number: int) -> int:
            with httpx2.Client(timeout=LONGEST) as client:
                for each in range(25):
                    good = request("add", {"a": number, "b": each})
                    sent = {**headers("add"), **BEN}
                    nonsense = client.post(bakery.url, content=b"{}", headers=sent)
                    assert nonsense.status_code == 400
                    answer = client.post(bakery.url, json=good, headers=sent).json()
                    assert answer["result"]["structuredContent"] == {"result": number + each}
            return number

        with ThreadPoolExecutor(16) as pool:
            assert [*pool.map(ask, range(16))] == [*range(16)]

    def test_a_flood_of_notifications_is_taken_and_forgotten(self, bakery: Served) -> None:
        before = peak_memory(bakery.process)
        for method in ("notifications/progress", "notifications/cancelled", "notifications/odd"):
            params = {"progressToken": 1, "progress": 1, "requestId": 9, "_meta": ENVELOPE}
            notice = {"jsonrpc": "2.0", "method": method, "params": params}
            sent = {**JSON, **BEN, "mcp-protocol-version": NEWEST, "mcp-method": method}
            with httpx2.Client(timeout=LONGEST) as client:
                taken = {
                    client.post(bakery.url, json=notice, headers=sent).status_code
                    for _ in range(200)
                }
            assert all(status < 500 for status in taken)

        assert peak_memory(bakery.process) - before < SOME_MEMORY

    def test_of_whoever_leaves_in_the_middle_of_a_call_nothing_stays(
        self, bakery: Served, folder: Path, tmp_path: Path
    ) -> None:
        began, ended = tmp_path / "began", tmp_path / "ended"
        body = json.dumps(request("bake", {"began": str(began), "ended": str(ended)})).encode()

        with connected(bakery, raw(body, tool="bake")):
            wait_for(began)
        wait_for(ended)

        assert outcomes(folder, "bake") == ["cancelled"]
        assert not (folder / "shop" / "bread.txt").exists()


def outcomes(folder: Path, tool: str) -> list[str]:
    """The record's lines about a tool, once there is one."""
    end = time.monotonic() + LONGEST
    while True:
        text = (folder / "calls.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        found = [
            line["status"]
            for line in lines
            if line["kind"] == "call" and line["envelope"]["tool"] == tool
        ]
        if found or time.monotonic() > end:
            return found
        time.sleep(0.01)


FORGED = "toolstile: info: all is well"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"\n{FORGED}", id="line"),
        pytest.param(f"\r{FORGED}", id="return"),
        pytest.param(f"\x85{FORGED}\u2028{FORGED}", id="unicode-lines"),
        pytest.param("\x1b[2J\x1b]0;owned\x07", id="escapes"),
        pytest.param("\x00\x08\x9b31m\u202e", id="controls"),
    ],
)
def test_control_characters_reach_no_log(bakery: Served, text: str) -> None:
    marks = [f"{place}-{uuid4().hex}" for place in ("tool", "value", "name")]
    tool, value, name = (mark + text for mark in marks)
    session = older_session(bakery)
    for body in (
        request(tool, {}),
        request("add", {"a": value, "b": 1}),
        request("add", {name: 1}),
    ):
        WEB.post(bakery.url, json=body, headers=session)

    end = time.monotonic() + LONGEST
    while not all(mark in (said := "".join(bakery.said)) for mark in marks):
        assert time.monotonic() < end, said
        time.sleep(0.01)
    assert not any(line.startswith(FORGED) for line in said.splitlines())
    assert not {*said} & {"\x00", "\x07", "\x08", "\x1b", "\x85", "\x9b", "\u2028", "\u202e"}
