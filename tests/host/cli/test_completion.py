"""Shells complete commands, options, and the names of tools, plugins and dialects."""

import io
import json
import os
import shutil
import subprocess
import sys

import argcomplete
import pytest

from toolstile_cli.shell_completion import answer_shell


class Left(Exception):
    """In place of the end of the process."""


@pytest.fixture
def completed(folder, monkeypatch):
    """The completions of a line."""

    def ask(line):
        monkeypatch.setenv("_ARGCOMPLETE", "1")
        monkeypatch.setenv("_ARGCOMPLETE_IFS", "\n")
        monkeypatch.setenv("_ARGCOMPLETE_SUPPRESS_SPACE", "1")
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        # It would take over a descriptor that a shell has opened for it, and here nobody has.
        monkeypatch.setattr(argcomplete.CompletionFinder, "_init_debug_stream", lambda _: None)
        output = io.StringIO()

        def leave(status):
            raise Left(status)

        with pytest.raises(Left):
            answer_shell(output, leave)
        return {each.strip() for each in output.getvalue().split("\n") if each.strip()}

    return ask


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("toolstile ", {"run", "call", "tools", "plugins", "new", "doctor", "mcp", "ledger"}),
        ("toolstile do", {"doctor"}),
        ("toolstile --plugin desk.py gre", {"greet"}),
        ("toolstile call --plugin desk.py list", {"listing", "list_directory"}),
        ("toolstile call --example=orders place", {"place_order"}),
        ("toolstile call --example place", {"place_order"}),
        ("toolstile call --example ", {"orders", "workspace", "place_order"}),
        ("toolstile run --dry", {"--dry-run"}),
        ("toolstile run --", {"--parallel", "--block", "--timeout", "--json", "--approve"}),
        ("toolstile run --work", {"--workspace"}),
        ("toolstile tools --block plan", {"planning"}),
        ("toolstile tools --block mcp,plan", {"mcp,planning"}),
        ("toolstile tools --schema anth", {"anthropic"}),
        ("toolstile new x --kind st", {"store"}),
        ("toolstile completion ", {"bash", "zsh", "fish"}),
        ("toolstile ledger inv", {"invalidate"}),
        ("toolstile ledger list --tool read_", {"read_file"}),
        ("toolstile check vf", {"vfs"}),
        ("toolstile run ca", {"calls.jsonl"}),
    ],
)
def test_what_can_come_next(completed, calls, line, there):
    calls(("add", {"a": 1, "b": 2}))
    assert there <= completed(line)


def test_nothing_else_comes_next(completed):
    assert completed("toolstile call read_f") == {"read_file"}
    assert completed("toolstile new ") == set()
    assert completed("toolstile call read_file ") == set()
    assert completed("toolstile run --example ") == {"orders", "workspace"}


def test_commands_are_completed_beside_a_configuration_that_is_wrong(completed, folder):
    (folder / "toolstile.toml").write_text("nonsense = 3\n")
    assert completed("toolstile doc") == {"doctor"}
    assert completed("toolstile --config") == {"--config"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(toolstile, shell):
    status, out, err = toolstile("completion", shell, plugin=False)
    assert (status, err) == (0, "")
    assert "_ARGCOMPLETE" in out
    assert "toolstile" in out
    status, as_json, _ = toolstile("completion", shell, "--json", plugin=False)
    assert json.loads(as_json)["script"].strip() == out.strip()


def test_the_script_that_a_shell_loads_at_each_start_imports_nothing_heavy(toolstile):
    heavy = {"asyncio", "pluggy", "pydantic", "rich", "toolstile_hookspecs"}
    code = (
        "import sys; from toolstile_cli.main import main; main(['completion', 'bash']); "
        f"print(sorted({heavy!r} & set(sys.modules)),"
        "*(name for name in sys.modules if name.startswith('toolstile_plugins.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    script, _, loaded = done.stdout.rstrip().rpartition("\n")
    assert loaded == "[] toolstile_plugins.cli_support"
    assert script.rstrip() == toolstile("completion", "bash", plugin=False)[1].rstrip()


def test_a_missing_shell_is_told_as_other_missing_arguments_are(toolstile):
    status, _, err = toolstile("completion", plugin=False)
    assert status == 2
    assert "required: SHELL." in err


IN_BASH = """
eval "$(toolstile completion bash)"
COMP_LINE="toolstile call --plugin desk.py fail_" COMP_POINT=${#COMP_LINE}
COMP_WORDS=(toolstile call --plugin desk.py fail_) COMP_CWORD=4 COMP_TYPE=9 COMP_KEY=9
_python_argcomplete toolstile call desk.py 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_is_answered(folder):
    import sysconfig

    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "--norc", "-c", IN_BASH],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["fail_after_note"], done.stderr


def test_a_plugins_file_is_completed_by_python_files_only(completed, calls, folder):
    calls(("add", {}))
    (folder / "plugs").mkdir()
    assert completed("toolstile --plugin ") == {"desk.py", "plugs/"}
