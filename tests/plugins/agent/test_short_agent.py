"""`Agent("provider:model", tools=[...])` is complete: it brings its adapter, prompt and host."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.agent.providers.chat_wire import ChatWire
from tests.plugins.agent.providers.played_server import Played, called, said, serving

from toolstile import Agent, Host, MarkdownSection, Prompt
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import ConfigurationError, DefinitionError
from toolstile_plugins.agent import CallMade, RunResult

SUM = [("add", {"a": 1, "b": 2})]


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def twice(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def names(model: ScriptedModel) -> list[str]:
    return [tool.name for tool in model.requests[0].tools]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    pytest.importorskip("openai")
    replies = [called(("add", {"a": 1, "b": 2})), said("It is 3.")]
    with serving(ChatWire(), *replies) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{served.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield served


def in_sync(agent: Agent) -> str:
    return agent.run("1 and 2?").text


def in_async(agent: Agent) -> str:
    return asyncio.run(agent.arun("1 and 2?")).text


def streamed(agent: Agent) -> str:
    pieces = list(agent.stream("1 and 2?"))
    assert any(isinstance(piece, CallMade) for piece in pieces)
    assert isinstance(pieces[-1], RunResult)
    return pieces[-1].text


def astreamed(agent: Agent) -> str:
    async def read() -> str:
        pieces = [piece async for piece in agent.astream("1 and 2?")]
        assert isinstance(pieces[-1], RunResult)
        return pieces[-1].text

    return asyncio.run(read())


@pytest.mark.parametrize("way", [in_sync, in_async, streamed, astreamed])
def test_a_model_and_a_function_are_an_agent(way: Any, provider: Played) -> None:
    agent = Agent("openai:tiny", tools=[add], prompt="You add up for $5 an hour.")
    assert way(agent) == "It is 3."
    first = provider.requests[0]
    assert first["model"] == "tiny"
    assert "You add up for $5 an hour." in first["messages"][0]["content"]
    assert [each["function"]["name"] for each in first["tools"]] == ["add"]
    agent.close()


def test_a_model_beside_a_prompt_answers_that_prompt(provider: Played) -> None:
    section = MarkdownSection(key="s", title="Sums", template="Be brief.")
    with Agent("openai:tiny", prompt=Prompt.of("demo", "p", [section]), tools=[add]) as agent:
        assert in_sync(agent) == "It is 3."
    assert provider.requests[0]["messages"][0]["content"].startswith("# Sums\n\nBe brief.")


PROMPT = Prompt.of("demo", "p", [])
WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no model": ((), {}, "give a model, such as Agent"),
    "a prompt alone": ((PROMPT,), {}, "give a model, such as Agent"),
    "two models": (("openai:tiny",), {"adapter": ScriptedModel("")}, "not both"),
    "two prompts": ((PROMPT,), {"prompt": "Hi.", "adapter": ScriptedModel("")}, "two prompts"),
    "a function that can be no tool": (("openai:tiny",), {"tools": [print]}, "print"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_agent_that_cannot_be_made_says_what_to_give(case: str) -> None:
    given, options, told = WRONG[case]
    with pytest.raises(DefinitionError, match=told):
        Agent(*given, **options)


def test_an_unknown_provider_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'opneai:tiny'.*did you mean 'openai'"):
        Agent("opneai:tiny")


def test_a_given_host_offers_its_tools_beside_those_of_the_agent() -> None:
    model = ScriptedModel(SUM, "It is 3.")
    with Host(discover=False, tools=[add]) as host:
        agent = Agent(adapter=model, host=host, tools=[twice], prompt="Be brief.")
        assert agent.run("1 and 2?").text == "It is 3."
        assert sorted(names(model)) == ["add", "twice"]
        assert "Be brief." in model.requests[0].system
        with host.executor() as tools:
            assert [tool.name for tool in tools.prompt.tools()] == ["add"]


def test_a_prompt_object_keeps_out_the_tools_of_the_host_as_before() -> None:
    model = ScriptedModel("No.")
    with Host(discover=False, tools=[add]) as host:
        assert Agent(PROMPT, adapter=model, host=host).run("1 and 2?").success
    assert names(model) == []


def test_first_requests_on_many_threads_open_one_host() -> None:
    opened: list[Host] = []

    def make() -> Host:
        opened.append(Host(discover=False, tools=[add]))
        return opened[-1]

    agent = Agent(adapter=ScriptedModel(*["Hello."] * 8), host=make)
    with ThreadPoolExecutor(8) as threads:
        assert {each.text for each in threads.map(agent.run, ["Hi."] * 8)} == {"Hello."}
    assert [host.is_open for host in opened] == [True]
    agent.close()
    assert [host.is_open for host in opened] == [False]
    assert "Nothing carries calls out" in str(agent.run("Hi.").error)


def test_a_given_host_opens_at_the_first_request_and_closes_with_the_agent() -> None:
    host = Host(discover=False, tools=[add])
    agent = Agent(adapter=ScriptedModel("It is 3.", "It is 4."), host=host)
    assert agent.run("1 and 2?").text == "It is 3."
    assert host.is_open
    assert asyncio.run(agent.arun("2 and 2?")).text == "It is 4."
    agent.close()
    assert not host.is_open
    assert "This host is not open" in str(agent.run("Hi.").error)


def test_a_given_host_opens_on_an_event_loop_and_outlives_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owners: list[Any] = []
    monkeypatch.setattr("toolstile_plugins.agent.agent.close_at_exit", owners.append)
    host = Host(discover=False, tools=[add])
    answered = asyncio.run(Agent(adapter=ScriptedModel("Hi."), host=host).arun("Hello."))
    assert (answered.text, host.is_open, owners) == ("Hi.", True, [host])
    host.close()


def test_a_given_host_that_others_close_opens_at_the_next_request() -> None:
    host = Host(discover=False, tools=[add])
    agent = Agent(adapter=ScriptedModel("One.", "Two.", "Three."), host=host)
    assert agent.run("Hi.").text == "One."
    host.close()
    assert agent.run("Hi.").text == "Two."
    host.close()
    with agent:
        assert agent.run("Hi.").text == "Three."
    assert not host.is_open


def test_an_open_host_stays_open_after_the_agent() -> None:
    with Host(discover=False, tools=[add]) as host:
        with Agent(adapter=ScriptedModel("Hi."), host=host) as agent:
            assert agent.run("Hello.").text == "Hi."
        assert host.is_open


def test_a_request_in_a_given_executor_opens_no_host() -> None:
    agent = Agent(adapter=ScriptedModel("Hello."), tools=[add])
    with Host(discover=False) as host, host.executor() as tools:
        assert agent.run("Hi.", executor=tools).text == "Hello."
    assert agent._opened is None


def test_the_policies_of_the_working_directory_hold_for_the_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = '[[policies]]\nkind = "sequential_dependency"\ndependencies = {add = ["twice"]}\n'
    (tmp_path / "toolstile.toml").write_text(rule, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    model = ScriptedModel(SUM, "Denied.")
    with Agent(adapter=model, tools=[add, twice]) as agent:
        assert agent.run("1 and 2?").text == "Denied."
    assert "twice" in model.requests[1].messages[-1].answers[0].text


@pytest.mark.slow
def test_an_agent_without_a_block_ends_with_its_process() -> None:
    script = (
        "from toolstile import Agent\n"
        "from toolstile.testing import ScriptedModel\n"
        "async def add(a: int, b: int) -> int:\n"
        "    'Add two integers.'\n"
        "    return a + b\n"
        "model = ScriptedModel([('add', {'a': 1, 'b': 2})], 'It is 3.')\n"
        "agent = Agent(adapter=model, tools=[add])\n"
        "print(agent.run('1 and 2?').text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "It is 3.\n", "")
