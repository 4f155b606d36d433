"""The settings of the host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    WithJsonSchema,
    model_validator,
)

from toolstile.settings.table_validation import validate_table
from toolstile_hookspecs import ConfigurationError, Durability
from toolstile_hookspecs.support.text import MAX_TEXT
from toolstile_hookspecs.tools import Category, Consequence

DEFAULT_TIMEOUT: Final = 15.0
DEFAULT_MAX_ARGUMENTS: Final = 16 * 1024 * 1024
DEFAULT_APPROVAL_EXPIRY: Final = 60 * 60.0
HISTORY_EVENTS: Final = 10_000
HISTORY_BYTES: Final = 64_000_000

NO_FILE: Final = "the configuration"


def folded(name: str) -> str:
    """Return a name as environment variables can spell it: lower case, `_` for the rest."""
    return re.sub(r"[^a-z0-9]", "_", name.lower())


KEY_LENGTH: Final = 32
NEVER: Final = "none"
_LONGEST: Final = 1e308


def _seconds(value: object, *, otherwise: str = "") -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _LONGEST:
        return float(value)
    raise ValueError(f"expected a positive number of seconds{otherwise}")


def _seconds_or_never(value: object) -> float | None:
    if value is None or value == NEVER:
        return None
    return _seconds(value, otherwise=f', or "{NEVER}" for never')


def checked_seconds(name: str, value: object) -> float | None:
    """Return a positive number of seconds, a century at most, or None for never."""
    try:
        return None if value is None else min(_seconds(value), 100 * 365 * 86400.0)
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error}, or None for never, not {value!r}.") from None


def _key(value: object) -> object:
    if value is None or (isinstance(value, str) and len(value) >= KEY_LENGTH):
        return value
    raise ValueError(
        f"expected a key that cannot be guessed; give at least {KEY_LENGTH} random characters, "
        "such as those of: python -c 'import os; print(os.urandom(32).hex())'"
    )


def _policy(table: dict[str, Any]) -> dict[str, Any]:
    texts = table.get("kind"), table.get("name", "-")
    if all(isinstance(text, str) and text for text in texts):
        return table
    msg = "expected a table with a `kind`, the text that names a policy kind, and maybe a `name`"
    raise ValueError(msg)


Seconds = Annotated[
    float | None,
    BeforeValidator(_seconds_or_never),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": NEVER}]}),
]


Plugins = Annotated[
    Mapping[str, Annotated[Mapping[str, Any], AfterValidator(MappingProxyType)]],
    AfterValidator(MappingProxyType),
]


class ToolCorrection(BaseModel):
    """A table `[tools.NAME]`: corrections of a tool's declarations.

    Args:
        category: The effect of a call.
        consequence: How much hangs on it.
        requires_confirmation: Whether a person must approve every call.
        timeout: Seconds until a call times out, `"none"` for never.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    category: Category | None = None
    consequence: Consequence | None = None
    requires_confirmation: StrictBool | None = None
    timeout: Seconds = None


class PolicyTable(BaseModel):
    """The table `[policy]`: the default beside the `[[policies]]` tables.

    Args:
        default: The decision on calls that no policy allows by name: `deny` denies them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: Literal["allow", "deny"] = "allow"


class HostTable(BaseModel):
    """The keys of `toolstile.toml` or `[tool.toolstile]`; see `Settings`."""

    block: tuple[str, ...] = ()
    optional_plugins: tuple[str, ...] = ()
    durability: Durability = "power"
    timeout: Seconds = DEFAULT_TIMEOUT
    approver: str | None = None
    approval_timeout: Seconds = None
    approval_expiry: Annotated[float, BeforeValidator(_seconds)] = DEFAULT_APPROVAL_EXPIRY
    approval_key: Annotated[str | None, BeforeValidator(_key), Field(repr=False)] = None
    approval_spent: Path | None = None
    approve_diff: StrictBool | tuple[str, ...] = False
    approve_by: Literal["call", "turn"] = "call"
    log: Literal["text", "json"] = "text"
    max_arguments: Annotated[int, Field(gt=0, strict=True)] = DEFAULT_MAX_ARGUMENTS
    max_text: Annotated[int, Field(ge=1000, strict=True)] = MAX_TEXT
    history_events: Annotated[int, Field(ge=0, strict=True)] = HISTORY_EVENTS
    history_bytes: Annotated[int, Field(ge=0, strict=True)] = HISTORY_BYTES
    policies: tuple[Annotated[dict[str, Any], AfterValidator(_policy)], ...] = ()
    policy: PolicyTable = PolicyTable()
    plugins: Plugins = Field(default_factory=dict[str, Mapping[str, Any]], validate_default=True)
    plugin_files: tuple[Path, ...] = ()
    prompt_overrides: Path | None = None
    tags: tuple[str, ...] = ()
    without_tags: tuple[str, ...] = ()
    strict_depends: StrictBool = False
    tools: Mapping[str, ToolCorrection] = Field(default_factory=dict[str, ToolCorrection])

    @model_validator(mode="after")
    def _file_with_key(self) -> Self:
        if self.approval_key is None and self.approval_spent is not None:
            raise ValueError("approval_spent is given without approval_key; give both, or neither")
        return self


class Settings(HostTable):
    """The configuration of a host; the defaults are those of a host without any.

    Args:
        path: The file it was read from, if there is one.
        block: Plugins that are switched off.
        optional_plugins: Plugins that may be absent although the configuration has a table for
            them; the table of any other absent plugin is an error.
        durability: Whether all that is kept survives a loss of power, or only that of a process.
        timeout: Seconds until a tool's call times out, None for never; in a file, `"none"`.
        approver: The plugin that answers when a person has to decide.
        approval_timeout: Seconds until an unanswered approval counts as denied, None for never;
            in a file, `"none"`.
        approval_expiry: Seconds for which a call that waits for approval can be resumed.
        approval_key: The secret that seals approvals, for hosts that resume each other's calls, of
            32 characters or more; None for one of the host's own.
        approval_spent: The file in which these hosts note used approvals. Left out, they are
            noted where calls of stored sessions are decided.
        approve_diff: Whether contained tools run before a person is asked, who is then shown
            the changes; or the names of such tools, also as globs.
        approve_by: Whether a person answers the questions of a turn one by one, or together on one
            card.
        log: The form of the log on the standard error of commands: lines for people, or one JSON
            object per record, with its time.
        max_arguments: The most bytes that the arguments of a call may have.
        max_text: The most characters of a call's text for a model. A longer text is cut in its
            middle; a call whose value is structured and longer fails.
        history_events: The most events of calls that a session keeps, the newest first; 0 for
            any number.
        history_bytes: The most bytes of arguments, texts and values in these events; 0 for any
            number.
        policies: The `[[policies]]` tables: `kind`, maybe `name`, and the kind's fields.
        policy: The `[policy]` table; with `default = "deny"` a call that no policy allows is
            denied, also nested calls and calls of servers' tools.
        plugins: The `[plugins.NAME]` tables as written, by name.
        plugin_files: Python files to load as plugins.
        prompt_overrides: The file with texts that replace texts of prompts.
        tags: A tool with none of these tags is not offered; empty for all tools.
        without_tags: The tags of tools that are not offered.
        strict_depends: Whether a handler can only call the tools that its own `depends_on` names;
            else a call of another is logged.
        tools: The `[tools.NAME]` tables, which correct the declarations of tools; NAME may
            be a glob, over which a tool's own table wins.
        variables: From a dotted key to the environment variable that its value came from.

    Raises:
        ConfigurationError: When one does not fit; names all that do not.

    Example:
        >>> Settings().timeout
        15.0
    """

    model_config = ConfigDict(frozen=True)

    path: Path | None = None
    variables: Mapping[str, str] = Field(default_factory=dict)

    if not TYPE_CHECKING:  # its fields are its parameters

        def __init__(self, **given: Any) -> None:
            """Check arguments of Python as a file is checked, with the same messages."""
            own = {name: given.pop(name) for name in ("path", "variables") if name in given}
            table = validate_table(HostTable, given, plugin=None, source="Settings")
            super().__init__(**dict(table), **own)

    @classmethod
    def durable(cls, place: Path | str, *, key: str, **more: Any) -> Settings:
        """Return settings with which sessions, effects, approvals and records survive the process.

        A call that needs a person ends as pending. The inbox keeps the question, and the call
        is resumed in any process with the same settings. Needs the extra `policies`, and for a
        database `postgres`.

        Args:
            place: A SQLite file for the hosts of one machine, or the URL of a PostgreSQL database.
                Questions and records stand beside the file. Beside a database, records and
                the inbox's key stand in `.toolstile` of the working directory.
            key: The secret of all these hosts, of 32 characters or more.
            **more: Further settings. A table in `plugins` adds to the plugin's table.

        Raises:
            ConfigurationError: When `place` is neither, or another setting does not fit.

        Example:
            >>> settings = Settings.durable("desk.db", key="k" * 32, timeout=60)
            >>> settings.approver, settings.timeout, settings.plugins["inbox"]["wait"]
            ('inbox', 60.0, 'pending')
        """
        url, _, rest = str(place).partition("://")
        tables: dict[str, dict[str, Any]]
        if not rest:
            file = Path(place).expanduser().absolute()
            journal = {"path": file}
            inbox, records = file.with_suffix(".inbox.db"), file.with_suffix(".records")
            tables = {"sessions": journal, "ledger": journal, "inbox": {"path": inbox}}
            more = {"approval_spent": file, **more}
        elif url in {"postgresql", "postgres"}:
            # Used approvals are noted in the database, with the decisions of calls.
            folder = Path(".toolstile").absolute()
            records = folder / "records"
            database = {"url": SecretStr(str(place))}
            tables = {"database": database, "inbox": {"key": folder / "inbox.key"}}
        else:
            raise ConfigurationError(
                f"Settings.durable keeps nothing in {url}://. Give the path of a SQLite file, or "
                "the URL of a PostgreSQL database, such as postgresql://user@host/name."
            )
        tables["inbox"] |= {"secret": SecretStr(key), "wait": "pending"}
        tables["record"] = {"folder": records}
        for name, table in more.pop("plugins", {}).items():
            tables[name] = {**tables.get(name, {}), **table}
        own: dict[str, Any] = {"approver": "inbox", "approval_key": key, "durability": "power"}
        own["plugins"] = tables
        return cls(**{**own, **more})

    def replaced(self, **changes: Any) -> Settings:
        """Return the settings with other values of some fields."""
        return Settings(**{**dict(self), **changes})

    def table_of(self, plugin: str) -> Mapping[str, Any]:
        """Return a plugin's table; empty if it has no table.

        The name may be spelt as an environment variable has to spell it, with `_` for `-`.
        """
        name = self.table_name(plugin)
        return {} if name is None else self.plugins[name]

    def table_name(self, plugin: str) -> str | None:
        """Return the name of a plugin's table, or None if it has no table."""
        if plugin in self.plugins:
            return plugin
        wanted = folded(plugin)
        return next((name for name in self.plugins if folded(name) == wanted), None)

    def source_of(self, key: str) -> str:
        """Return the source of a dotted key for messages: a variable or the file."""
        at = key
        while at:
            if at in self.variables:
                return self.variables[at]
            at = at.rpartition(".")[0]
        return NO_FILE if self.path is None else str(self.path)
