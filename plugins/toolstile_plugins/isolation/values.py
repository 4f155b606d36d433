"""Values and exceptions that cross between a call and its handler in another process."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from toolstile_hookspecs import (
    Outcome,
    Tool,
    ToolInvoked,
    ToolResult,
    ToolstileError,
    VisibilityExpansionRequired,
    errors,
)
from toolstile_hookspecs.codecs import (
    Codec,
    PortableValues,
    ValueCodec,
    difference,
    imported_from,
    why_not_written,
)
from toolstile_hookspecs.support.network_errors import mark_sent, was_sent
from toolstile_hookspecs.support.text import noted_for_operator
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
    """Values that the host writes; records of the contract are written by their fields."""

    def is_data(self, type_: type[Any]) -> bool:
        """Return False for records of the contract, because `write` writes them."""
        return super().is_data(type_) and not _is_record(type_)

    def write(self, value: Any, at: str = "value") -> Any:
        """Return a value as plain JSON; raises `SnapshotError` with the remedy."""
        if _is_record(type_ := value.__class__):
            return ["record", self._place(type_, at), self._fields(value, at)]
        return super().write(value, at)

    def crossing(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that can cross, written; the others are left out."""
        written: dict[str, Any] = {}
        for name, value in values.items():
            with suppress(Exception):  # writing runs foreign code
                written[name] = self.write(value)
        return written

    def _fields(self, record: Any, at: str) -> dict[str, Any]:
        fields = {part.name: getattr(record, part.name) for part in dataclasses.fields(record)}
        written: dict[str, Any] = {}
        if isinstance(record, Outcome):
            # Because an outcome, unlike its event, must not replace the value by JSON.
            self.write(record.result, f"{at}.result")
        if isinstance(record, ToolInvoked):
            # Values that cannot cross become the JSON of the event, with secrets masked.
            result = fields.pop("result")
            shown = dataclasses.replace(result, value=record.shown_value)
            written["result"] = self._either(result, shown)
            written["held_params"] = self._either(record.params, record.shown_arguments)
            fields |= {"tool": None, "arguments": None, "result_secrets": ()}
        for name, part in fields.items():
            if isinstance(part, BaseException):
                written[name] = ["raised", vars(fault_of(part))]
            elif name in _IN_PART and isinstance(part, Mapping):
                written[name] = self.crossing(cast("Mapping[str, Any]", part))
            elif name not in _STAY and name not in written:
                # As a dict, because records of the contract declare no type of mapping.
                is_own = isinstance(part, Mapping) and not isinstance(record, ToolResult)
                written[name] = self.write({**part} if is_own else part, f"{at}.{name}")
        return written

    def _either(self, value: object, instead: object) -> Any:
        try:
            return self.write(value)
        except Exception:  # noqa: BLE001 - writing runs foreign code
            return self.write(instead)


_STAY: Final = frozenset(("auth", "claims", "cancellation", "deadline"))
_IN_PART: Final = frozenset(("arguments", "attributes", "meta"))


class HandlerValues(PortableValues):
    """Values of the host that a handler reads; imports their modules."""

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
    """Return the codec for a tool's value, with secrets in clear."""
    if tool.result_schema is not None or not tool.result_codec.secret_schema():
        return tool.result_codec
    return Codec(tool.signature.result, owner=f"Tool {tool.name!r}, result", reveals=True)


def written(codec: ValueCodec, value: object, at: str) -> str:
    """Return a value as JSON that decodes to an equal value, in all its parts.

    Raises:
        ValueError: No such JSON exists. The message names the part, its type and the remedy.
    """
    try:
        text = codec.encode(value)
        told = difference(value, codec.copy(text), at)
    except Exception as error:
        raise ValueError(f"{why_not_written(value, error, at)}; {_REMEDY}") from error
    if told is not None:
        raise ValueError(f"{told}; {_REMEDY}")
    return text.decode()


_REMEDY: Final = "declare the type that it has, or use plain data"


def fault_of(error: BaseException, trace: str = "") -> Fault:
    """Return an exception by name and arguments, or its nearest known base with its text."""
    type_ = type(error)
    rest = trace, was_sent(error), noted_for_operator(error)
    if _RAISED.get(type_.__name__) is type_:
        with suppress(Exception):  # foreign code, and arguments of any type
            values = PortableValues()
            given: Any = error.__reduce__()
            arguments = [values.write(part) for part in given[1]]
            type_(*given[1])
            return Fault(type_.__name__, arguments, *rest)
    text = text_of(error)
    for base in type_.__mro__:
        if _RAISED.get(base.__name__) is base and base not in _SAYS_LITTLE:
            told = text
            if base is not type_ and not base.__module__.startswith(_CONTRACT):
                told = f"{type_.__name__}: {text}"
            with suppress(TypeError):  # its class needs more than a text
                base(told)
                return Fault(base.__name__, [told], *rest)
    return Fault("RuntimeError", [f"{type_.__name__}: {text}"], *rest)


def raised(fault: Fault) -> BaseException:
    """Return the exception of a fault."""
    values = PortableValues()
    try:
        error = _RAISED[fault.name](*map(values.read, fault.arguments))
    except Exception:  # noqa: BLE001 - the sender is not trusted
        error = RuntimeError(f"an exception of its process cannot be read here ({fault.name[:80]})")
    if fault.trace:
        error.add_note(fault.trace)
    vars(error)["for_operator"] = fault.for_operator
    return mark_sent(error, fault.sent)


def text_of(error: BaseException) -> str:
    """Return the text of any exception; for a group, with the texts of its exceptions."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - foreign `__str__`
        return type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        text = f"{text}: {'; '.join(map(text_of, inner))}"
    return text
