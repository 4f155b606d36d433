"""A stranger's store of sessions keeps to the contract, and hosts share sessions through it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from toolstile import ConfigurationError, Executor, Host, Settings
from toolstile_hookspecs import Binding, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.testing import SessionStoreContract

from .their_sessions import TheirSessions


class TestTheirSessions(SessionStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> TheirSessions:
        return TheirSessions(tmp_path / "sessions")

    @pytest.fixture
    def again(self, tmp_path: Path) -> TheirSessions:
        return TheirSessions(tmp_path / "sessions")


@tool(category="write")
def note(text: str, *, context: ToolContext) -> int:
    """Note a text, and count the notes."""
    context.session[str].append(text)
    if text == "wrong":
        raise ValueError("The text is wrong. Note another.")
    return len(context.session[str].all())


def opened(stack: ExitStack, folder: Path, *discover: str, **plugins: object) -> Executor:
    host = Host(
        settings=Settings.model_validate({"plugins": plugins}),
        discover=discover,
        tools=[note],
        resources=[Binding.instance(SessionStore, TheirSessions(folder))],  # type: ignore[type-abstract]
    )
    return stack.enter_context(stack.enter_context(host).executor(session_id="s"))


def test_a_call_stands_on_the_calls_of_another_host(tmp_path):
    with ExitStack() as stack:
        one, two = opened(stack, tmp_path), opened(stack, tmp_path)
        for number, tools in enumerate([one, two, two, one], start=1):
            assert tools.dispatch(ToolCall("note", {"text": str(number)})).result.value == number
        assert not two.dispatch(ToolCall("note", {"text": "wrong"})).success
        assert one.dispatch(ToolCall("note", {"text": "last"})).result.value == 5
    assert len(TheirSessions(tmp_path).after("s", 0)) == 5


def test_a_session_goes_on_after_its_process_was_killed(tmp_path):
    program = f"""
import os, pathlib
from contextlib import ExitStack
from tests.third_party.test_their_sessions import ToolCall, opened
with ExitStack() as stack:
    tools = opened(stack, pathlib.Path({str(tmp_path)!r}))
    tools.dispatch(ToolCall("note", {{"text": "before"}}))
    os.kill(os.getpid(), 9)
"""
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert killed.returncode == -9
    with ExitStack() as stack:
        tools = opened(stack, tmp_path)
        assert tools.dispatch(ToolCall("note", {"text": "after"})).result.value == 2
        assert list(tools.session[str].all()) == ["before", "after"]


def test_a_ledger_that_decides_elsewhere_keeps_the_host_from_opening(tmp_path):
    with ExitStack() as stack, pytest.raises(ConfigurationError, match=r"ledger\.db"):
        opened(stack, tmp_path, "ledger", ledger={"path": tmp_path / "ledger.db"})
