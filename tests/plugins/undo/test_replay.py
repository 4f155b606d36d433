"""The history of this repository, replayed as calls, edited by a person, and undone."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings, ToolCall
from toolstile_hookspecs.execution.undo import UndoConflict
from toolstile_plugins.sandbox import SandboxSettings
from toolstile_plugins.sandbox.backend import backend_of

ROOT = Path(__file__).parents[3]
KINDS = ("shell_execute", "write_file", "run_python", "edit_file", "move_file", "delete_file")
MOST_CODE = 40_000
"""Size of a file above which its content may not fit into the arguments of a call."""
Tree = dict[str, str]


def sandbox_fault() -> bool:
    return any(each.severity == "error" for each in backend_of(SandboxSettings()).findings())


pytestmark = [
    pytest.mark.skipif(
        shutil.which("git") is None or not (ROOT / ".git").exists() or sandbox_fault(),
        reason="there is no history here, or no sandbox",
    ),
    pytest.mark.operator_text("The files of the repository name commands, which a call reads."),
]


class Replay:
    """A clone of the repository at an old commit, and the calls that bring it forward."""

    def __init__(self, folder: Path, commits: int, calls: int, seed: int) -> None:
        self.root = folder / "clone"
        self.folder = folder
        self.choose = random.Random(seed)
        (folder / "patches").mkdir()
        subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(self.root)], check=True)
        ids = self.git("rev-list", "--reverse", "HEAD").split()[-commits - 1 :]
        self.git("checkout", "-q", "--detach", ids[0])
        self.targets = [ids[round((place + 1) * (len(ids) - 1) / calls)] for place in range(calls)]
        settings = {
            "vfs": {"root": str(self.root), "confirm_deletes": False},
            "undo": {"path": str(folder / "undo")},
            "sandbox": {"readable": [str(folder / "patches")]},
            "code": {},
        }
        self.host = Host(
            settings=Settings(plugins=settings, durability="process"), approver=lambda _: True
        ).open()
        self.tools = self.host.executor()
        # Of each call: its id, the tree before it, and the paths that it changed.
        self.made: list[tuple[str, Tree, set[str]]] = []

    def git(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, capture_output=True, text=True, check=True, env=env
        )
        return done.stdout

    def tree_id(self) -> str:
        """Return git's id of the directory as it is now, by an index apart."""
        env = {**os.environ, "GIT_INDEX_FILE": str(self.folder / "index")}
        self.git("add", "-A", env=env)
        return self.git("write-tree", env=env).strip()

    def tree(self) -> Tree:
        """Return git's account of the directory: mode and blob of each path."""
        lines = self.git("ls-tree", "-r", "-z", self.tree_id()).split("\0")
        return {path: meta for meta, _, path in (line.partition("\t") for line in lines if line)}

    def call(self, name: str, **arguments: Any) -> str:
        outcome = self.tools.dispatch(ToolCall(name, arguments))
        assert outcome.success, outcome.text
        return outcome.call.id

    def text(self, path: str) -> str | None:
        """Return the text of a path that the file tools can write; None for others."""
        file = self.root / path
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_CODE:
            return None
        return file.read_bytes().decode(errors="replace") or None

    def forward(self, kind: str, target: str) -> None:
        """Make one call towards a commit: all of it with a shell, else a part."""
        before, wanted = self.tree(), self.tree_of(target)
        changed = [path for path in {**before, **wanted} if before.get(path) != wanted.get(path)]
        changed = [path for path in sorted(changed) if path in wanted and self.text(path)]
        path = self.choose.choice(changed or [each for each in before if self.text(each)])
        new = self.git("show", f"{target}:{path}") if path in wanted else "new\n"
        # A file that the commits do not change is changed all the same.
        new = f"{new}# {target}\n" if new == self.text(path) else new
        if kind == "run_python" and len(new) > MOST_CODE:
            kind = "write_file"
        if kind != "shell_execute":
            self.call("read_file", path=path)
        match kind:
            case "shell_execute":
                patch = self.folder / "patches/patch"
                patch.write_text(self.git("diff", "--binary", self.tree_id(), target))
                words = ["git", "apply", "--whitespace=nowarn", "--allow-empty", str(patch)]
                made = self.call(kind, command=words)
            case "write_file":
                made = self.call(kind, path=path, content=new, overwrite=True)
            case "edit_file":
                old = self.text(path)
                made = self.call(kind, path=path, old_text=old, new_text=new)
            case "run_python":
                code = (
                    f"write_file(path={path!r}, content={new!r}, overwrite=True)\n"
                    f"write_file(path='made/{len(self.made)}.txt', content='made')"
                )
                made = self.call(kind, code=code)
            case "move_file":
                made = self.call(kind, source=path, target=f"moved/{len(self.made)}/{path}")
            case _:
                made = self.call("delete_file", path=path)
        after = self.tree()
        paths = {each for each in {**before, **after} if before.get(each) != after.get(each)}
        self.made.append((made, before, paths))

    def tree_of(self, commit: str) -> Tree:
        lines = self.git("ls-tree", "-r", "-z", commit).split("\0")
        return {path: meta for meta, _, path in (line.partition("\t") for line in lines if line)}

    def edit(self, places: int) -> Tree:
        """Edit files as a person does, each changed by another call; return them."""
        edited: list[str] = []
        for _, _, paths in self.choose.sample(self.made, len(self.made)):
            there = [path for path in sorted(paths - {*edited}) if self.text(path)]
            if there and len(edited) < places:
                path = self.choose.choice(there)
                with (self.root / path).open("a") as file:
                    file.write("# by a person\n")
                edited.append(path)
        assert len(edited) == places
        now = self.tree()
        return {path: now[path] for path in edited}

    def undo_one_by_one(self, edited: Tree) -> int:
        """Undo the calls, the newest first, and compare each state with git's account."""
        conflicts = 0
        for made, before, paths in reversed(self.made):
            now = self.tree()
            if mine := paths & edited.keys():
                conflicts += 1
                with pytest.raises(UndoConflict) as raised:
                    self.tools.undo(made)
                assert {each.name for each in raised.value.differences} == mine
                assert self.tree() == now
            outcome = self.tools.undo(made, others="keep" if mine else "conflict")
            assert outcome.success, outcome.text
            assert self.tree() == {**before, **edited}
        return conflicts


def replayed(folder: Path, *, commits: int, calls: int, edits: int, seed: int) -> int:
    replay = Replay(folder, commits, calls, seed)
    with replay.host:
        git_s = [replay.root / ".git" / name for name in ("index", "HEAD")]
        before = [file.read_bytes() for file in git_s]
        for place, target in enumerate(replay.targets):
            replay.forward(KINDS[place % len(KINDS)], target)
        # At once, and again by a redo.
        end, start = replay.tree(), replay.made[0][1]
        ids = [made for made, _, _ in replay.made]
        undone = replay.tools.undo(*ids)
        assert undone.success, undone.text
        assert replay.tree() == start
        assert replay.tools.undo(undone.call.id).success
        assert replay.tree() == end

        conflicts = replay.undo_one_by_one(replay.edit(edits))
        assert [file.read_bytes() for file in git_s] == before
    return conflicts


def test_some_commits_are_replayed_and_undone(tmp_path: Path) -> None:
    assert replayed(tmp_path, commits=12, calls=6, edits=2, seed=1) >= 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_hundred_commits_are_replayed_and_undone(tmp_path: Path, seed: int) -> None:
    assert replayed(tmp_path, commits=200, calls=40, edits=5, seed=seed) >= 5
