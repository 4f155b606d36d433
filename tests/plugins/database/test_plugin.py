"""With an address in the configuration, all hosts share what they keep there."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ConfigurationError, ToolCall, ToolContext, tool
from toolstile_plugins.database.settings import DatabaseSettings


@tool(category="write", timeout=None)
def note(text: str, *, context: ToolContext) -> str:
    """Take a note."""
    context.session[str].append(text)
    return " ".join(context.session[str].all())


def host(url, **tables):
    plugins = {"database": {"url": url}, "ledger": {"store": "memory"}, **tables}
    settings = Settings.model_validate({"plugins": plugins})
    return Host(settings=settings, discover=["database", "ledger", "sessions"], tools=[note])


@pytest.mark.slow
def test_hosts_share_a_session(url):
    with ExitStack() as stack:
        tools = [
            stack.enter_context(stack.enter_context(host(url)).executor(session_id="s"))
            for _ in range(2)
        ]
        assert tools[0].dispatch(ToolCall("note", {"text": "a"})).text == "a"
        assert tools[1].dispatch(ToolCall("note", {"text": "b"})).text == "a b"
        assert tools[0].dispatch(ToolCall("note", {"text": "c"})).text == "a b c"


def test_an_address_that_is_none_is_told_of_without_its_password():
    with pytest.raises(ConfigurationError) as raised, host("postgres//ann:hunter2@db/x"):
        pass
    assert "plugins.database.url is not a connection string of PostgreSQL" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.slow
def test_a_server_that_is_not_there_is_told_of_without_a_password():
    url = "postgresql://ann:hunter2@127.0.0.1:1/x"
    with host(url) as opened, pytest.raises(Exception, match="onnection refused") as raised:
        opened.executor(session_id="s")
    assert "hunter2" not in str(raised.value)


def test_the_database_is_named_without_user_and_password():
    settings = DatabaseSettings(url="postgresql://ann:hunter2@db:5433/shop")
    assert settings.sessions().database == "postgresql://db:5433/shop"
