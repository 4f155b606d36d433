"""The reference of the errors, from the contract's module that defines them."""

from __future__ import annotations

from collections.abc import Iterator

import griffe

from documenting import source
from documenting.pages import Page

BASE = "ToolstileError"

_MEETING = """\
Two kinds of errors use Python's own exceptions. An argument of the wrong type is a `TypeError`, and
the files of a workspace raise `OSError` and `ValueError`, as files do.

**In a handler**, an exception becomes a failed result, and the call is rolled back. The model reads
the text of `ToolValidationError`, `ToolError` and `EffectUnknownError` unchanged. For a
`ConditionError` it reads which condition does not hold, and for any other exception `Internal error
in NAME:` and the text, with secrets masked.

**Out of `dispatch`** come only `PromptEvaluationError`, `VisibilityExpansionRequired`, `Interrupt`
and the types of `Host(interrupts=...)`, after the call is rolled back. `dispatch_all` returns them
in the places of their calls when all calls have ended."""


def errors_page() -> Page:
    """Write the page."""
    module = source.package("toolstile_hookspecs")["errors"]
    assert module.docstring is not None
    page = Page("Errors")
    page.add(module.docstring.value, _MEETING)
    page.block("text", "\n".join(_tree(module, BASE)))
    for kind in module.classes.values():
        page.heading(2, kind.name)
        others = [f"`{base}`" for base in map(str, kind.bases) if base not in module.classes]
        if kind.name != BASE and others:
            page.add(f"Also a {' and a '.join(others)}.")
        page.says(kind.name, source.first_paragraph(kind))
        source.add_docstring(page, kind)
    return page


def _tree(module: griffe.Module, base: str, lead: str = "") -> Iterator[str]:
    """Yield the lines of a drawing of the errors that derive from one."""
    if base == BASE:
        yield BASE
    kinds = [each.name for each in module.classes.values() if base in map(str, each.bases)]
    for kind in kinds:
        is_last = kind == kinds[-1]
        yield f"{lead}{'└── ' if is_last else '├── '}{kind}"
        yield from _tree(module, kind, f"{lead}{'    ' if is_last else '│   '}")
