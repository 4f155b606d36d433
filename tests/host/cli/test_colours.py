"""On a terminal that asks for no colours, no command writes an escape sequence."""

import os
import pty
import sysconfig
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "toolstile"

pytestmark = pytest.mark.slow


def on_terminal(folder, arguments, **variables):
    """Run the command on a pseudo-terminal; return its status and what it wrote there."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ.update({"TERM": "xterm-256color", **variables})
        os.execv(COMMAND, [str(COMMAND), *arguments])
    written = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # so Linux says that nobody writes any more
            part = b""
        if not part:
            break
        written += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), written.decode()


@pytest.fixture
def recorded(tmp_path):
    on_terminal(tmp_path, ["run", "--example", "--record", "calls.jsonl"])
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--example"],
        ["run", "--example", "workspace", "--approve", "all"],
        ["tools", "--example"],
        ["plugins"],
        ["doctor"],
        ["record", "show", "calls.jsonl"],
        ["record", "list", "."],
        ["replay", "--example", "calls.jsonl"],
        ["run", "--help"],
        ["run", "nothing"],
    ],
    ids=" ".join,
)
def test_without_colours_there_is_no_escape_sequence(recorded, arguments, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    _, written = on_terminal(recorded, arguments, NO_COLOR="1")
    assert written.strip()
    assert "\x1b" not in written


def test_the_example_ends_well_and_says_that_calls_are_meant_to_fail(recorded):
    status, written = on_terminal(recorded, ["run", "--example"], NO_COLOR="1", COLUMNS="200")
    assert status == 0
    assert "1 denied; in this example, some are meant to fail" in written
