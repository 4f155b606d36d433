"""Checks of a plugin's contributions: settings, tools, policies, and deprecated uses."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

from toolstile.plugins.contributions import class_of_kind
from toolstile.plugins.offered_tools import names_of_dependencies
from toolstile.plugins.plugin_errors import one_line
from toolstile.plugins.registry import Plugins
from toolstile.plugins.reports import LoadedPlugin
from toolstile.policies.rules import named
from toolstile.settings.table_validation import fields
from toolstile_hookspecs import (
    ConfigurationError,
    DefinitionError,
    Diagnostic,
    Dialect,
    FunctionTool,
    Section,
    Tool,
)
from toolstile_hookspecs.codecs import NOT_READ_BACK, Codec, check_schema, pointed
from toolstile_hookspecs.markers import HOOK_PREFIX
from toolstile_hookspecs.support.callables import argument_texts, docstring_of
from toolstile_hookspecs.support.text import nearest

Fault = tuple[str, str]
"""The cause of a finding, and its remedy."""


# --- Settings


def settings_findings(record: LoadedPlugin) -> Iterator[Diagnostic]:
    """Yield the settings that are documented nowhere."""
    settings = record.contribution.settings
    if not isinstance(settings, BaseModel):
        yield from undeclared(record.plugin)
        return
    model = type(settings)
    if not model.__doc__:
        yield Diagnostic.error(
            "settings",
            f"{model.__qualname__} has no docstring.",
            f"Describe in one the table [plugins.{record.origin.name}] and each of its keys.",
        )
        return
    module: Any = sys.modules.get(model.__module__)
    found = (model.__doc__, inspect.getdoc(record.plugin), getattr(module, "__doc__", None))
    texts = [text for text in found if text]
    bare = [
        name
        for name, field in model.model_fields.items()
        if not field.description and not any(name in text for text in texts)
    ]
    if bare:
        one = len(bare) == 1
        yield Diagnostic.error(
            "settings",
            f"The key{'' if one else 's'} {', '.join(bare)} of {model.__qualname__} "
            f"{'is' if one else 'are'} documented nowhere.",
            "Describe each under `Args:` in the model's docstring, or with Field(description=...).",
        )


def undeclared(plugin: object) -> Iterator[Diagnostic]:
    """Yield the hooks that take settings, where the plugin declares none."""
    if hasattr(plugin, "toolstile_settings"):
        return
    named = {name: getattr(plugin, name) for name in dir(plugin) if name.startswith(HOOK_PREFIX)}
    wanting = [
        name
        for name, function in named.items()
        if inspect.isroutine(function) and "settings" in inspect.signature(function).parameters
    ]
    if wanting:
        yield Diagnostic.error(
            "settings",
            f"{', '.join(wanting)} {'takes' if len(wanting) == 1 else 'take'} settings, which are "
            "always None: the plugin declares none.",
            "Declare a model of them with toolstile_settings, or leave the argument out.",
        )


def undefined(plugin: object) -> Iterator[Diagnostic]:
    """Yield the undefined names in the annotations of the settings' model."""
    try:
        model = cast("Any", plugin).toolstile_settings()
    except Exception:  # noqa: BLE001 - it is the plugin's, and its exceptions are reported elsewhere
        return
    if isinstance(model, type) and issubclass(model, BaseModel):
        name = undefined_name(model)
        if name is not None:
            cause = f"The model of its settings, {model.__qualname__}, names {name}, which is not "
            yield Diagnostic.error("settings", f"{cause}defined.", to_define(name, model))


# --- Tools


def tool_findings(
    tools: Iterable[Tool[Any, Any]], dialects: Mapping[str, Dialect], known: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield the faults of tools, by the dialects and the names of all tools."""
    tools = list(tools)
    for tool in tools:
        for cause, remedy in (*_faults(tool, dialects, known), *_containment(tool, tools)):
            yield Diagnostic.error(f"tool {tool.name}", cause, remedy)


def _faults(
    tool: Tool[Any, Any], dialects: Mapping[str, Dialect], known: Collection[str]
) -> Iterator[Fault]:
    if tool.handler is None:
        yield "It has no handler, so it cannot be called.", "Give it one, or leave the tool out."
    yield from _dependencies(tool, known)
    yield from _records(tool)
    invalid = list(_schemas(tool))
    yield from invalid
    if not invalid:
        yield from _arguments(tool)
        yield from _dialects(tool, dialects)


def _dependencies(tool: Tool[Any, Any], known: Collection[str]) -> Iterator[Fault]:
    for name in names_of_dependencies(tool):
        if name not in known:
            near = nearest(name, known)
            hint = f"Write {near}, if that is meant" if near else "Correct the name"
            yield (
                f"It depends on {name}, but no tool here is called that.",
                f"{hint}, or install the plugin that offers it.",
            )


def _containment(tool: Tool[Any, Any], tools: Iterable[Tool[Any, Any]]) -> Iterator[Fault]:
    """Yield a fault where a tool claims more than a tool of its plugin that it calls."""
    called = names_of_dependencies(tool)
    for other in tools:
        if tool.contained and not other.contained and other.name in called:
            why = f"A rollback undoes all of it, it says, and it calls {other.name}, which does not"
            remedy = f"Set contained=False, or contained=True of {other.name} where that holds."
            yield f"{why} say so.", remedy


def _records(tool: Tool[Any, Any]) -> Iterator[Fault]:
    codec = tool.result_codec
    reason = codec.why_not_read_back() if isinstance(codec, Codec) else None
    if reason is not None:
        what, _, remedy = reason.rpartition("; ")
        yield (
            f"Its result {NOT_READ_BACK}, so it cannot be recorded or replayed: {what}.",
            f"{remedy[0].upper()}{remedy[1:]}.",
        )


def _schemas(tool: Tool[Any, Any]) -> Iterator[Fault]:
    for what, codec in (("params", tool.params_codec), ("result", tool.result_codec)):
        try:
            check_schema(codec.schema())
        except PydanticUserError as error:
            yield (
                f"Its {what} has no JSON Schema: {error.message.rstrip('.')}.",
                "Use types that JSON has, or give a schema with pydantic's WithJsonSchema.",
            )
        except ValueError as error:
            cause = f"The JSON Schema of its {what} {error}."
            yield cause, "Correct the schema that the type gives."


def _arguments(tool: Tool[Any, Any]) -> Iterator[Fault]:
    root = tool.params_codec.schema()
    properties: Mapping[str, Any] = root.get("properties", {})
    bare = [name for name, schema in properties.items() if not _says_something(schema, root)]
    strange = _described_in_vain(tool, properties)
    told = f"the docstring describes {', '.join(strange)}, which it does not take"
    if bare:
        noun, verb = ("argument", "has") if len(bare) == 1 else ("arguments", "have")
        cause = (
            f"Its {noun} {', '.join(bare)} {verb} no description{f'; {told}' if strange else ''}"
        )
        yield (
            f"{cause}; a model must guess the values.",
            "Describe each in the docstring, under `Args:`, or with Annotated[..., '...'].",
        )
    elif strange:
        yield (
            f"{told[0].upper()}{told[1:]}.",
            "Take the description out, or give the argument the name that is described.",
        )


def _described_in_vain(tool: Tool[Any, Any], properties: Collection[str]) -> list[str]:
    """Return the names in the docstring's `Args:` that no argument of a function has."""
    if not isinstance(tool, FunctionTool):
        return []
    taken = {*properties, *inspect.signature(tool.function).parameters}
    return [
        argument
        for argument in argument_texts(docstring_of(tool.function))
        if argument not in taken
    ]


def _says_something(schema: Any, root: Mapping[str, Any]) -> bool:
    """Tell whether an argument is described, or a type that it refers to."""
    if isinstance(schema, bool) or "description" in schema:
        return True
    if "$ref" in schema:
        target = pointed(root, schema["$ref"])
        return not isinstance(target, Mapping) or "description" in target
    return any(_says_something(part, root) for part in schema.get("anyOf", ()))


def _dialects(tool: Tool[Any, Any], dialects: Mapping[str, Dialect]) -> Iterator[Fault]:
    for name, dialect in dialects.items():
        try:
            dialect.schemas([tool])
        except Exception as error:  # noqa: BLE001 - dialects are plugins'
            yield (
                f"The dialect {name} does not take it: {one_line(error)}.",
                "Use types whose JSON Schema this provider knows.",
            )


# --- Policies


_NEEDED: Final = {
    "check": "check(self, tool, params, *, context)",
    "on_result": "on_result(self, tool, params, result, *, context)",
}
_OPTIONAL: Final = {
    "reserve": "reserve(self, tool, params, *, context)",
    "on_rollback": "on_rollback(self, tool, params, *, context)",
    "on_failure": "on_failure(self, tool, params, result, *, context)",
    "silence": "silence(self, tool, params, *, context)",
}
_GIVEN: Final = {"on_result": 3, "on_failure": 3}
"""The number of positional arguments of a method that takes more than tool and params."""


def policy_findings(record: LoadedPlugin) -> Iterator[Diagnostic]:
    """Yield the faults of a plugin's policies."""
    for kind, place in record.contribution.policies.items():
        try:
            made = class_of_kind(kind, place)
        except ConfigurationError as error:
            yield Diagnostic.error(f"policy {kind}", str(error), "Name its module and class.")
            continue
        for cause, remedy in [*_members_of(made)] or _from_a_table(made):
            yield Diagnostic.error(f"policy {kind}", cause, remedy)
    yield from _of_sections(record.contribution.sections)


def _members_of(made: type[Any]) -> Iterator[Fault]:
    for name, wanted in {**_NEEDED, **_OPTIONAL}.items():
        remedy = f"Write def {wanted}, as in ToolPolicy."
        if callable(getattr(made, name, None)):
            if not _takes(made, name):
                cause = (
                    f"The method {name} of {made.__qualname__} cannot be called as policies are."
                )
                yield cause, remedy
        elif name in _NEEDED:
            yield f"{made.__qualname__} has no method {name}, which every policy has.", remedy
    if "name" not in fields(made) and not hasattr(made, "name"):
        yield (
            f"{made.__qualname__} has no name, which its decisions and its memory need.",
            'Give it a field, name: str = ""; the host fills it in.',
        )


def _takes(made: type[Any], name: str) -> bool:
    is_bound = isinstance(inspect.getattr_static(made, name), (staticmethod, classmethod))
    places = _GIVEN.get(name, 2) + (not is_bound)
    try:
        signature = inspect.signature(getattr(made, name))
    except (TypeError, ValueError):
        return True  # it is not written in Python, and does not say
    try:
        signature.bind(*[None] * places, context=None)
    except TypeError:
        return False
    return True


def _from_a_table(made: type[Any]) -> Iterator[Fault]:
    told = f"No table of the configuration can be made into {made.__qualname__}"
    name = undefined_name(made)
    if name is not None:
        yield f"{told}: {name} is not defined.", to_define(name, made)
        return
    try:
        TypeAdapter(made)
    except Exception as error:  # noqa: BLE001 - a class can take part in this, and raise anything
        cause = one_line(error).partition(" Set `arbitrary_types_allowed")[0].rstrip(".")
        yield (
            f"{told}: {cause}.",
            "Make it a dataclass or a pydantic model, with a field for each key of the table.",
        )


def _of_sections(sections: Iterable[Section]) -> Iterator[Diagnostic]:
    for section in sections:
        try:
            named(section.policies, place=f"section {section.key!r}")
        except DefinitionError as error:
            yield Diagnostic.error("policies", str(error), "Fix the policies of the section.")
        yield from _of_sections(section.children)


# --- Undefined names in annotations


def undefined_name(model: type[Any]) -> str | None:
    """Return a name that a model's or a dataclass's annotations need and nothing defines.

    pydantic lets them be until the first table is read, as they may be defined later; then it
    only says that something is missing.
    """
    if getattr(model, "__pydantic_complete__", False):
        return None
    try:
        TypeAdapter(model).rebuild(force=True, raise_errors=True)
    except PydanticUndefinedAnnotation as error:
        return error.name
    except Exception:  # noqa: BLE001 - code of a class runs here; other checks report its faults
        return None
    return None


def to_define(name: str, model: type[Any]) -> str:
    """Return the remedy for an undefined name, a sentence."""
    module = sys.modules.get(model.__module__)
    # The module of a single file has a generated name.
    place = getattr(module, "__file__", None) or model.__module__
    return f"Define or import {name} in {place}."


# --- Deprecated uses


def deprecated_uses(plugins: Plugins, name: str) -> tuple[str, ...]:
    """Return the warnings for the deprecated hooks and arguments that a plugin implements."""
    warnings: list[Warning] = []
    for caller in vars(plugins.manager.hook).values():
        for found in caller.get_hookimpls():
            if found.plugin_name != name or caller.spec is None:
                continue
            if caller.spec.warn_on_impl:
                warnings.append(caller.spec.warn_on_impl)
            by_argument: dict[str, Warning] = caller.spec.warn_on_impl_args or {}
            warnings += [by_argument[key] for key in by_argument if key in found.argnames]
    return tuple(dict.fromkeys(map(str, warnings)))
