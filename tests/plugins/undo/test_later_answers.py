"""A call with a note of its undo, whose changes a person approves later."""

from __future__ import annotations

from typing import Any

from toolstile import ApprovalAnswer, Host, Settings, ToolCall, ToolContext, tool
from toolstile_hookspecs.execution.undo import UndoNote

RAN: list[str] = []


@tool(contained=True, requires_confirmation=True, category="write")
def note(text: str, *, context: ToolContext) -> str:
    """Note a text."""
    RAN.append(text)
    context.session[str].append(text)
    return "Noted."


def test_what_was_shown_is_kept_without_another_run_and_can_be_undone(tmp_path):
    RAN.clear()
    shown: list[Any] = []

    def later(request: Any) -> ApprovalAnswer:
        shown.append(request.change_set())
        return ApprovalAnswer.pending()

    settings = Settings(approve_diff=True, plugins={"undo": {"path": str(tmp_path / "undo")}})
    with (
        Host(discover=("undo",), settings=settings, tools=[note], approver=later) as host,
        host.executor() as tools,
    ):
        asked = tools.dispatch(ToolCall("note", {"text": "a"}))
        kept = tools.resume(asked.call, asked.approval_token, True, changes=shown[0])
        assert (kept.success, RAN) == (True, ["a"])
        assert [each.tool for each in tools.session[UndoNote].all()] == ["note"]
        assert tools.undo(kept.call.id).success
        assert tools.session[str].all() == ()
