"""`toolstile wrap --in` changes the words of servers alone, and `unwrap` restores the file."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from toolstile_cli.main import main

from .wire import COMMAND

CLAUDE_CODE = """\
{
  "mcpServers": {
    "files": {"type": "stdio", "command": "npx", "args": ["-y", "server-filesystem", "."]},
    "remote": {"type": "http", "url": "https://example.org/mcp"},
    "bare": {
      "command": "./server"
    }
  },
  "other": [1, 2.50, "\\u00e9"]
}
"""
CODEX = """\
# Mine.
model = "gpt-5"

[mcp_servers.files]
command = "npx"   # run it
args = [
  "-y",  # yes
  "server-filesystem",
]

[mcp_servers.files.env]
TOKEN = "t"

[mcp_servers]
bare = { command = "server" }

[mcp_servers.'two words']
url = "https://example.org/mcp"
"""
CURSOR = '{"mcpServers":{"files":{"command":"npx","args":[],"env":{"A":"b"}}}}'
GEMINI = """\
{
\t"theme": "dark",
\t"mcpServers": {
\t\t"files": {"command": "uvx", "args": [
\t\t\t"mcp-server-git"
\t\t], "trust": false}
\t}
}"""
VSCODE = """\
{
  // The servers.
  "servers": {
    "files": {
      "type": "stdio",
      "command": "npx", /* a program */
      "args": ["-y", "${workspaceFolder}", "// no comment", ],
    },
  },
}
"""
ZED = """\
{
  "context_servers": {
    "files": {"source": "custom", "command": "npx", "args": ["a \\"quoted\\" word"]}
  }
}
"""
CLIENTS = {
    ".mcp.json": CLAUDE_CODE,
    "config.toml": CODEX,
    "cursor/mcp.json": CURSOR,
    "gemini/settings.json": GEMINI,
    "vscode/mcp.json": VSCODE,
    "zed/settings.json": ZED,
}
FORMS = {
    "as it is": lambda text: text.encode(),
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: ("\ufeff" + text).encode(),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    scripts = str(Path(COMMAND).parent)
    monkeypatch.setenv("PATH", os.pathsep.join([scripts, os.environ["PATH"]]))

    def run(*words: str, status: int = 0) -> str:
        assert main(words) == status
        said = capsys.readouterr()
        return said.out + said.err

    return run


@pytest.fixture
def place(tmp_path):
    def place(name: str, content: bytes | str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    return place


def server_of(file: Path, name: str = "files") -> dict:
    text = file.read_text("utf-8-sig")
    if file.suffix == ".toml":
        return tomllib.loads(text)["mcp_servers"][name]
    lines = [line.split("// The")[0].split("/*")[0] for line in text.splitlines()]
    plain = "\n".join(lines).replace(", ]", "]").replace("],\n    }", "]}").replace("},\n  }", "}}")
    held = json.loads(plain.replace("},\n}", "}}"))
    return next(value for value in held.values() if isinstance(value, dict) and name in value)[name]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_is_wrapped_and_restored_byte_for_byte(run, place, client, form):
    if client.endswith(".toml") and form == "byte order mark":
        pytest.skip("TOML has no byte order mark")
    before = FORMS[form](CLIENTS[client])
    file = place(client, before)
    file.chmod(0o640)
    told = run("wrap", "--in", str(file))
    assert "files: wrapped." in told
    after = file.read_bytes()
    if form == "as it is":
        found = server_of(file)
        assert found["command"] == COMMAND
        assert found["args"][:3] == ["wrap", "--name=files", "--"]
        assert found["args"][3] in {"npx", "uvx"}
    assert after.count(b"\r\n") >= before.count(b"\r\n")
    assert after.count(b"\n") == after.count(b"\r\n") or form != "crlf"
    assert file.stat().st_mode & 0o777 == 0o640
    assert "each byte is as it was" in run("unwrap", "--in", str(file))
    assert file.read_bytes() == before
    assert "nothing in it is wrapped" in run("unwrap", "--in", str(file))
    assert file.read_bytes() == before


def test_other_servers_are_named_with_the_reason(run, place):
    file = place(".mcp.json", CLAUDE_CODE)
    told = run("wrap", "--client", "claude-code")
    assert "remote: left unchanged, because it is reached over HTTP" in told
    assert server_of(file, "remote") == {"type": "http", "url": "https://example.org/mcp"}
    assert server_of(file, "bare")["args"] == ["wrap", "--name=bare", "--", "./server"]


@pytest.mark.parametrize("client", CLIENTS)
def test_once_edited_it_loses_our_words_alone(run, place, client):
    before = CLIENTS[client]
    file = place(client, before)
    run("wrap", "--in", str(file))
    # An edit beside the servers, which stays.
    addition = "\n# Mine, too.\n" if client.endswith(".toml") else "\n\n"
    with file.open("a") as appended:
        appended.write(addition)
    told = run("unwrap", "--in", str(file))
    assert "unwrapped" in told
    assert "all else stays, because it was edited since" in told
    added = ', "args": []' if client == ".mcp.json" else ""
    expected = (before + addition).replace('"./server"', f'"./server"{added}')
    if client == "config.toml":
        expected = expected.replace('"server" }', '"server", args = []}')
    assert file.read_text() == expected


def test_wrapping_twice_changes_nothing(run, place):
    file = place(".mcp.json", CLAUDE_CODE)
    run("wrap", "--in", str(file))
    after = file.read_bytes()
    told = run("wrap", "--in", str(file))
    assert "files: left unchanged, because it is wrapped already" in told
    assert file.read_bytes() == after
    run("unwrap", "--in", str(file))
    assert file.read_text() == CLAUDE_CODE


def test_a_server_added_later_is_wrapped_and_all_are_restored(run, place):
    file = place("mcp.json", CURSOR)
    run("wrap", "--in", str(file))
    new = '"new":{"command":"new","args":["a"]},'
    file.write_text(file.read_text().replace('"files":', f'{new}"files":'))
    run("wrap", "--in", str(file))
    assert server_of(file, "new")["args"] == ["wrap", "--name=new", "--", "new", "a"]
    run("unwrap", "--in", str(file))
    assert file.read_text() == CURSOR.replace('"files":', f'{new}"files":')


def test_the_bare_name_of_the_program_is_taken_out_too(run, place):
    file = place("mcp.json", CURSOR)
    run("wrap", "--in", str(file))
    file.write_text(file.read_text().replace(COMMAND, "toolstile"))
    assert "left unchanged, because it is wrapped already" in run("wrap", "--in", str(file))
    run("unwrap", "--in", str(file))
    assert file.read_text() == CURSOR


def test_options_that_a_person_has_added_go_with_our_words(run, place):
    file = place("mcp.json", CURSOR)
    run("wrap", "--in", str(file))
    file.write_text(file.read_text().replace('"wrap",', '"wrap", "--allow", "write_*",'))
    run("unwrap", "--in", str(file))
    assert file.read_text() == CURSOR


def test_a_link_stays_and_its_target_changes(run, place, tmp_path):
    file = place("real/mcp.json", CURSOR)
    link = tmp_path / "link.json"
    link.symlink_to(file)
    run("wrap", "--in", str(link))
    assert link.is_symlink()
    assert server_of(file)["command"] == COMMAND
    run("unwrap", "--in", str(file))
    assert link.is_symlink()
    assert file.read_text() == CURSOR


def test_a_planted_link_leads_nowhere(run, place, tmp_path):
    file, other = place("mcp.json", CURSOR), place("other", "mine")
    for name in (".mcp.json.toolstile", "mcp.json.tmp", ".mcp.json.tmp"):
        (tmp_path / name).symlink_to(other)
    run("wrap", "--in", str(file))
    assert other.read_text() == "mine"
    assert server_of(file)["command"] == COMMAND


def test_an_edit_meanwhile_is_kept(run, place, monkeypatch):
    file = place("mcp.json", CURSOR)
    changed = CURSOR.replace("npx", "uvx")

    def chmod(*_):
        file.write_text(changed)

    # The new file gets its mode before its content.
    monkeypatch.setattr(Path, "chmod", chmod)
    assert "was changed meanwhile" in run("wrap", "--in", str(file), status=2)
    assert file.read_text() == changed
    assert [each.name for each in file.parent.glob(".mcp*")] == []


def test_a_read_only_file_is_refused(run, place):
    file = place("mcp.json", CURSOR)
    file.chmod(0o444)
    for command in ("wrap", "unwrap"):
        assert "is read-only. Make it writable" in run(command, "--in", str(file), status=2)
    assert file.read_text() == CURSOR


@pytest.mark.parametrize(
    "content", ["", "\n", "{}", '{"mcpServers": {}}', "[]", '{"mcpServers": []}']
)
def test_a_file_without_servers_stays(run, place, content):
    file = place("mcp.json", content)
    assert "No server was found" in run("wrap", "--in", str(file))
    assert file.read_text() == content


@pytest.mark.parametrize("name", ["mcp.json", "config.toml"])
@pytest.mark.parametrize(
    "content", ["{ = ", b"\xff\xfe{\x00", '{"mcpServers": {"a": {"command": "x"}']
)
def test_a_broken_file_stays(run, place, name, content):
    file = place(name, content)
    before = file.read_bytes()
    told = run("wrap", "--in", str(file), status=2)
    assert "Correct it" in told or "is not UTF-8" in told
    assert file.read_bytes() == before


def test_a_missing_file_is_named(run, tmp_path):
    told = run("wrap", "--in", "nowhere.json", status=2)
    assert f"{tmp_path / 'nowhere.json'} cannot be read" in told
    assert "Name the file with --in FILE" in run("unwrap", status=2)


def test_without_its_copy_a_file_is_unwrapped_all_the_same(run, place, tmp_path):
    file = place("vscode/mcp.json", VSCODE)
    run("wrap", "--in", str(file))
    copies = tmp_path / "state" / "toolstile" / "wrap" / "copies"
    assert copies.stat().st_mode & 0o777 == 0o700
    for copy in copies.iterdir():
        copy.unlink()
    assert "because no copy of it from before is kept" in run("unwrap", "--in", str(file))
    assert file.read_text() == VSCODE


def test_the_servers_of_single_projects_are_wrapped(run, place):
    servers = {"mcpServers": {"a": {"command": "x", "args": ["y"]}}}
    file = place("claude.json", json.dumps({"projects": {"/p": servers}, **servers}, indent=2))
    run("wrap", "--in", str(file))
    held = json.loads(file.read_text())
    for place_ in (held, held["projects"]["/p"]):
        assert place_["mcpServers"]["a"]["command"] == COMMAND


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_status_names_the_wrapped_servers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    client: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    name, text = {
        "claude-code": (".mcp.json", CLAUDE_CODE),
        "codex": (".codex/config.toml", CODEX),
    }[client]
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert main(["wrap", "--client", client]) == 0
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor/mcp.json").write_text("{toolstile")  # broken, and of no account
    capsys.readouterr()
    assert main(["status"]) == 0
    assert "Server: files, wrapped in " in capsys.readouterr().out
    assert main(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["servers"]
    assert [each["server"] for each in found] == ["files", "bare"]
    assert shutil.which(found[0]["program"])
    file.write_text(file.read_text().replace(found[0]["program"], "/nowhere/toolstile"))
    assert main(["status"]) == 0
    told = capsys.readouterr().out
    assert "Its program /nowhere/toolstile is missing" in told
    assert f"`toolstile wrap --in {found[0]['file']}`" in told
