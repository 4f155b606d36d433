"""Gemini: function declarations, `functionCall` and `functionResponse` parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from toolstile_hookspecs import Outcome, Prompt, Tool, ToolCall
from toolstile_hookspecs.execution.schemas import params_schema
from toolstile_plugins.dialects import parse as reading
from toolstile_plugins.dialects.json_schema import Schema, inline, map_subschemas, object_rooted
from toolstile_plugins.dialects.parse import CUT_OFF, Answer, answer

PARTS: Final = (
    *("text", "functionCall", "function_call", "functionResponse", "function_response"),
    *("inlineData", "inline_data", "fileData", "file_data", "executableCode", "executable_code"),
    *("codeExecutionResult", "code_execution_result", "thoughtSignature", "thought_signature"),
)
"""The fields of a part, as the API and its Python client spell them."""

# A function's name begins with a letter or an underscore; a tool's may begin otherwise.
_ODD_NAME: Final = re.compile(r"_*[0-9-]")
_ESCAPED_NAME: Final = re.compile(r"_+[0-9-]")


class Gemini:
    """The Gemini API, in the camelCase of its JSON; its Python client takes that as well.

    Example:
        >>> Gemini().calls({"parts": [{"functionCall": {"name": "add", "args": {"a": 1}}}]})[0].name
        'add'
    """

    name = "gemini"

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[dict[str, Any]]:
        """Return the tools as one entry of `tools`, with a declaration for each."""
        declarations = [_declaration(tool) for tool in reading.tools_of(tools)]
        return [{"functionDeclarations": declarations}] if declarations else []

    def calls(self, reply: Any) -> list[ToolCall]:
        """Return the calls in a response (its first candidate), a content, or a list of parts."""
        return _refused_where_cut_off(_calls_in(reading.listed(_content(reply), "parts")), reply)

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[dict[str, Any]]:
        """Return one user content with a `functionResponse` part for each outcome."""
        parts = [{"functionResponse": _response(outcome)} for outcome in map(answer, outcomes)]
        return [{"role": "user", "parts": parts}] if parts else []

    def recorded(self, document: Any) -> list[ToolCall] | None:
        """Return the calls of recorded contents or a response, None for anything else.

        A response that stands beside the contents is the reply to them.
        """
        said = reading.listed(document, "contents")
        calls = reading.joined(said, [_content(document)], _calls_of)
        calls = _refused_where_cut_off(calls, document)
        return reading.known(calls, said or [document], _is_content)


def _declaration(tool: Tool[Any, Any]) -> dict[str, Any]:
    declaration: dict[str, Any] = {
        "name": _escaped(tool.name),
        "description": reading.with_examples(tool),
    }
    schema = _with_enums(inline(object_rooted(params_schema(tool))))
    if schema.get("properties"):
        declaration["parametersJsonSchema"] = schema
    return declaration


def _with_enums(schema: Schema) -> Schema:
    """Return the schema with each `const`, which Gemini ignores, as an enumeration of one."""
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
        del schema["const"]
    return map_subschemas(schema, _with_enums)


def _content(reply: object) -> object:
    """Return a response's content, the first candidate's; a content is returned unchanged."""
    candidates = reading.items(reading.field(reply, "candidates"))
    return reading.field(candidates[0], "content") if candidates else reply


def _is_content(entry: object) -> bool:
    """Tell a content or a response from whatever else has parts or candidates."""
    candidates = reading.items(reading.field(entry, "candidates"))
    if candidates and reading.field(candidates[0], "finishReason", "finish_reason") is not None:
        return True
    parts: object = reading.field(_content(entry), "parts")
    known = (reading.field(part, *PARTS) is not None for part in reading.items(parts))
    return isinstance(parts, (list, tuple)) and all(known)


def _calls_of(entries: list[Any]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for entry in entries:
        parts = reading.items(reading.field(_content(entry), "parts"))
        calls += _refused_where_cut_off(_calls_in(parts), entry)
    return calls


def _refused_where_cut_off(calls: list[ToolCall], reply: object) -> list[ToolCall]:
    """Return the calls; the last of a response that broke off before its arguments is refused."""
    candidates = reading.items(reading.field(reply, "candidates"))
    reason = reading.field(candidates[0], "finishReason", "finish_reason") if candidates else None
    return reading.without_end(calls) if reason == "MAX_TOKENS" else calls


def _calls_in(parts: list[Any]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for part in parts:
        wanted = reading.field(part, "functionCall", "function_call")
        if wanted is None:
            continue
        name, call_id = reading.field(wanted, "name"), reading.field(wanted, "id")
        if isinstance(name, str) and _ESCAPED_NAME.match(name):
            name = name[1:]
        # A call whose arguments come in parts is not whole, and more of it may come.
        in_parts = reading.field(wanted, "partialArgs", "partial_args", "willContinue")
        given = CUT_OFF if in_parts else reading.field(wanted, "args")
        calls.append(reading.call(name, given, call_id))
    return calls


def _response(result: Answer) -> dict[str, Any]:
    response: dict[str, Any] = {
        "name": _escaped(result.name),
        "response": {"output" if result.success else "error": result.whole_text},
    }
    if result.call is not None and result.call.provider_id:  # a call without an id has none here
        response["id"] = result.call_id
    return response


def _escaped(name: str) -> str:
    return f"_{name}" if _ODD_NAME.match(name) else name
