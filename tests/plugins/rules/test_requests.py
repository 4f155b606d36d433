"""Wherever calls come from, the request comes with them; without one, rules on it fail closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Prompt
from toolstile.testing import ScriptedModel
from toolstile_cli.main import main
from toolstile_hookspecs import MarkdownSection, ToolInvoked, tool
from toolstile_plugins.agent import Agent

from .conftest import table

RULES: dict[str, dict[str, Any]] = {
    "rule": {
        "tools": ["send"],
        "when": "!request.exists(said, 'send' in words(said))",
        "effect": "deny",
        "reason": "Nobody asked for it.",
    },
    "asked_for": {"kind": "asked_for", "otherwise": "deny", "words": {"send": "send"}},
    "provenance": {
        "kind": "provenance",
        "otherwise": "deny",
        "arguments": {"send": {"to": "request"}},
    },
}
OTHERS = {
    "rule": "Nobody asked for it.",
    "asked_for": "the request does not ask for it",
    "provenance": "'ann' in to comes from neither",
}
NONE = {
    "rule": "the user's request is unknown",
    "asked_for": "no request was given",
    "provenance": "no request was given",
}
ASKED, NOT_ASKED = ["Hello.", "SEND it to Ann."], ["Read it."]
MAIL = '''
from toolstile_hookspecs import MarkdownSection, hookimpl, tool

@tool
def send(to: str) -> str:
    """Send a letter."""
    return "sent"

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="mail", title="Mail", tools=[send])]
'''
ARGUMENTS = {"to": "ann"}
CHAT_CALL = {"id": "1", "function": {"name": "send", "arguments": json.dumps(ARGUMENTS)}}
BLOCK = {"type": "tool_use", "id": "1", "name": "send", "input": ARGUMENTS}
ITEM = {"type": "function_call", "call_id": "1", "name": "send", "arguments": '{"to": "ann"}'}
PART = {"functionCall": {"id": "1", "name": "send", "args": ARGUMENTS}}


@pytest.fixture(params=RULES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def folder(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolstile.toml").write_text('plugin_files = ["mail.py"]\n' + table(RULES[kind]))
    (tmp_path / "mail.py").write_text(MAIL)
    return tmp_path


Told = Callable[..., str]


@pytest.fixture
def told(folder: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """Return what a command says."""

    def told(*command: str) -> str:
        main([*command])
        shown = capsys.readouterr()
        return " ".join((shown.out + shown.err).split())

    return told


def expected(kind: str, said: Sequence[str]) -> str:
    """Return what the model is told of the one call."""
    return "sent" if said == ASKED else OTHERS[kind] if said else NONE[kind]


says = pytest.mark.parametrize("said", [ASKED, NOT_ASKED, []], ids=["asked", "not asked", "none"])


@says
@pytest.mark.parametrize("command", ["call", "run"])
def test_a_command_gives_it(kind: str, folder: Path, told: Told, command: str, said: list[str]):
    (folder / "calls.jsonl").write_text(json.dumps({"name": "send", "arguments": ARGUMENTS}))
    options = [part for text in said for part in ("--request", text)]
    made = ["send", json.dumps(ARGUMENTS)] if command == "call" else ["calls.jsonl", "--json"]
    assert expected(kind, said) in told(command, *made, *options)


FORMS: dict[str, Callable[[list[str]], Any]] = {
    "chat": lambda said: {
        "messages": [
            *({"role": "user", "content": text} for text in said),
            {"role": "assistant", "tool_calls": [CHAT_CALL]},
        ]
    },
    "responses": lambda said: {
        "input": [{"role": "user", "content": text} for text in said],
        "output": [ITEM],
    },
    "blocks": lambda said: [
        *({"role": "user", "content": [{"type": "text", "text": text}]} for text in said),
        {"role": "assistant", "content": [BLOCK]},
    ],
    "contents": lambda said: {
        "contents": [
            *({"role": "user", "parts": [{"text": text}]} for text in said),
            {"role": "model", "parts": [PART]},
        ]
    },
}


@pytest.mark.slow
@says
@pytest.mark.parametrize("form", FORMS)
def test_a_recorded_conversation_holds_it(
    kind: str, folder: Path, told: Told, form: str, said: list[str]
):
    (folder / "chat.json").write_text(json.dumps(FORMS[form](said)))
    assert expected(kind, said) in told("run", "chat.json", "--json")


@pytest.mark.parametrize("options", [(), ("--parallel",)], ids=["", "parallel"])
def test_what_the_user_says_later_is_not_known_to_calls_before(
    kind: str, folder: Path, told: Told, options: tuple[str, ...]
):
    later = {"role": "assistant", "content": [{**BLOCK, "id": "2"}]}
    first = FORMS["blocks"](NOT_ASKED)
    (folder / "chat.json").write_text(json.dumps([*first, *FORMS["blocks"](ASKED)[:-1], later]))
    shown = told("run", "chat.json", "--json", *options)
    assert shown.index(OTHERS[kind]) < shown.index('"sent"')


def test_a_record_that_is_played_again_holds_it(kind: str, folder: Path, told: Told):
    (folder / "chat.json").write_text(json.dumps(FORMS["chat"](ASKED)))
    told("run", "chat.json", "--record", "record.jsonl")
    assert '"sent"' in told("replay", "record.jsonl", "--json")


@tool
def send(to: str) -> str:
    """Send a letter."""
    return "sent"


@says
@pytest.mark.parametrize("driver", ["sync", "async", "executor"])
def test_an_agent_gives_it(kind: str, tmp_path: Path, driver: str, said: list[str]):
    config = tmp_path / "toolstile.toml"
    config.write_text(table(RULES[kind]))
    mail = MarkdownSection(key="mail", title="Mail", tools=[send])
    model = ScriptedModel([("send", ARGUMENTS)], "Done.")
    # A request that is not a text stands in the prompt, and the user says nothing beside it.
    wish: Any = "\n".join(said) or {"to": "ann"}
    with Host(config=config, discover={"rules"}, tools=[send]) as host:
        prompt = Prompt.of("demo", "mail", [mail])
        agent = Agent[str](prompt, adapter=model, host=host)
        if driver == "sync":
            _, session = agent.execute(wish)
        elif driver == "async":
            _, session = asyncio.run(agent.aexecute(wish))
        else:
            with host.executor(prompt=prompt) as tools:
                _, session = agent.execute(wish, executor=tools)
        (event,) = session[ToolInvoked].all()
    assert expected(kind, said) in event.text
