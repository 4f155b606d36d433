"""The tool that a model can call, with all facts that the host needs."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NoReturn,
    Protocol,
    TypeVar,
    cast,
)

from toolstile_hookspecs._schema.codec import ValueCodec, describe
from toolstile_hookspecs._schema.serialize import as_json
from toolstile_hookspecs._tools.field_checks import (
    MAX_DESCRIPTION,
    import_faults,
    key_faults,
    tool_faults,
    typed_examples,
    undo_faults,
)
from toolstile_hookspecs._tools.signatures import (
    ANYTHING,
    Signature,
    params_codec,
    read_full_form,
    result_codec,
)
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import DefinitionError, ToolValidationError
from toolstile_hookspecs.execution.undo import UndoHandler
from toolstile_hookspecs.idempotency import IdempotencyConfig
from toolstile_hookspecs.results import ToolResult

P = TypeVar("P")
R = TypeVar("R")
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

Category = Literal["read", "write", "delete", "side_effect"]
Consequence = Literal["low", "medium", "high"]
Concurrency = Literal["parallel", "serial"]
Isolation = Literal["thread", "process"]


NO_NAMES: Final[Mapping[str, str]] = {}


class HostDefault(Enum):
    """The type of `HOST_TIMEOUT`."""

    HOST_TIMEOUT = "the host's timeout"
    __repr__ = Enum.__str__


HOST_TIMEOUT: Final = HostDefault.HOST_TIMEOUT
"""A tool's timeout unless it says otherwise: the one the host is configured with (15 s)."""


class ToolHandler(Protocol[P_contra, R_co]):
    """A function that carries out the calls of a `Tool[Params, Result]`, sync or async."""

    def __call__(
        self, params: P_contra, /, *, context: ToolContext
    ) -> ToolResult[R_co] | Awaitable[ToolResult[R_co]]:
        """Carry out a call, and return its result."""
        ...


@dataclass(frozen=True)
class ToolExample(Generic[P, R]):
    """A representative call, shown to models and checked against the tool's types.

    Args:
        description: The purpose of the example, 1 to 200 characters.
        input: Params of the tool's type; a mapping of the arguments will do.
        output: A value of the tool's result type.
    """

    description: str
    input: P
    output: R

    def __post_init__(self) -> None:
        given: Any = self.description
        if not isinstance(given, str) or not given.strip() or len(given) > MAX_DESCRIPTION:
            told = f"is {given!r}; say in 1 to {MAX_DESCRIPTION} characters what it shows."
            raise DefinitionError(f"ToolExample: its description {told}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Generic[P, R]):
    """A tool that a model can call.

    Write `Tool[Params, Result](...)`; `None` stands for no params or no value. The
    decorator `tool` makes one of a plain function.

    Args:
        name: 1 to 64 of `a-z`, `0-9`, `_`, `-`.
        description: The purpose of the tool, for the model, 1 to 200 characters.
        handler: `handler(params, *, context) -> ToolResult[Result]`, sync or async.
        accepts_overrides: Whether its description may be overridden.
        examples: Calls that show its use; they must fit the types.
        idempotency: How a repeated call is recognised, to have its effect once.
        undo: The function that takes an effect back which is not kept; see `UndoHandler`.
        category: `read`, `write`, `delete` or `side_effect`.
        consequence: `low`, `medium` or `high`; independent of the category.
        requires_confirmation: Whether a person must approve every call.
        exclude_value_from_context: Whether its values stay out of contexts, wires, schemas.
        contained: Whether nothing of it outlives a rollback; default: only for `read`.
        concurrency: `serial` lets one call of it run at a time.
        timeout: Seconds until the call times out, None for never.
        isolation: `process` runs the handler, which must be importable, in its own process.
        tags: For filtering.
        version: Its version by SemVer 2.0, if the tool has a version apart from its package.
        depends_on: Names of tools it calls itself; without one of them it is not offered.
        wire_name: Its name at its origin, which models may use, too.
        origin: The origin of a tool with a foreign name, such as a server. Its wire name then
            counts only if no other tool has it.
        long_description: Shown in schemas in place of `description`.
        params_schema: A JSON Schema of the params, in place of a type.
        result_schema: A JSON Schema of the value, in place of a type.
        renamed_tools: The prefixed names of its plugin's tools, by the names it uses itself.

    Raises:
        DefinitionError: Naming the tool, every fault and the remedies.

    Example:
        >>> from dataclasses import dataclass
        >>> from toolstile_hookspecs import ToolResult
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
    handler: ToolHandler[P, R] | None = None
    accepts_overrides: bool = True
    examples: tuple[ToolExample[P, R], ...] = ()
    idempotency: IdempotencyConfig | None = None
    undo: UndoHandler | None = None
    category: Category = "side_effect"
    consequence: Consequence = "medium"
    requires_confirmation: bool = False
    exclude_value_from_context: bool = False
    contained: bool | None = None
    concurrency: Concurrency = "parallel"
    timeout: float | HostDefault | None = HOST_TIMEOUT
    isolation: Isolation = "thread"
    tags: tuple[str, ...] = ()
    version: str | None = None
    depends_on: tuple[str, ...] = ()
    wire_name: str | None = None
    origin: str | None = None
    long_description: str | None = None
    params_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    result_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    renamed_tools: Mapping[str, str] = field(default_factory=lambda: NO_NAMES, repr=False)

    signature: Signature = field(init=False, repr=False)
    params_codec: ValueCodec = field(init=False, repr=False)
    result_codec: ValueCodec = field(init=False, repr=False)

    _declared: ClassVar[tuple[Any, Any]] = (ANYTHING, ANYTHING)

    if not TYPE_CHECKING:

        def __class_getitem__(cls, pair: object) -> type:
            """Return the class that knows its two types, as `Tool[Params, Result]`."""
            if not isinstance(pair, tuple) or len(pair) != 2:  # noqa: PLR2004 - params and result
                told = "Write Tool[Params, Result]; None stands for no params or no value."
                raise DefinitionError(told)
            if any(isinstance(type_, TypeVar) for type_ in pair):
                return super().__class_getitem__(pair)
            declared = tuple(None if type_ is type(None) else type_ for type_ in pair)
            name = f"{cls.__name__}[{', '.join(map(describe, pair))}]"
            return type(name, (cls,), {"_declared": declared, "__module__": cls.__module__})

    def __post_init__(self) -> None:
        settle = object.__setattr__
        if self.contained is None:
            settle(self, "contained", self.category == "read")
        self._refuse(tool_faults(self, Tool))
        for name in ("examples", "tags", "depends_on"):
            settle(self, name, tuple(getattr(self, name)))
        settle(self, "signature", self._read_handler())
        settle(self, "params_codec", params_codec(self, self._owner))
        settle(self, "result_codec", result_codec(self, self._owner))
        examples, faults = typed_examples(self.examples, self.params_codec, self.result_codec)
        settle(self, "examples", examples)
        if self.idempotency is not None:
            faults += key_faults(self.idempotency, self.params_codec)
        if self.undo is not None:
            faults += undo_faults(self)
        if self.isolation == "process":
            faults += import_faults(self.handler)
        self._refuse(faults)

    def __deepcopy__(self, memo: object = None) -> Tool[P, R]:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> Any:
        """Pickle the fields; the handler must be importable."""
        names = [option.name for option in fields(self) if option.init]
        return _remake, (self._declared, {name: getattr(self, name) for name in names})

    @property
    def policy_names(self) -> tuple[str, ...]:
        """The names for policies: the name, and the name for models."""
        return (self.name, self.label) if self.label != self.name else (self.name,)

    @property
    def label(self) -> str:
        """The name for models: the wire name without an origin, else the name."""
        return self.name if self.origin or not self.wire_name else self.wire_name

    @property
    def is_async(self) -> bool:
        """True when the handler is a coroutine function."""
        return self.signature.is_async

    def parse(self, arguments: str | bytes | Mapping[str, Any]) -> P:
        """Return the typed params, or raise `ToolValidationError` naming every fault."""
        return cast("P", self.params_codec.decode(as_json(arguments)))

    def _read_handler(self) -> Signature:
        declared, result = self._declared
        params = declared if self.params_schema is None else ANYTHING
        if self.handler is None:
            return Signature(_no_handler, params, result, is_async=False, wraps=False)
        return read_full_form(self.handler, owner=self._owner, params=params, result=result)

    @property
    def _owner(self) -> str:
        return f"Tool {self.name!r}"

    def _refuse(self, faults: list[str]) -> None:
        if faults:
            told = "; ".join(faults)
            raise DefinitionError(f"{self._owner}: {told if told.endswith('?') else f'{told}.'}")


def _remake(declared: tuple[Any, Any], options: dict[str, Any], base: Any = Tool) -> Any:
    return (base if declared == (ANYTHING, ANYTHING) else base[declared])(**options)


def _no_handler(params: object, *, context: object) -> NoReturn:  # noqa: ARG001 - the full form
    raise ToolValidationError("This tool cannot be called: it has no handler. Give it one.")
