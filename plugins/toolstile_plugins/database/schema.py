"""The tables that parts of Toolstile keep in a PostgreSQL database, each part with a version."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from toolstile_hookspecs import StateError
from toolstile_plugins.cli_support import unseen

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import BoundedConnection as Connection

_LOCK: Final = 0x746F6F6C7374696C
"""Held while tables are made, because two processes at once would make each other fail."""
_TABLE: Final = """CREATE TABLE IF NOT EXISTS toolstile_schema (
    part TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL, identity TEXT NOT NULL
)"""
_NOTE: Final = (
    "INSERT INTO toolstile_schema VALUES ('{name}', {version}, "
    "replace(gen_random_uuid()::text, '-', '')) "
    "ON CONFLICT (part) DO UPDATE SET version = excluded.version"
)
# Not by `to_regclass`, because its cache is stale after waiting for the lock.
_IS_THERE: Final = (
    b"SELECT 1 FROM pg_class WHERE relname = 'toolstile_schema' AND pg_table_is_visible(oid)"
)
_FOUND: Final = b"SELECT part, version, identity FROM toolstile_schema"
_MADE: Final = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)")
_MAY_MAKE: Final = b"""SELECT current_user, current_setting('transaction_read_only') = 'off'
    AND coalesce(has_schema_privilege(current_schema(), 'CREATE'), FALSE)"""
# The versions are only read.
_LACKS: Final = b"""SELECT relname, string_agg(wanted, ', ' ORDER BY wanted), format(
    'GRANT %s ON %I.%I TO %I;', string_agg(wanted, ', ' ORDER BY wanted), nspname, relname,
    current_user)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
WHERE relkind = 'r' AND relname LIKE 'toolstile\\_%' AND pg_table_is_visible(pg_class.oid)
    AND NOT has_table_privilege(pg_class.oid, wanted)
    AND (relname <> 'toolstile_schema' OR wanted = 'SELECT')
GROUP BY nspname, relname"""
_REFUSED: Final = ("42501", "3F000", "25006")
"""The codes for a missing privilege, a missing schema, and a transaction that only reads."""
_HAVE_MADE: Final = (
    "Have an administrator run `toolstile database upgrade`, or the output of `toolstile database "
    "upgrade --sql`; and grant {user} USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE "
    "on its tables. Or grant {user} CREATE on the schema."
)


class Part(NamedTuple):
    """The tables of one store, with the statements that upgrade to each version."""

    name: str
    steps: tuple[str, ...]

    @property
    def version(self) -> int:
        """The version of this Toolstile."""
        return len(self.steps)

    @property
    def tables(self) -> list[str]:
        """The names of its tables."""
        return _MADE.findall(" ".join(self.steps))

    def statements(self, found: int | None) -> list[str]:
        """Return the statements that upgrade from a version, or from None without tables."""
        steps = [*self.steps[found or 0 :]]
        return [*steps, _NOTE.format(name=self.name, version=self.version)] if steps else []


class Found(NamedTuple):
    """The version and the identity of a part's tables in a database."""

    version: int
    identity: str


class Rights(NamedTuple):
    """The rights of a user in a database.

    `lacks` has the missing rights, and the statement that grants them, by the table's name.
    """

    user: str
    may_make: bool
    lacks: Mapping[str, tuple[str, str]]


_ALL: Final = Rights("", may_make=True, lacks={})


class Versions:
    """The parts that stores require, and the `identities` of tables whose version was checked."""

    def __init__(self) -> None:
        self._wanted: dict[str, Part] = {}
        self._lock = threading.Lock()
        self.identities: dict[str, str] = {}

    def require(self, part: Part) -> None:
        """Add a part to check."""
        self._wanted[part.name] = part

    @property
    def are_checked(self) -> bool:
        """True if all required parts are checked."""
        return len(self.identities) == len(self._wanted)

    def check(self, connection: Connection) -> None:
        """Make missing tables, or raise `StateError`, as for tables of another version."""
        with self._lock:
            wanted = [*self._wanted.values()]
            found = found_in(connection)
            if new := [part for part in wanted if part.name not in found]:
                upgrade(connection, new)
                found = found_in(connection)
            for part in wanted:
                if (fault := fault_of(part, found.get(part.name))) is not None:
                    raise StateError(" ".join((*fault, "Then retry.")))
            self.identities = {part.name: found[part.name].identity for part in wanted}


def found_in(connection: Connection) -> Mapping[str, Found]:
    """Return the versions of the parts in a database."""
    if connection.execute(_IS_THERE).fetchone() is None:
        return {}
    return {name: Found(*row) for name, *row in connection.execute(_FOUND).fetchall()}


def parts_in(
    connection: Connection, parts: Iterable[Part]
) -> list[tuple[Part, Found | None, tuple[str, str] | None]]:
    """Return the parts, each with its tables in a database and the fault of `fault_of`."""
    ((user, may_make),) = connection.execute(_MAY_MAKE).fetchall()
    lacks = {table: (rights, grant) for table, rights, grant in connection.execute(_LACKS)}
    rights = Rights(user, may_make, lacks)
    found: Mapping[str, Found] = {} if "toolstile_schema" in rights.lacks else found_in(connection)
    return [(part, there := found.get(part.name), fault_of(part, there, rights)) for part in parts]


def fault_of(part: Part, found: Found | None, rights: Rights = _ALL) -> tuple[str, str] | None:
    """Return why a user cannot use the tables of a part, and a remedy; None if they can."""
    lacks = rights.lacks
    if lacking := [table for table in ("toolstile_schema", *part.tables) if table in lacks]:
        told = " and ".join(f"{lacks[table][0]} on {table}" for table in lacking)
        grants = " ".join(lacks[table][1] for table in lacking)
        return f"User {rights.user} lacks {told}.", f"Have the owner of the tables run: {grants}"
    if found is None:
        told = f"There are no tables for {part.name} yet"
        if rights.may_make:
            return f"{told}.", "Run `toolstile database upgrade`."
        return f"{told}, and user {rights.user} may make none.", _HAVE_MADE.format(user=rights.user)
    if found.version == part.version:
        return None
    told = (
        f"The tables for {part.name} are of version {found.version}, and this Toolstile knows "
        f"{part.version}."
    )
    if found.version > part.version:
        return told, "Use the Toolstile that made them, or another database."
    return told, "Stop the older Toolstile that uses them, and run `toolstile database upgrade`."


def upgrade(
    connection: Connection, parts: Iterable[Part], note: Callable[[int, int], None] = unseen
) -> list[str]:
    """Upgrade all parts and return the changed ones, or raise `StateError` and change none.

    `note` gets the number of statements that have run, and of all.
    """
    try:
        with connection.transaction():
            connection.execute(b"SELECT pg_advisory_xact_lock(%d)" % _LOCK)
            found = found_in(connection)
            changed: list[str] = []
            statements = [] if found else [_TABLE]
            for part in parts:
                there = found.get(part.name)
                if there is not None and there.version > part.version:
                    raise StateError(" ".join(fault_of(part, there) or ()))  # noqa: TRY301 - undoes all
                steps = part.statements(None if there is None else there.version)
                statements += steps
                changed += [part.name] if steps else []
            for number, statement in enumerate(statements):
                note(number, len(statements))
                connection.execute(statement.encode())
            return changed
    except Exception as error:
        if getattr(error, "sqlstate", None) not in _REFUSED:
            raise
        user, names = connection.info.user, ", ".join(part.name for part in parts)
        told = f"User {user} may not make or change the tables for {names} in the database."
        raise StateError(f"{told} {_HAVE_MADE.format(user=user)} Then retry.") from error


def script(found: Mapping[str, Found], parts: Iterable[Part]) -> str:
    """Return the statements of `upgrade`, for an administrator."""
    steps = ["BEGIN", *([] if found else [_TABLE])]
    for part in parts:
        there = found.get(part.name)
        steps += part.statements(None if there is None else there.version)
    return "".join(f"{step};\n" for step in [*steps, "COMMIT"])
