"""Scripts: their params and result, and the tools as their functions, with signatures."""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any, Final, cast

from pydantic import Field, PydanticUserError

from toolstile_hookspecs import DefinitionError, ForeignTool, Tool
from toolstile_hookspecs.execution.prompt_tools import section_tools
from toolstile_hookspecs.execution.schemas import params_schema

Schema = Mapping[str, Any]

_PREAMBLE: Final = """\
from typing import Any, Literal, Mapping, NotRequired, Sequence, TypedDict
filter: Any
format: Any
getattr: Any
hasattr: Any
map: Any
setattr: Any
class FileExistsError(OSError): ...
class FileNotFoundError(OSError): ...
class PermissionError(OSError): ...
"""
"""Names that Monty runs, but its type checker does not know."""
_PLAIN: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_WORDS: Final = re.compile(r"\w+", re.ASCII)
MAX_CODE: Final = 100_000
_REFERENCE: Final = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")


@dataclass(frozen=True, slots=True)
class RunPython:
    """The params of `run_python`.

    Args:
        code: The script; the value of its last expression is its result.
    """

    code: Annotated[str, Field(min_length=1, max_length=MAX_CODE)]


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The result of a script.

    Args:
        value: The value of its last expression as plain data, or None.
        printed: Its printed output.
    """

    value: Any = None
    printed: str = ""

    def render(self) -> str:
        """Return the text for the model."""
        parts = [f"Printed:\n{self.printed.rstrip()}"] if self.printed else []
        if self.value is not None or not parts:
            parts.append(f"Value: {json.dumps(self.value, ensure_ascii=False)}")
        return "\n\n".join(parts)


@dataclass(frozen=True)
class CodeFunction:
    """A tool as a function of scripts."""

    name: str
    tool: Tool[Any, Any]
    params: tuple[str, ...]  # their names, in the order of positional arguments
    signature: str
    types: tuple[str, ...] = ()  # the declarations that the signature needs

    def arguments(self, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name; `TypeError` for too many, or one given twice."""
        if len(given) > len(self.params):
            msg = f"{self.name}() takes {len(self.params)} arguments, and {len(given)} are given"
            raise TypeError(msg)
        placed = dict(zip(self.params, given, strict=False))
        if twice := sorted(placed.keys() & named.keys()):
            raise TypeError(f"{self.name}() is given {', '.join(twice)} twice")
        return {**placed, **named}


def functions_of(tools: Iterable[Tool[Any, Any]]) -> dict[str, CodeFunction]:
    """Return the functions that tools are, by their names.

    Tools without a handler, and tools that open sections, are left out.
    """
    made: dict[str, CodeFunction] = {}
    apart, known = section_tools(), dict[str, str]()
    for tool in tools:
        if tool in apart or (isinstance(tool, ForeignTool) and tool.handler is None):
            continue
        name = tool.name.replace("-", "_")
        # Because a name of Python's builtins would mean the builtin.
        if not is_name(name) or hasattr(builtins, name):
            name = f"tool_{name}"
        while name in made:
            name += "_"
        schema: Schema = {}
        with suppress(DefinitionError):
            schema = params_schema(tool)
        properties: Mapping[str, Any] = schema.get("properties", {})
        needed = [key for key in properties if key in schema.get("required", ())]
        optional = [key for key in properties if key not in needed]
        inputs = _Types(schema)
        declared = [
            f"{key}: {inputs.of(properties[key])}{'' if key in needed else ' = ...'}"
            for key in [*needed, *optional]
            if is_name(key)
        ]
        if len(declared) < len(properties) or not schema or schema.get("additionalProperties"):
            declared.append("**more: Any")
        returned, types = _returned(tool, known)
        signature = f"def {name}({', '.join(declared)}) -> {returned}: ..."
        made[name] = CodeFunction(name, tool, (*needed, *optional), signature, types)
    return made


def declarations(functions: Iterable[CodeFunction]) -> str:
    """Return the declarations of functions, for the check of a script's types."""
    there = list(functions)
    types = dict.fromkeys(text for function in there for text in function.types)
    return "\n".join([_PREAMBLE, *types, *(function.signature for function in there), ""])


def described(functions: Iterable[CodeFunction], most: int) -> str:
    """Return the signatures for a model, as many as fit into `most` characters."""
    shown: list[str] = []
    rest: list[str] = []
    seen = set[str]()
    for function in functions:
        lines = [text for text in (*function.types, function.signature) if text not in seen]
        most -= sum(len(line) + 1 for line in lines)
        if most < 0:
            rest.append(function.name)
            continue
        seen.update(lines)
        shown += lines
    parts = ["\n".join(["```python", *shown, "```"])] if shown else []
    if rest:
        parts.append(f"Further functions, by the arguments of their tools: {', '.join(rest)}.")
    return "\n\n".join(parts) or "There are no functions here."


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a function or of an argument."""
    return text.isidentifier() and not keyword.iskeyword(text)


def _returned(tool: Tool[Any, Any], known: dict[str, str]) -> tuple[str, tuple[str, ...]]:
    if tool.exclude_value_from_context:
        return "str", ()
    schema: Schema = {}
    with suppress(PydanticUserError):
        schema = tool.result_codec.schema() or {}
    # A result without a value gives its text.
    if schema.get("type") == "null":
        return "str | None", ()
    results = _Types(schema, known)
    return results.of(schema), tuple(dict.fromkeys(results.declared))


class _Types:
    """Writes the types of a JSON Schema.

    An argument is declared with the widest type, so that no working script is refused.
    """

    def __init__(self, root: Schema, known: dict[str, str] | None = None) -> None:
        self._definitions = {**root.get("definitions", {}), **root.get("$defs", {})}
        # The declarations of all results so far by their names; None for arguments.
        self._known = known
        self._within: list[str] = []
        self.declared: list[str] = []

    def of(self, schema: Any) -> str:
        if not isinstance(schema, Mapping):
            return "Any"
        schema = cast("Schema", schema)
        choices = schema.get("anyOf", schema.get("oneOf"))
        type_: Any = schema.get("type")
        if not isinstance(type_, str | None):
            choices = [{**schema, "type": one} for one in type_]
        if choices is not None:
            types = list(dict.fromkeys(map(self.of, choices)))
            return "Any" if "Any" in types or not types else " | ".join(types)
        if found := _REFERENCE.fullmatch(str(schema.get("$ref"))):
            return self._referred(found[1])
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if self._known is not None and values and all(isinstance(one, str | int) for one in values):
            return f"Literal[{', '.join(map(repr, values))}]"
        if type_ == "array":
            name = "Sequence" if self._known is None else "list"
            return f"{name}[{self.of(schema.get('items'))}]"
        return self._object(schema) if type_ == "object" else _PLAIN.get(str(type_), "Any")

    def _referred(self, name: str) -> str:
        if name in self._within:
            return "Any"
        self._within.append(name)
        found = self.of(self._definitions.get(name))
        self._within.pop()
        return found

    def _object(self, schema: Schema) -> str:
        properties: Schema = schema.get("properties", {})
        if self._known is None:
            return "Mapping[str, Any]"
        if not properties or not all(map(is_name, properties)):
            return f"dict[str, {self.of(schema.get('additionalProperties'))}]"
        needed = schema.get("required", ())
        types = {key: self.of(part) for key, part in properties.items()}
        lines = [
            f"    {key}: {type_ if key in needed else f'NotRequired[{type_}]'}"
            for key, type_ in types.items()
        ]
        return self._declared("".join(_WORDS.findall(str(schema.get("title", "")))), lines)

    def _declared(self, title: str, lines: list[str]) -> str:
        known: dict[str, str] = {} if self._known is None else self._known
        # With a capital, because tools have small letters. One title may stand for several types.
        base = title[:1].upper() + title[1:]
        if not is_name(base) or hasattr(builtins, base) or base in _PREAMBLE:
            base = f"Result{base}"
        for number in count(1):
            name = base if number == 1 else f"{base}{number}"
            text = "\n".join([f"class {name}(TypedDict):", *lines])
            if known.setdefault(name, text) == text:
                self.declared.append(text)
                return name
        raise AssertionError
