"""Every command's help has examples, and each of them is understood."""

import re
import shlex
import subprocess
import sys

import pytest

from toolstile import Host, Settings
from toolstile_cli.options import COMMANDS, MORE, beneath, take_common
from toolstile_cli.plugin_commands import with_extensions
from toolstile_cli.program import BUILT_IN
from toolstile_cli.quick_help import quick_help

BENEATH = (
    *(f"approvals {name}" for name in ("list", "show", "approve", "deny", "edit", "resume")),
    *(f"approvals {name}" for name in ("grants", "revoke", "withdraw")),
    *(f"database {name}" for name in ("check", "upgrade")),
    *(
        f"ledger {name}"
        for name in ("list", "show", "resolve", "reconcile", "invalidate", "prune", "move")
    ),
    *(f"hook {name}" for name in ("install", "uninstall", "doctor", "test", "serve", "sandbox")),
    *(f"mcp {name}" for name in ("check", "import")),
    *(f"policy {name}" for name in ("explain", "test", "backtest")),
    *(f"record {name}" for name in ("show", "list", "verify")),
    *(f"sessions {name}" for name in ("list", "show", "export", "delete")),
)
"""The commands beneath commands."""
OFFERED = (
    "approvals",
    "console",
    "ask",
    "check-done",
    "database",
    "hook",
    "init",
    "ledger",
    "mcp",
    "policy",
    "record",
    "replay",
    "sessions",
    "undo",
    "unwrap",
    "worker",
    "wrap",
)
"""The commands of plugins."""
ALL = (*COMMANDS, *OFFERED, *BENEATH)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """Remove the variables that the tests set: beside one there is no quick help."""
    monkeypatch.delenv("TOOLSTILE_DURABILITY", raising=False)
    monkeypatch.delenv("TOOLSTILE_NO_CACHE", raising=False)


@pytest.fixture(scope="module")
def parser():
    """The parser of everything that comes with Toolstile."""
    with Host(settings=Settings()) as host:
        made, _, _ = with_extensions(host.plugins.commands(), BUILT_IN)
    return made


def parsers_in(parser, above=""):
    """The parsers of all commands, and of those beneath them, by what is typed."""
    for _, commands in beneath(parser):
        for name, each in commands.items():
            yield f"{above}{name}", each
            yield from parsers_in(each, f"{above}{name} ")


def examples_in(text):
    """The command lines in the examples of a help text."""
    _, found, listed = text.partition("examples:\n")
    assert found
    lines = [re.split(r" {2,}", line.strip())[0] for line in listed.split("\n\n")[0].splitlines()]
    return [re.sub(r'^eval "\$\((.*)\)"$', r"\1", line) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("command", ALL)
def test_every_command_has_examples_that_are_understood(toolstile, folder, parser, command):
    (folder / "DIR").mkdir()
    status, out, _ = toolstile(*command.split(), "--help", plugin=False)
    assert status == 0
    examples = examples_in(out)
    assert any(f"{each} ".startswith(f"toolstile {command} ") for each in examples)
    for each in examples:
        words = shlex.split(re.split(r" (?:<|\||>>) ", each)[0])[1:]
        common, rest = take_common(words)
        assert parser.parse_args(rest, namespace=common).command == rest[0]


def test_so_has_the_program(toolstile, parser):
    for each in examples_in(toolstile("--help", plugin=False)[1]):
        program, *words = shlex.split(each)
        assert program == "toolstile"
        common, rest = take_common(words)
        assert parser.parse_args(rest, namespace=common).command == rest[0]


def test_the_calls_in_examples_can_be_made_as_they_are(toolstile, folder):
    shown = [
        each
        for command in ("--help", "call --help")
        for each in examples_in(toolstile(*command.split(), plugin=False)[1])
    ]
    calls = [shlex.split(each)[1:] for each in shown if " call " in each and "<" not in each]
    assert len(calls) == 4
    for words in calls:
        status, _, err = toolstile(*words, plugin=False)
        assert (status, err) == (0, ""), words


def test_no_other_command_comes_with_toolstile(parser):
    assert {name for name, _ in parsers_in(parser)} == set(ALL)


def test_every_commands_help_tells_of_the_options_of_all(parser, subtests):
    for command in ALL:
        with subtests.test(command=command):
            assert dict(parsers_in(parser))[command].format_help().count(MORE) == 1


@pytest.mark.parametrize("typed", [[], ["--help"], ["-h"]])
def test_the_quick_help_is_that_of_the_plugins(parser, tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    assert quick_help(typed) == parser.format_help()


@pytest.mark.parametrize("command", ALL)
def test_the_quick_help_of_a_command_is_that_of_the_plugins(parser, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    expected = dict(parsers_in(parser))[command].format_help()
    assert quick_help([*command.split(), "--help"]) == expected
    assert quick_help([*command.split(), "-h"]) == expected


@pytest.mark.parametrize(
    "typed", ["call", "nothing --help", "call read_file --help", "--json call --help", "call -- -h"]
)
def test_plugins_are_asked_where_more_is_typed_than_commands(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    assert quick_help(typed.split()) is None


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("toolstile.toml", 'block = ["record"]'),
        ("toolstile.toml", 'plugin_files = ["room.py"]'),
        ("toolstile.toml", "[plugins.record]\nfile = 'calls.jsonl'"),
        ("toolstile.toml", "this is not TOML"),
        ("pyproject.toml", '[tool.toolstile]\nblock = ["record"]'),
    ],
)
def test_plugins_are_asked_where_the_configuration_speaks_of_them(
    tmp_path, monkeypatch, file, text
):
    (tmp_path / file).write_text(text)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert quick_help(["call", "--help"]) is None


def test_plugins_are_asked_where_a_variable_may_speak_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLSTILE_BLOCK", "record")
    assert quick_help(["call", "--help"]) is None


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", *ALL])
def test_the_help_imports_neither_plugins_nor_what_they_stand_on(tmp_path, command):
    code = (
        "import sys; from toolstile_cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split(), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"asyncio", "pluggy", "pydantic", "rich", "toolstile_hookspecs"}
    ours = {name for name in loaded if name.startswith("toolstile_plugins.")}
    assert ours == {"toolstile_plugins.cli_support"}
