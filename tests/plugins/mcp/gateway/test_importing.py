"""The configurations of well-known clients become tables, without their secrets."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given, strategies as st

from toolstile_cli.main import main
from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.mcp.gateway.import_config import Imported, as_toml, read_servers
from toolstile_plugins.mcp.settings import ServerSettings

SECRETS = ("ghp_very_secret", "sk-secret-key", "hunter2", "t0ken")

CLIENT = """
{ // with comments, as some clients allow
  "mcpServers": {
    "GitHub Issues": {
      "command": "npx",
      "args": ["-y", "server", "--api-key", "sk-secret-key", "--token=t0ken", "--fast"],
      "env": {"GITHUB_TOKEN": "ghp_very_secret", "HOME_DIR": "${HOME}", "EMPTY": ""},
    },
    "far": {
      "type": "http",
      "url": "https://me:hunter2@example.org/mcp?api_key=t0ken&page=1",
      "headers": {"Authorization": "Bearer ghp_very_secret"} /* kept apart */
    },
    "off": {"command": "x", "disabled": true},
  },
}
"""


@pytest.fixture
def client(tmp_path):
    file = tmp_path / "client.json"
    file.write_text(CLIENT)
    return file


def test_secrets_are_replaced_by_variables_that_are_named(client, capsys):
    assert main(["mcp", "import", str(client)]) == 0
    printed = capsys.readouterr().out
    assert not any(secret in printed for secret in SECRETS)
    servers = tomllib.loads(printed)["plugins"]["mcp"]["servers"]
    assert servers["GitHub Issues"] == {
        "command": "npx",
        "args": [
            "-y",
            "server",
            "--api-key",
            "${GITHUB_ISSUES_API_KEY}",
            "--token=${GITHUB_ISSUES_TOKEN}",
            "--fast",
        ],
        "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "HOME_DIR": "${HOME}", "EMPTY": ""},
    }
    assert servers["far"] == {
        "url": "https://${FAR_USERINFO}@example.org/mcp?api_key=${FAR_API_KEY}&page=1",
        "headers": {"Authorization": "Bearer ${FAR_AUTHORIZATION}"},
    }
    assert servers["off"] == {"command": "x", "enabled": False}
    assert "# Set in the environment: FAR_USERINFO, FAR_API_KEY, FAR_AUTHORIZATION." in printed


def test_with_values_they_are_taken_over(client, capsys):
    assert main(["--json", "mcp", "import", str(client), "--with-values"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["env"]["GITHUB_TOKEN"] == "ghp_very_secret"
    assert first["variables"] == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"servers": {"a": {"type": "stdio", "command": "x"}}}', "VS Code"),
        ('{"mcp": {"servers": {"a": {"command": "x"}}}}', "VS Code's settings"),
        ('{"context_servers": {"a": {"command": {"path": "x", "args": []}}}}', "Zed"),
        ('{"projects": {"/p": {"mcpServers": {"a": {"command": "x"}}}}}', "Claude Code"),
        ('{"mcp": {"a": {"type": "local", "command": ["x"]}, "b": {"enabled": true}}}', "opencode"),
        ('{"amp.mcpServers": {"a": {"command": "x"}}}', "Amp"),
        ("\ufeff" + '{"mcpServers": {"a": {"command": "x"}}}', "a byte order mark"),
    ],
)
def test_every_client_has_them_in_its_own_place(text, name, tmp_path):
    file = tmp_path / "client.json"
    file.write_text(text, encoding="utf-8")
    (server,) = read_servers(file)
    assert (server.name, server.keys) == ("a", {"command": "x"}), name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{",
            r"cannot be read: it is not JSON \(.*\)\. Name a client's file, such as \.mcp\.json\.",
        ),
        ("", r"cannot be read: it is not JSON \("),
        ("[]", "has no servers"),
        ('{"mcpServers": {}}', "has no servers"),
        ('{"mcpServers": 3}', "has no servers"),
    ],
)
def test_what_cannot_be_read_is_told(text, told, tmp_path):
    file = tmp_path / "client.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=told):
        read_servers(file)


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [("client.json", b"\x87", "it is not UTF-8"), ("config.toml", b"[", r"it is not TOML \(")],
)
def test_what_is_of_another_kind_is_told_so(file, content, told, tmp_path):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"cannot be read: {told}"):
        read_servers(tmp_path / file)


def test_a_server_that_is_reached_in_no_known_way_is_noted(tmp_path):
    file = tmp_path / "client.json"
    file.write_text('{"mcpServers": {"a\\n[x]": {"port": 3}}}')
    (server,) = read_servers(file)
    assert "neither a command nor a url" in as_toml(server)
    assert tomllib.loads(as_toml(server)) == {}


@pytest.mark.parametrize(
    ("held", "names", "left_out"),
    [
        ([{"name": "a", "command": "x"}], ["a"], []),
        ([{"command": "x"}, {"id": "b", "url": "https://b.example"}], ["1", "b"], []),
        ([None, {"name": "a", "command": "x"}, "npx sk-secret-key", 5], ["a"], ["1", "3", "4"]),
        ({"servers": ["x", {"name": None, "command": "x"}]}, ["2"], ["1"]),
        ({"mcpServers": {"a": None, "b": "x", "c": {"command": "x"}}}, ["c"], ["a", "b"]),
        ({"projects": {"/p": {"mcpServers": [None, {"name": "a", "command": "x"}]}}}, ["a"], ["1"]),
        ([[{"name": "a", "command": "x"}]], [], ["1"]),
    ],
)
def test_lists_are_read_and_entries_that_are_no_servers_are_named(
    held, names, left_out, tmp_path, capsys
):
    file = tmp_path / "client.json"
    file.write_text(json.dumps(held))
    assert main(["mcp", "import", str(file)]) == 0
    printed = capsys.readouterr().out
    servers = tomllib.loads(printed).get("plugins", {}).get("mcp", {}).get("servers", {})
    assert list(servers) == names
    told = [line.split('"')[1] for line in printed.splitlines() if "neither a command" in line]
    assert told == left_out
    assert not any(secret in printed for secret in SECRETS)


def test_two_servers_of_one_name_in_a_list_are_told_apart_by_the_person(tmp_path, capsys):
    file = tmp_path / "client.json"
    file.write_text(json.dumps([{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]))
    assert main(["mcp", "import", str(file)]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)["plugins"]["mcp"]["servers"] == {"a": {"command": "x"}}
    assert '"a" has the same prefix as "a"; it is left out.' in printed


def test_entries_of_a_servers_lists_that_are_no_texts_are_named(tmp_path):
    file = tmp_path / "mcp.json"
    keys = {"command": "x", "args": ["-y", None, 3], "disabledTools": ["t", None], "env_vars": [7]}
    file.write_text(json.dumps({"mcpServers": {"a": keys}}))
    (server,) = read_servers(file)
    assert server.keys["args"] == ["-y", "3"]
    assert server.notes == [
        "Some of its args are not texts, and are left out. Add them by hand.",
        "Not imported: env_vars, disabledTools. Configure these by hand.",
    ]


@pytest.mark.parametrize("args", [3, "-y server", {"a": 1}])
def test_arguments_that_are_no_list_are_left_out_and_noted(tmp_path, args):
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "args": args}}}))
    (server,) = read_servers(file)
    assert server.keys == {"command": "x"}
    assert server.notes == ["Its args are not a list, and are left out; write them as one."]


def test_secrets_are_found_wherever_arguments_have_them(tmp_path):
    args = [
        "far",
        "-H",
        "Authorization: Bearer of-mine",
        "--header",
        "X-Id:${ID}",
        "ghp_0123456789",
    ]
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"mcpServers": {"far": {"command": "npx", "args": args}}}))
    (server,) = read_servers(file)
    assert server.keys["args"] == [
        *("far", "-H", "Authorization: Bearer ${FAR_AUTHORIZATION}"),
        *("--header", "X-Id:${ID}", "${FAR_SECRET}"),
    ]
    assert server.variables == ["FAR_AUTHORIZATION", "FAR_SECRET"]


def test_what_only_the_client_knows_is_noted(tmp_path):
    file = tmp_path / "client.json"
    args = ["${workspaceFolder}", "${input:path}", "${HOME}"]
    file.write_text(json.dumps({"servers": {"a": {"command": "x", "args": args}}}))
    (server,) = read_servers(file)
    (note,) = server.notes
    assert note.endswith('write them out: "${workspaceFolder}", "${input:path}".')


def test_servers_that_cannot_be_told_apart_are_imported_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client, config = tmp_path / "client.json", tmp_path / "toolstile.toml"
    servers = {name: {"command": "x", "disabled": True} for name in ("ü", "", "ok", "OK")}
    client.write_text(json.dumps({"mcpServers": {"broken": {}, **servers}}))

    assert main(["mcp", "import", str(client)]) == 0
    printed = capsys.readouterr().out

    assert set(tomllib.loads(printed)["plugins"]["mcp"]["servers"]) == {"ü", "ok"}
    assert '# "" has the same prefix as "\\u00fc"; it is left out. Rename it' in printed
    assert '# "OK" has the same prefix as "ok"; it is left out.' in printed
    config.write_text(printed, encoding="utf-8")
    assert main(["tools"]) == 0


def test_another_server_of_the_same_name_is_noted(tmp_path, capsys):
    tables = [{"a": {"command": "x"}}, {"a": {"command": "x"}}, {"a": {"command": "y"}}]
    projects = {f"/{number}": {"mcpServers": table} for number, table in enumerate(tables)}
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"projects": projects}))
    assert main(["mcp", "import", str(file)]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)["plugins"]["mcp"]["servers"] == {"a": {"command": "x"}}
    assert printed.count('# "a" has the same prefix as "a"; it is left out.') == 1


def test_what_is_configured_already_is_not_declared_once_more(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client, config = tmp_path / "client.json", tmp_path / "toolstile.toml"
    servers = {name: {"command": "x", "disabled": True} for name in ("one", "two three")}
    client.write_text(json.dumps({"mcpServers": servers}))
    config.write_text('[plugins.mcp.servers."Two three"]\ncommand = "x"\nenabled = false\n')
    for _ in range(2):
        assert main(["mcp", "import", str(client)]) == 0
        printed = capsys.readouterr().out
        config.write_text(f"{config.read_text()}\n{printed}")
    assert printed == (
        '# "one" is configured already; it is left out.\n\n'
        '# "two three" is configured already, as "Two three"; it is left out.\n'
    )
    assert main(["--json", "mcp", "import", str(client)]) == 0
    first, _ = map(json.loads, capsys.readouterr().out.splitlines())
    note = '"one" is configured already; it is left out.'
    assert first == {"server": "one", "variables": [], "notes": [note]}
    assert list(tomllib.loads(config.read_text())["plugins"]["mcp"]["servers"]) == [
        "Two three",
        "one",
    ]


def test_toolstile_is_not_put_behind_itself(tmp_path):
    file = tmp_path / "client.json"
    itself = {"command": "/usr/local/bin/toolstile", "args": ["mcp", "--config", "toolstile.toml"]}
    file.write_text(json.dumps({"mcpServers": {"yard": itself, "a": {"command": "x"}}}))
    yard, other = read_servers(file)
    assert tomllib.loads(as_toml(yard)) == {}
    assert '"yard" is Toolstile itself' in as_toml(yard)
    assert other.keys == {"command": "x"}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.slow
@given(
    st.builds(
        Imported,
        TEXT.filter(bool),
        st.dictionaries(TEXT.filter(bool), TEXT | st.lists(TEXT), min_size=1),
    )
)
def test_whatever_a_server_is_called_the_table_is_toml(server):
    read = tomllib.loads(as_toml(server))["plugins"]["mcp"]["servers"]
    assert read == {server.name: server.keys}


def imported(tmp_path, capsys, held):
    """Return the tables that are printed of a client's file, and all that is printed."""
    file = tmp_path / "client.json"
    file.write_text(json.dumps(held))
    assert main(["mcp", "import", str(file)]) == 0
    printed = capsys.readouterr().out
    return tomllib.loads(printed)["plugins"]["mcp"]["servers"], printed


class TestLimits:
    """Restrictions and credentials of a server are carried over, or named in a comment."""

    @pytest.mark.parametrize(
        ("theirs", "ours"),
        [
            ({"includeTools": ["find"]}, {"only": ["find"]}),
            ({"includeTools": []}, {"only": []}),
            ({"excludeTools": ["erase"]}, {"without": ["erase"]}),
            ({"disabledTools": ["erase"]}, {"without": ["erase"]}),
            ({"enabled_tools": ["a"], "disabled_tools": ["b"]}, {"only": ["a"], "without": ["b"]}),
            (
                {"tool_timeout_sec": 9, "startup_timeout_sec": 3},
                {"timeout": 9, "connect_timeout": 3},
            ),
            (
                {
                    "tools": {
                        "erase": {"approval_mode": "prompt"},
                        "find": {"approval_mode": "auto"},
                    }
                },
                {"tools": {"erase": {"requires_confirmation": True}}},
            ),
            ({"tools": ["find"]}, {"only": ["find"]}),
            ({"tools": []}, {"only": []}),
            ({"tools": ["*"]}, {}),
            ({"command": ["desk", "-x"], "args": ["y"]}, {"args": ["-x", "y"]}),
            ({"environment": {"A": ""}}, {"env": {"A": ""}}),
            ({"env_vars": ["KEY"], "env": {"A": ""}}, {"env": {"KEY": "${KEY}", "A": ""}}),
        ],
    )
    def test_what_restricts_a_server_is_carried_over(self, tmp_path, capsys, theirs, ours):
        held = {"mcpServers": {"desk": {"command": "desk", **theirs}}}
        servers, printed = imported(tmp_path, capsys, held)
        assert servers["desk"] == {"command": "desk", **ours}
        assert "Not imported" not in printed
        ServerSettings.model_validate(servers["desk"])

    def test_variables_that_authenticate_are_carried_over(self, tmp_path, capsys):
        keys = {"bearer_token_env_var": "TOKEN", "env_http_headers": {"X-Key": "KEY"}}
        held = {"mcp_servers": {"desk": {"url": "https://a.example", **keys}}}
        servers, _ = imported(tmp_path, capsys, held)
        assert servers["desk"]["headers"] == {"Authorization": "Bearer ${TOKEN}", "X-Key": "${KEY}"}

    @pytest.mark.parametrize(
        "theirs",
        [
            {"oauth": {"clientId": "a"}},
            {"auth": {"CLIENT_SECRET": "hunter2"}},
            {"authProviderType": "google_credentials"},
            {"headersHelper": "helper.sh"},
            {"envFile": ".env"},
            {"trust": False},
            {"sandbox": {"network": False}},
            {"timeout": 600000},
            {"default_tools_approval_mode": "prompt"},
        ],
    )
    def test_what_cannot_be_is_named(self, tmp_path, capsys, theirs):
        held = {"mcpServers": {"desk": {"command": "desk", **theirs}}}
        _, printed = imported(tmp_path, capsys, held)
        assert f"# Not imported: {next(iter(theirs))}. Configure these" in printed
        assert "hunter2" not in printed

    def test_what_is_asked_about_is_told(self, tmp_path, capsys):
        held = {"mcpServers": {"desk": {"command": "desk", "autoApprove": ["find"]}}}
        _, printed = imported(tmp_path, capsys, held)
        assert "# Its client asks a person about each tool but find" in printed

    @pytest.mark.parametrize(
        "beside",
        [
            {"mcp": {"excluded": ["desk"]}},
            {"mcp": {"allowed": ["other"]}},
            {"allowMCPServers": ["other"]},
            {"excludeMCPServers": ["desk"]},
            {"disabledMcpjsonServers": ["desk"]},
            {"permissions": {"deny": ["mcp__desk"]}},
            {"permissions": {"deny": ["mcp__desk__*"]}},
        ],
    )
    def test_a_server_that_is_kept_off_beside_it_is_switched_off(self, tmp_path, capsys, beside):
        held = {"mcpServers": {"desk": {"command": "desk"}, "other": {"command": "o"}}, **beside}
        servers, _ = imported(tmp_path, capsys, held)
        assert servers["desk"]["enabled"] is False
        assert servers["other"] == {"command": "o"}

    def test_permissions_of_single_tools_are_carried_over(self, tmp_path, capsys):
        rules = {"deny": ["mcp__desk__erase", "Bash"], "ask": ["mcp__desk__write"], "allow": ["x"]}
        held = {"mcpServers": {"desk": {"command": "desk"}}, "permissions": rules}
        servers, _ = imported(tmp_path, capsys, held)
        assert servers["desk"] == {
            "command": "desk",
            "without": ["erase"],
            "tools": {"write": {"requires_confirmation": True}},
        }

    def test_permissions_of_all_tools_and_of_globs_are_carried_over(self, tmp_path, capsys):
        rules = {"deny": ["mcp__desk__delete_*"], "ask": ["mcp__desk"]}
        held = {"mcpServers": {"desk": {"command": "desk"}}, "permissions": rules}
        servers, _ = imported(tmp_path, capsys, held)
        settings = ServerSettings.model_validate(servers["desk"])
        assert not settings.offers("delete_all")
        assert settings.offers("write")
        assert settings.of_tool("write").requires_confirmation

    @pytest.mark.parametrize(
        ("beside", "place"),
        [
            ({"agent": {"tools": {"mcp:desk:erase": {"default": "deny"}}}}, "agent.tools"),
            ({"agent": {"profiles": {"w": {"desk": {"erase": False}}}}}, "agent.profiles.w"),
            ({"deniedMcpServers": [{"serverName": "desk"}]}, "deniedMcpServers.serverName"),
            ({"amp.permissions": [{"tool": "mcp__desk__erase"}]}, "amp.permissions.tool"),
            ({"tools": {"desk_erase*": False}}, "tools"),
            ({"tools": {"exclude": ["desk__erase"]}}, "tools.exclude"),
            ({"allowedTools": ["@desk/find"]}, "allowedTools"),
            ({"permissions": {"deny": ["Mcp(desk:erase)"]}}, "permissions.deny"),
        ],
    )
    def test_what_is_said_of_a_server_elsewhere_is_named(self, tmp_path, capsys, beside, place):
        held = {"mcpServers": {"desk": {"command": "desk"}}, **beside}
        _, printed = imported(tmp_path, capsys, held)
        assert (
            f"# Its client has more settings for it in {place}. Configure these by hand.\n"
            in printed
        )

    def test_what_is_understood_elsewhere_is_not_named(self, tmp_path, capsys):
        rules = {"deny": ["mcp__desk__erase"], "ask": ["mcp__desk"], "allow": ["mcp__desk"]}
        held = {
            "mcpServers": {"desk": {"command": "desk"}},
            "permissions": rules,
            "enabledMcpjsonServers": ["desk"],
            "theme": "desktop",
        }
        _, printed = imported(tmp_path, capsys, held)
        assert "#" not in printed

    @pytest.mark.parametrize("switch", [{"disabled": "true"}, {"enabled": 0}])
    def test_a_switch_that_cannot_be_read_is_named(self, tmp_path, capsys, switch):
        _, printed = imported(tmp_path, capsys, {"mcpServers": {"a": {"command": "a", **switch}}})
        assert f"# Not imported: {next(iter(switch))}" in printed

    def test_headers_of_both_spellings_are_carried_over(self, tmp_path, capsys):
        keys = {"headers": {"A": "${A}"}, "http_headers": {"B": "${B}"}}
        held = {"mcpServers": {"desk": {"url": "https://a.example", **keys}}}
        servers, _ = imported(tmp_path, capsys, held)
        assert servers["desk"]["headers"] == {"A": "${A}", "B": "${B}"}


@pytest.mark.parametrize("text", ["$KEY", "{env:KEY}", "${KEY}"])
def test_a_variable_is_one_however_a_client_writes_it(tmp_path, text):
    file = tmp_path / "a.json"
    keys = {"url": "https://a.example", "headers": {"Authorization": f"Bearer {text}"}}
    file.write_text(json.dumps({"mcpServers": {"a": keys}}))
    (server,) = read_servers(file)
    assert server.keys["headers"] == {"Authorization": "Bearer ${KEY}"}


def test_a_note_stays_on_its_line():
    notes = ["lost: a\n[plugins.mcp.servers.b]\ncommand = 'evil'"]
    printed = as_toml(Imported("a", {"command": "x"}, notes=notes))
    assert [*tomllib.loads(printed)["plugins"]["mcp"]["servers"]] == ["a"]


def servers_of(tmp_path, held):
    file = tmp_path / "client.json"
    file.write_text(json.dumps(held))
    return read_servers(file)


@pytest.mark.parametrize(
    "text",
    ["${env:KEY}", "--team=${env:KEY}", "https://${env:KEY}.example/", "${env:A}${env:B}"],
)
def test_a_variable_that_is_filled_in_is_not_to_be_written_out(tmp_path, text):
    keys = {"command": "x", "args": [text]}
    if "://" in text:
        keys = {"url": text, "headers": {"X": "Bearer ${env:KEY}"}}
    (server,) = servers_of(tmp_path, {"servers": {"a": keys}})
    assert server.notes == []
    assert text in json.dumps(server.keys)


@pytest.mark.parametrize("text", ["{env:KEY}x", "${input:key}", "$KEY/x"])
def test_a_variable_that_only_the_client_fills_in_is_to_be_written_out(tmp_path, text):
    (server,) = servers_of(tmp_path, {"servers": {"a": {"command": "x", "args": [text]}}})
    assert "write them out" in server.notes[0]


@pytest.mark.parametrize("said", [["*"], ["a", "*"], True])
@pytest.mark.parametrize("key", ["autoApprove", "alwaysAllow", "auto_approve"])
def test_a_client_that_asks_about_no_tool_is_told_so(tmp_path, key, said):
    (server,) = servers_of(tmp_path, {"mcpServers": {"a": {"command": "x", key: said}}})
    assert server.notes[0].startswith("Its client asks a person about no tool of it; here")


@pytest.mark.parametrize("name", ["mcpServers", "servers", "context_servers"])
def test_servers_in_a_list_are_read_by_their_names(tmp_path, name):
    listed = [
        {"name": "a", "command": "x"},
        {"id": "b", "url": "https://b.example"},
        {"command": "y"},
    ]
    found = servers_of(tmp_path, {name: [*listed, "odd", 3]})
    assert [(each.name, [*each.keys]) for each in found[:3]] == [
        ("a", ["command"]),
        ("b", ["url"]),
        ("3", ["command"]),
    ]
    assert [each.notes for each in found[:3]] == [[], [], []]


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_yaml_is_named_as_unsupported(tmp_path, suffix):
    file = tmp_path / f"config.{suffix}"
    file.write_text("mcpServers:\n  a:\n    command: x\n")
    with pytest.raises(ConfigurationError, match="is YAML, which is not read here"):
        read_servers(file)


@pytest.mark.parametrize("url", ["wss://a.example/mcp", "WS://a.example", "unix:/run/a.sock"])
def test_a_server_whose_address_is_not_spoken_is_left_out_and_noted(tmp_path, url):
    (server,) = servers_of(tmp_path, {"mcpServers": {"a": {"url": url, "type": "ws"}}})
    assert server.keys == {}
    assert "which is not spoken here; it is left out" in server.notes[0]
