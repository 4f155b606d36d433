"""What is wrong with settings given in Python, which no table has checked; each with its remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from toolstile_hookspecs import ConfigurationError

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


def count_fault(name: str, value: object) -> str | None:
    """Return why an argument is no positive whole number."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return None
    return f"{name} is {value!r}; give a positive whole number"


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
