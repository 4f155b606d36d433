"""`toolstile ask` before a person: the real command, and a provider on loopback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.agent.providers.chat_wire import ChatWire
from tests.plugins.agent.providers.played_server import Hang, Played, called, said, serving
from tests.plugins.pseudo_terminal import COMMAND, PROMPT, terminals

from toolstile_hookspecs.agents.messages import StopReason, Turn
from toolstile_hookspecs.agents.provider import FaultType, ProviderError

pytestmark = pytest.mark.slow

CTRL_C = "\x03"
DESK = '''\
"""Tools of a desk."""

import time
from pathlib import Path

from toolstile_hookspecs import MarkdownSection, hookimpl, tool


@tool(category="read")
def look(name: str) -> str:
    """Look at a paper."""
    return f"{name} is blue"


@tool(requires_confirmation=True)
def send(to: str) -> str:
    """Send the papers."""
    return f"sent to {to}"


@tool
def wait(flag: str) -> str:
    """Wait for long."""
    Path(flag).touch()
    time.sleep(60)
    return "waited"


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="desk", title="Desk", tools=[look, send, wait])]
'''
STORED = '[plugins.sessions]\npath = "all.db"\n[plugins.ledger]\npath = "all.db"\n'
LOOKED = called(("look", {"name": "the map"}), text="I look.")
SENT = called(("send", {"to": "Ada"}))


class Desk:
    """A folder with tools, in which the command is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "desk.py").write_text(DESK, encoding="utf-8")
        (folder / "toolstile.toml").write_text('plugin_files = ["desk.py"]\n', encoding="utf-8")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLSTILE_", "OPENAI_"))}
        self.options: Any = {"cwd": folder, "env": {**kept, "TERM": "xterm", "NO_COLOR": "1"}}

    def configure(self, text: str) -> None:
        with (self.folder / "toolstile.toml").open("a", encoding="utf-8") as file:
            file.write(text)

    def ask(self, *arguments: str, given: str = "") -> tuple[int, str, str]:
        done = subprocess.run(
            [COMMAND, "ask", *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
            **self.options,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def model(served: Played) -> list[str]:
    return ["--model", "openai:tiny", "--base-url", f"{served.url}/v1"]


def messages(request: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(each["role"], each.get("content")) for each in request["messages"]]


def test_a_person_sees_thoughts_as_thoughts(desk: Desk) -> None:
    thinking = said("<think>\nLook first.\n</think>\n\nNothing is there.")
    with serving(ChatWire(), thinking) as served, terminals() as start:
        at = start("ask", "What is there?", *model(served), **desk.options)
        at.expect("toolstile: thinks: \nLook first.\nNothing is there.")
        assert at.end()[0] == 0


def test_a_person_sees_the_text_as_it_comes_and_approves_a_call(desk: Desk) -> None:
    with serving(ChatWire(), LOOKED, SENT, said("All is sent.")) as served, terminals() as start:
        at = start("ask", "Send the map.", *model(served), **desk.options)
        at.expect("I look.\n")
        at.expect("toolstile: succeeded: look\n")
        shown = at.answer("y", prompt=PROMPT)
        status, screen = at.end()

    assert "send" in shown
    assert 'to: "Ada"' in shown
    assert status == 0
    assert screen.endswith("toolstile: succeeded: send\nAll is sent.\n")
    assert all(request["stream"] for request in served.requests)
    assert served.refused == []
    assert served.requests[0]["messages"][0]["content"].startswith("# Desk")


def test_ctrl_c_while_the_model_answers_ends_the_command(desk: Desk) -> None:
    with serving(ChatWire(), Hang(said("It may take a while."))) as served, terminals() as start:
        at = start("ask", "Go", *model(served), **desk.options)
        at.expect("It may")
        at.type(CTRL_C)
        status, screen = at.end()

    assert status == 130
    assert "toolstile: interrupted: the running calls are rolled back" in screen
    assert "Traceback" not in screen


def test_what_was_interrupted_does_not_run_again(desk: Desk) -> None:
    flag = desk.folder / "flag"
    desk.configure(STORED)
    options = ["--session", "chores"]
    waiting = called(("wait", {"flag": str(flag)}))
    with serving(ChatWire(), waiting, said("Then not.")) as served, terminals() as start:
        at = start("ask", "Wait", *model(served), *options, **desk.options)
        while not flag.exists():
            assert at.process.poll() is None
        at.type(CTRL_C)
        assert at.end()[0] == 130
        flag.unlink()
        status, out, err = desk.ask("Leave it.", *model(served), *options)

    assert (status, out, err) == (0, "Then not.\n", "")
    assert not flag.exists()
    assert [role for role, _ in messages(served.requests[1])] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert "interrupted" in str(messages(served.requests[1])[3][1])


def test_in_a_pipe_the_answer_stands_alone(desk: Desk) -> None:
    with serving(ChatWire(), LOOKED, said("It is blue.")) as served:
        status, out, err = desk.ask("-", *model(served), given="Which colour?\n")

    assert (status, out, err) == (0, "It is blue.\n", "toolstile: succeeded: look\n")
    assert messages(served.requests[0])[1] == ("user", "Which colour?\n")


def test_an_answer_as_json_has_its_calls_and_costs(desk: Desk) -> None:
    with serving(ChatWire(), LOOKED, said("It is blue.")) as served:
        status, out, err = desk.ask("Which colour?", "--json", *model(served))

    told = json.loads(out)
    [call] = told.pop("calls")
    assert (status, err) == (0, "")
    assert (call["tool"], call["data"]) == ("look", "the map is blue")
    assert told.pop("session")
    usage = told.pop("usage")
    assert usage.items() >= {"input_tokens": 240, "output_tokens": 60, "cached_tokens": 40}.items()
    assert told == {
        "text": "It is blue.",
        "output": None,
        "turns": 2,
        "stop_reason": "end",
    }


def test_a_stored_session_goes_on_in_the_next_command(desk: Desk) -> None:
    desk.configure(STORED)
    options = ["--session", "chores"]
    with serving(ChatWire(), LOOKED, said("It is blue."), said("I said blue.")) as served:
        first = desk.ask("Which colour?", *model(served), *options)
        assert first == (0, "It is blue.\n", "toolstile: succeeded: look\n")
        status, out, err = desk.ask("Again?", *model(served), *options)

    assert (status, out, err) == (0, "I said blue.\n", "")
    assert [role for role, _ in messages(served.requests[2])] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


def test_a_session_that_nothing_stores_is_warned_of(desk: Desk) -> None:
    with serving(ChatWire(), said("Yes.")) as served:
        status, out, err = desk.ask("Now?", "--session", "chores", *model(served))

    assert (status, out) == (0, "Yes.\n")
    assert "warning: the conversation is not stored" in err
    assert "or a database as url in [plugins.database]" in err


def test_calls_are_recorded_and_traced_as_those_of_run(desk: Desk) -> None:
    with serving(ChatWire(), LOOKED, said("Blue.")) as served:
        options = ["--record", "calls.jsonl", "--trace", "spans.jsonl"]
        assert desk.ask("Which colour?", *model(served), *options)[0] == 0

    assert '"look"' in (desk.folder / "calls.jsonl").read_text()
    spans = [json.loads(line) for line in (desk.folder / "spans.jsonl").read_text().splitlines()]
    names = ["chat tiny", "execute_tool look", "chat tiny", "invoke_agent toolstile:default"]
    assert [span["name"] for span in spans] == names


def test_the_configuration_names_the_model_and_its_settings(desk: Desk) -> None:
    with serving(ChatWire(), said("Hello.")) as served:
        desk.configure(
            f'[plugins.agent]\nmodel = "openai:tiny"\nbase_url = "{served.url}/v1"\n'
            "[plugins.agent.settings]\ntemperature = 0.5\n"
        )
        assert desk.ask("Hi")[0] == 0

    assert (served.requests[0]["model"], served.requests[0]["temperature"]) == ("tiny", 0.5)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ProviderError("Too long.", FaultType.REFUSED), "Too long."),
        (said("I will not.", StopReason.REFUSED), "refused"),
        (said("So", StopReason.MAX_TOKENS), "cut off"),
    ],
)
def test_a_run_without_an_answer_has_the_status_of_a_failure(
    desk: Desk, answer: Turn | ProviderError, told: str
) -> None:
    with serving(ChatWire(), answer) as served:
        status, out, err = desk.ask("Hi", *model(served))

    assert (status, out) == (1, "")
    assert err.startswith("toolstile: error: ")
    assert told in err


def test_a_failure_as_json_says_its_error(desk: Desk) -> None:
    with serving(ChatWire(), called(("nothing", {})), said("So", StopReason.MAX_TOKENS)) as served:
        status, out, _ = desk.ask("Hi", "--json", *model(served))

    told = json.loads(out)
    assert (status, told["stop_reason"], told["turns"]) == (1, "max_tokens", 2)
    assert "cut off" in told["error"]
    assert "error" in told["calls"][0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["Hi"], "No model is named."),
        (["Hi", "--model", "opnai:tiny"], "openai"),
        (["  ", "--model", "openai:tiny"], "The request is empty."),
    ],
)
def test_what_is_missing_is_told_before_anything_is_asked(
    desk: Desk, arguments: list[str], told: str
) -> None:
    status, out, err = desk.ask(*arguments)
    assert (status, out) == (2, "")
    assert told in err


STRANGER = '''\
from toolstile_hookspecs.agents.messages import Message, Role, Turn


class Echo:
    """Says what was said last."""

    name = "echo"

    def __init__(self, model):
        self.model = model

    def send(self, request, listen=None):
        text = f"{self.model}: {request.messages[-1].text}"
        if listen is not None:
            listen(text)
        return Turn(Message(Role.ASSISTANT, text))

    async def asend(self, request, listen=None):
        return self.send(request, listen)

    def close(self):
        print("closed")
'''


def test_the_adapter_of_a_stranger_is_one_class_and_one_entry_point(desk: Desk) -> None:
    folder = desk.folder / "site"
    metadata = folder / "toolstile_echo-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "toolstile_echo.py").write_text(STRANGER)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toolstile-echo\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text("[toolstile.adapters]\necho = toolstile_echo:Echo\n")
    desk.options["env"]["PYTHONPATH"] = str(folder)

    assert desk.ask("Hello", "--model", "echo:loud")[:2] == (0, "closed\nloud: Hello\n")
