"""The settings of the host."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from toolstile_hookspecs import ConfigurationError, DefinitionError

DEFAULT_TIMEOUT: Final = 15.0
DEFAULT_MAX_ARGUMENTS: Final = 16 * 1024 * 1024
DEFAULT_APPROVAL_EXPIRY: Final = 60 * 60.0
HISTORY_EVENTS: Final = 10_000
HISTORY_BYTES: Final = 64_000_000

NO_FILE: Final = "the configuration"


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of a host; the defaults are those of a host without any.

    Args:
        path: The file it was read from, if there is one.
        block: Plugins that are switched off.
        timeout: Seconds until a tool's call is given up, None for never; in a file, `"none"`.
        approver: The plugin that answers when a person has to decide.
        approval_timeout: Seconds until an unanswered approval counts as denied, None for never;
            in a file, `"none"`.
        approval_expiry: Seconds for which a call that waits for approval can be resumed.
        approval_key: The secret that seals approvals, for hosts that resume each other's calls, of
            32 characters or more; None for one of the host's own.
        approval_spent: The file in which these hosts note used approvals.
        approve_diff: Whether contained tools run before a person is asked, who is then shown
            what they would change; or the names of those for which it holds.
        max_arguments: The most bytes that the arguments of a call may have.
        history_events: The most events of calls that a session keeps, the newest ones; 0 for
            any number.
        history_bytes: The most bytes of arguments, texts and values in these events; 0 for any
            number.
        policies: The `[[policies]]` tables: `kind`, maybe `name`, and the kind's fields.
        plugins: The `[plugins.NAME]` tables as written, by name.
        plugin_files: Python files to load as plugins.
        prompt_overrides: The file whose texts take the place of those of prompts.
        variables: From a dotted key to the environment variable that its value came from.

    Raises:
        ConfigurationError: When one is not what it should be; names all of these.

    Example:
        >>> Settings().timeout
        15.0
    """

    path: Path | None = None
    block: tuple[str, ...] = ()
    timeout: float | None = DEFAULT_TIMEOUT
    approver: str | None = None
    approval_timeout: float | None = None
    approval_expiry: float = DEFAULT_APPROVAL_EXPIRY
    approval_key: str | None = field(default=None, repr=False)
    approval_spent: Path | None = None
    approve_diff: bool | tuple[str, ...] = False
    max_arguments: int = DEFAULT_MAX_ARGUMENTS
    history_events: int = HISTORY_EVENTS
    history_bytes: int = HISTORY_BYTES
    policies: tuple[dict[str, Any], ...] = ()
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    plugin_files: tuple[Path, ...] = ()
    prompt_overrides: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        """Check what Python gave, as a file is checked where it is read."""
        refuse(
            "Settings",
            (
                names_fault("block", self.block),
                seconds_fault("timeout", self.timeout),
                text_fault("approver", self.approver),
                seconds_fault("approval_timeout", self.approval_timeout),
                finite_fault("approval_expiry", self.approval_expiry),
                key_fault("approval_key", self.approval_key),
                pair_fault(approval_key=self.approval_key, approval_spent=self.approval_spent),
                path_fault("approval_spent", self.approval_spent),
                None
                if isinstance(self.approve_diff, bool)
                else names_fault("approve_diff", self.approve_diff),
                count_fault("max_arguments", self.max_arguments),
                count_fault("history_events", self.history_events, least=0),
                count_fault("history_bytes", self.history_bytes, least=0),
                tables_fault("policies", self.policies),
                table_fault("plugins", self.plugins),
                several_fault("plugin_files", self.plugin_files),
                path_fault("prompt_overrides", self.prompt_overrides),
            ),
        )

    def table_of(self, plugin: str) -> Mapping[str, Any]:
        """Return a plugin's table, empty where there is none.

        The name may be spelt as an environment variable has to spell it, with `_` for `-`.
        """
        name = self.table_name(plugin)
        return {} if name is None else self.plugins[name]

    def table_name(self, plugin: str) -> str | None:
        """Return the name that a plugin's table goes by, or None where there is none."""
        if plugin in self.plugins:
            return plugin
        wanted = folded(plugin)
        return next((name for name in self.plugins if folded(name) == wanted), None)

    def source_of(self, key: str) -> str:
        """Return what a message calls the place of a dotted key: a variable or the file."""
        at = key
        while at:
            if at in self.variables:
                return self.variables[at]
            at = at.rpartition(".")[0]
        return NO_FILE if self.path is None else str(self.path)


def folded(name: str) -> str:
    """Return a name as environment variables can spell it: lower case, `_` for the rest."""
    return re.sub(r"[^a-z0-9]", "_", name.lower())


# --- Checks of settings given in Python


KEY_LENGTH: Final = 32
KEY_REMEDY: Final = (
    f"give at least {KEY_LENGTH} random characters, such as those of: "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
)


def refuse(place: str, faults: Iterable[str | None]) -> None:
    """Raise for the faults there are.

    Args:
        place: Where they were given, such as `Host`.
        faults: What is wrong with each argument, None where nothing is.

    Raises:
        ConfigurationError: Naming the place and all faults.
    """
    found = [fault for fault in faults if fault is not None]
    if found:
        raise ConfigurationError(f"{place}: {'; '.join(found)}.")


def seconds_fault(name: str, value: object) -> str | None:
    """Return why an argument is no time that something may take.

    Example:
        >>> seconds_fault("timeout", -1)
        'timeout is -1; give a positive number of seconds, or None for never'
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is None or (number and cast("float", value) > 0):
        return None
    return f"{name} is {value!r}; give a positive number of seconds, or None for never"


def finite_fault(name: str, value: object) -> str | None:
    """Return why an argument is no time after which something ends.

    Example:
        >>> finite_fault("approval_expiry", None)
        'approval_expiry is None; give a positive number of seconds'
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return None
    return f"{name} is {value!r}; give a positive number of seconds"


def key_fault(name: str, value: object) -> str | None:
    """Return why an argument is no key; it is not shown."""
    if value is None or (isinstance(value, str) and len(value) >= KEY_LENGTH):
        return None
    return f"{name} is too easily guessed; {KEY_REMEDY}"


def pair_fault(**values: object) -> str | None:
    """Return which of several arguments is missing that are only given together.

    Example:
        >>> pair_fault(key="x", file=None)
        'key is given without file; give both, or neither'
    """
    missing = [name for name, value in values.items() if value is None]
    if not missing or len(missing) == len(values):
        return None
    present = ", ".join(name for name in values if name not in missing)
    return f"{present} is given without {', '.join(missing)}; give both, or neither"


def several_fault(name: str, value: object) -> str | None:
    """Return why an argument is not several: one text would be read by its letters.

    Example:
        >>> several_fault("block", "vfs")
        "block is one text; give several, block=('vfs',)"
    """
    if isinstance(value, (str, Path)):
        told = ", ".join(repr(part.strip()) for part in str(value).split(",") if part.strip())
        comma = "," if "," not in told else ""
        return f"{name} is one text; give several, {name}=({told}{comma})"
    if isinstance(value, Iterable):
        return None
    return f"{name} is {value!r}; give several, in a tuple"


def names_fault(name: str, value: object) -> str | None:
    """Return why an argument is not several names."""
    fault = several_fault(name, value)
    if fault is not None:
        return fault
    strangers = [each for each in cast("Iterable[object]", value) if not isinstance(each, str)]
    return f"{name} holds {strangers[0]!r}; give names" if strangers else None


def count_fault(name: str, value: object, *, least: int = 1) -> str | None:
    """Return why an argument is not a whole number of at least 1, or 0."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return None
    return f"{name} is {value!r}; give a positive whole number{'' if least else ', or 0'}"


def text_fault(name: str, value: object) -> str | None:
    """Return why an argument is neither a text nor left out."""
    if value is None or isinstance(value, str):
        return None
    return f"{name} is {value!r}; give a name, or None"


def table_fault(name: str, value: object) -> str | None:
    """Return why an argument is no mapping from names to tables."""
    if isinstance(value, Mapping):
        tables = cast("Mapping[object, object]", value)
        if all(isinstance(table, Mapping) for table in tables.values()):
            return None
    return f"{name} is {value!r}; give a mapping from names to mappings"


def tables_fault(name: str, value: object) -> str | None:
    """Return why an argument is not several tables."""
    several = isinstance(value, Iterable) and not isinstance(value, Mapping)
    if several and all(isinstance(each, Mapping) for each in cast("Iterable[object]", value)):
        return None
    return f"{name} is {value!r}; give several mappings, in a tuple"


def path_fault(name: str, value: object) -> str | None:
    """Return why an argument is no path, where it is given at all.

    Example:
        >>> path_fault("prompt_overrides", "texts.toml")
        "prompt_overrides is of type str; write Path('texts.toml')"
    """
    return kind_fault(name, value, Path, f"write Path({str(value)!r})")


def errors_fault(name: str, value: object) -> str | None:
    """Return why an argument is not several classes of exceptions.

    Example:
        >>> errors_fault("interrupts", ValueError)
        'interrupts is ValueError; give classes of exceptions, in a tuple'
        >>> errors_fault("interrupts", ["ValueError"])
        "interrupts holds 'ValueError'; give classes of exceptions"
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        shown = value.__qualname__ if isinstance(value, type) else repr(value)
        return f"{name} is {shown}; give classes of exceptions, in a tuple"
    for each in cast("Iterable[object]", value):
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            return f"{name} holds {each!r}; give classes of exceptions"
    return None


def kind_fault(name: str, value: object, kind: type, remedy: str) -> str | None:
    """Return why an argument is not of a kind, where it is given at all."""
    if value is None or isinstance(value, kind):
        return None
    return f"{name} is of type {type(value).__qualname__}; {remedy}"


def callable_fault(name: str, value: object) -> str | None:
    """Return why an argument cannot be called, where it is given at all."""
    if value is None or callable(value):
        return None
    return f"{name} is {value!r}; give a function"


def approver_fault(value: object) -> str | None:
    """Return why an argument is no approver, where it is given at all.

    Example:
        >>> approver_fault("duty")
        "approver is 'duty'; give a function of the request, or name the plugin in the settings"
    """
    # A function may be a plugin, too, and a mock has whatever it is asked for.
    is_plugin = hasattr(value, "toolstile_approve") and not (
        callable(value) and not isinstance(value, type)
    )
    if not isinstance(value, str) and not is_plugin:
        return callable_fault("approver", value)
    what = repr(value) if isinstance(value, str) else "a plugin"
    return f"approver is {what}; give a function of the request, or name the plugin in the settings"


def clock_fault(name: str, value: object) -> str | None:
    """Return why an argument is no clock, where it is given at all.

    Example:
        >>> clock_fault("clock", 5)
        'clock is of type int; give an object with the methods now and monotonic'
    """
    if isinstance(value, type):
        return f"{name} is a class; give an instance of {value.__qualname__}"
    if value is None or all(callable(getattr(value, each, None)) for each in ("now", "monotonic")):
        return None
    kind = type(value).__qualname__
    return f"{name} is of type {kind}; give an object with the methods now and monotonic"


# --- The host's own keys


NEVER = "none"


def _seconds(value: object) -> float | None:
    if value is None or value == NEVER:
        return None
    return _positive(value, otherwise=f', or "{NEVER}" for never')


def _positive(value: object, *, otherwise: str = "") -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    msg = f"expected a positive number of seconds{otherwise}"
    raise ValueError(msg)


def _key(value: object) -> str | None:
    if value is None or (isinstance(value, str) and key_fault("approval_key", value) is None):
        return value
    raise ValueError(f"expected a key that nobody guesses; {KEY_REMEDY}")


def _policy(value: object) -> dict[str, Any]:
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    kind, name = table.get("kind"), table.get("name", "-")
    if isinstance(kind, str) and kind and isinstance(name, str) and name:
        return table
    if isinstance(value, dict) and kind is None:
        raise DefinitionError('has no kind; name one, such as kind = "quota"')
    msg = "expected a table with a `kind`, the text that names a policy kind, and maybe a `name`"
    raise ValueError(msg)


def _policies(value: object) -> object:
    if isinstance(value, dict):
        raise DefinitionError("is one table; write [[policies]] above each, in two brackets")
    return value


def _plugin(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    msg = "a table, [plugins.NAME]"
    raise ValueError(msg)


Seconds = Annotated[
    float | None,
    BeforeValidator(_seconds),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": NEVER}]}),
]


class HostTable(BaseModel):
    """The keys of `toolstile.toml` or `[tool.toolstile]`; see `Settings`."""

    block: tuple[str, ...] = ()
    timeout: Seconds = DEFAULT_TIMEOUT
    approver: str | None = None
    approval_timeout: Seconds = None
    approval_expiry: Annotated[float, BeforeValidator(_positive)] = DEFAULT_APPROVAL_EXPIRY
    approval_key: Annotated[str | None, BeforeValidator(_key)] = None
    approval_spent: Path | None = None
    approve_diff: bool | tuple[str, ...] = False
    max_arguments: Annotated[int, Field(gt=0, strict=True)] = DEFAULT_MAX_ARGUMENTS
    history_events: Annotated[int, Field(ge=0, strict=True)] = HISTORY_EVENTS
    history_bytes: Annotated[int, Field(ge=0, strict=True)] = HISTORY_BYTES
    policies: Annotated[
        tuple[Annotated[dict[str, Any], BeforeValidator(_policy)], ...], BeforeValidator(_policies)
    ] = ()
    plugins: dict[str, Annotated[dict[str, Any], BeforeValidator(_plugin)]] = {}
    plugin_files: tuple[Path, ...] = ()
    prompt_overrides: Path | None = None
