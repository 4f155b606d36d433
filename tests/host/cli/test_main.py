"""The command line as a whole: help, options anywhere, unknown commands, plugins' commands."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from toolstile import _version
from toolstile_cli.main import main
from toolstile_cli.options import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("pydantic", "pluggy", "rich", "asyncio", "importlib.metadata", "importlib_metadata")


def test_version(toolstile):
    assert toolstile("--version", plugin=False) == (0, f"toolstile {_version.__version__}\n", "")
    assert toolstile("run", "--version", plugin=False)[1] == f"toolstile {_version.__version__}\n"


@pytest.mark.parametrize("words", [["--version", "--json"], ["--json", "tools", "--version"]])
def test_the_version_as_json(toolstile, words):
    status, out, err = toolstile(*words, plugin=False)
    assert (status, json.loads(out), err) == (0, {"version": _version.__version__}, "")


def test_the_version_is_that_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert _version.__version__ == project["version"]


def test_the_version_imports_nothing_heavy():
    code = (
        "import sys; from toolstile_cli.main import main; main(['--version']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "toolstile", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"toolstile {_version.__version__}\n"


def test_ctrl_c_while_the_program_is_imported_shows_no_traceback():
    code = """
import signal, sys
from toolstile_cli.main import main

class Impatient:
    def find_spec(self, name, *_):
        if name == "toolstile_cli.program":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Impatient())
sys.argv = ["toolstile", "plugins"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_has_examples_and_every_command(toolstile, arguments):
    status, out, err = toolstile(*arguments)
    assert (status, err) == (0, "")
    assert "toolstile run --example" in out
    assert all(f"    {name} " in out for name in ("run", "call", "tools", "plugins", "greet"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "call", "tools", "plugins", "greet"])
def test_each_command_has_help(toolstile, command):
    status, out, _ = toolstile(command, "--help")
    assert status == 0
    assert f"usage: toolstile {command}" in out


def test_help_is_there_also_where_the_configuration_is_wrong(toolstile, folder):
    (folder / "toolstile.toml").write_text("nonsense = 3\n")
    status, out, err = toolstile("--help")
    assert status == 0
    assert "toolstile run --example" in out
    assert "nonsense" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "meant"), [("rnu", "run"), ("tool", "tools"), ("great", "greet")]
)
def test_an_unknown_command_suggests_the_nearest(toolstile, typed, meant):
    status, out, err = toolstile(typed)
    assert (status, out) == (2, "")
    assert f"there is no command {typed!r}; did you mean {meant!r}?" in err


@pytest.mark.slow
def test_an_unknown_command_like_none_lists_them(toolstile):
    _, _, err = toolstile("xyzzy")
    listed = re.search(r"There are ([a-z, -]+)\.$", err, re.MULTILINE)
    assert listed
    found = listed[1].replace(" and ", ", ").split(", ")
    assert found == [
        *COMMANDS,
        "ask",
        "check-done",
        "console",
        "database",
        "approvals",
        "ledger",
        "mcp",
        "record",
        "replay",
        "policy",
        "sessions",
        "undo",
        "worker",
        "greet",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["mcp"], ["mcp", "check"], ["mcp", "--help"]])
def test_a_command_is_missing_where_its_plugin_is_misconfigured(toolstile, folder, arguments):
    (folder / "toolstile.toml").write_text("[plugins.mcp]\nwaits = 3\n")
    status, out, err = toolstile(*arguments)
    assert (status, out) == (2, "")
    assert "plugins.mcp.waits: is not a known key" in err
    assert "there is no command" not in err


def test_a_command_is_missing_where_its_plugin_is_broken(toolstile, folder):
    (folder / "broken.py").write_text("1 / 0\n")
    status, _, err = toolstile("brew", "--plugin", "broken.py")
    assert status == 2
    assert "broken.py" in err
    assert "division by zero" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--nope", "x"],
        ["call"],
        ["tools", "--timeout", "soon"],
        ["tools", "--timeout", "-1"],
        ["tools", "--config"],
        ["run", "a", "b"],
    ],
)
def test_wrong_use_is_status_2_in_one_line(toolstile, arguments):
    status, out, err = toolstile(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("toolstile: error: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "surplus", "program"),
    [
        (["plugins", "one", "two"], "one two", "toolstile plugins"),
        (["--nope"], "--nope", "toolstile"),
        (["record", "show", "calls.jsonl", "3"], "3", "toolstile record show"),
        (["call", "add", "--a", "1"], "--a 1", "toolstile call"),
    ],
)
def test_what_is_not_taken_is_told_with_where_help_is(folder, capsys, arguments, surplus, program):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said == f"toolstile: error: unrecognized arguments: {surplus}. See `{program} --help`.\n"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["run", "--paralel", "calls.jsonl"], "--parallel"),
        (["tools", "--schemas=openai"], "--schema"),
        (["tools", "--jsn"], "--json"),
        (["record", "verify", "--lst", "HASH", "calls.jsonl"], "--last"),
    ],
)
def test_a_misspelt_option_is_told_with_the_one_that_was_meant(folder, capsys, arguments, meant):
    assert main(arguments) == 2
    assert f" (did you mean {meant}?). See " in capsys.readouterr().err


@pytest.mark.parametrize("words", [["{a:", "1}"], ["a:1", "b:2"]])
def test_json_that_a_shell_has_cut_is_to_be_quoted(folder, capsys, words):
    assert main(["call", "add", *words]) == 2
    told = capsys.readouterr().err
    assert "Quote them for the shell: '{\"a\": 1}', or write a=1." in told


@pytest.mark.parametrize("words", [["a=1", "b"], ["b", "a=1"]])
def test_a_word_among_pairs_is_named(folder, capsys, words):
    assert main(["call", "add", *words]) == 2
    told = capsys.readouterr().err
    assert "'b' is not KEY=VALUE. Quote a value with spaces: text='two words'." in told


@pytest.mark.parametrize("words", [["help", "call"], ["help", "ledger", "resolve"], ["help"]])
def test_help_is_a_word_as_well(capsys, words):
    assert main(words) == 0
    told = capsys.readouterr().out
    assert main([*words[1:], "--help"]) == 0
    assert told == capsys.readouterr().out
    assert told.startswith(f"usage: {' '.join(['toolstile', *words[1:]])} ")


def test_help_about_no_command_suggests_the_nearest(folder, capsys):
    assert main(["help", "cal"]) == 2
    assert "there is no command 'cal'; did you mean 'call'?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["version"], ["-V"], ["--version"], ["tools", "-V"]])
def test_the_version_is_a_word_and_two_options(capsys, words):
    assert main(words) == 0
    assert capsys.readouterr().out == f"toolstile {_version.__version__}\n"


@pytest.mark.slow
def test_the_help_lists_commands_in_groups_and_those_of_plugins_last(toolstile):
    told = toolstile("--help")[1]
    groups = re.findall(r"^  ([A-Za-z ]+):\n((?:    .*\n)+)", told, re.MULTILINE)
    listed = {title: re.findall(r"^    ([a-z-]+)", text, re.MULTILINE) for title, text in groups}
    assert [*listed] == ["Call", "Look", "Govern", "Serve", "Make", "Other plugins"]
    assert listed["Govern"] == ["stop", "go", "undo", "approvals", "ledger", "policy", "database"]
    assert listed["Other plugins"] == ["greet"]
    assert set(COMMANDS) <= {name for names in listed.values() for name in names}


@pytest.mark.slow
def test_common_options_stand_before_or_after_the_command(folder, capsys):
    wish = ["call", "add", '{"a": 1, "b": 2}']
    for arguments in (["--plugin", "desk.py", *wish], [*wish, "--plugin", "desk.py"]):
        assert main(arguments) == 0
        assert capsys.readouterr().out == "3\n"


@pytest.mark.slow
def test_plugins_add_commands(toolstile):
    status, out, err = toolstile("greet", "world")
    assert (status, err) == (0, "")
    assert out.startswith("hello world, ")
    assert toolstile("greet", "three")[0] == 3


@pytest.mark.slow
def test_plugins_add_options_to_commands(toolstile):
    assert "--extended" in toolstile("tools", "--help")[1]
    assert toolstile("tools", "--extended")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("commands", "told"),
    [
        ('[Command("run", "Mine.", run=print)]', "there is a command of that name already"),
        ('[Command("none", extends=True)]', "there is no command 'none' to extend"),
        ('[Command("odd", "Odd.")]', "it has no `run`"),
        ('[Command("bad", "Bad.", run=print, configure=lambda p: 1 / 0)]', "division by zero"),
    ],
)
def test_a_command_that_does_not_fit_is_left_out(toolstile, folder, commands, told):
    (folder / "odd.py").write_text(
        "from toolstile_hookspecs import Command, hookimpl\n\n"
        f"@hookimpl\ndef toolstile_commands():\n    return {commands}\n"
    )
    status, out, err = toolstile("call", "add", '{"a": 1, "b": 2}', "--plugin", "odd.py")
    assert (status, out) == (0, "3\n")
    assert told in err


def test_what_breaks_is_told_without_a_traceback(toolstile, folder):
    (folder / "odd.py").write_text(
        "from toolstile_hookspecs import Command, hookimpl\n\n"
        "def boom(host, args):\n    raise RuntimeError('boom')\n\n"
        "@hookimpl\ndef toolstile_commands():\n    return [Command('boom', 'Boom.', run=boom)]\n"
    )
    status, _, err = toolstile("boom", "--plugin", "odd.py")
    assert status == 70
    assert "RuntimeError: boom" in err
    assert "Traceback" not in err
    assert "Traceback" in toolstile("boom", "--plugin", "odd.py", "-vv")[2]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("surroundings", [{}, {"FORCE_COLOR": "1"}, {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["run", "--help"], ["tools"], ["tools", "--json"]]
)
def test_output_that_cannot_be_written_is_told_once(process, arguments, surroundings):
    with Path("/dev/full").open("w") as full:
        started = process(*arguments, stdout=full, env={**os.environ, **surroundings})
        _, err = started.communicate(timeout=60)
    assert started.returncode == 70
    assert err == (
        "toolstile: error: the output cannot be written: No space left on device. Make room there, "
        "or write elsewhere, then run the command again.\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_with_who_writes_there(toolstile, folder):
    (folder / "odd.py").write_text(
        "from toolstile_hookspecs import Command, hookimpl\n\n"
        "def keep(host, args):\n"
        "    with open('/dev/full', 'w') as file:\n"
        "        file.write('x')\n\n"
        "@hookimpl\ndef toolstile_commands():\n    return [Command('keep', 'Keep.', run=keep)]\n"
    )
    status, _, err = toolstile("keep", "--plugin", "odd.py")
    assert status == 70
    assert re.search(
        r"error: a file of .*odd.* cannot be written: No space left on device\. Make", err
    )


@pytest.mark.slow
@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-"])
def test_closed_streams_do_no_harm(folder, closing):
    command = (
        f'"{sys.executable}" -m toolstile call --plugin desk.py say \'{{"text": "x"}}\' {closing}'
    )
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=folder)  # noqa: PLW1510 - its status is looked at
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_output_in_ascii_is_readable(process, calls):
    started = process(
        "run",
        calls(("say", {"text": "na\u00efve"})),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, "")
    assert "+ succeeded" in out
    assert r"na\xefve" in out


def test_what_may_be_the_name_of_an_example_is_told_those_there_are(toolstile):
    status, _, err = toolstile("--example", "nope", "tools", plugin=False)
    assert status == 2
    assert err.startswith("toolstile: error: there is no command 'nope'. There are demo, run, ")
    assert err.endswith(" The examples are orders and workspace.\n")


def test_the_file_that_was_interrupted_while_it_was_imported_is_named(toolstile, folder):
    (folder / "slow.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    status, _, err = toolstile("--plugin", "slow.py", "tools", plugin=False)
    assert status == 130
    assert err == "toolstile: interrupted: slow.py was being imported (KeyboardInterrupt).\n"


WRONG_IN_THREE_PLACES = """
approver = "nobody"

[plugins.vfs]
rot = "here"

[[policies]]
kind = "unheard-of"
"""


@pytest.mark.parametrize("policies", [True, False])
def test_what_the_configuration_asks_of_plugins_in_vain_is_told_at_once(
    toolstile, folder, policies
):
    wrong = WRONG_IN_THREE_PLACES
    (folder / "toolstile.toml").write_text(wrong if policies else wrong.partition("[[")[0])
    for command in ("tools", "doctor"):
        status, out, err = toolstile(command, plugin=False)
        assert status
        told = out + err
        assert "plugins.vfs.rot: is not a known key" in told
        assert "approver = 'nobody': no loaded plugin" in told
        assert ("kind: 'unheard-of' is not a known kind" in told) is policies


def test_an_option_of_a_command_before_the_command_is_told_where_it_belongs(toolstile):
    status, _, err = toolstile("--workspace", "here", "run", plugin=False)
    assert status == 2
    assert err == (
        "toolstile: error: there is no option --workspace of all commands; if one of them has it, "
        "give it after the command. See `toolstile --help`.\n"
    )


@pytest.mark.parametrize("given", ["-1", "0", "soon", "inf", "nan"])
def test_a_timeout_that_is_none_is_told_what_can_be_given(toolstile, given):
    status, _, err = toolstile("--timeout", given, "tools", plugin=False)
    assert status == 2
    assert f"{given!r} is not a positive number of seconds; 'none' stands for no limit." in err
