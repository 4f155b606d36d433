"""A dry run as a whole: its calls see what those before them did, and nothing of it is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from toolstile.pipeline.call_run import CallRun
from toolstile.pipeline.committing import (
    commit_all,
    join_session,
    let_none_join,
    prepare_to_join,
)
from toolstile.pipeline.ending import tell_rollback
from toolstile.pipeline.masking import secrets_of_call
from toolstile.pipeline.plan import Table
from toolstile.pipeline.reviewing import describe
from toolstile.pipeline.steps import Staged, Step
from toolstile.pipeline.undoing import undo, undo_participants
from toolstile_hookspecs import ToolCall, hide

if TYPE_CHECKING:
    from toolstile.executor import Executor


class Rehearsal(CallRun):
    """What the calls of a dry run become part of: a call that is never kept.

    To the calls it is no parent: they are dispatched, told of and approved as ever.

    Args:
        executor: What the dry run is made with.
    """

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor, ToolCall("dry_run"))
        self._secrets: set[str] = set()
        self.open()
        self.branch.begin()

    def join(self, run: CallRun, table: Table) -> Staged:
        """Make a successful call's changes part of the dry run, for those after it to see.

        What plugins keep for it elsewhere is put back at once, since nobody can tell whether
        calls that are not kept see one another there.
        """
        yield from let_none_join(run)
        yield from prepare_to_join(run)
        join_session(run)
        run.rolled_back = True
        self._secrets.update(secrets_of_call(run))
        yield from undo_participants(run)
        tell_rollback(run, table, "It was a dry run.")
        yield from commit_all(run, deque(run.scope.joining()))

    def changes(self) -> Generator[Step, Any, str]:
        """Return what all calls together would change, without their secrets."""
        return hide((yield from describe(self)), self._secrets)

    def give_up(self) -> Staged:
        """Put everything back."""
        yield from undo(self)
        self.scope.close()
