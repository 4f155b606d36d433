"""A question on a terminal: colours, marks on changed words, and a pager for a long one."""

import json
import os
import pty
import re
import select
import sys
import time

import pytest
from tests.plugins.pseudo_terminal import ESCAPES

from toolstile_plugins.approval.display import changed_lines
from toolstile_plugins.approval.pager import show_lines
from toolstile_plugins.screen import console

DIFF = """\
the workspace:
  --- a/q.sql
  +++ b/q.sql
  @@ -1,5 +1,4 @@
   - an item that stays
  --- a comment that goes
  -SELECT name FROM users WHERE id = 7
  -  LIMIT 10
  +SELECT name FROM users WHERE id = 70
  +    LIMIT 10
   end
  --- a/b
  +++ b/b
  @@ -1 +1 @@
  -red \x1b[2J = \u202e 1
  +red \x1b[2J = \u202e 2
"""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MARKED = re.compile(r"\x1b\[7;3[12]m(.*?)\x1b\[0m")


@pytest.fixture
def screen(monkeypatch):
    """A console on a terminal of 20 lines, and a function that returns all that it got."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "LINES": "20", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as out:

        def shown(lines, **options):
            show_lines(console(out), lines, **options)
            out.flush()
            written = ""
            while select.select([ours], [], [], 0.05)[0]:
                written += os.read(ours, 65536).decode()
            return written.replace("\r\n", "\n")

        yield shown
    os.close(ours)


def test_changed_words_are_marked_and_nothing_in_a_diff_steers_the_terminal(screen):
    written = screen([*changed_lines(DIFF)])
    assert MARKED.findall(written) == ["7", "  ", "70", "    ", "1", "2"]
    assert "\x1b[2m     - an item that stays\x1b[0m\n" in written  # begins with a sign, and stays
    assert "\x1b[31m    --- a comment that goes\x1b[0m\n" in written
    assert "\x1b[1m    --- a/b\x1b[0m\n" in written
    plain = COLOURS.sub("", written)
    assert "    +red \\x1b[2J = \\u202e 2\n" in plain
    assert plain == "".join(f"{line}\n" for _, line in changed_lines(DIFF))


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_colours_the_lines_are_plain(screen, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    expected = "".join(f"{line}\n" for _, line in changed_lines(DIFF))
    assert screen([*changed_lines(DIFF)]) == expected


LONG = [("", f"line {number}") for number in range(30)]


@pytest.mark.parametrize(
    ("pager", "lines", "shown"),
    [
        ("head -n 3", LONG, 3),  # quits early
        ("no-such-pager", LONG, 30),
        ("", LONG, 30),
        ("'", LONG, 30),
        ("false", LONG, 30),
        ("head -n 3", LONG[:19], 19),  # it fits on the screen
        ("head -n 3", [("", "x" * 400)] * 4, 3),  # it does not, because its lines are wrapped
    ],
)
def test_a_pager_shows_what_is_longer_than_the_terminal(screen, monkeypatch, pager, lines, shown):
    monkeypatch.setenv("PAGER", pager)
    assert len(screen(lines).splitlines()) == shown


def test_a_dumb_terminal_and_a_pipe_have_no_pager(screen, monkeypatch, tmp_path):
    monkeypatch.setenv("PAGER", "head -n 3")
    with (tmp_path / "out").open("w+") as file:
        monkeypatch.setenv("FORCE_COLOR", "1")
        show_lines(console(file), LONG)
        file.seek(0)
        assert len(file.readlines()) == 30
    monkeypatch.setenv("TERM", "dumb")
    assert len(screen(LONG).splitlines()) == 30


def test_the_pager_ends_with_the_question(screen, monkeypatch, tmp_path):
    started = tmp_path / "started"
    endless = f"open({str(started)!r}, 'w'); import time; time.sleep(60)"
    monkeypatch.setenv("PAGER", f'{sys.executable} -c "{endless}"')
    begun = time.monotonic()
    assert screen(LONG, is_over=started.exists) == ""
    assert time.monotonic() - begun < 30


@pytest.mark.slow
def test_all_of_a_question_is_paged_and_then_answered(person, calls, folder):
    # As a pager that leaves the terminal raw.
    pager = """import sys, tty
tty.setraw(2)
print(sys.stdin.read().count("line"), "lines", flush=True)
open("/dev/tty").read(1)
"""
    (folder / "pager.py").write_text(pager, encoding="utf-8")
    at = person(
        "run",
        calls(("send", {"text": "\n".join(f"line {n} \x1b[2J" for n in range(99))}), ("look", {})),
        "--json",
        env={"PAGER": f"{sys.executable} pager.py", "NO_COLOR": "", "TERM": "xterm-256color"},
    )
    assert "line 98" not in at.answer("v")
    at.expect("99 lines")
    at.type("q")
    at.answer("y")
    at.answer("n", prompt="[y]es, [n]o")
    at.answer("", prompt="Why not?")
    _, screen = at.end()
    lines = [json.loads(line) for line in screen.splitlines() if line.startswith('{"id"')]
    assert [line["status"] for line in lines] == ["succeeded", "denied"]
    assert "\x1b[2J" not in at.written
    assert "\x1b" not in ESCAPES.sub("", at.written)
