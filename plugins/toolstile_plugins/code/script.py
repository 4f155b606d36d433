"""A script: Monty runs it, and each function that it calls is a nested call of `run_python`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pydantic_core
from pydantic_monty import (
    FunctionSnapshot,
    MontyComplete,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
    MontyTypingError,
    SyncSnapshot,
)

from toolstile_hookspecs import Status, ToolContext, ToolResult
from toolstile_hookspecs.codecs import as_sentence
from toolstile_hookspecs.support.text import cut
from toolstile_plugins.code.functions import CodeFunction, ScriptResult, declarations
from toolstile_plugins.code.settings import CodeConfig, Workers

_FILE: Final = "script.py"
_OF_SCRIPT: Final = "<python-input-0>"
_CUT: Final = "... (cut; print or return less)"
_AGAIN: Final = "Change the script, then retry."


@dataclass(eq=False)
class Script:
    """The run of a script within a call of `run_python`."""

    code: str
    functions: Mapping[str, CodeFunction]  # that it can call, by their names
    config: CodeConfig
    workers: Workers
    context: ToolContext  # of the call
    _printed: list[str] = field(default_factory=list[str], init=False)
    _room: int = field(default=0, init=False)
    _failed: tuple[str, str] = field(default=("", ""), init=False)
    _outside: dict[str, None] = field(default_factory=dict[str, None], init=False)

    def run(self) -> ToolResult[ScriptResult]:
        """Run it to its end; `ToolValidationError` if no worker is free."""
        self._room = self.config.max_output
        with self.workers.session(self.context, **self._options()) as session:
            try:
                now = session.feed_start(
                    self.code,
                    # The script calls them by their names; as a value, each must be callable.
                    external_lookup=dict.fromkeys(self.functions, lambda: None),
                    print_callback=self._print,
                )
                while not isinstance(now, MontyComplete):
                    if (
                        isinstance(now, FunctionSnapshot)
                        and not now.is_os_function
                        and now.function_name in self.functions
                    ):
                        now = self._call(now)
                    else:
                        now = now.resume_auto()
                return self._result(now.output)
            except MontyError as error:
                return ToolResult.error(self._stopped(error))

    def _options(self) -> dict[str, Any]:
        config = self.config
        return {
            "script_name": _FILE,
            "limits": {
                "max_feed_duration_secs": config.compute_seconds,
                "max_memory": config.memory,
                # Each look-up of a function as a value counts, too.
                "max_suspensions": config.max_calls,
            },
            "type_check": config.type_check,
            "type_check_stubs": declarations(self.functions.values()),
            "type_check_format": "concise",
            "os_policy": {"datetime": self.context.clock.now(), "sleep": "zero"},
        }

    def _print(self, stream: Literal["stdout", "stderr"], text: str) -> None:  # noqa: ARG002 - one output
        if self._room > 0:
            self._printed.append(text[: self._room])
            self._room -= len(text)
            if self._room < 0:
                self._printed.append(_CUT)

    def _call(self, now: FunctionSnapshot) -> SyncSnapshot:
        function = self.functions[now.function_name]
        try:
            given = function.arguments(now.args, now.kwargs)
            arguments = pydantic_core.to_jsonable_python(given)
        except (TypeError, ValueError) as error:
            return now.resume({"exception": TypeError(str(error))})
        # An exception of `context.call` ends the script, which cannot catch it.
        outcome = self.context.call(function.tool.name, arguments)
        if outcome.success:
            if not function.tool.contained:
                self._outside[function.name] = None
            # Masked, as for a model, and the text if it has no value.
            shown = outcome.event.shown_value if outcome.data is not None else outcome.text or None
            return now.resume({"return_value": shown})
        self._failed = (function.name, outcome.text)
        type_ = PermissionError if outcome.status is Status.DENIED else RuntimeError
        return now.resume({"exception": type_(outcome.text)})

    def _result(self, value: Any) -> ToolResult[ScriptResult]:
        try:
            text = pydantic_core.to_json(
                value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings"
            ).decode()
            plain = json.loads(text)
        except ValueError as error:
            told = f"The value of the script cannot be shown: {as_sentence(str(error))}"
            return ToolResult.error(f"{told}{self._left()} {_AGAIN}")
        if len(text) > self.config.max_output:
            if not isinstance(plain, str):
                told = f"The value of the script takes {len(text):,} characters as JSON, and "
                told += f"{self.config.max_output:,} are the most. Return less."
                return ToolResult.error(f"{told}{self._left()} {_AGAIN}")
            plain = cut(plain, self.config.max_output)
        return ToolResult.ok(ScriptResult(plain, "".join(self._printed)))

    def _stopped(self, error: MontyError) -> str:
        if isinstance(error, MontyTypingError | MontySyntaxError):
            told = str(error).replace(f"{_FILE}:", "line ").strip()
            return f"The script did not run, as it does not fit its functions:\n{told}\n{_AGAIN}"
        frames = error.traceback() if isinstance(error, MontyRuntimeError) else []
        lines = [frame.line for frame in frames if frame.filename == _OF_SCRIPT]
        where = f" at line {lines[-1]}" if lines else ""
        name, text = self._failed
        why = str(error)
        if text and text in why:
            where, why = f"{where}, in {name}", text
        printed = f"\nPrinted before:\n{''.join(self._printed).rstrip()}" if self._printed else ""
        return f"The script stopped{where}: {as_sentence(why)}{self._left()} {_AGAIN}{printed}"

    def _left(self) -> str:
        if not self._outside:
            return " Its changes are rolled back."
        done = ", ".join(self._outside)
        return f" Its changes are rolled back, except the effects of {done} outside: check these."
