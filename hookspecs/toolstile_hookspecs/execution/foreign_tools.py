"""Foreign tools: callables with a JSON Schema, whose calls pass all stages as any tool's do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final, cast

from toolstile_hookspecs._schema.json_schema import VALUES, is_bounded
from toolstile_hookspecs._tools.field_checks import MAX_DESCRIPTION
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.support.callables import first_paragraph, first_sentence, is_async_callable
from toolstile_hookspecs.tools import Tool, ToolHandler

ForeignCall = Callable[[dict[str, Any], ToolContext], Any]
"""Carries out a call, given its arguments and context; sync or async."""

_STRANGE: Final = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, eq=False)
class ForeignTool(Tool[Any, Any]):
    """A tool of another framework, or of an agent that has its own: any callable with a schema.

    It takes the options of `Tool`. It is not contained; a call is if a plugin undoes its effects.
    A name that a tool cannot have becomes the wire name, by which models call it. The host does
    not check patterns of the schema that cannot be searched in bounded time.

    Args:
        name: The name in the framework.
        description: The description; a long one is shortened to its first sentence.
        schema: The JSON Schema of the arguments.
        call: `call(arguments, context)`, which returns a value or a `ToolResult`, sync or async.
            None if each dispatch has one: `tools.dispatch(call, using=callable)`.
        server: The origin, such as the name of a framework or a server.

    Raises:
        DefinitionError: Naming the tool, every fault and the remedies.

    Example:
        >>> schema = {"type": "object", "properties": {"to": {"type": "string"}}}
        >>> made = ForeignTool("SendMail", "Send a mail.", schema, category="side_effect")
        >>> made.name, made.wire_name, made.contained
        ('sendmail', 'SendMail', False)
    """

    name: str
    description: str
    schema: Mapping[str, Any] = field(repr=False)
    call: ForeignCall | None = field(default=None, repr=False)
    server: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        settled: dict[str, Any] = {
            "contained": False,
            "params_schema": _enforced(self.schema),
            "origin": self.origin if self.server is None else self.server,
        }
        if self.call is not None:
            settled["handler"] = handler_of(self.call)
        if (name := _STRANGE.sub("_", self.name.lower())[:64]) != self.name:
            settled |= {"name": name, "wire_name": self.wire_name or self.name}
        if len(self.description) > MAX_DESCRIPTION:
            beginning = first_sentence(first_paragraph(self.description), MAX_DESCRIPTION)
            whole = self.long_description or self.description
            settled |= {"description": beginning, "long_description": whole}
        for field_name, value in settled.items():
            object.__setattr__(self, field_name, value)
        super().__post_init__()


def handler_of(call: ForeignCall) -> ToolHandler[Any, Any]:
    """Return a foreign callable as a handler; raises `TypeError` for anything else."""
    if not callable(cast("object", call)):
        given = type(call).__name__
        remedy = "write call(arguments, context)"
        raise TypeError(f"a foreign tool needs a callable, not {given}: {remedy}")
    if is_async_callable(call):

        async def run_async(params: Any, *, context: ToolContext) -> ToolResult[Any]:
            return _as_result(await call(params, context))

        return run_async

    def run(params: Any, *, context: ToolContext) -> ToolResult[Any]:
        return _as_result(call(params, context))

    return run


def _as_result(value: Any) -> ToolResult[Any]:
    if isinstance(value, ToolResult) or isawaitable(value):
        # The host reports an awaitable of a sync handler.
        return cast("ToolResult[Any]", value)
    return ToolResult.ok(value)


_PLAIN: Final = (str, int, float, type(None))


def _enforced(schema: Any) -> Any:
    """Return a schema without the patterns that cannot be searched in bounded time."""
    # Plain types come first, because a check for `Mapping` is slow.
    if isinstance(schema, (dict, Mapping)):
        parts: Any = schema.items()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return {
            key: value if key in VALUES or isinstance(value, _PLAIN) else _enforced(value)
            for key, value in parts
            if key != "pattern" or not isinstance(value, str) or is_bounded(value)
        }
    if isinstance(schema, list):
        return [_enforced(part) for part in cast("list[object]", schema)]
    return schema
