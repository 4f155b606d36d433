"""llm: its real chains, with models that follow a script."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

import llm
import pytest
from llm.parts import Message, ToolResultPart
from tests.plugins.adapters.order_tools import erase, later, place, statuses

from toolstile.testing import Hosts
from toolstile_hookspecs import (
    ApprovalAnswer,
    DefinitionError,
    ExecutorHandle,
    ForeignTool,
    StateError,
    Status,
    ToolCall,
)
from toolstile_hookspecs.testing import FrameworkAdapterContract
from toolstile_hookspecs.testing.frameworks import (
    AgentRun,
    FrameworkAgent,
    Functions,
    ModelRead,
    Script,
)
from toolstile_plugins.adapters.llm import (
    CallWaits,
    answer,
    foreign_tools,
    governed,
    toolset,
)

# One Python is enough for what frameworks do.
pytestmark = pytest.mark.slow


def _reply(script: Script, prompt: llm.Prompt, response: Any) -> str:
    turn = sum(message.role == "assistant" for message in prompt.messages)
    if turn == len(script):
        return "done"
    for call in script[turn]:
        given: Any = call.arguments
        response.add_tool_call(llm.ToolCall(call.name, given, call.id))
    return ""


class Scripted(llm.Model):
    model_id = "scripted"
    supports_tools = True

    def __init__(self, script: Script) -> None:
        self.script = script

    def execute(
        self, prompt: llm.Prompt, stream: bool, response: Any, conversation: Any
    ) -> Iterator[str]:
        yield _reply(self.script, prompt, response)


class AsyncScripted(llm.AsyncModel):
    model_id = "scripted"
    supports_tools = True

    def __init__(self, script: Script) -> None:
        self.script = script

    async def execute(
        self, prompt: llm.Prompt, stream: bool, response: Any, conversation: Any
    ) -> AsyncGenerator[str, None]:
        yield _reply(self.script, prompt, response)


class LLMAgent(FrameworkAgent):
    """Chains of an async model."""

    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        return foreign_tools(functions)

    async def run(
        self, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        return await _run(tools, script, functions, [llm.user("go")])

    async def resume(
        self,
        tools: ExecutorHandle,
        script: Script,
        state: str,
        answers: Mapping[str, ApprovalAnswer],
        functions: Functions = None,
    ) -> AgentRun:
        for id_, given in answers.items():
            answer(tools, id_, given)
        history = [Message.from_dict(each) for each in json.loads(state)]
        return await _run(tools, script, functions, history)


async def _run(
    tools: ExecutorHandle, script: Script, functions: Functions, history: list[Message]
) -> AgentRun:
    own = functions is None
    given = toolset(tools, side_by_side=True) if own else governed(functions, tools)
    chain = AsyncScripted(script).chain(messages=history, tools=given)
    text = ""
    try:
        async for response in chain.responses():
            text = await response.text()
            history = [*response.prompt.messages, *await response.messages()]
    except CallWaits as pause:
        results = [
            ToolResultPart(name=each.name, output=each.output, tool_call_id=each.tool_call_id)
            for each in pause.tool_results
        ]
        history = [*history, Message("tool", results)] if results else history
        kept = json.dumps([message.to_dict() for message in history])
        return AgentRun(_read(history), None, kept, {pause.tool_call.tool_call_id: pause.question})
    return AgentRun(_read(history), text)


def _read(history: Sequence[Message]) -> dict[str, ModelRead]:
    return {
        str(part.tool_call_id): ModelRead(
            part.output.removeprefix("Error: "), part.output.startswith("Error: ")
        )
        for message in history
        for part in message.parts
        if isinstance(part, ToolResultPart)
    }


class TestLLM(FrameworkAdapterContract):
    gathers = False
    deadlines = False

    @pytest.fixture
    def agent(self) -> FrameworkAgent:
        return LLMAgent()


AGENT, SUITE = LLMAgent, TestLLM


# --- Beyond the suite -------------------------------------------------------------------------


def made(tool_name: str, /, id_: str = "c1", **given: Any) -> ToolCall:
    return ToolCall(tool_name, given, id_)


def chain(given: Sequence[Any], *script: Sequence[ToolCall], **options: Any) -> Any:
    text = None if "messages" in options else "go"
    return Scripted(script).chain(text, tools=list(given), **options)


def outputs(chained: Any) -> list[str]:
    chained.text()
    return [result.output for each in chained._responses for result in each.prompt.tool_results]


def test_a_sync_model_reads_what_comes_of_its_calls(toolstile_host: Hosts) -> None:
    turn = [made("place", "c1", item="cup"), made("place", "c2", item=5, colour="red")]
    with toolstile_host(tools=[place]).executor() as tools:
        done, faulty = outputs(chain(toolset(tools), turn))
        assert done == "1 x cup"
        assert faulty.startswith("Error: Invalid arguments for place:")
        assert "item" in faulty
        assert "colour" in faulty
        assert statuses(tools) == [Status.SUCCEEDED, Status.INVALID]


def test_a_sync_model_within_a_running_loop_is_answered_at_once(toolstile_host: Hosts) -> None:
    async def within(tools: ExecutorHandle) -> list[str]:
        return outputs(chain(toolset(tools), [made("place", item="cup")]))

    with toolstile_host(tools=[place]).executor() as tools:
        assert asyncio.run(within(tools)) == ["1 x cup"]


async def of_async_model(given: Sequence[Any], *script: Sequence[ToolCall]) -> str:
    return str(await AsyncScripted(script).chain("go", tools=list(given)).text())


def test_an_async_model_takes_the_same_tools(toolstile_host: Hosts) -> None:
    with toolstile_host(tools=[place]).executor() as tools:
        turn = [made("place", item="cup")]
        assert asyncio.run(of_async_model(toolset(tools), turn)) == "done"
        assert statuses(tools) == [Status.SUCCEEDED]


def test_a_sync_chain_waits_and_goes_on_with_its_messages(toolstile_host: Hosts) -> None:
    turn = [
        made("place", "c0", item="cup"),
        made("erase", name="a"),
        made("place", "c2", item="mug"),
    ]
    with toolstile_host(tools=[place, erase], approver=later).executor() as tools:
        first = chain(toolset(tools), turn)
        with pytest.raises(CallWaits, match="erase waits for a person's approval") as pause:
            first.text()
        assert pause.value.question["question"] == str(pause.value)
        assert [each.output for each in pause.value.tool_results] == ["1 x cup"]
        assert pause.value.tool_call is not None
        answer(tools, "c1", given=True)
        (response,) = first._responses
        history = [*response.prompt.messages, *response.messages()]
        second = chain(toolset(tools), turn, messages=history)
        # llm makes those calls again that have no result in the messages.
        assert outputs(second) == ["1 x cup", "Erased a.", "1 x mug"]


def test_a_chain_that_goes_on_without_an_answer_asks_again(toolstile_host: Hosts) -> None:
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        for _ in range(2):
            with pytest.raises(CallWaits):
                chain(toolset(tools), [made("erase", name="a")]).text()
        answer(tools, "c1", ApprovalAnswer.deny("keep it"))
        (text,) = outputs(chain(toolset(tools), [made("erase", name="a")]))
        assert text.startswith("Error: A person did not approve erase: keep it.")
        with pytest.raises(StateError, match="No call 'c1' waits"):
            answer(tools, "c1", given=True)


def test_an_answer_is_for_the_call_that_was_asked_about_not_for_its_id(
    toolstile_host: Hosts,
) -> None:
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        with pytest.raises(CallWaits):
            chain(toolset(tools), [made("erase", name="a")]).text()
        answer(tools, "c1", given=True)
        # Another run, in which the model repeats the id.
        with pytest.raises(CallWaits):
            chain(toolset(tools), [made("erase", name="b")]).text()
        assert outputs(chain(toolset(tools), [made("erase", name="a")])) == ["Erased a."]
        answer(tools, "c1", ApprovalAnswer.deny("keep it"))
        (text,) = outputs(chain(toolset(tools), [made("erase", name="b")]))
        assert text.startswith("Error: A person did not approve erase: keep it.")


def test_without_pauses_the_model_reads_that_a_call_waits(toolstile_host: Hosts) -> None:
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        (text,) = outputs(chain(toolset(tools, pauses=False), [made("erase", name="a")]))
        assert text.startswith("erase waits for a person's approval.")


# --- Their tools


class Memory(llm.Toolbox):
    """A toolbox with its own state."""

    def __init__(self, owner: str = "ada") -> None:
        self.owner = owner
        self.kept: list[str] = []

    def prepare(self) -> None:
        self.kept.append("prepared")

    def keep(self, text: str) -> list[str]:
        """Keep a text."""
        self.kept.append(f"{self.owner}: {text}")
        return self.kept


def test_a_toolbox_is_prepared_and_keeps_its_names(toolstile_host: Hosts) -> None:
    memory = Memory()
    with toolstile_host().executor(tools=foreign_tools([memory])) as tools:
        given = governed([memory], tools)
        assert [each.name for each in given] == ["Memory_keep"]
        (text,) = outputs(chain(given, [made("Memory_keep", text="hi")]))
        assert json.loads(text) == ["prepared", "ada: hi"]


def test_a_tool_learns_of_its_call_and_gives_its_own_object(toolstile_host: Hosts) -> None:
    def draw(what: str, llm_tool_call: llm.ToolCall) -> llm.ToolOutput:
        """Draw something."""
        drawn = llm.Attachment(content=b"a drawing", type="image/png")
        return llm.ToolOutput(f"{llm_tool_call.tool_call_id}: {what}", [drawn])

    with toolstile_host().executor(tools=foreign_tools([draw])) as tools:
        chained = chain(governed([draw], tools), [made("draw", what="a cat")])
        assert outputs(chained) == ["c1: a cat"]
        (result,) = chained._responses[1].prompt.tool_results
        assert [each.content for each in result.attachments] == [b"a drawing"]


@pytest.mark.parametrize("is_async", [False, True])
def test_its_own_pause_passes_through(toolstile_host: Hosts, *, is_async: bool) -> None:
    def wait() -> str:
        """Wait."""
        raise llm.PauseChain("for the moon")

    async def wait_async() -> str:
        """Wait."""
        raise llm.PauseChain("for the moon")

    theirs = wait_async if is_async else wait
    with toolstile_host().executor(tools=foreign_tools([theirs])) as tools:
        with pytest.raises(llm.PauseChain, match="for the moon"):
            chain(governed([theirs], tools), [made(theirs.__name__)]).text()
        assert statuses(tools) == [Status.RAISED]


def test_a_sync_tool_does_not_hold_up_the_loop_of_an_async_model(toolstile_host: Hosts) -> None:
    threads: list[str] = []

    def told() -> str:
        """Tell."""
        threads.append(threading.current_thread().name)
        return "told"

    with toolstile_host().executor(tools=foreign_tools([told])) as tools:
        assert asyncio.run(of_async_model(governed([told], tools), [made("told")])) == "done"
        assert statuses(tools) == [Status.SUCCEEDED]
    assert threads != [threading.current_thread().name]


def test_what_runs_at_a_provider_is_refused(toolstile_host: Hosts) -> None:
    search = llm.ServerSideTool({"type": "web_search"})
    with (
        toolstile_host().executor() as tools,
        pytest.raises(DefinitionError, match="server_side_tool runs at its provider"),
    ):
        governed([search], tools)


def test_what_the_executor_does_not_know_is_refused(toolstile_host: Hosts) -> None:
    with (
        toolstile_host().executor() as tools,
        pytest.raises(DefinitionError, match=r"host\.executor\(tools=foreign_tools\(theirs\)\)"),
    ):
        governed([Memory()], tools)
