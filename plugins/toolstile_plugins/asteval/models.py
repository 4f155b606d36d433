"""The params and the result of `evaluate_python`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args

from pydantic import Field

MAX_CODE: Final = 2_000
Mode = Literal["create", "overwrite", "append"]
MODES: Final = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Write:
    """A file to write once the code has succeeded.

    Args:
        path: The file.
        content: Its text; `{name}` stands for a variable that the code leaves.
        mode: `create` for a file that is not there, `overwrite` or `append` for one that is.
    """

    path: str
    content: str
    mode: Mode = "create"


@dataclass(frozen=True, slots=True)
class EvaluatePython:
    """The params of `evaluate_python`.

    Args:
        code: The code; the value of its last expression is shown.
        globals: Variables by name, each as JSON text.
        reads: Files whose texts the code finds in `reads`, by path.
        writes: Files to write afterwards.
    """

    code: Annotated[str, Field(max_length=MAX_CODE)]
    globals: dict[str, str] = field(default_factory=dict[str, str])
    reads: tuple[str, ...] = ()
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of `evaluate_python`.

    Args:
        value_repr: The value of the last expression as Python shows it, None without one.
        stdout: What was printed.
        stderr: Warnings.
        globals: The variables that the code left, as JSON where possible.
        reads: The files that were read.
        writes: The files that were written.
    """

    value_repr: str | None
    stdout: str
    stderr: str
    globals: dict[str, str]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    def render(self) -> str:
        """Return the text for the model."""
        parts = [f"Value: {self.value_repr}"]
        parts += [f"Printed:\n{self.stdout.rstrip()}"] if self.stdout else []
        parts += [f"Warnings:\n{self.stderr.rstrip()}"] if self.stderr else []
        parts += [f"{name} = {text}" for name, text in self.globals.items()]
        parts += [f"Read: {', '.join(self.reads)}"] if self.reads else []
        parts += [f"Written: {', '.join(self.writes)}"] if self.writes else []
        return "\n".join(parts)
