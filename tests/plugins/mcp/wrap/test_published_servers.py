"""Published servers answer the same before and after they are wrapped, field by field."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from tests.plugins.mcp.gateway.pypi import installed

from .wire import LEGACY, MODERN, Wire, environment, wrapped

pytestmark = pytest.mark.long

VERSION = "2026.8.31"
NOON = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T12:00:00Z")
CHANGING = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?|\d\d?:\d\d:\d\d(?: [AP]M)?|\bpid\W+\d+"
)
"""The times of answers."""


class Scene:
    """A folder, made again for each client, and the script that a client follows in it."""

    def __init__(self, folder: Path, npm) -> None:
        self.folder = folder
        self.npm = npm
        self.page = ""

    def npm_server(self, name: str, *args: str) -> list[str]:
        package = f"@modelcontextprotocol/server-{name}@{VERSION}"
        return [self.npm.program(f"mcp-server-{name}", package), *args]

    def renew(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "a.txt").write_text("first\n")

    def renew_repository(self) -> None:
        self.renew()
        for words in (
            ["init", "--quiet", "--initial-branch=main"],
            ["config", "user.name", "Ada"],
            ["config", "user.email", "ada@example.org"],
            ["add", "a.txt"],
            ["commit", "--quiet", "--message", "First"],
        ):
            env = {**os.environ, **NOON}
            subprocess.run(["git", *words], cwd=self.folder, check=True, timeout=60, env=env)
        (self.folder / "b.txt").write_text("second\n")


def everything(scene):
    return (
        scene.npm_server("everything", "stdio"),
        scene.renew,
        [
            ("echo", {"message": "x"}),
            ("get-sum", {"a": 2, "b": 3}),
            ("get-tiny-image", {}),
            ("get-structured-content", {"location": "Chicago"}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-resource-links", {"count": 2}),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
            ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
            ("trigger-sampling-request", {"prompt": "say", "maxTokens": 5}),
            ("trigger-elicitation-request", {}),
            ("get-roots-list", {}),
        ],
    )


def filesystem(scene):
    at = str(scene.folder)
    return (
        scene.npm_server("filesystem", at),
        scene.renew,
        [
            ("list_allowed_directories", {}),
            ("read_text_file", {"path": f"{at}/a.txt"}),
            ("write_file", {"path": f"{at}/b.txt", "content": "b"}),
            ("edit_file", {"path": f"{at}/a.txt", "edits": [{"oldText": "first", "newText": "2"}]}),
            ("list_directory", {"path": at}),
            ("read_text_file", {"path": "/etc/hostname"}),
        ],
    )


def memory(scene):
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes"]}
    return (
        scene.npm_server("memory"),
        scene.renew,
        [
            ("create_entities", {"entities": [entity]}),
            ("read_graph", {}),
            ("search_nodes", {"query": "Ada"}),
            ("delete_entities", {"entityNames": ["Ada"]}),
            ("read_graph", {}),
        ],
    )


def sequential_thinking(scene):
    thought = {"thought": "x", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
    return (
        scene.npm_server("sequential-thinking"),
        scene.renew,
        [("sequentialthinking", thought), ("sequentialthinking", {**thought, "thoughtNumber": 2})],
    )


def git(scene):
    at = {"repo_path": str(scene.folder)}
    return (
        [installed("mcp-server-git"), "--repository", str(scene.folder)],
        scene.renew_repository,
        [
            ("git_status", at),
            ("git_add", {**at, "files": ["b.txt"]}),
            ("git_diff_staged", at),
            ("git_commit", {**at, "message": "Second"}),
            ("git_log", at),
            ("git_show", {**at, "revision": "HEAD"}),
            ("git_create_branch", {**at, "branch_name": "other"}),
            ("git_status", {"repo_path": "/nowhere"}),
        ],
    )


def fetch(scene):
    return (
        [installed("mcp-server-fetch"), "--ignore-robots-txt"],
        scene.renew,
        [("fetch", {"url": scene.page}), ("fetch", {"url": f"{scene.page}missing", "raw": True})],
    )


def time(scene):
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return (
        [installed("mcp-server-time")],
        scene.renew,
        [
            ("get_current_time", {"timezone": "UTC"}),
            ("convert_time", noon),
            ("get_current_time", {"timezone": "Nowhere/Land"}),
        ],
    )


def sqlite(scene):
    return (
        [installed("mcp-server-sqlite", "mcp<2"), "--db-path", str(scene.folder / "data.db")],
        scene.renew,
        [
            ("create_table", {"query": "CREATE TABLE t (a INTEGER)"}),
            ("write_query", {"query": "INSERT INTO t VALUES (7)"}),
            ("read_query", {"query": "SELECT * FROM t"}),
            ("list_tables", {}),
            ("describe_table", {"table_name": "t"}),
            ("append_insight", {"insight": "There is a seven."}),
            ("read_query", {"query": "DROP TABLE t"}),
        ],
    )


SERVERS = [everything, filesystem, memory, sequential_thinking, git, fetch, time, sqlite]
MODERN_SERVERS = {git, time, fetch}
"""The servers that speak the newer era, too; with the others its clients fall back."""


ASKED = {
    everything: [
        "trigger-long-running-operation",
        "trigger-sampling-request",
        "trigger-elicitation-request",
    ],
    filesystem: ["write_file", "edit_file"],
    memory: ["create_entities", "delete_entities"],
    sequential_thinking: [],
    git: ["git_add", "git_commit", "git_create_branch"],
    fetch: [],
    time: [],
    sqlite: ["create_table", "write_query", "append_insight"],
}
"""The tools that a person is asked about."""


@pytest.fixture
def page(tmp_path):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/"
            body = b"<html><body><h1>Bread</h1><p>Flour, water.</p></body></html>"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body if found else b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def followed(client: Wire, calls) -> tuple[list, list]:
    """Return all answers to a client's script, and all that the server sent by itself."""
    found = [("begin", client.begin())]

    def ask(method, **params):
        found.append(((method, params), client.request(method, **params)))
        return found[-1][1].get("result", {})

    if client.era == LEGACY:
        ask("ping")
    ask("tools/list")
    for resource in ask("resources/list").get("resources", [])[:3]:
        ask("resources/read", uri=resource["uri"])
    ask("resources/templates/list")
    for prompt in ask("prompts/list").get("prompts", []):
        named = {each["name"]: "x" for each in prompt.get("arguments", [])}
        ask("prompts/get", name=prompt["name"], arguments=named)
        for argument in named:
            ref = {"type": "ref/prompt", "name": prompt["name"]}
            ask("completion/complete", ref=ref, argument={"name": argument, "value": ""})
    if client.era == LEGACY:
        ask("logging/setLevel", level="debug")
    ask("no/such/method")
    for name, arguments in calls:
        ask("tools/call", name=name, arguments=arguments, _meta={"progressToken": len(found)})
    return found, client.heard


def is_ours(message) -> bool:
    """Tell whether a message asks for an approval."""
    question = message.get("params", {}).get("message", "")
    return (
        message["method"] == "elicitation/create"
        and re.match(r"Run [\w-]+\?", question) is not None
    )


def plain(found) -> object:
    return json.loads(CHANGING.sub("<time>", json.dumps(found, sort_keys=True)))


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.__name__)
def test_wrapped_it_answers_the_same(server, era, tmp_path, npm, page):
    scene = Scene(tmp_path / "place", npm)
    scene.page = page
    command, renew, calls = server(scene)
    spoken = era if era == LEGACY or server in MODERN_SERVERS else LEGACY
    options = {
        "env": environment(
            tmp_path / "state",
            PATH=npm.environment()["PATH"],
            **NOON,
            MEMORY_FILE_PATH=str(scene.folder / "memory.jsonl"),
        ),
        "cwd": tmp_path,
    }
    told, asked = [], []
    for words in (command, wrapped(*command)):
        renew()
        with Wire(words, spoken, **options) as client:
            if era != spoken:
                # A client of the newer era asks first, and falls back.
                client.send({"id": "probe", "method": "server/discover", "params": {}})
                probe = client.answer()
            else:
                probe = None
            found, heard = followed(client, calls)
        theirs = [each for each in heard if not is_ours(each)]
        told.append(
            (probe, plain(found), sorted(json.dumps(plain({**each, "id": 0})) for each in theirs))
        )
        asked.append(
            [each["params"]["message"].split()[1].rstrip("?") for each in heard if is_ours(each)]
        )
    (_, direct, _), (_, through, _) = told
    for before, after in zip(direct, through, strict=True):
        assert after == before
    assert told[0] == told[1]
    assert asked == [[], ASKED[server]]
