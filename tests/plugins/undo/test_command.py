"""The command `toolstile undo`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.undo.desks import STORED, TOOLS, Desk

from toolstile import Binding, Host, ToolCall, ToolContext, tool
from toolstile_cli.main import main
from toolstile_hookspecs.execution.undo import UndoNote
from toolstile_plugins.undo.calls import undoable

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
    for words in (["--list"], []):
        status, out = command(*words)
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
        (["--file", "./a.txt"], {"a.txt": "one", "b.txt": "b"}),
        (["--file", "{root}/a.txt"], {"a.txt": "one", "b.txt": "b"}),
        (["--file", "a.txt", "--since", "1h"], {"b.txt": "b"}),
    ],
)
def test_calls_are_chosen(
    closed: Desk, command: Command, words: list[str], left: dict[str, str]
) -> None:
    assert command(*(word.format(root=closed.root) for word in words), "--yes")[0] == 0
    files = [path for path in closed.root.iterdir() if path.is_file()]
    assert {path.name: path.read_text() for path in files} == left


def test_only_calls_of_this_workspace_are_chosen(
    closed: Desk, command: Command, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    text = (closed.folder / "toolstile.toml").read_text().replace(str(closed.root), str(other))
    (closed.folder / "other.toml").write_text(text)
    with Host(config=closed.folder / "other.toml", tools=TOOLS) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("write_both", {"path": "o.txt", "text": "o"})).success

    assert "o.txt" not in json.dumps(listed(command))
    assert command("--last", "--yes")[0] == 0

    assert list(closed.tree()) == ["a.txt"]
    assert (other / "o.txt").exists()


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
    said = command("--last", "--yes")[1]
    assert said.endswith("Keep these values and undo the rest with --keep-others.\n")
    status, out = command("--last", "--yes", "--keep-others", "--json")
    assert (status, json.loads(out)["kept"]) == (0, ["b.txt"])
    assert (closed.root / "b.txt").read_text() == "mine"


def test_a_call_of_which_nothing_can_go_back_is_not_the_last(
    closed: Desk, command: Command
) -> None:
    class Till:
        rows = 0

        def begin(self) -> None: ...

        def commit(self, savepoint: None) -> None: ...

        def rollback(self, savepoint: None) -> None: ...

    @tool(category="write", contained=True)
    def ring(*, context: ToolContext) -> str:
        """Ring."""
        context.resources.get(Till).rows += 1
        return "Rang."

    bound = Binding.instance(Till, Till())
    config = closed.folder / "toolstile.toml"
    with Host(config=config, tools=[ring], resources=[bound]) as host:  # noqa: SIM117
        with host.executor(session_id="desk") as tools:
            made = tools.dispatch(ToolCall("ring")).call

            (note,) = [each for each in tools.session[UndoNote].all() if each.id == made.id]

    assert undoable([note]).items == []
    status, out = command(made.id, "--yes")
    assert status == 1
    assert "can go back, because these cannot be undone: Till." in out
    assert command("--last", "--yes")[0] == 0
    assert [each["state"] for each in listed(command)] == ["undo", "kept", "undone", "kept", "kept"]


def test_a_stop_is_said_once(closed: Desk, command: Command) -> None:
    with Host(config=closed.folder / "toolstile.toml") as host:
        host.stop("The prices are wrong.")
    status, out = command("--last", "--yes")
    assert (status, out.count("Stopped: all calls, by host at")) == (1, 1)


def test_without_a_yes_nothing_is_undone(closed: Desk, command: Command) -> None:
    status, out = command("--last")
    assert status == 1
    assert "Add --yes" in out
    assert "b.txt" in closed.tree()


def test_it_says_which_calls_to_name(command: Command) -> None:
    status, out = command("--yes")
    assert status == 2
    assert "Say which calls to undo" in out


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["--last", "--yes"], 0, "Undone: "),
        (["--last", "--dry-run"], 0, "deleted b.txt"),
        (["x", "--yes"], 1, "Call 'x' cannot be undone"),
        (["01", "--yes"], 1, "is the id of several calls"),
        (["purge", "x"], 1, "Call 'x' cannot be undone"),
        (["--file", "c.txt", "--yes"], 1, "No call matches"),
        (["--session", "none", "--last", "--yes"], 1, "No call matches"),
        (["--since", "2999-01-01T00:00", "--yes"], 1, "No call matches"),
        (["--last"], 1, "Add --yes"),
        (["--yes"], 2, "Say which calls to undo"),
        (["--since", "yesterday"], 2, "yesterday"),
    ],
)
def test_the_exit_status_says_what_became_of_it(
    command: Command, words: list[str], status: int, told: str
) -> None:
    found, said = command(*words)
    assert (found, told in said) == (status, True), said
    if status == 1:
        (wire,) = map(json.loads, command(*words, "--json")[1].splitlines())
        assert wire["undone"] == []


@pytest.mark.parametrize("words", [["--yes"], ["--dry-run"], ["--yes", "--keep-others"]])
def test_a_conflict_has_status_3_each_way(closed: Desk, command: Command, words: list[str]) -> None:
    with Host(config=closed.folder / "toolstile.toml", tools=TOOLS) as host:  # noqa: SIM117
        with host.executor(session_id="desk") as tools:
            made = ToolCall("write_file", {"path": "c.txt", "content": "c"})
            assert tools.dispatch(made).success
    (closed.root / "c.txt").write_text("mine")
    assert command("--last", *words)[0] == 3
    assert [each["state"] for each in listed(command)] == ["kept"] * 4


def test_a_rule_that_denies_it_has_status_1(closed: Desk, command: Command) -> None:
    file = closed.folder / "toolstile.toml"
    rule = 'kind = "rule"\ntools = ["undo_calls"]\neffect = "deny"\nreason = "Not today."\n'
    file.write_text(f"{file.read_text()}[[policies]]\n{rule}")
    status, said = command("--last", "--yes")
    assert (status, "Not today." in said) == (1, True)


@pytest.mark.parametrize("text", ["[]", '{"undo": {"note": 5}}', '{"undo": {}}', "nothing"])
def test_a_damaged_note_hides_its_call_alone(closed: Desk, command: Command, text: str) -> None:
    for entry in sorted(closed.store.iterdir())[-1:]:
        (entry / "decided").write_text(text)
    assert [each["state"] for each in listed(command)] == ["kept"] * 3
    assert command("--file", "a.txt", "--yes")[0] == 0


def test_a_broken_store_of_sessions_has_status_2(closed: Desk, command: Command) -> None:
    (closed.folder / "sessions.db").write_bytes(b"nothing" * 1000)
    status, said = command("--last", "--yes")
    assert (status, "sessions.db" in said) == (2, True)


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
