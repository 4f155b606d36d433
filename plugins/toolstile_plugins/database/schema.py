"""The tables that parts of Toolstile keep in a PostgreSQL database, each part with a version."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from toolstile_hookspecs import StateError

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import BoundedConnection as Connection

_LOCK: Final = 0x746F6F6C7374696C
"""Held by the one who makes tables: two that do so at once would fail at one another."""
_TABLE: Final = """CREATE TABLE IF NOT EXISTS toolstile_schema (
    part TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, identity TEXT NOT NULL
)"""
_NOTE: Final = (
    "INSERT INTO toolstile_schema VALUES ('{name}', {version}, "
    "replace(gen_random_uuid()::text, '-', '')) "
    "ON CONFLICT (part) DO UPDATE SET version = excluded.version"
)
# Not by `to_regclass`: who has waited for the lock goes on believing what it believed before.
_IS_THERE: Final = (
    b"SELECT 1 FROM pg_class WHERE relname = 'toolstile_schema' AND pg_table_is_visible(oid)"
)
_FOUND: Final = b"SELECT part, version, identity FROM toolstile_schema"


class Part(NamedTuple):
    """The tables of one store in a database.

    Args:
        name: Its name, a plain word.
        steps: The statements that lead to each version from the one before it.
        older: A table of its first version that may be there without a version; "" for none.
    """

    name: str
    steps: tuple[str, ...]
    older: str = ""

    @property
    def version(self) -> int:
        """The version that this Toolstile knows."""
        return len(self.steps)

    def statements(self, found: int | None) -> list[str]:
        """Return the statements that lead here from a version; None for no tables."""
        steps = [*self.steps[found or 0 :]]
        return [*steps, _NOTE.format(name=self.name, version=self.version)] if steps else []


class Found(NamedTuple):
    """The tables of a part as they are in a database: their version, and their identity."""

    version: int
    identity: str


class Versions:
    """The parts that stores ask for, and whether their tables are as this Toolstile knows them.

    Args:
        title: What is kept in the database, for messages.

    Attributes:
        identities: What tells the tables of a part from those elsewhere, by its name.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._wanted: dict[str, Part] = {}
        self._lock = threading.Lock()
        self.identities: dict[str, str] = {}

    def require(self, part: Part) -> None:
        """Have a part checked."""
        self._wanted[part.name] = part

    @property
    def are_checked(self) -> bool:
        """True when all that are required are there."""
        return len(self.identities) == len(self._wanted)

    def check(self, connection: Connection) -> None:
        """Make the tables that are not there.

        Raises:
            StateError: Those that are there are of another version, or the user may make none.
        """
        import psycopg  # late: only who uses it has it

        with self._lock:
            wanted = [*self._wanted.values()]
            found = _older_in(connection, wanted)
            try:
                found |= found_in(connection)
            except psycopg.errors.InsufficientPrivilege:
                # Who was let use the table of then may not look at the versions of now.
                if len(found) < len(wanted):
                    raise
            if new := [part for part in wanted if part.name not in found]:
                self._make(connection, new)
                found |= found_in(connection)
            for part in wanted:
                if (fault := fault_of(part, found.get(part.name))) is not None:
                    raise StateError(" ".join((*fault, "Then retry.")))
            self.identities = {part.name: found[part.name].identity for part in wanted}

    def _make(self, connection: Connection, parts: Iterable[Part]) -> None:
        import psycopg  # late: only who uses it has it

        try:
            upgrade(connection, parts)
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.ReadOnlySqlTransaction,
        ) as error:
            names = ", ".join(part.name for part in parts)
            raise StateError(
                f"The {self._title} has no tables for {names} yet, and user "
                f"{connection.info.user} may not make them there. Have one who may run "
                "`toolstile database upgrade`, or what `toolstile database upgrade --sql` prints; "
                f"and grant {connection.info.user} SELECT, INSERT, UPDATE and DELETE on them, or "
                "CREATE on the schema. Then retry."
            ) from error


def found_in(connection: Connection) -> Mapping[str, Found]:
    """Return the versions of the parts in a database."""
    if connection.execute(_IS_THERE).fetchone() is None:
        return {}
    return {name: Found(*row) for name, *row in connection.execute(_FOUND).fetchall()}


def _older_in(connection: Connection, parts: Iterable[Part]) -> dict[str, Found]:
    """Return the parts whose tables may be of a time before versions."""
    visible = b"SELECT 1 FROM pg_class WHERE relname = %s AND pg_table_is_visible(oid)"
    older = [part for part in parts if part.older]
    return {
        part.name: Found(1, "")
        for part in older
        if connection.execute(visible, (part.older,)).fetchone() is not None
    }


def fault_of(part: Part, found: Found | None) -> tuple[str, str] | None:
    """Return why the tables of a part cannot be used, and a remedy; None where they can."""
    if found is None:
        return f"There are no tables for {part.name} yet.", "Run `toolstile database upgrade`."
    if found.version == part.version:
        return None
    told = (
        f"The tables for {part.name} are of version {found.version}, and this Toolstile knows "
        f"{part.version}."
    )
    if found.version > part.version:
        return told, "Use the Toolstile that made them, or another database."
    return told, "Stop the older Toolstile that uses them, and run `toolstile database upgrade`."


def upgrade(connection: Connection, parts: Iterable[Part]) -> list[str]:
    """Bring parts to the versions known here, all or none; returns the names of those changed."""
    with connection.transaction():
        connection.execute(b"SELECT pg_advisory_xact_lock(%d)" % _LOCK)
        found = found_in(connection)
        changed: list[str] = []
        for statement in [] if found else [_TABLE]:
            connection.execute(statement.encode())
        for part in parts:
            there = found.get(part.name)
            statements = part.statements(None if there is None else there.version)
            for statement in statements:
                connection.execute(statement.encode())
            changed += [part.name] if statements else []
    return changed


def script(found: Mapping[str, Found], parts: Iterable[Part]) -> str:
    """Return the statements of `upgrade`, for who may make tables."""
    steps = ["BEGIN", *([] if found else [_TABLE])]
    for part in parts:
        there = found.get(part.name)
        steps += part.statements(None if there is None else there.version)
    return "".join(f"{step};\n" for step in [*steps, "COMMIT"])
