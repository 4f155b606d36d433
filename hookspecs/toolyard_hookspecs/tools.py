"""The tool: what a model can call, with everything the host has to know of it."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar, cast, get_args

from toolyard_hookspecs.codecs import Codec, SchemaCodec, ValueCodec, describe
from toolyard_hookspecs.errors import DefinitionError, ToolValidationError
from toolyard_hookspecs.idempotency import IdempotencyConfig
from toolyard_hookspecs.signatures import ANYTHING, Signature, read_full_form

if TYPE_CHECKING:
    from toolyard_hookspecs.results import ToolResult

P = TypeVar("P")
R = TypeVar("R")

Category = Literal["read", "write", "delete", "side_effect"]
Consequence = Literal["low", "medium", "high"]
Concurrency = Literal["parallel", "serial"]
Isolation = Literal["thread", "process"]

NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")
MAX_DESCRIPTION: Final = 200


class HostDefault:
    """The type of `HOST_TIMEOUT`."""

    def __repr__(self) -> str:
        """Return how it is written in code."""
        return "HOST_TIMEOUT"


HOST_TIMEOUT: Final = HostDefault()
"""A tool's timeout unless it says otherwise: the one the host is configured with (15 s)."""


@dataclass(frozen=True, slots=True)
class ToolExample(Generic[P, R]):
    """A representative call, shown to models and checked against the tool's types.

    Args:
        description: What it shows, 1 to 200 characters.
        input: Params of the tool's type.
        output: A value of the tool's result type.
    """

    description: str
    input: P
    output: R

    def __post_init__(self) -> None:
        """Check the description's length."""
        if not 1 <= len(self.description.strip()) <= len(self.description) <= MAX_DESCRIPTION:
            msg = (
                f"ToolExample: its description has {len(self.description)} characters; "
                f"give 1 to {MAX_DESCRIPTION}."
            )
            raise DefinitionError(msg)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Generic[P, R]):
    """Something a model can call.

    Write `Tool[Params, Result](...)`; `None` stands for no params or no value. The
    decorator `tool` makes one from a plain function.

    Args:
        name: 1 to 64 of `a-z`, `0-9`, `_`, `-`.
        description: What it does, for the model, 1 to 200 characters.
        handler: `handler(params, *, context) -> ToolResult[Result]`, sync or async.
        accepts_overrides: Whether its description may be overridden.
        examples: Calls that show its use; they must fit the types.
        idempotency: How a repeated call is recognised, if it is to have its effect once.
        category: `read`, `write`, `delete` or `side_effect`.
        consequence: `low`, `medium` or `high`; independent of the category.
        requires_confirmation: Whether a person must approve every call.
        contained: Whether nothing of it outlives a rollback; default: only for `read`.
        concurrency: `serial` lets one call of it run at a time.
        timeout: Seconds until the call is given up, None for never.
        isolation: `process` runs an importable handler in a process of its own.
        tags: For filtering.
        version: A semantic version, where tools are versioned by themselves.
        depends_on: Names of tools it calls itself.
        wire_name: The name its home knows it by; models may call it by that, too.
        long_description: Shown in schemas in place of `description`.
        params_schema: A JSON Schema of the params, in place of a type.
        result_schema: A JSON Schema of the value, in place of a type.

    Raises:
        DefinitionError: Naming the tool, every fault and the remedies.

    Example:
        >>> from dataclasses import dataclass
        >>> from toolyard_hookspecs import ToolResult
        >>> @dataclass(frozen=True)
        ... class Greet:
        ...     name: str
        >>> def greet(params, *, context):
        ...     return ToolResult.ok(f"Hello {params.name}")
        >>> Tool[Greet, str](name="greet", description="Say hello.", handler=greet).category
        'side_effect'
    """

    name: str
    description: str
    handler: Callable[..., Any] | None = None
    accepts_overrides: bool = True
    examples: tuple[ToolExample[P, R], ...] = ()
    idempotency: IdempotencyConfig | None = None
    category: Category = "side_effect"
    consequence: Consequence = "medium"
    requires_confirmation: bool = False
    contained: bool | None = None
    concurrency: Concurrency = "parallel"
    timeout: float | HostDefault | None = HOST_TIMEOUT
    isolation: Isolation = "thread"
    tags: tuple[str, ...] = ()
    version: str | None = None
    depends_on: tuple[str, ...] = ()
    wire_name: str | None = None
    long_description: str | None = None
    params_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    result_schema: Mapping[str, Any] | None = field(default=None, repr=False)

    signature: Signature = field(init=False, repr=False)
    params_codec: ValueCodec = field(init=False, repr=False)
    result_codec: ValueCodec = field(init=False, repr=False)

    _declared: ClassVar[tuple[Any, Any]] = (ANYTHING, ANYTHING)

    if not TYPE_CHECKING:

        def __class_getitem__(cls, kinds: object) -> type:
            """Return the class that knows its two types, as `Tool[Params, Result]`."""
            if not isinstance(kinds, tuple) or len(kinds) != 2:  # noqa: PLR2004
                msg = "Write Tool[Params, Result]; None stands for no params or no value."
                raise DefinitionError(msg)
            if any(isinstance(kind, TypeVar) for kind in kinds):
                return super().__class_getitem__(kinds)
            settled = tuple(None if kind is type(None) else kind for kind in kinds)
            name = f"{cls.__name__}[{', '.join(describe(kind) for kind in kinds)}]"
            return type(name, (cls,), {"_declared": settled, "__module__": cls.__module__})

    def __post_init__(self) -> None:
        """Check everything there is to check, and build what every call needs."""
        settle = object.__setattr__
        if self.contained is None:
            settle(self, "contained", self.category == "read")
        for name in ("examples", "tags", "depends_on"):
            settle(self, name, tuple(getattr(self, name)))
        self._refuse(self._faults())
        settle(self, "signature", self._read_handler())
        settle(self, "params_codec", self._make_params_codec())
        settle(self, "result_codec", self._make_result_codec())
        self._refuse([*self._example_faults(), *self._key_faults()])
        if self.isolation == "process":
            self._refuse(self._import_faults())

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return self.signature.is_async

    def parse(self, arguments: str | bytes | Mapping[str, Any]) -> P:
        """Return the typed params, or raise `ToolValidationError` naming every fault."""
        return cast("P", self.params_codec.decode(as_json(arguments)))

    def _read_handler(self) -> Signature:
        params, result = self._declared
        if self.params_schema is not None:
            params = ANYTHING
        if self.handler is None:
            return Signature(_no_handler, params, result, is_async=False, wraps=False)
        return read_full_form(self.handler, owner=self._owner, params=params, result=result)

    def _make_params_codec(self) -> ValueCodec:
        if self.params_schema is not None:
            return SchemaCodec(self.params_schema, owner=f"{self._owner}, params")
        kind = self.signature.params
        if kind is None:
            return NoParams()
        if kind is ANYTHING:
            fault = "the type of its params is not known; write Tool[Params, Result](...)"
            self._refuse([fault])
        return Codec(kind, owner=f"{self._owner}, params")

    def _make_result_codec(self) -> ValueCodec:
        if self.result_schema is not None:
            return SchemaCodec(self.result_schema, owner=f"{self._owner}, result")
        return Codec(self.signature.result, owner=f"{self._owner}, result")

    def _faults(self) -> list[str]:
        faults: list[str] = []
        if not isinstance(self.name, str) or NAME.fullmatch(self.name) is None:
            faults.append("its name must be 1 to 64 of a-z, 0-9, _ and -; keep another in wire_name")
        if not isinstance(self.description, str) or not self.description.strip():
            faults.append("it has no description; say in 1 to 200 characters what it does")
        elif len(self.description) > MAX_DESCRIPTION:
            faults.append(
                f"its description has {len(self.description)} characters, {MAX_DESCRIPTION} are "
                "allowed; shorten it and keep the rest in long_description"
            )
        for name, kinds in _CHOICES.items():
            if (value := getattr(self, name)) not in get_args(kinds):
                faults.append(f"{name} {value!r} is not one of {', '.join(get_args(kinds))}")
        if isinstance(self.timeout, (int, float)) and not self.timeout > 0:
            faults.append(f"timeout {self.timeout!r} is not positive; use None for never")
        return faults

    def _example_faults(self) -> list[str]:
        faults: list[str] = []
        for example in self.examples:
            for what, codec in (("input", self.params_codec), ("output", self.result_codec)):
                reason = _misfit(codec, getattr(example, what))
                if reason is not None:
                    faults.append(f"example {example.description!r}: its {what} does not fit: {reason}")
        return faults

    def _key_faults(self) -> list[str]:
        keys = self.idempotency.param_keys if self.idempotency is not None else ()
        known = self.params_codec.schema().get("properties", {}) if keys else {}
        return [f"idempotency names the param {key!r}, which it has not" for key in keys if key not in known]

    def _import_faults(self) -> list[str]:
        function = self.handler
        module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
        try:
            found: Any = sys.modules.get(module) or importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError):
            found = None
        if found is function or found is self or getattr(found, "handler", None) is function:
            return []
        remedy = "define it at the top level of a module, or use isolation='thread'"
        return [f"isolation='process' needs a handler that can be imported, {module}.{name} cannot; {remedy}"]

    @property
    def _owner(self) -> str:
        return f"Tool {self.name!r}"

    def _refuse(self, faults: list[str]) -> None:
        if faults:
            msg = f"{self._owner}: {'; '.join(faults)}."
            raise DefinitionError(msg)


_CHOICES: Final[dict[str, Any]] = {
    "category": Category,
    "consequence": Consequence,
    "concurrency": Concurrency,
    "isolation": Isolation,
}


class NoParams:
    """The codec of a tool without params: an empty object, and None in the process."""

    immutable = True

    def schema(self) -> dict[str, Any]:
        """Return the schema of an empty object."""
        return {"type": "object", "properties": {}, "additionalProperties": False}

    def decode(self, text: str | bytes) -> None:
        """Return None for an empty object, refuse anything else."""
        _EMPTY.decode(text)

    def encode(self, value: object) -> bytes:  # noqa: ARG002 - one shape for all codecs
        """Return an empty object."""
        return b"{}"

    def fits(self, value: object) -> str | None:
        """Return why the value is not None, or None."""
        return None if value is None else "the tool takes no params; give None"


@dataclass(frozen=True)
class _Empty:
    pass


_EMPTY: Final = Codec(_Empty, owner="a tool without params")


def as_json(arguments: str | bytes | Mapping[str, Any]) -> str | bytes:
    """Return arguments as JSON text; a mapping is encoded as a provider would have."""
    if isinstance(arguments, (str, bytes)):
        return arguments
    try:
        return json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        msg = f"Invalid arguments: not JSON ({reason}). Mend them, then retry."
        raise ToolValidationError(msg) from None


def _misfit(codec: ValueCodec, value: object) -> str | None:
    fits = getattr(codec, "fits", None)
    if fits is not None:
        return cast("str | None", fits(value))
    try:
        codec.decode(codec.encode(value))
    except ValueError as error:
        return str(error)
    return None


def _no_handler(params: object, *, context: object) -> ToolResult[Any]:
    msg = "This tool has no handler."
    raise ToolValidationError(msg)
