"""`run_python` as a tool, and as a section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Final

from toolstile_hookspecs import MarkdownSection, SessionProtocol, Tool, ToolContext, ToolResult
from toolstile_plugins.code.functions import (
    CodeFunction,
    RunPython,
    ScriptResult,
    described,
    functions_of,
)
from toolstile_plugins.code.settings import CodeConfig, Workers, monty

NAME: Final = "run_python"
_ABOUT: Final = (
    "Run a Python script that calls tools as functions; all of its changes are kept, or none."
)
_GUIDANCE: Final = """\
Use `run_python` for several calls at once, for loops over calls, and to work with their results.

- A function of a script is the tool of that name: the same rules hold, a person may be asked.
- A failed call raises `RuntimeError`, a denied call `PermissionError`. If the script catches it, \
only that call is undone; if not, the script ends and all its changes are undone.
- Call functions in loops and comprehensions; `map` and `sorted` cannot call them.
- The value of the last expression is the result; `print` shows more. There are no files, no \
network, and hardly any modules: use functions for them.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeTool(Tool[RunPython, ScriptResult]):
    """The tool `run_python`; the host gives it the tools of its prompt."""

    config: CodeConfig = field(default_factory=CodeConfig, repr=False)  # its settings
    # The pool for its scripts, unless the host of the call has one.
    workers: Workers = field(default_factory=lambda: Workers(CodeConfig().workers), repr=False)
    original: CodeTool | None = field(default=None, repr=False)  # the tool without functions

    def within(self, tools: Sequence[Tool[Any, Any]]) -> CodeTool:
        """Return the tool with the tools of a prompt as its functions."""
        wanted, own = self.config.functions, {self.name, NAME}
        chosen = [tool for tool in tools if tool.name not in own]
        if wanted is not None:
            chosen = [tool for tool in chosen if wanted.selects(tool)]
        return _fitted(self.original or self, tuple(chosen))


@lru_cache(maxsize=32)
def _fitted(tool: CodeTool, tools: tuple[Tool[Any, Any], ...]) -> CodeTool:
    functions = functions_of(tools)
    about = tool.long_description or tool.description
    shown = described(functions.values(), tool.config.max_signatures)
    called = [function.tool for function in functions.values()]
    only_reads = tool.category == "side_effect" and all(each.category == "read" for each in called)
    return replace(
        tool,
        category="read" if only_reads else tool.category,
        handler=partial(_run, functions, tool.config, tool.workers),
        original=tool,
        long_description=f"{about}\n\n{shown}",
        depends_on=tuple(each.name for each in called),
        # Because a retry after a conflict would repeat effects outside.
        contained=all(each.contained for each in called),
    )


def _run(
    functions: dict[str, CodeFunction],
    config: CodeConfig,
    own: Workers,
    params: RunPython,
    *,
    context: ToolContext,
) -> ToolResult[ScriptResult]:
    from toolstile_plugins.code.script import Script  # late, because it imports the library

    # The pool of the host ends with the host; a section without the plugin has its own.
    workers = context.resources.get(Workers, None) or own
    return Script(params.code, functions, config, workers, context).run()


def code_tool(config: CodeConfig | None = None) -> CodeTool:
    """Return the tool `run_python`.

    Args:
        config: Its settings.

    Example:
        >>> code_tool().name
        'run_python'
    """
    config = config or CodeConfig()
    workers = Workers(config.workers)
    return CodeTool(
        name=NAME,
        description=_ABOUT,
        handler=partial(_run, {}, config, workers),
        category="side_effect",
        consequence="low",
        timeout=config.timeout,
        config=config,
        workers=workers,
    )


class CodeSection(MarkdownSection):
    """A section with `run_python`: scripts whose functions are the tools of its prompt.

    Args:
        session: Unused; other sections keep their state in it.
        config: The settings.

    Raises:
        ConfigurationError: pydantic-monty is not installed; names the remedy.

    Example:
        >>> [tool.name for tool in CodeSection().tools]
        ['run_python']
    """

    def __init__(
        self,
        session: SessionProtocol | None = None,  # noqa: ARG002 - the shape of all suites
        *,
        config: CodeConfig | None = None,
    ) -> None:
        monty()
        super().__init__(**section_parts(config or CodeConfig()))


def section_parts(config: CodeConfig) -> dict[str, Any]:
    """Return the fields of the section."""
    return {"key": "code", "title": "Code", "template": _GUIDANCE, "tools": (code_tool(config),)}
