"""Values and exceptions that cross between a call and its handler elsewhere."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from toolstile_hookspecs import (
    Tool,
    ToolInvoked,
    ToolResult,
    ToolstileError,
    VisibilityExpansionRequired,
    errors,
)
from toolstile_hookspecs.calls import MadeUpId
from toolstile_hookspecs.codecs import Codec, PortableValues, ValueCodec, imported_from
from toolstile_plugins.isolation.messages import Fault

_RAISED: Final[dict[str, type[BaseException]]] = {
    name: kind
    for module in (builtins, errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
_SAYS_LITTLE: Final = (VisibilityExpansionRequired, ToolstileError, Exception, BaseException)
_CONTRACT: Final = "toolstile_hookspecs."


class HostValues(PortableValues):
    """Values as the host writes them: the contract's own records, too, by their fields."""

    def is_data(self, type_: type[Any]) -> bool:
        """Leave the contract's records to `write`."""
        return super().is_data(type_) and not _is_record(type_)

    def write(self, value: Any) -> Any:
        """Return a value as plain JSON; raises `SnapshotError`, which says what to do."""
        if isinstance(value, BaseException):
            return ["raised", vars(fault_of(value))]
        if _is_record(type_ := value.__class__):
            return ["record", self._place(type_), self._fields(value)]
        if isinstance(value, Mapping):
            return super().write({**cast("Any", value)})
        return super().write(str(value) if isinstance(value, MadeUpId) else value)

    def crossing(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of several values that can cross, written."""
        written: dict[str, Any] = {}
        for name, value in values.items():
            with suppress(Exception):  # writing runs anybody's code
                written[name] = self.write(value)
        return written

    def _fields(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record, without what is not data and may stay here.

        Params whose type another process does not find go as JSON values, secrets masked.
        """
        fields = {part.name: getattr(record, part.name) for part in dataclasses.fields(record)}
        if isinstance(record, ToolInvoked):
            shown = {"held_params": record.shown_arguments}
            typed = self.crossing({"held_params": record.params})
            fields |= {"tool": None, "arguments": None, "result_secrets": (), **shown}
        else:
            typed = {}
        for name in _STAY & fields.keys():
            del fields[name]
        for name in _IN_PART & fields.keys():
            typed[name] = self.crossing(fields.pop(name))
        if isinstance(record, ToolResult):
            typed |= self.crossing({"value": fields.pop("value")})
        return {**{name: self.write(part) for name, part in fields.items()}, **typed}


_STAY: Final = frozenset(("auth", "claims", "cancellation", "deadline"))
_IN_PART: Final = frozenset(("attributes", "meta"))


class HandlerValues(PortableValues):
    """Values as a handler elsewhere reads what the host has written; modules are imported."""

    def __init__(self) -> None:
        super().__init__(imported_from)

    def read(self, written: Any) -> Any:
        """Return the value that was written."""
        match written:
            case ["raised", fields]:
                return raised(Fault(**fields))
            case ["record", str(place), fields]:
                given: dict[str, Any] = super().read(fields)
                return self._found(place)(**given)
            case _:
                return super().read(written)


def _is_record(type_: type[Any]) -> bool:
    return type_.__module__.startswith(_CONTRACT) and dataclasses.is_dataclass(type_)


def result_codec(tool: Tool[Any, Any]) -> ValueCodec:
    """Return the codec by which a tool's value crosses, with its secrets in clear."""
    if tool.result_schema is not None or not tool.result_codec.secret_schema():
        return tool.result_codec
    return Codec(tool.signature.result, owner=f"Tool {tool.name!r}, result", reveals=True)


def fault_of(error: BaseException, trace: str = "") -> Fault:
    """Return an exception by its name and arguments, or the nearest known one with its text."""
    type_ = type(error)
    if _RAISED.get(type_.__name__) is type_:
        with suppress(Exception):  # arguments of any kind
            values = PortableValues()
            given: Any = error.__reduce__()
            arguments = [values.write(part) for part in given[1]]
            type_(*given[1])
            return Fault(type_.__name__, arguments, trace)
    text = text_of(error)
    for base in type_.__mro__:
        if _RAISED.get(base.__name__) is base and base not in _SAYS_LITTLE:
            told = text
            if base is not type_ and not base.__module__.startswith(_CONTRACT):
                told = f"{type_.__name__}: {text}"
            with suppress(TypeError):  # it takes more than a text
                base(told)
                return Fault(base.__name__, [told], trace)
    return Fault("RuntimeError", [f"{type_.__name__}: {text}"], trace)


def raised(fault: Fault) -> BaseException:
    """Return the exception that a fault tells of, to be raised."""
    values = PortableValues()
    try:
        error = _RAISED[fault.name](*map(values.read, fault.arguments))
    except Exception:  # noqa: BLE001 - who sent it may be anybody
        error = RuntimeError(f"an exception of its process cannot be read here ({fault.name[:80]})")
    if fault.trace:
        error.add_note(fault.trace)
    return error


def text_of(error: BaseException) -> str:
    """Return the text of an exception of anybody's, with those of a group's exceptions."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - anybody's exception; its class has to do
        return type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text = f"{text}: {'; '.join(map(text_of, inner))}"
    return text
