"""Sessions of Claude Code: its own tools behind our stages, beside the guards that it has."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, ResultMessage, query
from executing.claude_model import PlayedModel, Request, played, scripted
from tests.plugins.adapters.test_claude_agent import options

from toolstile import Executor, Host, MarkdownSection, Prompt, ToolCall, Visibility, tool
from toolstile_hookspecs import (
    ApprovalAnswer,
    CallRefused,
    Deadline,
    PolicyDecision,
    Status,
    ToolInvoked,
    ToolResult,
    hookimpl,
)
from toolstile_plugins.adapters.claude_agent import (
    BUILT_IN,
    answered,
    foreign_tools,
    governed,
    paused,
    toolset,
)

pytestmark = pytest.mark.slow


def bash(id_: str, command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command}, id=id_)


def ours(id_: str, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"mcp__toolstile__{name}", arguments, id=id_)


class Session:
    """A session of Claude Code, and what became of its calls."""

    def __init__(self, tools: Executor, model: PlayedModel, made: ClaudeAgentOptions) -> None:
        self.tools, self.model, self.options = tools, model, made

    def run(self, prompt: str = "go", **more: Any) -> ResultMessage:
        return asyncio.run(self.asked(prompt, **more))

    async def asked(self, prompt: str = "go", **more: Any) -> ResultMessage:
        made = replace(self.options, **more)
        messages = [message async for message in query(prompt=prompt, options=made)]
        return next(message for message in messages if isinstance(message, ResultMessage))

    def ends(self) -> list[tuple[str, Status]]:
        events = self.tools.session[ToolInvoked].all()
        return [(event.call.wire_id, event.status) for event in events]


Opened = Callable[..., AbstractContextManager[Session]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    @contextmanager
    def opened(
        turns: Any, *plugins: object, own: Sequence[Any] = (), theirs: Any = BUILT_IN, **more: Any
    ) -> Generator[Session]:
        reply = turns if callable(turns) else scripted(turns)
        approver = more.pop("approver", None)
        given = {name: more.pop(name, None) for name in ("deadline", "prompt")}
        with (
            played(reply) as model,
            Host(discover=False, plugins=plugins, approver=approver) as host,
            host.executor(tools=[*foreign_tools(theirs), *own], **given) as tools,
        ):
            servers = {"toolstile": toolset(tools)}
            made = options(str(tmp_path), model.url, mcp_servers=servers, **more)
            yield Session(tools, model, governed(replace(made, cwd=tmp_path), tools))

    return opened


class Asking:
    """Asks a person about every call of some tools."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @hookimpl
    def toolstile_check(self, tool: Any) -> PolicyDecision | None:
        asks = tool.name in self.names
        return PolicyDecision.ask("It matters.") if asks else None


def later(_: object) -> ApprovalAnswer:
    return ApprovalAnswer.pending()


# --- Their tools behind our stages


def test_a_tool_of_claude_code_passes_the_stages(opened: Opened) -> None:
    with opened([[bash("c1", "echo hello")]]) as session:
        assert session.run().result == "done"
        (event,) = session.tools.session[ToolInvoked].all()
        assert (event.call.wire_id, event.status) == ("c1", Status.SUCCEEDED)
        assert event.shown_value["stdout"] == "hello"
        assert session.model.read() == {"c1": ("hello", False)}


def test_the_model_reads_the_failure_of_a_tool_as_it_was(opened: Opened) -> None:
    with opened([[bash("c1", "echo no; false")]]) as session:
        session.run()
        text, is_error = session.model.read()["c1"]
        assert "no" in text
        assert is_error
        assert session.ends() == [("c1", Status.ERROR)]


def test_a_tool_that_the_executor_does_not_know_is_refused(opened: Opened, tmp_path: Path) -> None:
    with opened([[bash("c1", "touch a")]], theirs=["Read"]) as session:
        session.run()
        text, is_error = session.model.read()["c1"]
        assert is_error
        assert "host.executor(tools=foreign_tools(['Bash', ...]))" in text
    assert not (tmp_path / "a").exists()


def test_a_result_that_a_plugin_refuses_is_told_beside_it(opened: Opened) -> None:
    class Veto:
        @hookimpl
        def toolstile_on_result(self) -> None:
            raise CallRefused("That must not be known.")

    with opened([[bash("c1", "echo hello")]], Veto()) as session:
        session.run()
        assert "That must not be known." in session.model.said()
        assert session.ends() == [("c1", Status.ERROR)]


def test_a_call_that_takes_too_long_is_told_beside_its_result(
    opened: Opened,
) -> None:
    hasty = [replace(each, timeout=0.2) for each in foreign_tools(["Bash"])]
    with opened([[bash("c1", "sleep 1; echo late")]], own=hasty, theirs=[]) as session:
        session.run()
        assert session.model.read()["c1"][0] == "late"
        assert "Check for these effects before you retry." in session.model.said()
        assert session.ends() == [("c1", Status.TIMED_OUT)]


def test_a_call_that_is_answered_for_is_not_carried_out(opened: Opened, tmp_path: Path) -> None:
    class Recording:
        @hookimpl
        def toolstile_execute(self) -> ToolResult[str]:
            return ToolResult.ok("It was made.")

    with opened([[bash("c1", "touch a")]], Recording()) as session:
        session.run()
        assert "It was made." in session.model.read()["c1"][0]
        assert session.ends() == [("c1", Status.SUCCEEDED)]
    assert not (tmp_path / "a").exists()


def test_the_end_of_an_evaluation_ends_the_session(opened: Opened, tmp_path: Path) -> None:
    turns = [[bash("c1", "touch a")], [bash("c2", "touch b")]]
    with opened(turns, deadline=Deadline.after(-1)) as session:
        session.run()
        assert len(session.model.requests) == 1
    assert list(tmp_path.glob("[ab]")) == []


def test_calls_of_subagents_pass_the_stages(opened: Opened) -> None:
    asked = {"description": "look", "prompt": "look", "subagent_type": "general-purpose"}

    def reply(request: Request) -> Any:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if "look" in str(request["messages"][0]["content"]):
            return [bash("inner", "echo inside")] if turn == 0 else "looked"
        call = ToolCall("Agent", {**asked, "run_in_background": False}, id="outer")
        return [call] if turn == 0 else "done"

    with opened(reply) as session:
        assert session.run().result == "done"
        assert session.ends() == [("inner", Status.SUCCEEDED), ("outer", Status.SUCCEEDED)]


# --- The guards of Claude Code


def test_a_call_that_the_permissions_refuse_is_cancelled(opened: Opened) -> None:
    with opened([[bash("c1", "echo a")]], disallowed_tools=["Bash(echo:*)"]) as session:
        assert session.run().result == "done"
        assert session.ends() == [("c1", Status.CANCELLED)]
        assert "denied" in session.model.read()["c1"][0]


def test_hooks_of_others_come_before_our_tools(opened: Opened) -> None:
    made: list[str] = []

    @tool(category="side_effect")
    def send(to: str) -> str:
        """Send a mail."""
        made.append(to)
        return "Sent."

    async def guard(*_: object) -> Any:
        output = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
        return {"hookSpecificOutput": output}

    hooks = {"PreToolUse": [HookMatcher(matcher="mcp__toolstile__send", hooks=[guard])]}
    with opened([[ours("c1", "send", to="ada")]], own=[send], hooks=hooks) as session:
        session.run()
        assert session.model.read()["c1"][1]
        assert session.ends() == []
    assert made == []


def test_a_session_that_is_closed_ends_its_calls(opened: Opened) -> None:
    async def close(session: Session) -> None:
        async with ClaudeSDKClient(session.options) as client:
            await client.query("go")
            await until((folder / "a").exists)
        assert session.ends() == [("c1", Status.CANCELLED)]

    with opened([[bash("c1", "touch a; sleep 30")]]) as session:
        folder = Path(str(session.options.cwd))
        asyncio.run(close(session))


def test_the_next_prompt_ends_the_calls_of_one_that_was_interrupted(opened: Opened) -> None:
    async def interrupt(session: Session) -> None:
        async with ClaudeSDKClient(session.options) as client:
            await client.query("go")
            await until((folder / "a").exists)
            await client.interrupt()
            assert [message async for message in client.receive_response()]
            await client.query("go on")
            assert [message async for message in client.receive_response()]
            assert session.ends() == [("c1", Status.CANCELLED)]

    with opened([[bash("c1", "touch a; sleep 30")]]) as session:
        folder = Path(str(session.options.cwd))
        asyncio.run(interrupt(session))


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happened():  # noqa: ASYNC110 - another process makes it happen
            await asyncio.sleep(0.02)


# --- Sessions side by side


def in_two_sessions(request: Request) -> Any:
    """Return a call of the same id in sessions with different prompts."""
    own, other = ("a", "b") if "to a" in str(request["messages"][0]["content"]) else ("b", "a")
    if any(message["role"] == "assistant" for message in request["messages"]):
        return "done"
    return [bash("c1", f"touch {own}; while [ ! -e {other} ]; do sleep 0.05; done; echo {own}")]


async def both(*sessions: Awaitable[ResultMessage]) -> list[ResultMessage]:
    return list(await asyncio.gather(*sessions))


def test_calls_of_the_same_id_belong_to_their_sessions(opened: Opened) -> None:
    with opened(in_two_sessions) as session:
        asyncio.run(both(session.asked("to a"), session.asked("to b")))
        events = session.tools.session[ToolInvoked].all()
        assert [event.status for event in events] == [Status.SUCCEEDED] * 2
        assert {event.shown_value["stdout"] for event in events} == {"a", "b"}


def test_pauses_of_calls_of_the_same_id_belong_to_their_sessions(
    opened: Opened, tmp_path: Path
) -> None:
    with opened(in_two_sessions, Asking("bash"), approver=later) as session:
        ends = asyncio.run(both(session.asked("to a"), session.asked("to b")))
        first, second = (paused(ended, session.tools) for ended in ends)
        assert first is not None
        assert second is not None
        assert "echo a" in first.arguments["command"]
        answered(first, ApprovalAnswer.edit({"command": "touch first"}), session.tools)
        answered(second, ApprovalAnswer.deny("Keep b."), session.tools)
        for call in (second, first):
            session.run("go on", resume=call.session_id)
    assert [file.name for file in tmp_path.glob("[abf]*")] == ["first"]


# --- Pauses


def test_a_tool_of_claude_code_waits_and_is_edited(opened: Opened, tmp_path: Path) -> None:
    turns = [[bash("c1", "touch a")]]
    with opened(turns, Asking("bash"), approver=later) as session:
        waits = paused(session.run(), session.tools)
        assert waits is not None
        assert (waits.id, waits.name, waits.arguments) == ("c1", "Bash", {"command": "touch a"})
        answered(waits, ApprovalAnswer.edit({"command": "touch b"}), session.tools)
        assert session.run("go on", resume=waits.session_id).result == "done"
        assert session.ends() == [("c1", Status.PENDING), ("c1", Status.SUCCEEDED)]
    assert [file.name for file in tmp_path.glob("[ab]")] == ["b"]


def test_a_session_pauses_for_one_call(opened: Opened, tmp_path: Path) -> None:
    turns = [[bash("c1", "touch a"), bash("c2", "touch b")]]
    with opened(turns, Asking("bash"), approver=later) as session:
        waits = paused(session.run(), session.tools)
        assert waits is not None
        assert waits.id == "c1"
        answered(waits, ApprovalAnswer.approve(), session.tools)
        session.run("go on", resume=waits.session_id)
        assert "retry this one after that" in session.model.read()["c2"][0]
    assert [file.name for file in tmp_path.glob("[ab]")] == ["a"]


def test_a_subagent_does_not_wait(opened: Opened, tmp_path: Path) -> None:
    asked = {"description": "look", "prompt": "look", "subagent_type": "general-purpose"}

    def reply(request: Request) -> Any:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if "look" in str(request["messages"][0]["content"]):
            return [bash("inner", "touch a")] if turn == 0 else "looked"
        call = ToolCall("Agent", {**asked, "run_in_background": False}, id="outer")
        return [call] if turn == 0 else "done"

    with opened(reply, Asking("bash"), approver=later) as session:
        assert session.run().result == "done"
        assert "A subagent cannot wait" in session.model.read()["inner"][0]
    assert not (tmp_path / "a").exists()


def test_a_session_that_goes_on_without_an_answer_waits_again(opened: Opened) -> None:
    with opened([[bash("c1", "touch a")]], Asking("bash"), approver=later) as session:
        first = session.run()
        again = session.run("go on", resume=first.session_id)
        waits = paused(again, session.tools)
        assert waits is not None
        assert waits.id == "c1"


def test_a_call_that_cannot_be_deferred_is_refused(opened: Opened, tmp_path: Path) -> None:
    turns = [[bash("c1", "touch a"), bash("c2", "echo b")]]
    asking = [replace(each, requires_confirmation=True) for each in foreign_tools(["Bash"])]
    with opened(turns, own=asking, theirs=[], approver=later) as session:
        session.model.streams = False
        assert session.run().result == "done"
        text, is_error = session.model.read()["c1"]
        assert "waits for a person's approval" in text
        assert is_error
    assert not (tmp_path / "a").exists()


def test_a_call_of_ours_that_a_policy_asks_about_waits_when_it_is_repeated(opened: Opened) -> None:
    @tool(category="side_effect")
    def send(to: str) -> str:
        """Send a mail."""
        return f"Sent to {to}."

    turns = [[ours("c1", "send", to="ada")], [ours("c2", "send", to="ada")]]
    with opened(turns, Asking("send"), own=[send], approver=later) as session:
        waits = paused(session.run(), session.tools)
        assert "Call it again, unchanged" in session.model.read()["c1"][0]
        assert waits is not None
        assert waits.id == "c2"
        answered(waits, ApprovalAnswer.approve(), session.tools)
        session.run("go on", resume=waits.session_id)
        assert session.model.read()["c2"] == ("Sent to ada.", False)


# --- The tools of both sides


def test_a_section_is_opened_within_a_session(opened: Opened) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "Seen."

    section = MarkdownSection(
        key="more",
        title="More",
        template="Look.",
        tools=[look],
        visibility=Visibility.SUMMARY,
        summary="There is more.",
    )
    turns = [
        [ours("c1", "look")],
        [ours("c2", "open_sections", section_keys=["more"], reason="To look.")],
        [ours("c3", "look")],
    ]
    with opened(turns, theirs=[], prompt=Prompt.of("demo", "main", [section])) as session:
        session.run()
        read = session.model.read()
        assert "Call open_sections with 'more', then retry." in read["c1"][0]
        assert read["c2"] == ("These sections are open now: more.", False)
        assert read["c3"] == ("Seen.", False)


def test_our_server_offers_our_tools_alone(opened: Opened) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    with opened([], own=[add]) as session:
        session.run()
        names = [each["name"] for each in session.model.requests[0]["tools"]]
    assert [name for name in names if name.startswith("mcp__")] == ["mcp__toolstile__add"]


def test_names_have_categories() -> None:
    made = foreign_tools(["Bash", "Read", "Write", "mcp__github__create_issue"])
    assert [(each.wire_name or each.name, each.category, each.timeout) for each in made] == [
        ("Bash", "side_effect", None),
        ("Read", "read", None),
        ("Write", "write", None),
        ("mcp__github__create_issue", "side_effect", None),
    ]


def test_options_name_their_tools() -> None:
    chosen = ClaudeAgentOptions(
        tools=["Read"], allowed_tools=["Read", "mcp__toolstile__add", "mcp__github__search"]
    )
    named = [each.wire_name or each.name for each in foreign_tools(chosen)]
    assert named == ["Read", "mcp__github__search"]
    every = [each.wire_name or each.name for each in foreign_tools(ClaudeAgentOptions())]
    assert every == list(BUILT_IN)


def test_an_executor_is_let_go_when_its_sessions_have_ended(toolstile_host: Any) -> None:
    with toolstile_host().executor(tools=foreign_tools(["Bash"])) as tools:
        governed(["Bash"], tools)
        kept = ref(tools)
    del tools
    gc.collect()
    assert kept() is None


def test_names_are_governed_by_hooks() -> None:
    with Host(discover=False) as host, host.executor(tools=foreign_tools(["Bash"])) as tools:
        hooks = governed(["Bash"], tools)
    assert "PreToolUse" in hooks
    assert all(each.on_failure == "block" for matchers in hooks.values() for each in matchers)
