"""Checks of tools: their schemas, descriptions of arguments and references to other tools."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import PydanticUserError

from toolstile.plugins.plugin_errors import one_line
from toolstile_cli.lint.diagnostic import Finding
from toolstile_hookspecs import Dialect, FunctionTool, Tool
from toolstile_hookspecs._schema.validation_errors import pointed
from toolstile_hookspecs._tools.function_params import argument_texts, docstring_of
from toolstile_hookspecs.support.text import nearest


def tool_findings(
    tools: Iterable[Tool[Any, Any]], dialects: Mapping[str, Dialect], known: Collection[str]
) -> Iterator[Finding]:
    """Yield what an author should fix in tools.

    Args:
        tools: The tools.
        dialects: The dialects that have to take them, by name.
        known: The names of all tools there are.
    """
    for tool in tools:
        where = f"tool {tool.name}"
        yield from _handler(tool, where)
        yield from _dependencies(tool, where, known)
        invalid = list(_schemas(tool, where))
        yield from invalid
        if not invalid:
            yield from _arguments(tool, where)
            yield from _dialects(tool, where, dialects)


def _handler(tool: Tool[Any, Any], where: str) -> Iterator[Finding]:
    if tool.handler is None:
        yield Finding(
            where,
            "It has no handler, so it cannot be called.",
            "Give it one, or leave the tool out.",
        )


def _dependencies(tool: Tool[Any, Any], where: str, known: Collection[str]) -> Iterator[Finding]:
    for name in tool.depends_on:
        if name not in known:
            near = nearest(name, known)
            hint = f"Write {near}, if that is meant" if near else "Correct the name"
            yield Finding(
                where,
                f"It depends on {name}, but no tool here is called that.",
                f"{hint}, or install the plugin that offers it.",
            )


def _schemas(tool: Tool[Any, Any], where: str) -> Iterator[Finding]:
    from jsonschema import Draft202012Validator, SchemaError  # heavy, and only here

    for what, codec in (("params", tool.params_codec), ("result", tool.result_codec)):
        try:
            Draft202012Validator.check_schema(codec.schema())
        except PydanticUserError as error:
            yield Finding(
                where,
                f"There is no JSON Schema of its {what}: {error.message.rstrip('.')}.",
                "Use types that JSON has, or say with pydantic's WithJsonSchema what is meant.",
            )
        except SchemaError as error:
            yield Finding(
                where,
                f"The JSON Schema of its {what} is not valid at {error.json_path}: "
                f"{error.message}.",
                "Correct what the type says of its schema.",
            )


def _arguments(tool: Tool[Any, Any], where: str) -> Iterator[Finding]:
    root = tool.params_codec.schema()
    properties: Mapping[str, Any] = root.get("properties", {})
    bare = [name for name, schema in properties.items() if not _says_something(schema, root)]
    if bare:
        one = len(bare) == 1
        strange = _described_in_vain(tool, properties)
        told = f"; the docstring describes {', '.join(strange)}, which it does not take"
        yield Finding(
            where,
            f"Its argument{'' if one else 's'} {', '.join(bare)} {'has' if one else 'have'} no "
            f"description{told if strange else ''}; a model has to guess what to give.",
            "Describe each in the docstring, under `Args:`, or with Annotated[..., '...'].",
        )


def _described_in_vain(tool: Tool[Any, Any], properties: Collection[str]) -> list[str]:
    """Return the names in the docstring's `Args:` that no argument of a function has."""
    if not isinstance(tool, FunctionTool):
        return []
    taken = {*properties, *inspect.signature(tool.function).parameters}
    return [each for each in argument_texts(docstring_of(tool.function)) if each not in taken]


def _says_something(schema: Any, root: Mapping[str, Any]) -> bool:
    """Tell whether an argument is described, or a type that it refers to."""
    if isinstance(schema, bool) or "description" in schema:
        return True
    if "$ref" in schema:
        target = pointed(root, schema["$ref"])
        return not isinstance(target, Mapping) or "description" in target
    return any(_says_something(each, root) for each in schema.get("anyOf", ()))


def _dialects(
    tool: Tool[Any, Any], where: str, dialects: Mapping[str, Dialect]
) -> Iterator[Finding]:
    for name, dialect in dialects.items():
        try:
            dialect.schemas([tool])
        except Exception as error:  # noqa: BLE001 - dialects are plugins'
            yield Finding(
                where,
                f"The dialect {name} does not take it: {one_line(error)}.",
                "Use types whose JSON Schema this provider knows.",
            )
