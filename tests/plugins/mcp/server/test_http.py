"""HTTP: who may connect, from where, and with what."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import httpx2
import pytest
from pydantic import ValidationError
from starlette.datastructures import Headers

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.mcp.server.command import given_token
from toolstile_plugins.mcp.server.http import Address, AllowedHeaders
from toolstile_plugins.mcp.settings import ServeSettings

from .conftest import COMMAND, LONGEST, NEWEST, appears, post, serving

pytestmark = pytest.mark.slow

META = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}

SETTLING = 0.5
"""Seconds after which a server that was asked for nothing more waits."""


def _lists(url: str, **headers: str | bytes) -> httpx2.Response:
    return post(url, LIST, **{"mcp-method": "tools/list", **headers})


def test_health_is_told_to_anybody(desk_over_http):
    answer = httpx2.get(f"{desk_over_http.base}/health", timeout=LONGEST)
    assert answer.json()["status"] == "ok"


def test_it_is_ready_while_all_that_it_needs_is_there(tmp_path, database):
    """The answer names what is away; its address is in the log alone."""
    sdk = Path(__file__).parents[1] / "gateway" / "sdk_server.py"
    away = "postgresql://127.0.0.1:1/nothing"

    def ready(url: str, program: str) -> tuple[int, object, str]:
        (tmp_path / "toolstile.toml").write_text(
            f"[plugins.database]\nurl = {json.dumps(url)}\n[plugins.mcp]\nwait = 60\n"
            f"[plugins.mcp.servers.shop]\nrequired = true\ncommand = '{sys.executable}'\n"
            f"args = {json.dumps([program, 'stdio'])}\n"
            f"[plugins.mcp.servers.other]\ncommand = '{sys.executable}'\nargs = ['nothing.py']\n"
        )
        with serving(cwd=tmp_path) as served:
            answer = httpx2.get(f"{served.base}/ready", timeout=LONGEST)
        return answer.status_code, answer.json(), "".join(served.said)

    assert ready(database, str(sdk))[:2] == (200, {"status": "ready", "away": []})
    status, told, log = ready(away, "nothing.py")
    assert (status, told["away"]) == (503, ["database", "MCP server shop"])
    assert "The database is away: " in log


def test_a_server_that_is_told_to_end_logs_no_traceback(tmp_path):
    with serving(command=("mcp", "-v", "--http", "127.0.0.1:0"), cwd=tmp_path) as served:
        assert httpx2.get(f"{served.base}/health", timeout=LONGEST).status_code == 200
    assert "Traceback" not in "".join(served.said)


def test_a_stream_that_is_open_when_the_server_ends_is_ended_and_no_fault_is_logged(tmp_path):
    who = {"name": "test", "version": "1"}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    takes = {"accept": "application/json, text/event-stream"}
    with serving(command=("mcp", "-vv", "--http", "127.0.0.1:0"), cwd=tmp_path) as served:
        begun = httpx2.post(served.url, json=opening, headers=takes, timeout=LONGEST)
        takes["mcp-session-id"] = begun.headers["mcp-session-id"]
        with httpx2.stream("GET", served.url, headers=takes, timeout=LONGEST) as stream:
            # A signal that finds the server still writing would be raised in the midst of that.
            time.sleep(SETTLING)
            served.process.terminate()
            assert b"".join(stream.iter_raw()) == b""
    assert "ASGI" not in "".join(served.said)


def test_who_waits_for_an_answer_when_the_server_ends_is_told_so(tmp_path):
    params = {"name": "sleep_on", "arguments": {"began": str(tmp_path / "began")}, "_meta": META}
    request = {**LIST, "method": "tools/call", "params": params}
    names = {"mcp-method": "tools/call", "mcp-name": "sleep_on"}
    with serving(cwd=tmp_path) as served, ThreadPoolExecutor() as pool:
        answer = pool.submit(post, served.url, request, **names)
        anyio.run(appears, tmp_path / "began")
        served.process.terminate()
        told = answer.result(LONGEST)
    assert told.status_code == 503
    assert told.json()["error"]["message"].endswith("Ask again once it is back.")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:PORT"}, 200),
        ({"origin": "http://LOCALHOST:PORT"}, 200),
        ({"host": "[::1]:PORT"}, 200),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "http://localhost"}, 403),
        ({"origin": "http://localhost:PORT.evil.example"}, 403),
        ({"origin": "http://localhost:PORT@evil.example"}, 403),
        ({"origin": "http://evil.example#http://localhost:PORT"}, 403),
        ({"origin": "https://localhost:PORT"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example:80"}, 421),
        ({"host": "127.0.0.1:PORT.evil.example"}, 421),
        ({"host": "localhost:PORT.evil.example:80"}, 421),
        ({"host": "localhost:PORT:80"}, 421),
        ({"host": "localhost:\u0661"}, 421),
        ({"host": "127.0.0.1:"}, 421),
        ({"host": "evil.example@localhost:PORT"}, 421),
    ],
)
def test_only_this_machine_is_answered(desk_over_http, headers, status):
    port = desk_over_http.base.rpartition(":")[2]
    sent = {name: text.replace("PORT", port).encode() for name, text in headers.items()}
    assert _lists(desk_over_http.url, **sent).status_code == status


def test_of_two_origins_both_have_to_be_taken(desk_over_http):
    body = json.dumps(LIST).encode()
    url = httpx2.URL(desk_over_http.url)
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: {url.host}:{url.port}",
        f"Origin: {desk_over_http.base}",
        "Origin: https://evil.example",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    with socket.create_connection((url.host, url.port), timeout=LONGEST) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("origin", "is_taken"),
    [
        ("https://app.example:8443", True),
        ("https://app.example:8443.evil", False),
        ("https://app.example", False),
        ("https://fixed.example", True),
        ("https://fixed.example:8443", False),
    ],
)
def test_configured_origins_are_compared_whole(origin, is_taken):
    settings = ServeSettings(allowed_origins=("https://app.example:*", "https://fixed.example"))
    allowed = AllowedHeaders.of(Address("127.0.0.1", 8000), settings)
    headers = Headers({"host": "127.0.0.1:8000", "origin": origin})
    assert (allowed.fault(headers) is None) is is_taken


@pytest.mark.parametrize("seconds", ["1e400", f"1{'0' * 400}"])
def test_a_deadline_beyond_all_numbers_is_malformed(desk_over_http, seconds):
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {**META, "DEADLINE": 0}}
    body = json.dumps({**LIST, "method": "tools/call", "params": params})
    answer = httpx2.post(
        desk_over_http.url,
        content=body.replace('"DEADLINE": 0', f'"toolstile/deadline": {seconds}'),
        headers={
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": NEWEST,
            "mcp-method": "tools/call",
            "mcp-name": "add",
        },
        timeout=LONGEST,
    )
    assert answer.json()["error"]["code"] == -32602


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.2", "localhost", "::1", "::ffff:127.0.0.1", "192.0.2.1", "name"]
)
def test_what_is_served_is_always_a_host_that_is_taken(host):
    address = Address(host, 8000)
    allowed = AllowedHeaders.of(address, ServeSettings())
    assert allowed.fault(Headers({"host": str(address)})) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 3}', -32600),
        (json.dumps({**LIST, "params": {}}).encode(), -32602),
        (json.dumps({**LIST, "params": {"_meta": META, "cursor": 3}}).encode(), -32602),
    ],
)
def test_what_is_malformed_is_an_error_and_the_server_goes_on(desk_over_http, body, code):
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEWEST,
        "mcp-method": "tools/list",
    }
    answer = httpx2.post(desk_over_http.url, content=body, headers=headers, timeout=LONGEST)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
    assert _lists(desk_over_http.url).status_code == 200


def test_what_is_too_large_is_refused_before_it_is_read(desk_over_http):
    answer = post(desk_over_http.url, {"padding": "x" * 5_000_000})
    assert answer.status_code == 413


def test_without_a_token_nobody_serves_others(tmp_path):
    done = subprocess.run(
        [COMMAND, "mcp", "--http", "0.0.0.0:0"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 2
    assert "--token-file FILE" in done.stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file or directory"), (b"\xff", "it is not text")],
)
def test_a_token_file_that_cannot_be_read_is_told_with_the_remedy(tmp_path, content, why):
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigurationError) as raised:
        given_token(tmp_path / "token")
    told = f"The token file {tmp_path / 'token'} cannot be read: {why}."
    assert str(raised.value) == f"{told} Name a file with the token as text, on a line."


def test_a_token_that_no_client_can_send_is_refused(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("one\ntwo\n")
    with pytest.raises(ConfigurationError, match="token cannot be sent in a header; give one of"):
        given_token(tmp_path / "token")
    monkeypatch.setenv("TOOLSTILE_MCP_TOKEN", "\udcff")
    with pytest.raises(ConfigurationError, match="The token in TOOLSTILE_MCP_TOKEN cannot be sent"):
        given_token(None)


@pytest.mark.parametrize(
    "address",
    [
        "localhost:99999",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ("8000", "localhost:", ":80", "a:b")
        ),
    ],
)
def test_a_wrong_address_is_told(tmp_path, address):
    done = subprocess.run(
        [COMMAND, "mcp", "--http", address],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 2
    assert f"--http {address}: " in done.stderr


def test_an_address_that_is_taken_is_told(desk_over_http, tmp_path):
    taken = desk_over_http.base.removeprefix("http://")
    done = subprocess.run(
        [COMMAND, "mcp", "--http", taken],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 2
    assert f"Cannot serve on {taken}: Address already in use." in done.stderr


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        ({"ada": ""}, "the token of 'ada' cannot be sent"),
        ({"ada": "a token "}, "the token of 'ada' cannot be sent"),
        ({"ada": "one", "bert": "one"}, "'ada' and 'bert' have one token"),
    ],
)
def test_tokens_that_tell_nobody_apart_are_refused(tokens, fault):
    with pytest.raises(ValidationError, match=fault):
        ServeSettings.model_validate({"tokens": tokens})


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer of-ad", 401),
        ("Bearer of-adaa", 401),
        ("Basic of-ada", 401),
        ("Bearer of-ada", 200),
        ("Bearer of-all", 200),
    ],
)
def test_a_token_is_needed(guarded, authorization, status):
    headers = {} if authorization is None else {"authorization": authorization}
    assert _lists(guarded.url, **headers).status_code == status
    assert httpx2.get(f"{guarded.base}/health", timeout=LONGEST).status_code == 200


def test_a_token_does_not_excuse_a_wrong_origin(guarded):
    answer = _lists(guarded.url, authorization="Bearer of-ada", origin="https://evil.example")
    assert answer.status_code == 403


@pytest.mark.anyio
async def test_calls_run_for_whoever_the_token_belongs_to(guarded, mode):
    for name in ("ada", "bert"):
        async with guarded.client(mode, token=f"of-{name}") as client:
            assert (await client.call_tool("who", {})).content[0].text == f"mcp: {name}"


@pytest.mark.anyio
async def test_without_tokens_they_run_for_nobody(desk_over_http, mode):
    async with desk_over_http.client(mode) as client:
        assert (await client.call_tool("who", {})).content[0].text == "nobody"
