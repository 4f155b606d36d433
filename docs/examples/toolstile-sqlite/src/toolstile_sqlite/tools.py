"""The tools: look at the schema, query, change rows."""

from __future__ import annotations

from toolstile_hookspecs import ToolContext, ToolExample, tool
from toolstile_sqlite.database import Database
from toolstile_sqlite.results import Change, Rows, Scalar

Values = list[Scalar] | dict[str, Scalar]


@tool(category="read", consequence="low", contained=True)
def sql_schema(*, context: ToolContext) -> str:
    """Show the tables, views, triggers and indexes of the database, as SQL."""
    definitions = context.resources.get(Database).definitions()
    return "\n".join(f"{sql};" for _, _, sql in definitions) or "The database is empty."


@tool(
    category="read",
    consequence="low",
    contained=True,
    examples=(
        ToolExample(
            description="A value is a parameter, never a part of the SQL text.",
            input={"sql": "SELECT :price * 2 AS double", "params": {"price": 21}},
            output=Rows(columns=["double"], rows=[[42]]),
        ),
    ),
)
def sql_query(sql: str, params: Values | None = None, *, context: ToolContext) -> Rows:
    """Read rows with one SQL statement.

    Args:
        sql: One SELECT statement, with `?` or `:name` in the place of values.
        params: The values: a list for `?`, an object for `:name`.
    """
    return context.resources.get(Database).query(sql, params or [], context)


@tool(category="write", consequence="medium", contained=True)
def sql_execute(sql: str, params: Values | None = None, *, context: ToolContext) -> Change:
    """Insert, update or delete rows with one SQL statement.

    Args:
        sql: One INSERT, UPDATE or DELETE statement, with `?` or `:name` in the place of values.
        params: The values: a list for `?`, an object for `:name`.
    """
    return context.resources.get(Database).execute(sql, params or [], context)
