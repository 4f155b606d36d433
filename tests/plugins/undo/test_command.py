"""The command `toolstile undo`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.plugins.undo.desks import STORED, TOOLS, Desk

from toolstile import Host, ToolCall
from toolstile_cli.main import main

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def closed(make_desk: Callable[..., Desk]) -> Desk:
    """A desk whose host is closed after three calls and a person's edit."""
    desk = make_desk(STORED)
    desk.tools.request("Write.")
    for path, text in (("a.txt", "one"), ("a.txt", "two"), ("b.txt", "b")):
        desk.call("write_both", path=path, text=text)
    desk.host.close()
    return desk


@pytest.fixture
def command(closed: Desk, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command, and returns its status and output."""

    def run(*words: str) -> tuple[int, str]:
        status = main(["--config", str(closed.folder / "toolstile.toml"), "undo", *words])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def listed(command: Command) -> list[dict[str, Any]]:
    status, out = command("--list", "--json")
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_the_calls_are_listed_the_newest_first(closed: Desk, command: Command) -> None:
    found = listed(command)
    assert [each["changed"][0] for each in found] == ["b.txt", "a.txt", "a.txt"]
    assert {each["state"] for each in found} == {"kept"}
    status, out = command("--list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == [each["id"] for each in found]


def test_the_last_call_is_undone_then_the_one_before(closed: Desk, command: Command) -> None:
    assert command("--last", "--yes")[0] == 0
    assert list(closed.tree()) == ["a.txt"]
    assert command("--last", "--yes")[0] == 0
    assert (closed.root / "a.txt").read_text() == "one"
    assert [each["state"] for each in listed(command)] == [
        "undo",
        "undo",
        "undone",
        "undone",
        "kept",
    ]


def test_a_call_that_is_undone_in_a_transaction_is_listed_so(
    closed: Desk, command: Command
) -> None:
    with Host(config=closed.folder / "toolstile.toml", tools=TOOLS) as host:  # noqa: SIM117
        with host.executor(session_id="desk") as tools, tools.transaction("back") as work:
            assert work.undo().success
    found = listed(command)
    assert [each["state"] for each in found] == ["undo", "undone", "kept", "kept"]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--turn"], {}),
        (["--session", "desk"], {}),
        (["--since", "1h"], {}),
        (["--file", "a.txt"], {"a.txt": "one", "b.txt": "b"}),
        (["--file", "a.txt", "--since", "1h"], {"b.txt": "b"}),
    ],
)
def test_calls_are_chosen(
    closed: Desk, command: Command, words: list[str], left: dict[str, str]
) -> None:
    assert command(*words, "--yes")[0] == 0
    files = [path for path in closed.root.iterdir() if path.is_file()]
    assert {path.name: path.read_text() for path in files} == left


def test_an_id_or_its_beginning_is_enough(closed: Desk, command: Command) -> None:
    newest, _, oldest = (each["id"] for each in listed(command))
    assert "is the id of several calls" in command(oldest[:8], "--yes")[1]
    assert command(newest[:-1], "--yes")[0] == 0 or newest[:-1] == oldest[:-1]
    assert "Call 'x' cannot be undone" in command("x", "--yes")[1]


def test_a_dry_run_shows_the_changes(closed: Desk, command: Command) -> None:
    status, out = command("--last", "--dry-run")
    assert status == 0
    assert "deleted b.txt (1 bytes)" in out
    assert "b.txt" in closed.tree()


def test_a_conflict_has_a_status_of_its_own(closed: Desk, command: Command) -> None:
    (closed.root / "b.txt").write_text("mine")

    status, out = command("--last", "--yes", "--json")

    assert status == 3
    (told,) = map(json.loads, out.splitlines())
    assert [each["name"] for each in told["conflicts"]] == ["b.txt"]
    assert command("--last", "--yes", "--keep-others")[0] == 0
    assert (closed.root / "b.txt").read_text() == "mine"


def test_without_a_yes_nothing_is_undone(closed: Desk, command: Command) -> None:
    status, out = command("--last")
    assert status == 1
    assert "Add --yes" in out
    assert "b.txt" in closed.tree()


def test_it_says_which_calls_to_name(command: Command) -> None:
    status, out = command("--yes")
    assert status == 2
    assert "Say which calls to undo" in out


def test_purge_removes_former_files(closed: Desk, command: Command) -> None:
    assert command("purge")[1] == "The former files of 3 calls are removed.\n"
    assert not list(closed.store.iterdir())
    assert {each["changed"][0] for each in listed(command)} == {"all dropped"}


@pytest.mark.usefixtures("closed")
def test_calls_of_several_sessions_are_named(
    make_desk: Callable[..., Desk], command: Command
) -> None:
    desk = make_desk(STORED)
    with desk.host.executor(session_id="other") as tools:
        assert tools.dispatch(ToolCall("add_line", {"text": "x"})).success
    desk.host.close()

    said = command("--since", "1h", "--yes")[1]
    assert "The calls changed several sessions: desk, other." in said
    assert command("--session", "other", "--yes")[0] == 0
