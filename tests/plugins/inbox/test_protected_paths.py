"""Questions about protected files wait as others do, and no grant answers them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor
from toolstile_hookspecs import Answer, Filesystem, StateError, Status, ToolCall, ToolContext, tool
from toolstile_plugins.approval.grants import Terms
from toolstile_plugins.inbox import resume_pending
from toolstile_plugins.inbox.grants import InboxGrants

from .conftest import BOB, House, inbox_of, only, say

RUNS: list[str] = []


@tool
def write(path: str, *, context: ToolContext) -> str:
    """Write a file; what else it does cannot be rolled back."""
    RUNS.append(path)
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write(path, f"{len(RUNS)}")
    return path


@tool(requires_confirmation=True)
def write_confirmed(path: str, *, context: ToolContext) -> str:
    """Write a file, once a person has agreed to that."""
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    RUNS.append(path)
    files.write(path, f"{len(RUNS)}")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    RUNS.clear()
    root = tmp_path / "workspace"
    root.mkdir()
    return root


def open_tools(house: House, root: Path, **more: Any) -> Executor:
    top = {"plugins": {"vfs": {"root": str(root)}}}
    return house.tools(house.host(write, write_confirmed, wait="pending", top=top, **more))


ENVRC = ToolCall("write", {"path": ".envrc"})


@pytest.mark.parametrize("answer", [Answer.APPROVED, Answer.DENIED])
def test_another_process_keeps_what_the_person_was_shown(
    shared: House, root: Path, answer: Answer
) -> None:
    first = open_tools(shared, root, stored=True)
    assert first.dispatch(ENVRC).status is Status.PENDING
    assert not (root / ".envrc").exists()
    second = open_tools(shared, root, stored=True)
    question = only(inbox_of(second))
    assert ".envrc (a shell)" in question.reasons[0]
    assert (question.diff or "").startswith("decide on:\n  .envrc\n")
    say(inbox_of(second), answer)
    (outcome,) = resume_pending(second)
    assert outcome.success is (root / ".envrc").exists() is (answer is Answer.APPROVED)
    assert (RUNS, resume_pending(first)) == ([".envrc"], [])


def test_a_question_before_the_call_and_one_after_it(house: House, root: Path) -> None:
    tools = open_tools(house, root, stored=True)
    assert tools.dispatch(ToolCall("write_confirmed", {"path": ".envrc"})).status is Status.PENDING
    say(inbox_of(tools))
    (outcome,) = resume_pending(tools)
    assert (outcome.status, RUNS) == (Status.PENDING, [".envrc"])
    say(inbox_of(tools))
    (outcome,) = resume_pending(tools)
    assert outcome.success, outcome.text
    assert RUNS == [".envrc"]
    assert (root / ".envrc").read_text() == "1"


def test_no_grant_answers_and_none_is_made(house: House, root: Path) -> None:
    tools = open_tools(house, root)
    grants = tools.resources.get(InboxGrants)
    tools.dispatch(ENVRC)
    question = only(inbox_of(tools))
    terms = Terms(is_exact=False)
    assert grants.scopes(question, BOB) == []
    with pytest.raises(StateError, match="a person is asked each time"):
        grants.approve(question.ticket, BOB, terms, via="test")
    # Not even one of an earlier version, which names the policy.
    grant = terms.grant(question, BOB, "test", house.clock.now())
    assert not grant.covers(question)
    assert not replace(grant, asked_by=(*question.asked_by, "any")).covers(question)


def test_a_grant_for_the_tool_leaves_protected_files_to_a_person(house: House, root: Path) -> None:
    tools = open_tools(house, root)
    grants = tools.resources.get(InboxGrants)
    tools.dispatch(ToolCall("write_confirmed", {"path": "a.txt"}))
    ticket = only(inbox_of(tools)).ticket
    grants.approve(ticket, BOB, Terms(is_exact=False), via="test")
    assert [outcome.success for outcome in resume_pending(tools)] == [True]
    assert tools.dispatch(ToolCall("write_confirmed", {"path": "b.txt"})).success
    assert tools.dispatch(ToolCall("write_confirmed", {"path": ".envrc"})).status is Status.PENDING
    assert not (root / ".envrc").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a terminal")
def test_a_session_grant_at_the_terminal_is_not_offered(tmp_path: Path) -> None:
    from tests.plugins.pseudo_terminal import terminals

    calls = tmp_path / "calls.jsonl"
    lines = (
        json.dumps({"name": "write_file", "arguments": {"path": path, "content": "x"}})
        for path in (".envrc", "AGENTS.md")
    )
    calls.write_text("\n".join(lines))
    (tmp_path / "work").mkdir()
    with terminals() as started:
        at = started("run", str(calls), "--workspace", "work", cwd=tmp_path)
        shown = at.answer("a", prompt="[e]dit")
        assert ".envrc (a shell)" in shown
        assert "lways" not in shown
        at.expect("Answer with one of the letters")
        at.answer("y", prompt="[e]dit")
        assert "AGENTS.md (agents)" in at.answer("n no", prompt="[e]dit")
        assert at.end()[0] == 1
    assert (tmp_path / "work" / ".envrc").exists()
    assert not (tmp_path / "work" / "AGENTS.md").exists()
