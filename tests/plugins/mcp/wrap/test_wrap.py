"""One server behind `toolstile wrap`: questions, pins, records, and all that passes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.settings import ServerSettings
from toolstile_plugins.mcp.wrap.command import name_in
from toolstile_plugins.mcp.wrap.tools import effect_of

from .wire import (
    COMMAND,
    LEGACY,
    LONGEST,
    MODERN,
    PYTHON,
    Wire,
    accept,
    decline,
    environment,
    wrapped,
)

pytestmark = pytest.mark.slow

ODD = str(Path(__file__).with_name("odd_server.py"))
SDK = str(Path(__file__).parents[1] / "gateway" / "sdk_server.py")
ERAS = [LEGACY, MODERN]


@pytest.fixture
def env(tmp_path):
    return environment(tmp_path / "state", MARK=str(tmp_path / "mark"))


@pytest.fixture
def marks(tmp_path):
    """Return all that has reached the server, without the names of notifications."""

    def marks() -> list[str]:
        mark = tmp_path / "mark"
        lines = mark.read_text().splitlines() if mark.exists() else []
        return [line for line in lines if not line.startswith("notifications/")]

    return marks


@pytest.fixture
def odd(env, tmp_path):
    def odd(era=LEGACY, respond=accept, *, options=(), direct=False, **more) -> Wire:
        command = [PYTHON, ODD]
        words = command if direct else wrapped(*command, options=options)
        client = Wire(words, era, respond, env=env, cwd=tmp_path, **more)
        client.begin()
        return client

    return odd


def text_of(answer) -> str:
    return answer["result"]["content"][0]["text"]


def records_of(tmp_path) -> list[dict]:
    files = (tmp_path / "state").glob("toolstile/wrap/*/records/*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [line for line in lines if "tool" in json.dumps(line)]


@pytest.mark.parametrize("era", ERAS)
def test_fields_that_no_library_knows_pass(odd, era):
    found = []
    for direct in (True, False):
        with odd(era, direct=direct) as client:
            told = [client.request("tools/list")["result"]]
            cursor = {"cursor": told[0].pop("nextCursor")} if "nextCursor" in told[0] else {}
            if cursor:
                told[0]["tools"] += client.request("tools/list", **cursor)["result"]["tools"]
            told += [
                client.call("get_x", name="a"),
                client.call("shrug"),
                client.call("get_odd"),
                client.request("vendor/thing", a={"b": [None, 1.5, "\u2028"]}),
                client.request("resources/read", uri="vendor://a"),
                client.request("prompts/get", name="a", arguments={}),
                client.request("completion/complete", ref={}, argument={}),
                client.request("fail"),
                sorted(json.dumps(each) for each in client.heard if "Run " not in json.dumps(each)),
            ]
            found.append(told)
    assert found[0] == found[1]


@pytest.mark.parametrize("era", ERAS)
def test_reads_pass_and_others_are_asked_about(odd, marks, era):
    asked = []

    def respond(request):
        asked.append(request["params"]["message"].splitlines()[:2])
        return decline(request)

    with odd(era, respond) as client:
        assert text_of(client.call("get_x")) == "done get_x"
        assert "did not approve deletex" in text_of(client.call("deleteX", name="a"))
        # A server's claim that a tool only reads does not count against its name.
        assert "did not approve" in text_of(client.call("remove_quietly"))
        assert text_of(client.call("get_and_lie")) == "done get_and_lie"
    assert asked == [
        [
            "Run deletex? (destructive, high consequence)",
            "  deletex of the MCP server odd may delete or overwrite.",
        ],
        [
            "Run remove_quietly? (destructive, high consequence)",
            "  remove_quietly of the MCP server odd may delete or overwrite.",
        ],
    ]
    assert [mark.split()[0] for mark in marks()] == ["get_x", "get_and_lie"]


@pytest.mark.parametrize("era", ERAS)
def test_an_approved_call_reaches_the_server_once(odd, marks, era):
    with odd(era) as client:
        assert text_of(client.call("deleteX", name="a")) == "done deleteX"
    assert marks() == ['deleteX {"name": "a"} null']


@pytest.mark.parametrize("era", ERAS)
def test_without_a_person_at_the_client_the_inbox_asks(odd, marks, env, era):
    def approvals(*words: str) -> str:
        done = subprocess.run(
            [COMMAND, "approvals", "--wrapped", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=True,
        )
        return done.stdout

    with odd(era, capabilities={}) as client:
        assert "waits for a person's approval" in text_of(client.call("deleteX", name="a"))
        assert marks() == []
        question = json.loads(approvals("list", "--json"))
        assert question["arguments"] == {"name": "a"}
        approvals("approve", question["ticket"])
        assert "waits for" in text_of(client.call("deleteX", name="b"))
        assert text_of(client.call("deleteX", name="a")) == "done deleteX"
        assert "waits for" in text_of(client.call("deleteX", name="a"))
    assert marks() == ['deleteX {"name": "a"} null']


@pytest.mark.parametrize("name", ["GET_X", "get.x", "get x", "Get_X", "deletex", "nope"])
def test_a_similar_name_is_no_way_to_the_server(odd, marks, name):
    with odd() as client:
        error = client.call(name)["error"]
        assert error["message"] == f"The tool {name!r} is unknown. List the tools."
        assert error["code"] == -32602
    assert marks() == []


def test_a_tool_can_be_allowed(odd):
    with odd(LEGACY, decline, options=["--allow", "delete*"]) as client:
        assert text_of(client.call("deleteX")) == "done deleteX"
        assert "did not approve" in text_of(client.call("write_softly"))


def test_a_changed_tool_is_shown_as_approved_until_a_person_agrees(odd):
    asked = []

    def respond(request):
        asked.append(request["params"]["message"])
        return {"action": "accept", "content": {}}

    with odd(LEGACY, respond, options=["--allow", "*"]) as client:
        before = client.request("tools/list")["result"]["tools"]
        assert text_of(client.call("change")) == "done change"
        assert "notifications/tools/list_changed" in [each["method"] for each in client.heard]
        assert client.request("tools/list")["result"]["tools"] == before
        assert asked == []
        assert text_of(client.call("deleteX")) == "done deleteX"
        assert "deletex of the MCP server odd has changed" in asked[0]
        assert "Delete it, and send it to me." in asked[0]
        after = client.request("tools/list")["result"]["tools"]
        assert after[1] == {**before[1], "description": "Delete it, and send it to me."}
        assert text_of(client.call("deleteX")) == "done deleteX"
        assert len(asked) == 1
    with odd(LEGACY, respond, options=["--allow", "*"]) as client:
        # The pins outlive the process, and the server is as it was.
        assert client.request("tools/list")["result"]["tools"] == after


@pytest.mark.parametrize("era", ERAS)
def test_a_question_of_the_server_reaches_the_person_within_one_call(odd, marks, tmp_path, era):
    asked = []

    def respond(request):
        asked.append(request["params"]["message"].splitlines()[0])
        return {"action": "accept", "content": {"a": len(asked)}}

    with odd(era, respond) as client:
        assert text_of(client.call("write_asking", name="a")) == "done write_asking"
    assert asked == ["Run write_asking? (write, medium consequence)", "Sure?"]
    assert len(marks()) == 2
    assert marks()[1].startswith('write_asking {"name": "a"} {"q"')


def test_a_call_is_recorded(odd, tmp_path):
    with odd() as client:
        client.call("get_x", name="seen")
        client.call("shrug")
    text = "\n".join(json.dumps(line) for line in records_of(tmp_path))
    assert "get_x" in text
    assert "seen" in text
    assert "shrug" in text
    said = "".join(client.said)
    folders = {str(file.parent) for file in (tmp_path / "state").glob("toolstile/wrap/*/records/*")}
    assert [f"calls are recorded in {folder}." in said for folder in folders] == [True]
    assert "A person is asked about the others, at the client or, if it cannot ask, with" in said


def test_a_cancelled_call_is_cancelled_at_the_server_too(odd, tmp_path):
    with odd() as client:
        number = client.ask("tools/call", name="get_slowly", _meta={"progressToken": "p"})
        while not any("progress" in each["method"] for each in client.heard):
            time.sleep(0.01)
        client.notify("notifications/cancelled", requestId=number)
        assert text_of(client.call("get_x")) == "done get_x"
    assert "notifications/cancelled" in (tmp_path / "mark").read_text()


def test_a_question_is_withdrawn_from_the_client_with_its_call(odd, marks):
    with odd(LEGACY, lambda _: None) as client:
        number = client.ask("tools/call", name="deleteX", arguments={})
        while not any(each["method"] == "elicitation/create" for each in client.heard):
            time.sleep(0.01)
        client.notify("notifications/cancelled", requestId=number)
        assert text_of(client.call("get_x")) == "done get_x"
        while client.heard[-1]["method"] != "notifications/cancelled":
            time.sleep(0.01)
        (question,) = [each for each in client.heard if each["method"] == "elicitation/create"]
        assert client.heard[-1]["params"]["requestId"] == question["id"]
    assert [mark.split()[0] for mark in marks()] == ["get_x"]


def test_a_server_that_dies_leaves_an_unknown_effect_and_the_wrapper_ends(odd):
    client = odd(options=["--allow", "die"])
    with client:
        assert "The call may have had its effect, or not" in text_of(client.call("die"))
        assert client.process.wait(LONGEST) == 1
    assert client.heard[-1]["params"]["data"] == "The MCP server odd: it has ended."
    assert "The MCP server odd cannot be used: it has ended." in "".join(client.said)


def test_the_server_ends_with_its_client(odd):
    with odd() as client:
        client.call("get_x")
        listed = ["ps", "-o", "pid=", "--ppid", str(client.process.pid)]
        children = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
        assert children
        assert client.close() == 0
    for child in children:
        assert not Path("/proc", child).exists()


def test_sigterm_ends_both(odd):
    with odd() as client:
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(LONGEST) == 128 + signal.SIGTERM


@pytest.fixture
def served(tmp_path):
    """The address of a server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([PYTHON, SDK, str(port)], cwd=tmp_path) as process:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                break
        yield f"http://127.0.0.1:{port}/mcp"
        process.terminate()


@pytest.mark.parametrize("era", ERAS)
def test_a_server_over_http_is_wrapped_alike(served, env, era, tmp_path):
    asked = []

    def respond(request):
        asked.append(request["params"]["message"].splitlines()[0])
        return {"action": "accept", "content": {"sure": True}}

    words = [COMMAND, "wrap", "--http", served, "--header", "X-Key: ${KEY}", "--allow", "c*"]
    with Wire(words, era, respond, env={**env, "KEY": "k"}) as client:
        assert client.begin()["result"]["capabilities"]["tools"]
        tools = [tool["name"] for tool in client.request("tools/list")["result"]["tools"]]
        assert "everything" in tools
        added = client.call("add", a=1, b=2)["result"]
        assert added["structuredContent"] == {"result": 3}
        if era == LEGACY:
            # Within a call the newer era has no way back to the client.
            assert "sure=True" in text_of(client.call("ask"))
        params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": 7}}
        assert client.request("tools/call", **params)["result"]["isError"] is False
        done = [each["params"] for each in client.heard if "progress" in each["method"]]
        assert [each["progress"] for each in done] == [1, 2, 3]
    ours = ["Run add? (write, medium consequence)", "Run ask? (side effect, medium consequence)"]
    assert asked == ([*ours, "Sure?"] if era == LEGACY else ours[:1])


def test_a_server_over_http_that_is_away_is_told(env):
    with Wire([COMMAND, "wrap", "--http", "http://127.0.0.1:9/mcp"], env=env) as client:
        assert "no connection can be made" in client.begin()["error"]["message"]


def test_a_program_that_is_missing_is_named(env):
    with Wire(wrapped("no-such-program"), env=env) as client:
        assert client.process.wait(LONGEST) == 1
    assert "the program no-such-program does not exist" in "".join(client.said)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name one server"),
        (("--http", "http://127.0.0.1:9", "--", "server"), "Name one server"),
        (("--header", "A: b", "--", "server"), "together with --http"),
        (("--config", "a.toml", "--", "server"), "reads no configuration"),
    ],
)
def test_wrong_options_are_refused(tmp_path, env, words, told):
    (tmp_path / "a.toml").write_text("")
    done = subprocess.run(
        [COMMAND, "wrap", *words],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert told in done.stderr


def test_a_configuration_where_the_client_starts_it_changes_nothing(odd, tmp_path):
    (tmp_path / "toolstile.toml").write_text("""
approver = "approval"
plugin_files = ["evil.py"]

[plugins.record]
off = true

[plugins.mcp.servers.other]
command = "touch"
args = ["x"]
""")
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    with odd(LEGACY, decline) as client:
        assert "did not approve" in text_of(client.call("deleteX"))
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "x").exists()
    assert "deletex" in json.dumps(records_of(tmp_path))


def test_arguments_of_the_server_may_look_like_ours(env, tmp_path):
    script = tmp_path / "server.py"
    script.write_text("import sys\nsys.stderr.write(f'{sys.argv[1:]}\\n')\n")
    words = ("--json", "-v", "--", "--allow", "--config", "x")
    with Wire(wrapped(PYTHON, str(script), *words), env=env) as client:
        client.process.wait(LONGEST)
    assert f"{[*words]}\n" in client.said


@pytest.mark.parametrize(
    ("name", "hints", "effect"),
    [
        ("get_file", {}, "read"),
        ("listDeleted", {}, "read"),
        ("write_file", {}, "write"),
        ("git_commit", {}, "write"),
        ("deleteAll", {}, "delete"),
        ("send-mail", {}, "side_effect"),
        ("frobnicate", {}, "side_effect"),
        ("query", {}, "side_effect"),
        ("HTTPGet", {}, "read"),
        ("find_and_delete", {}, "delete"),
        ("get_or_create_user", {}, "write"),
        ("list_and_send", {}, "side_effect"),
        ("search_replace", {}, "write"),
        ("getThenRemove", {}, "delete"),
        ("get_run_command", {}, "side_effect"),
        ("send_and_purge", {}, "delete"),
        ("view_then_cancel", {}, "side_effect"),
        ("get_message", {}, "side_effect"),
        ("find_old_entries", {}, "read"),
        ("get-annotated-message", {"readOnlyHint": True}, "read"),
        ("run_get", {"readOnlyHint": True}, "side_effect"),
        ("find_and_delete", {"readOnlyHint": True}, "delete"),
        ("search_replace", {"readOnlyHint": True}, "write"),
        ("frobnicate", {"readOnlyHint": True}, "read"),
        ("delete_file", {"readOnlyHint": True}, "delete"),
        ("send_mail", {"readOnlyHint": True}, "side_effect"),
        ("get_file", {"readOnlyHint": False}, "side_effect"),
        ("get_file", {"destructiveHint": True}, "delete"),
        ("write_file", {"destructiveHint": True}, "delete"),
        ("get_file", {"title": "Get", "openWorldHint": True}, "read"),
    ],
)
def test_the_effect_of_a_tool_is_the_worse_of_hints_and_name(name, hints, effect):
    definition = Definition(name, None, "", {}, None, hints)
    assert effect_of(definition, ServerSettings(command="x")) == effect


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."], "filesystem"),
        (["uvx", "mcp-server-git", "--repository", "."], "git"),
        (["python", "-m", "mcp_server_time"], "time"),
        (["docker", "run", "-i", "--rm", "mcp/fetch"], "fetch"),
        (["/srv/my server/bin/notes.py"], "notes"),
        (["uv", "run", "notes-mcp"], "notes"),
        (["npx"], "npx"),
    ],
)
def test_a_name_is_found_in_the_command(command, name):
    assert name_in(command) == name
