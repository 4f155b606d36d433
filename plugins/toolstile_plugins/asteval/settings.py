"""The settings of `evaluate_python`: in code, and as the table `[plugins.asteval]`."""

from __future__ import annotations

from typing import Annotated

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
