"""An agent changes twelve files by commands, a person changes five, and the agent's go back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.hook.agent_desk import AgentDesk

from toolstile_cli.main import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]
FIRST_TURN = (
    "sed -i 's/one/two/' f1.txt f2.txt f3.txt",
    "cat > f4.txt <<END\nagent\nEND\ncat >> f5.txt <<'END'\n$more\nEND",
)
SECOND_TURN = (
    """python3 - <<'END'
for n in (6, 7, 8):
    text = open(f'f{n}.txt').read().upper()
    open(f'f{n}.txt', 'w').write(text)
END""",
    "mkdir sub && git mv f9.txt sub/f9.txt && git mv f10.txt sub/f10.txt && chmod 755 sub/f9.txt",
    "for f in f11 f12; do python3 -m json.tool $f.json $f.new && mv $f.new $f.json; done",
)
CHANGED = {
    *(f"f{number}.txt" for number in range(1, 11)),
    *("f11.json", "f12.json", "sub", "sub/f9.txt", "sub/f10.txt"),
}
EDITED = ("f1.txt", "f7.txt", "f11.json")
OTHERS = ("other1.txt", "other2.txt")


@pytest.fixture
def desk(tmp_path: Path) -> AgentDesk:
    """A desk after both turns of an agent and the edits of a person."""
    desk = AgentDesk(tmp_path)
    for number in range(1, 11):
        (desk.root / f"f{number}.txt").write_text("one\n")
    for name in ("f11.json", "f12.json"):
        (desk.root / name).write_text('{"a": [1, 2]}')
    for name in OTHERS:
        (desk.root / name).write_text("other\n")
    desk.sh("git add . && git commit -qm first")
    desk.before = desk.tree()  # type: ignore[attr-defined]
    desk.tools.request("Do the first part.")
    for command in FIRST_TURN:
        assert desk.bash(command).success
    edit(desk, "f1.txt", "other1.txt")
    desk.tools.request("Do the second part.")
    for command in SECOND_TURN:
        assert desk.bash(command).success
    edit(desk, "f7.txt", "f11.json", "other2.txt")
    desk.close()
    config = f'[plugins.undo]\npath = "{desk.undo}"\n[plugins.vfs]\nroot = "{desk.root}"\n'
    (tmp_path / "toolstile.toml").write_text(config)
    return desk


def edit(desk: AgentDesk, *names: str) -> None:
    for name in names:
        with (desk.root / name).open("a") as stream:
            stream.write("person\n")


@pytest.fixture
def undo(desk: AgentDesk, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Runs `toolstile undo`, and returns its status and lines."""

    def run(*words: str) -> tuple[int, Any]:
        config = str(desk.root.parent / "toolstile.toml")
        status = main(["--config", config, "undo", "--json", *words])
        return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.mark.parametrize(
    ("words", "back", "conflicts"),
    [
        (["--last"], {"f12.json"}, {"f11.json"}),
        (
            ["--turn"],
            {"f6.txt", "f8.txt", "f9.txt", "f10.txt", "sub", "sub/f9.txt", "sub/f10.txt"}
            | {"f12.json"},
            {"f7.txt", "f11.json"},
        ),
        (["--since", "1h"], CHANGED - {*EDITED}, {*EDITED}),
    ],
)
def test_the_agents_changes_go_and_the_persons_stay(
    desk: AgentDesk,
    undo: Callable[..., tuple[int, Any]],
    words: list[str],
    back: set[str],
    conflicts: set[str],
) -> None:
    before: dict[str, str] = desk.before  # type: ignore[attr-defined]
    after = desk.tree()
    assert {path for path in before | after if before.get(path) != after.get(path)} == {
        *CHANGED,
        *OTHERS,
    }

    # Overlaps are named with both versions, and nothing goes back.
    status, lines = undo(*words, "--yes")
    assert status == 3
    assert {each["name"] for each in lines[-1]["conflicts"]} == conflicts
    assert all("SHA-256" in each["left"] != each["now"] for each in lines[-1]["conflicts"])
    assert desk.tree() == after

    # Without the overlaps, the agent's changes are gone, and the person's five edits are there.
    assert undo(*words, "--yes", "--keep-others")[0] == 0
    now = desk.tree()
    assert {path for path in after | now if after.get(path) != now.get(path)} == back
    assert all(now.get(path) == before.get(path) for path in back)
    assert all("person" in now[path] for path in (*EDITED, *OTHERS))

    # Undone again, all is back.
    (last, *_) = undo("--list")[1]
    assert last["state"] == "undo"
    assert undo(last["id"], "--yes")[0] == 0
    assert desk.tree() == after
