"""The reference of the hooks, from the contract's docstrings."""

from __future__ import annotations

import re

import griffe

from documenting import source
from documenting.pages import Page

_PARTS = (
    ("Set-up, once in the host's life", "toolstile_settings"),
    ("A call, stage by stage", "toolstile_trace"),
)

_SHARED = re.compile(r"^- `(\w+)`: ", re.MULTILINE)
"""An argument that the module's docstring explains for all hooks that take it."""

_CONCERNS = """\
`@applies_to(predicate)` beneath `@hookimpl` leaves an implementation of `toolstile_snapshot` or
`toolstile_execute` out of the calls of tools that it does not concern. The predicate is evaluated
once for each tool, so the calls of all others cost and wait for nothing. With
`recalls=function` an implementation of `toolstile_execute` says of a call's tool, params and
context whether it will answer with an earlier result: then nobody is asked for approval. Where it
does not answer after all, the call is denied."""

_CONCERNS_EXAMPLE = """\
@hookimpl
@applies_to(lambda tool: "remote" in tool.tags)
def toolstile_execute(tool, params, context):
    return partial(run_on_worker, tool.name)"""

_WRAPPERS = """\
`@hookimpl(wrapper=True)` works on `toolstile_parse`, `toolstile_execute` and `toolstile_render`: a
generator that yields once, is sent the stage's answer when it is there, also when that had to be
awaited, and returns the answer to use. What it raises fails the stage; an exception of the stage is
thrown into it. An interruption cannot be swallowed. Other wrappers are refused at registration."""


def hooks_page() -> Page:
    """Write the page."""
    page = Page("Hooks")
    module = source.package("toolstile_hookspecs")["hooks"]
    hooks = [each for name, each in module.functions.items() if name.startswith("toolstile_")]
    assert module.docstring is not None
    page.add(module.docstring.value)
    shared = set(_SHARED.findall(module.docstring.value))
    starts = {first: title for title, first in _PARTS}
    page.table(
        ("hook", "answers", "purpose"),
        (
            (f"[`{each.name}`](#{each.name})", _answers(each), source.first_paragraph(each))
            for each in hooks
        ),
    )
    page.add("The examples on this page use")
    page.block("python", "from toolstile_hookspecs import *")
    for hook in hooks:
        if hook.name in starts:
            page.heading(2, starts[hook.name])
        page.heading(3, hook.name)
        page.block("text", source.signature(hook))
        page.add(f"Answers: {_answers(hook)}.")
        page.says(hook.name, source.first_paragraph(hook))
        source.add_docstring(page, hook)
        documented = _documented(hook) | shared
        page.undocumented += [
            f"{hook.name}({each.name})" for each in hook.parameters if each.name not in documented
        ]
    page.heading(2, "Only for some tools")
    page.add(_CONCERNS)
    page.block("python", _CONCERNS_EXAMPLE)
    page.heading(2, "Wrappers")
    page.add(_WRAPPERS)
    return page


def _answers(hook: griffe.Function) -> str:
    marks = " ".join(str(each.value) for each in hook.decorators)
    return "first result" if re.search(r"firstresult\s*=\s*True", marks) else "all"


def _documented(hook: griffe.Function) -> set[str]:
    sections = hook.docstring.parsed if hook.docstring else ()
    return {
        each.name
        for section in sections
        if isinstance(section, griffe.DocstringSectionParameters)
        for each in section.value
    }
