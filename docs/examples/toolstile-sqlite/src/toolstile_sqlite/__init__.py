"""Tools over a SQLite database: its schema, queries, and writes that are rolled back with calls.

Settings, `[plugins.sqlite]`: see `Settings`. Without a `path` there are no tools.
"""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import Binding, MarkdownSection, Tool, hookimpl
from toolstile_sqlite.database import Database, Opening
from toolstile_sqlite.results import Change, Rows
from toolstile_sqlite.settings import Settings
from toolstile_sqlite.tools import sql_execute, sql_query, sql_schema

__all__ = [
    "Change",
    "Database",
    "Rows",
    "Settings",
    "sql_execute",
    "sql_query",
    "sql_schema",
    "toolstile_resources",
    "toolstile_sections",
    "toolstile_settings",
]

READING = """\
Look at the schema before you write SQL. Give every value as a parameter, `?` or `:name`, and never
as a part of the SQL text. Each call takes one statement. Ask for the rows and columns you need:
long results are cut, with a note that says so.
"""

WRITING = """
What a call has written is kept when the call succeeds and undone when it fails, as a whole, so
leave out BEGIN, COMMIT and ROLLBACK.
"""


@hookimpl
def toolstile_settings() -> type[Settings]:
    """Declare what the table `[plugins.sqlite]` may hold."""
    return Settings


@hookimpl
def toolstile_sections(settings: Settings) -> list[MarkdownSection]:
    """Offer the tools, with how to use them, where there is a database."""
    if settings.path is None:
        return []
    tools: list[Tool[Any, Any]] = [sql_schema, sql_query]
    text = READING
    if settings.writes:
        tools.append(sql_execute)
        text += WRITING
    return [MarkdownSection(key="sqlite", title="The database", template=text, tools=tools)]


@hookimpl
def toolstile_resources(settings: Settings) -> list[Binding[Any]]:
    """Offer the database, one connection for each session."""
    if settings.path is None:
        return []
    return [Binding(Database, Opening(settings))]
