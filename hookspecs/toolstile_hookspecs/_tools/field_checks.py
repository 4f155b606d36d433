"""Checks of the fields of declarations, by their types."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.codec import ValueCodec
from toolstile_hookspecs._schema.json_schema import known_names
from toolstile_hookspecs._schema.serialize import as_json
from toolstile_hookspecs._schema.validation_errors import MAX_REASON, RETRY, shorten
from toolstile_hookspecs.errors import ToolValidationError
from toolstile_hookspecs.support.patterns import SEMVER, TOOL_NAME
from toolstile_hookspecs.support.text import suggest

MAX_DESCRIPTION: Final = 200


def type_faults(declared: object, of: Any, names: Iterable[str]) -> list[str]:
    """Return the faults of some fields of a dataclass, by the types that the class `of` declares.

    Lists and sets pass for tuples.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Size:
        ...     units: tuple[str, ...]
        >>> type_faults(Size(["m", 2]), Size, ["units"])
        ['units[1] is 2: input should be a valid string']
    """
    values = {name: getattr(declared, name) for name in names}
    for name, value in values.items():
        if isinstance(value, (list, set, frozenset)):
            values[name] = tuple(cast("Iterable[Any]", value))
    try:
        _adapter(of, tuple(values)).validate_python(values)
    except ValidationError as error:
        found: dict[str, list[str]] = {}
        for fault in error.errors(include_url=False):
            field, *inside = fault["loc"]
            place = f"{field}{''.join(f'[{part}]' for part in inside if isinstance(part, int))}"
            reasons = found.setdefault(f"{place} is {shorten(repr(fault['input']))}", [])
            reasons.append(fault["msg"][0].lower() + fault["msg"][1:])
        return [f"{given}: {shorten(' or '.join(why), MAX_REASON)}" for given, why in found.items()]
    return []


@lru_cache(maxsize=64)
def _adapter(of: Any, names: tuple[str, ...]) -> TypeAdapter[Any]:
    hints = typing.get_type_hints(of, include_extras=True)
    fields = cast("Any", TypedDict)("Fields", {name: hints[name] for name in names})
    fields.__pydantic_config__ = ConfigDict(strict=True, arbitrary_types_allowed=True)
    return TypeAdapter(fields)


_BLANK: Final = ("wire_name", "origin", "long_description", "version")
_UNTYPED: Final = {"name", "description", "handler", "renamed_tools"}


@lru_cache(maxsize=64)
def _typed_names(of: Any) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(of) if field.init)
    return tuple(name for name in names if name not in _UNTYPED)


def tool_faults(tool: Any, of: type) -> list[str]:
    """Return the faults in the fields of a tool, before its handler is read."""
    faults = type_faults(tool, of, _typed_names(of))
    blank = [name for name in _BLANK if str(getattr(tool, name)).strip() == ""]
    faults += [f"{name} is blank; leave it out" for name in blank]
    name, version, depends_on = tool.name, tool.version, tool.depends_on
    if isinstance(version, str) and version.strip() and not SEMVER.fullmatch(version):
        parts = [part.lstrip("0") or "0" for part in re.findall("[0-9]+", version)]
        meant = ".".join([*parts, *"000"][:3])
        faults.append(f"version {version!r} is not a semantic version; write it as in {meant!r}")
    if isinstance(depends_on, (list, tuple, set, frozenset)) and name in depends_on:
        faults.append(f"it depends on itself ({name} -> {name}); leave that out of depends_on")
    if isinstance(tool.timeout, (int, float)) and not tool.timeout > 0:
        faults.append(f"timeout is {tool.timeout}; use None for never")
    if isinstance(schema := tool.params_schema, Mapping):
        types: Any = cast("Mapping[str, Any]", schema).get("type", "object")
        if "object" not in ([types] if isinstance(types, str) else types):
            faults.append(f"params_schema allows type {types!r} only, but arguments are an object")
    own: list[str] = tool.idempotency.faults() if hasattr(tool.idempotency, "faults") else []
    return [*_name_faults(name, tool.description), *faults, *own]


def _name_faults(name: object, text: object) -> list[str]:
    faults: list[str] = []
    if not isinstance(name, str) or TOOL_NAME.fullmatch(name) is None:
        faults.append("its name must be 1 to 64 of a-z, 0-9, _ and -; keep another in wire_name")
    if not isinstance(text, str) or not text.strip():
        faults.append("it has no description; say in 1 to 200 characters what it does")
    elif len(text) > MAX_DESCRIPTION:
        fault = f"its description has {len(text)} characters, {MAX_DESCRIPTION} are allowed"
        faults.append(f"{fault}; shorten it and keep the rest in long_description")
    return faults


def function_fault(function: object) -> str | None:
    """Return why no tool can be made of it."""
    if isinstance(function, type):
        remedy = "decorate a function, or give an instance's method: tool(instance.method)"
        return f"{function.__qualname__} is a class; {remedy}"
    if isinstance(function, (classmethod, staticmethod)) or not callable(function):
        remedy = "decorate a function, with options as keywords: @tool(name='...')"
        return f"{function!r} is not a function; {remedy}"
    name = getattr(function, "name", None)
    return f"{name!r} is a tool already; decorate it once" if _is_tool(function) else None


def option_faults(options: Iterable[str], of: type, known: Collection[str]) -> list[str]:
    """Return the faults of unknown options, with suggestions."""
    others = f"; the options are {', '.join(sorted(known))}"
    fields = {field.name for field in dataclasses.fields(of) if field.init}
    return [
        f"there is no option {name!r}{suggest(name, known) or others}"
        for name in options
        if name not in fields
    ]


_FUNCTIONS: Final = ("enabled", "on_session")
_TEXTS: Final = ("key", "title", "template", "summary")
_SECTION_FIELDS: Final = (*_TEXTS, *_FUNCTIONS, "visibility", "accepts_overrides")


def section_faults(section: Any, of: type) -> list[str]:
    """Return the faults in the fields of a section, by the class that declares them."""
    faults = type_faults(section, of, _SECTION_FIELDS)
    for name in _FUNCTIONS:
        function = getattr(section, name)
        if callable(function) and call_fault(function, None) is not None:
            faults.append(f"{name} does not take the session")
    faults += several_faults(section, ("tools", "policies", "resources", "children"))
    if faults:
        return faults
    if not section.key or not section.title.strip():
        faults.append("give it both a key and a title")
    if section.visibility.value == "summary" and not (section.summary or "").strip():
        faults.append("it is shown as a summary but has none; give it summary=...")
    for tool in section.tools:
        if not _is_tool(tool):
            faults.append(f"{tool!r} is not a Tool; decorate it with @tool")
    faults += [fault for each in section.resources for fault in binding_faults(each)]
    return faults + sections_faults(section.children)


def binding_faults(given: object) -> list[str]:
    """Return the fault of anything but a `Binding`."""
    if hasattr(given, "provider") and hasattr(given, "scope"):
        return []
    remedy = "write Binding(Type, provider) or Binding.instance(Type, value)"
    return [f"{given!r} is not a Binding; {remedy}"]


def several_faults(declared: object, names: Iterable[str]) -> list[str]:
    """Return the faults of fields that should hold several things and do not."""
    return [
        f"{name} is not several; write a list, {name}=[...]"
        for name in names
        if not isinstance(getattr(declared, name), Iterable)
    ]


def sections_faults(sections: Any) -> list[str]:
    """Return the faults of anything but several sections."""
    if _is_section(sections) or not hasattr(sections, "__iter__"):
        return ["sections are given in a list; write [...] around it"]
    faults: list[str] = []
    for given in sections:
        if _is_tool(given):
            remedy = "MarkdownSection(key=..., title=..., tools=[...])"
            faults.append(f"{given.name!r} is a tool, and belongs into a section: {remedy}")
        elif not _is_section(given):
            remedy = "write MarkdownSection(key=..., title=...)"
            faults.append(f"{given!r} is not a section; {remedy}")
    return faults


def _is_tool(value: object) -> bool:
    return hasattr(value, "params_codec")


def _is_section(value: object) -> bool:
    return all(hasattr(value, name) for name in ("key", "title", "tools", "children"))


def call_fault(function: Callable[..., Any], *arguments: object) -> str | None:
    """Return why a function cannot be called with these arguments, if its signature is known.

    Example:
        >>> call_fault(lambda resources: {}, None)
        >>> call_fault(lambda: {}, None)
        'too many positional arguments'
    """
    try:
        # A decorator's function may take other arguments than the one that it wraps.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None  # it is not written in Python, or stands in for another function
    try:
        signature.bind(*arguments)
    except TypeError as error:
        return str(error)
    return None


def typed_examples(
    examples: Iterable[Any], params: ValueCodec, result: ValueCodec
) -> tuple[tuple[Any, ...], list[str]]:
    """Return the examples of a tool, mappings of arguments read as params, and their faults."""
    typed: list[Any] = []
    faults: list[str] = []
    for example in examples:
        given, refused = example.input, params.fits(example.input)
        if refused is not None and isinstance(given, Mapping):
            try:
                given, refused = params.decode(as_json(cast("Mapping[str, Any]", given))), None
            except ToolValidationError as error:
                refused = str(error)
        for field, reason in (("input", refused), ("output", result.fits(example.output))):
            if reason is not None:
                text = " ".join(reason.removesuffix(RETRY).split())
                for beginning in ("Invalid arguments: ", "- ", "arguments: "):
                    text = text.removeprefix(beginning)
                what = f"example {example.description!r}: its {field} does not fit"
                faults.append(f"{what}: {text}")
        typed.append(dataclasses.replace(example, input=given))
    return tuple(typed), faults


def key_faults(idempotency: Any, params: ValueCodec) -> list[str]:
    """Return the faults of a declared idempotency for the params of its tool."""
    keys = idempotency.param_keys
    known = known_names(params.schema()) if keys else ()
    unknown = [key for key in keys if key not in known]
    there = f"; it has {', '.join(known) or 'none'}"
    fault = "idempotency names the param {!r}, which it does not have{}"
    faults = [fault.format(key, suggest(key, known) or there) for key in unknown]
    if idempotency.reconcile is not None and params.secret_schema():
        faults.append(
            "idempotency has a reconcile, whose params would be kept, and they hold a secret; "
            "let a resource hold it"
        )
    return faults


def undo_faults(tool: Any) -> list[str]:
    """Return the faults of a declared undo."""
    faults: list[str] = []
    if call_fault(tool.undo, None, None, "", None):
        form = "def refund(params, result, key, context): ..."
        faults.append(f"undo cannot be called with params, result, key and context; write {form}")
    if (config := tool.idempotency) is None or config.strategy == "none":
        remedy = "add idempotency=IdempotencyConfig(...)"
        faults.append(f"undo needs the key under which the ledger notes the effect; {remedy}")
    elif config.reconcile is not None or config.on_unknown == "retry":
        remedy = "remove reconcile and on_unknown='retry'"
        faults.append(f"undo takes back an effect whose outcome is unknown; {remedy}")
    if tool.contained:
        faults.append("undo only goes with contained=False; remove one of them")
    if tool.params_codec.secret_schema():
        faults.append("undo keeps the params, and they hold a secret; let a resource hold it")
    return faults


def import_faults(handler: Any) -> list[str]:
    """Return the fault of a handler that another process does not find by name."""
    if _is_importable(handler):
        return []
    name = getattr(handler, "__qualname__", handler)
    fault = f"isolation='process' needs a handler that can be imported, and {name!s} cannot"
    return [f"{fault}; define it at the top level of a module, or use isolation='thread'"]


def _is_importable(handler: Any) -> bool:
    # While a decorator runs, the name does not exist yet; then its form decides.
    module, path = getattr(handler, "__module__", None), getattr(handler, "__qualname__", "<")
    if not module or "<" in path:
        return False
    try:
        found: Any = pkgutil.resolve_name(f"{module}:{path}")
    except (ImportError, ValueError):
        return False
    except AttributeError:
        return "." not in path
    return found is handler or hasattr(found, "params_codec")  # the tool that is made of it
