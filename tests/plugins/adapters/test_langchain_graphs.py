"""LangChain: graphs that run a node again, tools of theirs of every kind, and calls by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import (
    BaseTool,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
    tool as their_tool,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command, interrupt
from tests.plugins.adapters.test_langchain import (
    GO,
    THREAD,
    ScriptedModel,
    agent_of,
    graph_of,
    read_in,
)

from toolstile.testing import Hosts
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    DefinitionError,
    Interrupt,
    MarkdownSection,
    Prompt,
    Status,
    ToolCall,
    ToolInvoked,
    Visibility,
    VisibilityExpansionRequired,
    tool,
)
from toolstile_plugins.adapters.langchain import foreign_tools, governed, toolset

# One Python is enough for what frameworks do.
pytestmark = pytest.mark.slow
Go = Callable[[Any, Any], dict[str, Any]]


class Desk:
    """Tools of ours, what they did, and the questions that a person was asked."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked: list[str] = []

    def later(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request.call.wire_id)
        return ApprovalAnswer.pending()

    def tools(self) -> list[Any]:
        done = self.done

        @tool
        async def add(a: int, b: int) -> int:
            """Add two integers, slowly."""
            for _ in range(100):
                await asyncio.sleep(0)
            done.append(f"{a} + {b}")
            return a + b

        @tool(requires_confirmation=True)
        def erase(name: str) -> str:
            """Erase something for good."""
            done.append(f"erased {name}")
            return f"Erased {name}."

        return [add, erase]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(params=["sync", "async"])
def go(request: pytest.FixtureRequest) -> Go:
    def run(agent: Any, given: Any) -> dict[str, Any]:
        if request.param == "sync":
            return agent.invoke(given, THREAD)
        return asyncio.run(agent.ainvoke(given, THREAD))

    return run


def call(id_: str, name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, id=id_)


def questions(ended: Mapping[str, Any]) -> dict[str, Any]:
    """Return the interrupts of a run, by the ids of their calls."""
    return {each.value["call_id"]: each for each in ended.get("__interrupt__", ())}


def texts(ended: Mapping[str, Any]) -> dict[str, str]:
    return {id_: read.text for id_, read in read_in(ended["messages"]).items()}


def one_node(model: ScriptedModel, tools: Sequence[BaseTool], saver: Any) -> Any:
    """Return a graph whose node runs all calls of a turn."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


# --- Nodes that run again


TURN = [
    call("sum", "add", a=1, b=2),
    call("first", "erase", name="a"),
    call("second", "erase", name="b"),
]


@pytest.mark.parametrize("make", [agent_of, graph_of, one_node])
def test_calls_are_asked_about_and_run_once_however_often_their_node_runs(
    make: Callable[..., Any], go: Go, desk: Desk, toolstile_host: Hosts
) -> None:
    host = toolstile_host(*desk.tools(), approver=desk.later)
    with host.executor() as tools:
        agent = make(ScriptedModel(script=[TURN]), toolset(tools), InMemorySaver())
        ended = go(agent, GO)
        while asked := questions(ended):
            assert desk.done[:1] == ["1 + 2"]
            (*_, last) = asked.values()
            ended = go(agent, Command(resume={last.id: {**last.value, "answer": True}}))
        assert texts(ended) == {"sum": "3", "first": "Erased a.", "second": "Erased b."}
    assert sorted(desk.done) == ["1 + 2", "erased a", "erased b"]
    assert sorted(desk.asked) == ["first", "second"]


def test_an_answer_is_taken_by_the_call_that_it_names(
    go: Go, desk: Desk, toolstile_host: Hosts
) -> None:
    with toolstile_host(*desk.tools(), approver=desk.later).executor() as tools:
        model = ScriptedModel(script=[TURN[1:]])
        agent = one_node(model, toolset(tools), InMemorySaver())
        ended = go(agent, GO)
        (asked,) = questions(ended).values()
        ended = go(agent, Command(resume={**asked.value, "call_id": "none", "answer": True}))
        assert set(questions(ended)) <= {"first", "second"}
    assert desk.done == []


@pytest.mark.parametrize(
    ("answer", "ends"),
    [
        ({"answer": True}, ("Erased a.", ["erased a"])),
        ({"answer": "approved"}, ("Erased a.", ["erased a"])),
        ({"answer": "edited", "arguments": {"name": "c"}}, ("Erased c.", ["erased c"])),
        ({"answer": False, "reason": "Keep it."}, ("A person did not approve erase: Keep it.", [])),
        ({"answer": "denied"}, ("A person did not approve erase.", [])),
    ],
)
def test_a_person_answers(
    answer: dict[str, Any],
    ends: tuple[str, list[str]],
    go: Go,
    desk: Desk,
    toolstile_host: Hosts,
) -> None:
    with toolstile_host(*desk.tools(), approver=desk.later).executor() as tools:
        agent = agent_of(ScriptedModel(script=[TURN[1:2]]), toolset(tools), InMemorySaver())
        (asked,) = questions(go(agent, GO)).values()
        assert asked.value["arguments"] == {"name": "a"}
        ended = go(agent, Command(resume={**asked.value, **answer}))
        assert texts(ended)["first"].startswith(ends[0])
    assert desk.done == ends[1]


def test_what_is_no_answer_leaves_the_question(go: Go, desk: Desk, toolstile_host: Hosts) -> None:
    with toolstile_host(*desk.tools(), approver=desk.later).executor() as tools:
        agent = agent_of(ScriptedModel(script=[TURN[1:2]]), toolset(tools), InMemorySaver())
        (asked,) = questions(go(agent, GO)).values()
        with pytest.raises(ValueError, match="'yes' does not answer the question of call 'first'"):
            go(agent, Command(resume={**asked.value, "answer": "yes"}))
        ended = go(agent, Command(resume={**asked.value, "answer": True}))
        assert texts(ended) == {"first": "Erased a."}


def test_a_middleware_that_answers_a_call_holds_up_no_other(
    desk: Desk, toolstile_host: Hosts
) -> None:
    class Guard(AgentMiddleware[Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            if request.tool_call["id"] == "second":
                return ToolMessage("Not for you.", tool_call_id="second")
            return await handler(request)

    with toolstile_host(*desk.tools()).executor() as tools:
        turn = [TURN[0], call("second", "add", a=3, b=4), call("third", "add", a=5, b=6)]
        model = ScriptedModel(script=[turn])
        agent: Any = create_agent(model, toolset(tools), middleware=[Guard()])
        ended = asyncio.run(agent.ainvoke(GO, {**THREAD, "max_concurrency": 2}))
        assert texts(ended) == {"sum": "3", "second": "Not for you.", "third": "11"}


# --- Tools of theirs


class Office:
    """Tools of theirs, and what they were given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def tools(self) -> list[BaseTool]:
        given = self.given

        @their_tool
        def send(
            to: str,
            runtime: ToolRuntime,
            state: Annotated[dict[str, Any], InjectedState],
            own_id: Annotated[str, InjectedToolCallId],
        ) -> str:
            """Send a mail."""
            given.append((to, runtime.tool_call_id, len(state["messages"]), own_id))
            if to == "nobody":
                raise ToolException("Nobody reads mail.")
            if to == "all":
                given.append(interrupt("All of them?"))
            return f"Sent to {to}."

        @their_tool(response_format="content_and_artifact", return_direct=True)
        async def look(name: str) -> tuple[str, Any]:
            """Look something up."""
            return f"{name} is here.", {"found": name}

        @their_tool
        def leave(own_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
            """Leave."""
            message = ToolMessage("Left.", tool_call_id=own_id, artifact="a key")
            return Command(update={"messages": [message]})

        @their_tool
        def complain(own_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
            """Complain."""
            return ToolMessage("No.", tool_call_id=own_id, status="error")

        return [send, look, leave, complain]


@pytest.fixture
def office() -> Office:
    return Office()


def test_arguments_that_langgraph_injects_are_none_of_a_call(
    office: Office, toolstile_host: Hosts, go: Go
) -> None:
    theirs = office.tools()
    with toolstile_host().executor(tools=foreign_tools(theirs)) as tools:
        turn = [call("c1", "send", to="ada"), call("c2", "send", to="bob", state={})]
        agent = agent_of(ScriptedModel(script=[turn]), governed(theirs, tools), None)
        read = texts(go(agent, GO))
        assert read == {"c1": "Sent to ada.", "c2": "Sent to bob."}
        events = tools.session[ToolInvoked].all()
        shown = {event.call.wire_id: event.shown_arguments for event in events}
        assert shown["c1"] == {"to": "ada"}
    assert sorted(office.given) == [("ada", "c1", 2, "c1"), ("bob", "c2", 2, "c2")]


def test_what_their_tool_returned_is_what_their_agent_gets(
    office: Office, toolstile_host: Hosts
) -> None:
    theirs = office.tools()
    with toolstile_host().executor(tools=foreign_tools(theirs)) as tools:
        turn = [call("c1", "look", name="it"), call("c2", "leave")]
        agent = agent_of(ScriptedModel(script=[turn]), governed(theirs, tools), None)
        ended = asyncio.run(agent.ainvoke(GO))
        found = [each for each in ended["messages"] if isinstance(each, ToolMessage)]
        assert [each.text for each in found] == ["it is here.", "Left."]
        assert [each.artifact for each in found] == [{"found": "it"}, "a key"]
        stays = {each.name: each for each in governed(theirs, tools)}
        assert stays["look"].return_direct
        for own in theirs:
            assert isinstance(stays[own.name], StructuredTool)
            assert convert_to_openai_tool(stays[own.name]) == convert_to_openai_tool(own)


def test_failures_of_their_tools_are_read_and_the_run_goes_on(
    office: Office, toolstile_host: Hosts, go: Go
) -> None:
    theirs = office.tools()
    with toolstile_host().executor(tools=foreign_tools(theirs)) as tools:
        turn = [call("c1", "send", to="nobody"), call("c2", "complain"), call("c3", "look")]
        agent = agent_of(ScriptedModel(script=[turn]), governed(theirs, tools), None)
        ended = go(agent, GO)
        read = read_in(ended["messages"])
        assert (read["c1"].text, read["c1"].is_error) == ("Nobody reads mail.", True)
        assert (read["c2"].text, read["c2"].is_error) == ("No.", True)
        assert "name: required, but missing" in read["c3"].text
        assert ended["messages"][-1].text == "done"
        statuses = {event.call.wire_id: event.status for event in tools.session[ToolInvoked].all()}
        assert statuses == {"c1": Status.FAILED, "c2": Status.FAILED, "c3": Status.INVALID}


def test_an_interrupt_of_their_tool_is_theirs(
    office: Office, toolstile_host: Hosts, go: Go
) -> None:
    theirs = office.tools()
    with toolstile_host().executor(tools=foreign_tools(theirs)) as tools:
        turn = [call("c1", "send", to="all"), call("c2", "send", to="ada")]
        model = ScriptedModel(script=[turn])
        agent = agent_of(model, governed(theirs, tools), InMemorySaver())
        (asked,) = go(agent, GO)["__interrupt__"]
        assert asked.value == "All of them?"
        (event,) = (each for each in tools.session[ToolInvoked].all() if each.call.wire_id == "c1")
        assert (event.status, event.rolled_back) == (Status.RAISED, True)
        ended = go(agent, Command(resume="yes"))
        assert texts(ended) == {"c1": "Sent to all.", "c2": "Sent to ada."}
    assert office.given.count("yes") == 1
    assert sum(given[0] == "ada" for given in office.given) == 1


def test_a_tool_that_the_executor_does_not_know_is_refused(
    office: Office, toolstile_host: Hosts
) -> None:
    remedy = r"does not know the tool 'send'.*host\.executor\(tools=foreign_tools\(theirs\)\)"
    with toolstile_host().executor() as tools, pytest.raises(DefinitionError, match=remedy):
        governed(office.tools(), tools)


# --- Calls by hand, and what leaves a run


def test_a_governed_tool_can_be_governed_again(office: Office, toolstile_host: Hosts) -> None:
    theirs = office.tools()[1:2]
    with toolstile_host().executor(tools=foreign_tools(theirs)) as tools:
        (again,) = governed(governed(theirs, tools), tools)
        assert asyncio.run(again.arun("it")) == "it is here."


def test_a_tool_is_called_by_hand(office: Office, desk: Desk, toolstile_host: Hosts) -> None:
    host = toolstile_host(*desk.tools(), approver=desk.later)
    theirs = [office.tools()[1]]
    with host.executor(tools=foreign_tools(theirs)) as tools:
        own = {each.name: each for each in toolset(tools)}
        made: Any = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}
        assert own["add"].invoke({"a": 1, "b": 2}) == "3"
        assert own["add"].invoke(made).content == "3"
        assert "waits for a person" in own["erase"].invoke({"name": "a"})
        (look,) = governed(theirs, tools)
        assert asyncio.run(look.arun("it")) == "it is here."
        assert look.tool_call_schema is not None
    assert "look" in own


def test_a_call_by_hand_that_waits_for_a_person_waits_for_no_other(
    desk: Desk, toolstile_host: Hosts
) -> None:
    async def both() -> str:
        answered = asyncio.Event()

        @tool(timeout=20)
        async def hold() -> bool:
            """Hold on until the other call is answered."""
            return await answered.wait()

        with toolstile_host(*desk.tools(), hold, approver=desk.later).executor() as tools:
            own = {each.name: each for each in toolset(tools)}
            holding = asyncio.ensure_future(own["hold"].ainvoke({}))
            assert "waits for a person" in await own["erase"].ainvoke({"name": "a"})
            answered.set()
            return await holding

    assert asyncio.run(both()) == "true"


def test_a_section_that_a_call_opens_is_told(toolstile_host: Hosts, go: Go) -> None:
    @tool
    def more() -> str:
        """Ask for more."""
        raise VisibilityExpansionRequired(("mail",))

    mail = MarkdownSection(key="mail", title="Mail", visibility=Visibility.SUMMARY, summary="Mail.")
    desk = MarkdownSection(key="desk", title="Desk", tools=[more])
    prompt = Prompt.of("demo", "desk", [desk, mail])
    with toolstile_host().executor(prompt=prompt) as tools:
        agent = agent_of(ScriptedModel(script=[[call("c1", "more")]]), toolset(tools), None)
        assert texts(go(agent, GO)) == {"c1": "These sections are open now: mail."}


def test_an_interrupt_of_our_tool_leaves_the_run(toolstile_host: Hosts, go: Go) -> None:
    @tool
    def stop() -> str:
        """Stop."""
        raise Interrupt("stopped")

    with toolstile_host(stop).executor() as tools:
        agent = agent_of(ScriptedModel(script=[[call("c1", "stop")]]), toolset(tools), None)
        with pytest.raises(Interrupt, match="stopped"):
            go(agent, GO)


def test_a_tool_of_theirs_may_pause_once_it_is_approved(
    office: Office, desk: Desk, toolstile_host: Hosts, go: Go, tmp_path: Path
) -> None:
    """In a stored session, where an approval is used up by the call that is kept."""
    theirs = office.tools()[:1]
    asking = [replace(each, requires_confirmation=True) for each in foreign_tools(theirs)]
    stored = {"path": str(tmp_path / "state.db")}
    options: Any = {"approval_spent": tmp_path / "state.db", "approval_key": "k" * 32}
    host = toolstile_host(
        "sessions",
        "ledger",
        settings={"sessions": stored, "ledger": stored},
        approver=desk.later,
        **options,
    )
    with host.executor(tools=asking, session_id="s") as tools:
        model = ScriptedModel(script=[[call("c1", "send", to="all")]])
        agent = agent_of(model, governed(theirs, tools), InMemorySaver())
        (asked,) = questions(go(agent, GO)).values()
        (own,) = go(agent, Command(resume={**asked.value, "answer": True}))["__interrupt__"]
        assert own.value == "All of them?"
        assert texts(go(agent, Command(resume="yes"))) == {"c1": "Sent to all."}
    assert desk.asked == ["c1"]
    assert office.given.count("yes") == 1
