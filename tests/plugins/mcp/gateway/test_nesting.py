"""A host that is its own server does not start itself for ever."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from toolstile_cli.main import main
from toolstile_plugins.mcp.gateway.errors import DEEPEST, DEPTH, ServerFault, one_deeper

RAW = Path(__file__).parent / "raw_server.py"


@pytest.mark.parametrize(
    ("above", "told"), [(None, "1"), ("", "1"), ("1", "2"), ("many", "1"), ("-3", "1")]
)
def test_each_host_counts_itself(monkeypatch, above, told):
    monkeypatch.delenv(DEPTH, raising=False)
    if above is not None:
        monkeypatch.setenv(DEPTH, above)
    assert one_deeper() == {DEPTH: told}


def test_too_many_start_no_further_program(monkeypatch):
    monkeypatch.setenv(DEPTH, str(DEEPEST))
    with pytest.raises(ServerFault, match="4 hosts stand behind one another already; if Toolstile"):
        one_deeper()


@pytest.fixture
def checked(tmp_path, monkeypatch, capsys):
    """The output of `mcp check` about a server of these lines."""
    monkeypatch.chdir(tmp_path)

    def check(lines: str) -> dict[str, object]:
        (tmp_path / "toolstile.toml").write_text(f"[plugins.mcp.servers.one]\n{lines}")
        main(["--config", "toolstile.toml", "--json", "mcp", "check"])
        return json.loads(capsys.readouterr().out)

    return check


def test_a_server_that_is_too_deep_is_told_of(checked, monkeypatch, tmp_path):
    monkeypatch.setenv(DEPTH, str(DEEPEST))
    args = json.dumps([str(RAW), "plain", str(tmp_path)])
    told = checked(f"command = {json.dumps(sys.executable)}\nargs = {args}\n")
    assert "hosts stand behind one another" in told["error"]


@pytest.mark.slow
def test_a_host_that_is_its_own_server_comes_to_an_end(checked, monkeypatch):
    monkeypatch.setenv(DEPTH, str(DEEPEST - 2))
    args = json.dumps(["-m", "toolstile", "--config", "toolstile.toml", "mcp"])
    server = f"command = {json.dumps(sys.executable)}\nargs = {args}\n"
    told = checked(f"{server}[plugins.planning]\n")
    assert told["error"] is None
    assert told["tools"]
