"""`evaluate_python` as a section."""

from __future__ import annotations

import importlib
from typing import Any, Final

from toolstile_hookspecs import (
    Binding,
    MarkdownSection,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolResult,
)
from toolstile_plugins.asteval.settings import AstevalConfig, Evaluated, EvaluatePython
from toolstile_plugins.cli_support import needing

NAME: Final = "evaluate_python"
_ABOUT: Final = (
    "Calculate with Python, on variables and files of the workspace. It is a calculator, and no "
    "sandbox against an attacker who has found a hole: for that, use a container."
)
_GUIDANCE: Final = """\
Use `evaluate_python` to calculate. The value of the last expression is the result:

```python
def mean_of(rows):
    return statistics.mean(row["price"] for row in rows if row["price"] > 0)

total = 0
for row in rows:
    if row["price"] > 10:
        total += row["price"]
{"mean": mean_of(rows), "root": math.sqrt(total)}
```

- There are variables, `if`, loops, functions, comprehensions and f-strings; no imports, classes, \
`with` or `try`.
- There are the usual functions for numbers, texts and lists, `math`, and of `statistics` `mean`, \
`median`, `stdev`, `pstdev` and `variance`.
- `globals` gives variables as JSON texts: `{"rows": "[{\\"price\\": 12}]"}`.
- `reads` gives files by path, `reads["a.csv"]`, as `read_text("a.csv")` does. `write_text(path, \
content, mode)` and `writes` write files once the code has succeeded, all of them or none.
"""


def evaluate_python(params: EvaluatePython, *, context: ToolContext) -> ToolResult[Evaluated]:
    """Evaluate code; the handler, which an isolated process finds by its name."""
    from toolstile_plugins.asteval.evaluation import evaluate  # late, because it needs POSIX

    return evaluate(params, context)


def asteval() -> Any:
    """Return the library that evaluates code, or raise `ConfigurationError` with the remedy."""
    with needing(f"{NAME} needs asteval, which is not installed.", "workspace"):
        return importlib.import_module("asteval")


class AstevalSection(MarkdownSection):
    """A section with `evaluate_python`, a calculator in an isolated process.

    Args:
        session: Unused; other sections keep their state in it.
        config: The limits.
        accepts_overrides: Whether the tool's description may be overridden.

    Raises:
        ConfigurationError: asteval is not installed; names the remedy.

    Example:
        >>> [tool.name for tool in AstevalSection().tools]
        ['evaluate_python']
    """

    def __init__(
        self,
        session: SessionProtocol | None = None,  # noqa: ARG002 - the shape of all suites
        *,
        config: AstevalConfig | None = None,
        accepts_overrides: bool = True,
    ) -> None:
        asteval()
        config = config or AstevalConfig()
        super().__init__(**section_parts(config, accepts_overrides=accepts_overrides))


def section_parts(config: AstevalConfig, *, accepts_overrides: bool = True) -> dict[str, Any]:
    """Return the fields of the section."""
    tool = Tool[EvaluatePython, Evaluated](
        name=NAME,
        description=_ABOUT,
        handler=evaluate_python,
        accepts_overrides=accepts_overrides,
        category="side_effect",
        consequence="low",
        contained=True,
        isolation="process",
        timeout=config.timeout,
    )
    return {
        "key": "asteval",
        "title": "Calculations",
        "template": _GUIDANCE.replace("$", "$$"),
        "tools": (tool,),
        "resources": (Binding[AstevalConfig].instance(AstevalConfig, config, portable=True),),
    }
