"""Servers as they are: what is odd of them costs itself, and nothing else."""

from __future__ import annotations

import json
import socket
import time

import pytest

from toolstile_cli.main import main
from toolstile_hookspecs import Status, ToolCall

from .raw_http import serving

pytestmark = [pytest.mark.slow, pytest.mark.long_if(driver="sync")]


def test_one_odd_tool_costs_itself_and_not_its_server(yard):
    yard.open({"one": yard.raw("odd")})
    offered = ["say", "draft", "choice", "bare", "php", "old", "nullable", "icons", "hints"]
    assert sorted(yard.names()) == sorted(f"one_{name}" for name in [*offered, "result"])
    assert yard.host.catalog.get("one_hints").category == "delete"
    for name in offered[1:]:
        assert yard.call(f"one_{name}", text="x").text == "said x"


def test_a_tool_whose_schema_has_no_end_costs_itself(yard):
    yard.open({"one": yard.raw("bottomless")})
    assert yard.names() == ["one_say"]
    (upstream,) = yard.host.state("mcp").upstreams
    assert upstream.faults == {"deep": "its schema is nested too deeply"}
    assert yard.call("one_say", text="x").text == "said x"


@pytest.mark.parametrize("mode", ["empty_cursor", "no_cursor", "listed_cursor", "endless"])
def test_a_cursor_that_leads_nowhere_costs_no_tool(yard, mode):
    yard.open({"one": yard.raw(mode)})
    assert yard.call("one_say", text="x").text == "said x"


def test_a_cursor_may_be_a_number(yard):
    yard.open({"one": yard.raw("counted")})
    assert yard.names() == ["one_say", "one_sing"]


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("listed_cursor", "the cursor to more of them is not a text"),
        ("tabled", "its tools are not a list"),
    ],
)
def test_tools_that_cannot_be_listed_are_told(yard, mode, why):
    yard.open({"one": yard.raw(mode)})
    (upstream,) = yard.host.state("mcp").upstreams
    assert upstream.faults == {"the rest": why}


def test_a_server_may_introduce_itself_informally(yard):
    yard.open({"one": yard.raw("informal")})
    assert yard.call("one_say", text="x").text == "said x"


def test_log_lines_of_any_shape_do_no_harm(yard):
    yard.open({"one": yard.raw("logging")})
    assert yard.call("one_say", text="x").text == "said x"
    assert len(yard.noted("started")) == 1


def test_odd_parts_of_a_result_are_read_as_text(yard):
    yard.open({"one": yard.raw("odd_result")})
    outcome = yard.call("one_say", text="now")
    assert outcome.success
    assert [part.text for part in outcome.result.value.parts] == [
        "one",
        "two",
        '{"type": "json", "json": {"a": 3}}',
        "four",
        "7",
    ]


@pytest.mark.parametrize("mode", ["asks", "asks_and_fails"])
def test_a_server_that_asks_something_is_answered_truly(yard, mode):
    yard.open({"one": yard.raw(mode)})
    told = yard.call("one_say", text="now")
    assert told.status is Status.FAILED
    assert "this gateway cannot pass questions on" in told.text
    assert "Check the arguments" not in told.text
    (answer,) = yard.noted("answers")
    assert answer["error"]["message"] == "this gateway cannot pass questions on"
    # What it fails in without a question is another matter.
    assert yard.call("one_say", text="x").text == "said x"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_so_is_one_of_the_official_sdk(yard, protocol):
    yard.open({"demo": yard.sdk(protocol=protocol)})
    told = yard.call("demo_ask")
    assert told.status is Status.FAILED
    assert "asked its client for something, and this gateway cannot pass" in told.text
    assert "Check the arguments" not in told.text


ONCE = {"idempotency": {"scope": "global"}}


class TestWhatWasNeverSent:
    """It has no unknown effect, so the same call may be made again."""

    def open_and_stop(self, yard, server):
        """Connect to a server over HTTP, and end its process."""
        yard.open({"one": {"url": server.url, "tools": {"add": ONCE, "trace": ONCE}}})
        assert yard.call("one_add", a=1, b=2).success
        server.kill()
        # The stream of its messages is given up first.
        time.sleep(3)

    def refused(self, yard):
        outcome = yard.call("one_add", a=2, b=3)
        assert outcome.status is Status.FAILED
        assert "Nothing was sent" in outcome.text
        assert outcome.event.attributes["ledger.state"] == "released"
        return outcome.text

    @pytest.mark.long
    def test_where_nobody_listens(self, yard, own_http_server):
        self.open_and_stop(yard, own_http_server)
        assert "no connection can be made" in self.refused(yard)
        own_http_server.start()
        assert yard.call("one_add", a=2, b=3).text == "5"

    def test_where_its_name_is_not_known_any_more(self, yard, own_http_server, monkeypatch):
        self.open_and_stop(yard, own_http_server)

        def resolve(*args, **more):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        self.refused(yard)

    @pytest.mark.parametrize("status", [401, 403, 413, 429, 503])
    def test_where_http_says_that_it_is_not_carried_out(self, yard, status):
        with serving(f"status_{status}") as url:
            yard.open({"one": {"url": url, "tools": {"say": ONCE}}})
            outcome = yard.call("one_say", text="now")
            assert outcome.status is Status.FAILED
            assert f"did not take say: it answered with HTTP status {status}" in outcome.text
            assert outcome.event.attributes["ledger.state"] == "released"
            # No other call is lost with it.
            assert yard.call("one_say", text="again").text == "said"
            yard.close()

    def test_where_a_program_reads_no_more(self, yard):
        yard.open({"one": yard.raw("deaf", tools={"say": ONCE})})
        busy = yard.later(ToolCall("one_say", {"text": "now"}, id="busy"))
        yard.until(lambda: yard.noted("calls"), "the first call arrives")
        # The pipe takes one more, in which the writing stands still.
        large = yard.later(ToolCall("one_say", {"text": "x" * 1_000_000}, id="large"))
        time.sleep(1)
        outcome = yard.call("one_say", text="late")
        assert "it does not read its input. Nothing was sent" in outcome.text
        assert outcome.event.attributes["ledger.state"] == "released"
        yard.host.state("mcp").loop.call_soon_threadsafe(
            lambda: end(yard.host.state("mcp").upstreams[0])
        )
        assert not busy().success
        assert not large().success


def end(upstream):
    connection = upstream.connection
    connection.lose(connection._client, "the test has ended")


class TestMissing:
    """A server that is missing says so when a host opens."""

    @pytest.fixture
    def configured(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        tables = [
            '[plugins.mcp.servers.gone]\ncommand = "no-such-program-here"',
            '[plugins.mcp.servers.away]\nurl = "http://127.0.0.1:9/mcp"',
        ]
        (tmp_path / "toolstile.toml").write_text("\n".join(tables))

    @pytest.mark.parametrize("command", ["plugins", "tools", "mcp check"])
    def test_in_one_line_on_stderr(self, configured, capsys, command):
        main(command.split())
        lines = capsys.readouterr().err.splitlines()
        for name, why in (("gone", "the program"), ("away", "no connection can be made")):
            (line,) = [line for line in lines if f"server {name} " in line]
            assert "another attempt" not in line
            assert f"The MCP server {name} cannot be reached: {why}" in line

    def test_in_the_list_of_plugins(self, configured, capsys):
        main(["--json", "plugins"])
        reports = {
            report["name"]: report
            for report in map(json.loads, capsys.readouterr().out.splitlines())
        }
        assert reports["mcp-gone"]["cause"].startswith("The MCP server gone cannot be reached")
        assert reports["mcp-gone"]["status"] == "loaded"

    def test_until_it_is_there(self, yard):
        yard.open({"one": {**yard.raw("plain"), "cwd": str(yard.folder / "later")}})
        report = lambda: next(r for r in yard.host.plugins.reports if r.name == "mcp-one")  # noqa: E731
        assert "cannot be reached" in report().fault
        (yard.folder / "later").mkdir()
        yard.until(lambda: yard.names() == ["one_say"], "the tools of the server are there")
        yard.until(lambda: report().fault is None, "nothing is told of it any more")


def test_servers_that_hang_are_waited_for_at_the_same_time(yard):
    (yard.folder / "pins.json").unlink(missing_ok=True)
    servers = {f"bad{number}": yard.raw("silent") for number in range(8)}
    mcp = {"servers": servers, "wait": 2, "pins": str(yard.folder / "pins.json")}
    began = time.monotonic()
    yard.open({}, plugins={"mcp": mcp})
    assert time.monotonic() - began < 8 * 2
