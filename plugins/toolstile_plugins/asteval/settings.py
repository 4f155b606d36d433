"""The settings of `evaluate_python`, the table `[plugins.asteval]`, its params and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field


class AstevalConfig(BaseModel):
    """The limits of `evaluate_python`.

    Args:
        timeout: Seconds after which its process is killed.
        cpu_seconds: Whole seconds of processor time for the code.
        memory: The most bytes for the code, with the interpreter that runs it.
        max_output: Characters after which each of its outputs is cut.

    Example:
        >>> AstevalConfig().timeout
        5.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 5.0
    cpu_seconds: Annotated[int, Field(gt=0, strict=True)] = 3
    memory: Annotated[int, Field(ge=64 * 1024 * 1024, strict=True)] = 256 * 1024 * 1024
    max_output: Annotated[int, Field(gt=0, strict=True)] = 4_096


# --- Params and result


MAX_CODE: Final = 2_000
Mode = Literal["create", "overwrite", "append"]
MODES: Final = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Write:
    """A file to write once the code has succeeded.

    Args:
        path: The file.
        content: Its text; `{name}` stands for a variable of the code.
        mode: `create` for a new file, `overwrite` or `append` for an existing one.
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
        stdout: The printed text.
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
