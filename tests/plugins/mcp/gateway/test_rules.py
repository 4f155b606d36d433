"""Rules on the tools of servers: a wrong one lets no call through, whenever the server comes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from toolstile_cli.main import main
from toolstile_hookspecs import ConfigurationError, Status, ToolCall

pytestmark = pytest.mark.slow

RAW = Path(__file__).parent / "raw_server.py"


def denying(*tools):
    return {"kind": "rate_limit", "max_calls": 1, "tools": list(tools)}


@pytest.mark.parametrize("slip", ["demo_ad", "dem_*", "demo_add_*", "add"])
def test_a_slip_in_a_rule_keeps_the_host_from_opening(yard, slip):
    with pytest.raises(ConfigurationError, match=r"refers to unknown tools: '"):
        yard.open({"demo": yard.sdk()}, policies=[denying(slip)])


def test_a_glob_rules_all_tools_of_a_server(yard):
    yard.open({"demo": yard.sdk()}, policies=[denying("demo_*")])
    outcomes = [yard.call("demo_add", a=1, b=2).status for _ in range(2)]
    assert outcomes == [Status.SUCCEEDED, Status.DENIED]


def late(yard):
    """Return the settings of a server that comes once its folder is there."""
    return {**yard.sdk(), "cwd": str(yard.folder / "later")}


@pytest.mark.parametrize("slip", ["demo_ad", "demo_add_*"])
def test_past_a_slip_no_tool_of_a_server_that_comes_late_is_called(yard, slip):
    yard.open({"demo": late(yard)}, policies=[denying(slip)])
    assert "cannot be reached" in yard.call("demo_add", a=1, b=2).text
    (yard.folder / "later").mkdir()
    yard.until(lambda: "demo_add" in yard.names(), "the tools of the server are there")

    denied = yard.call("demo_add", a=1, b=2)
    assert denied.status is Status.DENIED
    assert f"refers to unknown tools: '{slip}' (did you mean 'demo_add'" in denied.text


def test_a_right_rule_holds_for_a_server_that_comes_late(yard):
    yard.open({"demo": late(yard)}, policies=[denying("demo_a*")])
    (yard.folder / "later").mkdir()
    yard.until(lambda: "demo_add" in yard.names(), "the tools of the server are there")
    outcomes = [yard.call("demo_add", a=1, b=2).status for _ in range(2)]
    assert outcomes == [Status.SUCCEEDED, Status.DENIED]


TAKING = [
    {"without": ["ad"]},
    {"without": ["fail", "demo_add"]},
    {"tools": {"ad": {"requires_confirmation": True}}},
    {"tools": {"ad": {"enabled": False}}},
    {"without": ["add_*"]},
    {"tools": {"ad": {"name": "plus", "requires_confirmation": True}}},
]


@pytest.mark.parametrize("more", TAKING, ids=str)
def test_a_table_that_takes_away_what_a_server_does_not_have_is_a_slip(yard, more):
    with pytest.raises(ConfigurationError, match=r"'\[plugins.mcp\]' refers to unknown tools: '"):
        yard.open({"demo": {**yard.sdk(), **more}})


@pytest.mark.parametrize("more", TAKING[:3], ids=str)
def test_past_it_no_tool_of_a_server_that_comes_late_is_called(yard, more):
    yard.open({"demo": {**late(yard), **more}})
    (yard.folder / "later").mkdir()
    yard.until(lambda: "demo_add" in yard.names(), "the tools of the server are there")
    assert "cannot be called: a policy may" in yard.call("demo_add", a=1, b=2).text


def test_a_slip_in_a_name_of_no_server_is_an_error_while_one_is_down(yard):
    with pytest.raises(ConfigurationError, match="'dmeo_add'"):
        yard.open({"demo": late(yard)}, policies=[denying("dmeo_add")])


@pytest.mark.parametrize(
    "more", [{"without": ["add"]}, {"without": ["a*"]}, {"only": ["fail"]}, {"enabled": False}]
)
def test_a_tool_that_is_left_out_may_be_named(yard, more):
    yard.open({"demo": yard.sdk(**more)}, policies=[denying("demo_add")])
    assert "demo_add" not in yard.names()


def test_a_name_that_is_configured_may_be_named_while_the_server_is_down(yard):
    server = {**late(yard), "prefix": "x_", "tools": {"add": {"name": "plus"}}}
    yard.open({"demo": server}, policies=[denying("plus"), denying("x_fail")])
    assert yard.dispatch(ToolCall("plus", {"a": 1, "b": 2})).status is not Status.SUCCEEDED


@pytest.mark.parametrize(
    ("command", "status"), [("mcp check", 2), ("tools", 2), ("plugins", 2), ("doctor", 1)]
)
def test_every_command_shows_a_rule_that_rules_nothing(
    tmp_path, capsys, monkeypatch, command, status
):
    monkeypatch.chdir(tmp_path)
    server = (
        f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(RAW), 'plain', '.'])}"
    )
    rule = '[[policies]]\nkind = "rate_limit"\nmax_calls = 1\ntools = ["one_s*", "oen_say"]\n'
    Path("toolstile.toml").write_text(f"{rule}[plugins.mcp.servers.one]\n{server}\n")
    assert main(command.split()) == status
    said = capsys.readouterr()
    shown = " ".join((said.out + said.err).split())
    assert "Policy 'rate_limit@host#1' refers to unknown tools: 'oen_say'" in shown
    assert "'one_s*'" not in said.err


@pytest.mark.parametrize("command", ["tools", "plugins", "call one_say {}"])
@pytest.mark.parametrize(
    "table",
    ['only = ["say", "sya"]', '[plugins.mcp.servers.one.tools.sya]\nconsequence = "high"'],
)
def test_every_command_tells_once_of_a_name_in_a_servers_table_that_no_tool_has(
    tmp_path, capsys, monkeypatch, command, table
):
    monkeypatch.chdir(tmp_path)
    server = (
        f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(RAW), 'plain', '.'])}"
    )
    Path("toolstile.toml").write_text(f"[plugins.mcp.servers.one]\n{server}\n{table}\n")
    main(command.split())
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("sya is configured for MCP server one, but the server has no such tool") == 1


@pytest.fixture
def doctor(tmp_path, capsys, monkeypatch):
    """Runs it beside a server `one` that has the tool `say`; gives its status and findings."""
    monkeypatch.chdir(tmp_path)

    def run(table, *arguments, more="", mode="plain"):
        server = (
            f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(RAW), mode, '.'])}"
        )
        text = f"{more}\n[plugins.mcp.servers.one]\n{server}\n{table}\n"
        Path("toolstile.toml").write_text(text)
        status = main(["doctor", "--json", *arguments])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return status, [json.loads(line) for line in said.out.splitlines()]

    return run


def told(found, severity):
    return [each["text"] for each in found if each["severity"] == severity]


@pytest.mark.parametrize(
    ("table", "slip"),
    [
        ('without = ["sya"]', "one_sya"),
        ("[plugins.mcp.servers.one.tools.sya]\nenabled = false", "one_sya"),
        ("[plugins.mcp.servers.one.tools.sya]\nrequires_confirmation = true", "one_sya"),
        ('[[policies]]\nkind = "rate_limit"\nmax_calls = 1\ntools = ["one_sya"]', "one_sya"),
    ],
)
def test_doctor_finds_a_slip_that_only_a_connected_server_shows(doctor, table, slip):
    status, found = doctor(table)
    assert status == 1
    assert any(f"refers to unknown tools: '{slip}'" in text for text in told(found, "error"))


@pytest.mark.parametrize(
    "table",
    ['only = ["say", "sya"]', '[plugins.mcp.servers.one.tools.sya]\nconsequence = "high"'],
)
def test_doctor_warns_of_every_name_in_a_servers_table_that_it_does_not_have(doctor, table):
    status, found = doctor(table)
    assert status == 0
    assert any("sya is configured, but" in text for text in told(found, "warning"))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ('[tools.one_sya]\nconsequence = "high"', "[tools.one_sya] corrects no tool"),
        ('without_tags = ["mpc"]', "The choice of tools refers to unknown tags: 'mpc'"),
    ],
)
def test_doctor_warns_of_names_and_tags_that_choose_or_correct_no_tool(doctor, more, text):
    status, found = doctor("", more=more)
    assert status == 0
    (warning,) = told(found, "warning")
    assert warning.startswith(text)


def test_doctor_finds_nothing_where_rules_name_what_a_server_has(doctor):
    rule = '[[policies]]\nkind = "rate_limit"\nmax_calls = 1\ntools = ["one_say"]\n'
    status, found = doctor('without = ["say"]', more=rule)
    assert (status, told(found, "error"), told(found, "warning")) == (0, [], [])


def test_doctor_leaves_servers_alone_whose_plugin_is_blocked(doctor, tmp_path):
    status, found = doctor('without = ["sya"]', "--block", "mcp")
    assert (status, told(found, "error")) == (0, [])
    assert not (tmp_path / ".toolstile").exists()


@pytest.mark.parametrize("servers", [1, 3])
def test_doctor_tells_of_servers_that_do_not_start_in_a_line_each(doctor, servers):
    ends = f"command = {json.dumps(sys.executable)}\nargs = ['-c', 'raise SystemExit(3)']\n"
    more = "".join(f"[plugins.mcp.servers.bad{each}]\n{ends}" for each in range(servers))
    rule = '[[policies]]\nkind = "rate_limit"\nmax_calls = 1\ntools = ["bad0_do", "oen_say"]\n'
    status, found = doctor("", more=f"{rule}{more}")
    assert status == 1
    missing = [text for text in told(found, "warning") if "cannot be reached" in text]
    assert len(missing) == servers
    (wrong,) = told(found, "error")
    assert "'oen_say'" in wrong
    assert "bad0_do" not in wrong
