"""The schema of a tool and of a prompt for models, independent of providers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import PydanticUserError

from toolstile_hookspecs.errors import DefinitionError, ToolValidationError
from toolstile_hookspecs.prompts import Prompt
from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.sessions import SessionProtocol
from toolstile_hookspecs.tools import Tool


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """The schema of a tool for models.

    Args:
        name: The name.
        description: The description for models, of any length.
        parameters: The JSON Schema of the arguments; providers may ask for a plainer root.
        examples: The descriptions and arguments of the examples that fit the schema.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    examples: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @classmethod
    def of(cls, tool: Tool[Any, Any]) -> ToolSchema:
        """Return the schema of a tool; `DefinitionError` if its params have none."""
        examples = tuple((said, json.loads(given)) for said, given, _ in examples_of(tool))
        return cls(
            tool.name, tool.long_description or tool.description, params_schema(tool), examples
        )


@dataclass(frozen=True, slots=True)
class PromptSchema:
    """The schema of a prompt for models: its Markdown, and the tools that can be called now."""

    text: str
    tools: tuple[ToolSchema, ...]

    @classmethod
    def of(
        cls,
        prompt: Prompt,
        session: SessionProtocol | None = None,
        resources: ResourceResolver | None = None,
    ) -> PromptSchema:
        """Return the schema of a prompt, with the sections that the session has open."""
        rendered = prompt.render(session, resources)
        return cls(rendered.text, tuple(ToolSchema.of(tool) for tool in rendered.tools))


def params_schema(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the params of a tool, or raise `DefinitionError`."""
    try:
        return tool.params_codec.schema()
    except PydanticUserError as error:
        reason = error.message.rstrip(".")
        raise DefinitionError(
            f"Tool {tool.name!r}: its params have no JSON Schema ({reason}). Use types that JSON "
            "has, or say with pydantic's WithJsonSchema what is meant."
        ) from error


def examples_of(tool: Tool[Any, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the description, the arguments and the output of each example that fits the schema.

    Others are left out, because a provider that checks them refuses the whole request.
    """
    for example in tool.examples:
        encoded = tool.params_codec.encode(example.input)
        with suppress(ToolValidationError):
            tool.params_codec.decode(encoded)
            output = tool.result_codec.encode(example.output)
            yield example.description, encoded.decode(), output.decode()
