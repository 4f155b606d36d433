"""The settings of code mode: in code, and as the table `[plugins.code]`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from toolstile_hookspecs import ToolSelector
from toolstile_plugins.code.workers import Workers

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(gt=0, strict=True)]


class CodeConfig(BaseModel):
    """The settings of `run_python`.

    Args:
        functions: The tools that a script can call, as fields of a selector; None for all tools
            of its prompt.
        type_check: Whether a script is checked against the types of its functions before it runs.
        compute_seconds: Seconds for which a script itself may compute.
        timeout: Seconds for a script with the calls it makes, None for any time. Waiting for a
            person does not count.
        memory: The most bytes that a script's values take.
        max_calls: The most calls of tools that a script makes.
        max_output: Characters after which its printed output, and its value, are cut.
        max_signatures: Characters that the signatures take in the tool's description; the names of
            further functions follow.
        workers: The most scripts that run at once.

    Example:
        >>> CodeConfig(functions={"category": ["read"]}).workers
        8
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    functions: ToolSelector | None = None
    type_check: bool = True
    compute_seconds: Seconds = 5.0
    timeout: Seconds | None = 60.0
    memory: Positive = 64 * 1024 * 1024
    max_calls: Positive = 1_000
    max_output: Positive = 30_000
    max_signatures: Positive = 8_000
    workers: Positive = 8

    _workers: Workers | None = PrivateAttr(default=None)

    @property
    def pool(self) -> Workers:
        """The workers that these settings share."""
        if self._workers is None:
            self._workers = Workers(self.workers)
        return self._workers
