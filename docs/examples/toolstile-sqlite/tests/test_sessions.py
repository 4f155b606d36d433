"""Sessions beside one another, each with a connection of its own, on one event loop."""

import asyncio
import threading
import time
from contextlib import ExitStack

import pytest
import toolstile_sqlite

from toolstile import Host, Settings
from toolstile.testing import assert_ok
from toolstile_hookspecs import MarkdownSection, Prompt, ToolCall, ToolContext, ToolResult, tool

ADD = "INSERT INTO customer (name) VALUES (?)"
PATIENCE = 30.0
working = threading.Event()


@tool
def work(deed: str, name: str, *, context: ToolContext) -> ToolResult[str]:
    """Read or add customers, then work for a while."""
    if deed == "read":
        outcome = context.call("sql_query", {"sql": "SELECT name FROM customer"})
    else:
        outcome = context.call("sql_execute", {"sql": ADD, "params": [name]})
    working.set()
    time.sleep(0.3)
    return ToolResult.ok(outcome.text) if outcome.success else ToolResult.error(outcome.text)


@pytest.fixture
def host(shop):
    settings = Settings(plugins={"sqlite": {"path": str(shop), "busy_timeout": 5}})
    tools = [toolstile_sqlite.sql_query, toolstile_sqlite.sql_execute, work]
    prompt = Prompt.of("t", "t", [MarkdownSection(key="own", title="Own", tools=tools)])
    working.clear()
    with Host(discover=["sqlite"], settings=settings) as host:
        yield lambda: host.executor(prompt=prompt)


def test_the_file_is_in_wal_mode(tools, rows):
    assert_ok(tools.call("sql_query", sql="SELECT 1"))
    assert rows("PRAGMA journal_mode") == [("wal",)]


def test_one_that_is_only_read_stays_as_it_is(open_tools, rows):
    assert_ok(open_tools(writes=False).call("sql_query", sql="SELECT 1"))
    assert rows("PRAGMA journal_mode") == [("delete",)]


@pytest.mark.parametrize("deed", ["read", "add"])
def test_one_works_while_another_adds(host, rows, deed):
    async def main():
        with ExitStack() as stack:
            first, second = stack.enter_context(host()), stack.enter_context(host())
            one = asyncio.ensure_future(
                first.adispatch(ToolCall("work", {"deed": deed, "name": "Dora"}))
            )
            assert await asyncio.to_thread(working.wait, PATIENCE)
            add = ToolCall("sql_execute", {"sql": ADD, "params": ["Emil"]})
            return [await second.adispatch(add), await one]

    for outcome in asyncio.run(main()):
        assert_ok(outcome)
    added = [name for (name,) in rows("SELECT name FROM customer ORDER BY id")][3:]
    assert added == (["Emil"] if deed == "read" else ["Dora", "Emil"])


def test_one_that_read_before_another_wrote_is_told_to_begin_again(open_tools):
    @tool
    def read_then_add(*, context: ToolContext) -> ToolResult[str]:
        """Add a customer after a look at them."""
        context.call("sql_query", {"sql": "SELECT name FROM customer"})
        assert_ok(other.call("sql_execute", sql=ADD, params=["Emil"]))
        outcome = context.call("sql_execute", {"sql": ADD, "params": ["Dora"]})
        return ToolResult.error(outcome.text)

    other = open_tools()
    outcome = open_tools(read_then_add).call("read_then_add")

    assert "since this call began to read it" in outcome.text
