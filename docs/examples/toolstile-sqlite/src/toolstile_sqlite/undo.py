"""Undo: the recorded changes of a call are applied the other way round."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import apsw

from toolstile_hookspecs import Difference, ToolError


def recorded(connection: apsw.Connection, session: apsw.Session) -> str:
    """Return the changes of a session, and the columns of their tables, as text for `put_back`."""
    if not (changes := session.changeset()):
        return ""
    # Because a changeset names no columns, values would go back to whichever are there by then.
    tables = {change.name for change in apsw.Changeset.iter(changes)}
    return f"{changes.hex()} {json.dumps({each: _columns(connection, each) for each in tables})}"


def put_back(connection: apsw.Connection, text: str) -> tuple[list[str], list[Difference]]:
    """Put the rows of `recorded` changes back, except those that differ since.

    Returns:
        The rows that went back, by table and key, and the differing ones.

    Raises:
        ToolError: The rows cannot go back; nothing is changed.
    """
    recorded_changes, _, recorded_columns = text.partition(" ")
    changes = apsw.Changeset.invert(bytes.fromhex(recorded_changes))
    columns: dict[str, list[str]] = json.loads(recorded_columns or "{}")
    # Because SQLite silently skips the tables that no longer fit, each table is expected here.
    skipped = {change.name for change in apsw.Changeset.iter(changes)}
    _refuse_virtual(connection, skipped)
    # SQLite itself lets columns be added behind the others.
    altered = {t for t, then in columns.items() if _columns(connection, t)[: len(then)] != then}
    rows: dict[str, None] = {}
    differing: dict[str, Difference] = {}
    broken: dict[str, Difference] = {}

    def note(change: apsw.TableChange) -> bool:
        if change.name in altered:
            return False
        skipped.discard(change.name)
        rows[_row(change)] = None
        return True

    def conflict(reason: int, change: apsw.TableChange) -> int:
        if reason == apsw.SQLITE_CHANGESET_FOREIGN_KEY:
            broken.update(_broken_references(connection))
            dangling = f"{change.fk_conflicts} references to rows that would be missing"
            broken["foreign keys"] = Difference("foreign keys", "valid", dangling)
            return apsw.SQLITE_CHANGESET_ABORT
        name = _row(change)
        left = _values(change.old) if change.old else "deleted"
        now = _values(change.conflict) if change.conflict else "deleted"
        if reason == apsw.SQLITE_CHANGESET_CONSTRAINT:
            now = "a constraint forbids it"
        differing[name] = Difference(name, left, now)
        return apsw.SQLITE_CHANGESET_OMIT

    try:
        _apply(changes, connection, note, conflict)
    except apsw.Error as error:
        if not broken:
            raise ToolError(
                f"Nothing was undone, because SQLite refuses: {error}. Retry, or write the former "
                "values with a new call."
            ) from error
        rows = {}
        # References that were broken before the undo are no conflict with it.
        named = broken.keys() - _broken_references(connection) - {"foreign keys"}
        differing.update({name: broken[name] for name in sorted(named) or ["foreign keys"]})
    for table in sorted(skipped):
        changed = "dropped, renamed, or with other columns or another primary key"
        differing[table] = Difference(f"table {table}", "as the call found it", changed)
    return [name for name in rows if name not in differing], [*differing.values()]


def _apply(
    changes: bytes,
    connection: apsw.Connection,
    note: Callable[[apsw.TableChange], bool],
    conflict: Callable[[int, apsw.TableChange], int],
) -> None:
    # Because the changeset has the rows that triggers and foreign keys changed, neither may act
    # again: they would change rows of others, and change the same rows twice.
    flags = apsw.SQLITE_CHANGESETAPPLY_FKNOACTION
    fires = connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, -1)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        apsw.Changeset.apply(
            changes, connection, filter_change=note, conflict=conflict, flags=flags
        )
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, fires)


def _refuse_virtual(connection: apsw.Connection, changed: set[str]) -> None:
    # A virtual table keeps its rows in shadow tables, which SQLite lets only its module change.
    of_shadows = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'"
    shadows = {str(name) for (name,) in connection.execute(of_shadows).fetchall()}
    if virtual := {name.rpartition("_")[0] for name in changed & shadows}:
        raise ToolError(
            f"Nothing was undone, because the call or a trigger changed {', '.join(virtual)}, and "
            "rows of virtual tables, such as full-text indexes, cannot go back. Write the former "
            "values with a new call."
        )


def _broken_references(connection: apsw.Connection) -> dict[str, Difference]:
    found: dict[str, Difference] = {}
    # A schema whose foreign keys do not match their tables cannot be checked.
    with suppress(apsw.Error):
        broken: list[Any] = connection.execute("PRAGMA main.foreign_key_check").fetchall()
        for table, rowid, parent, _ in broken:
            name = f"{table} {_key(connection, table, rowid)}".rstrip()
            now = f"a reference to a row of {parent} that would be missing"
            found[name] = Difference(name, "a valid reference", now)
    return found


def _key(connection: apsw.Connection, table: str, rowid: int | None) -> str:
    if rowid is None:  # a table WITHOUT ROWID, of which SQLite names no row
        return ""
    of_key = "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY cid"
    names = [_quoted(name) for (name,) in connection.execute(of_key, (table,)).fetchall()]
    chosen = f"SELECT {', '.join(names) or 'rowid'} FROM {_quoted(table)} WHERE rowid = ?"  # noqa: S608 - quoted
    return ", ".join(map(repr, connection.execute(chosen, (rowid,)).fetchall()[0]))


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    of_table = "SELECT name FROM pragma_table_info(?, 'main') ORDER BY cid"
    return [str(name) for (name,) in connection.execute(of_table, (table,)).fetchall()]


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def _row(change: apsw.TableChange) -> str:
    """Return the table and the key of a row."""
    row: Any = change.old or change.new
    return f"{change.name} {', '.join(repr(row[column]) for column in sorted(change.pk_columns))}"


def _values(row: Sequence[Any]) -> str:
    return ", ".join(repr(value) for value in row if value is not apsw.no_change)
