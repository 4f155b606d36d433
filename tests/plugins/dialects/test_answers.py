"""The text that a model reads where an exception stands in an outcome's place."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import (
    DeadlineExceededError,
    Interrupt,
    PromptEvaluationError,
    ToolCall,
    VisibilityExpansionRequired,
)
from toolstile_plugins.dialects.parse import answer

SECRET = "password=hunter2 at 0x7f"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DeadlineExceededError(SECRET), "cannot"),
        (PromptEvaluationError(SECRET), "cannot"),
        (Interrupt(SECRET), "requires human intervention"),
        (VisibilityExpansionRequired(("notes", "tasks"), SECRET), "notes, tasks"),
        (RuntimeError(SECRET), "cannot"),
        (KeyboardInterrupt(SECRET), "cannot"),
    ],
)
def test_an_exception_is_explained_without_its_text(error, says):
    told = answer(error)
    assert says in told.text
    assert SECRET not in told.text
    assert type(error).__name__ not in told.text
    assert told.is_error
    assert not told.success


def test_an_exception_answers_the_call_it_carries():
    error = PromptEvaluationError("over")
    error.call = ToolCall("search", id="call_9")  # type: ignore[attr-defined]
    told = answer(error)
    assert (told.call_id, told.name) == ("call_9", "search")


def test_an_exception_without_a_call_is_answered_all_the_same():
    assert answer(PromptEvaluationError("over")).call_id == "unknown"
