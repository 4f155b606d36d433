"""A stranger's plugin: what a person has to approve lies on a shelf, as it was shown.

It imports the contract alone. The application asks the shelf for what waits, and resumes a call
with the change set that the person saw; nothing is run a second time.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    ExecutorHandle,
    Filesystem,
    MarkdownSection,
    Outcome,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_hookspecs.execution.change_set import ChangeSet

PROGRAM = "import uuid; print(uuid.uuid4())"


@tool(contained=True, requires_confirmation=True, category="write")
def generate(path: str, *, context: ToolContext) -> str:
    """Write what a program prints into a file; it prints something else each time."""
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    ).stdout
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write(path, printed)
    return printed


@dataclass
class Shelf:
    """The plugin: an approver, and what it has put away."""

    waiting: dict[str, str] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)

    @hookimpl
    def toolstile_sections(self) -> list[Any]:
        return [MarkdownSection(key="shelf", title="Programs", tools=[generate])]

    @hookimpl
    def toolstile_approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        changes = request.change_set()
        if changes is None:
            return ApprovalAnswer.unanswered("Not all of it can be put away.")
        self.waiting[request.call.id] = changes.to_json()
        self.shown.append(request.diff or "")
        return ApprovalAnswer.pending(ticket=request.call.id)

    def approve(self, tools: ExecutorHandle, pending: Outcome) -> Outcome:
        """Keep what a person saw of a pending call."""
        call: ToolCall = pending.call
        changes = ChangeSet.from_json(self.waiting.pop(call.id))
        token = pending.approval_token
        assert token is not None
        return tools.resume(call, token, True, changes=changes)
