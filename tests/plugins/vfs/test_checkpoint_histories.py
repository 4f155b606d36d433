"""Snapshots of a workspace give back what a plain dict held then, in whatever order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from toolstile_hookspecs import Filesystem, ToolContext
from toolstile_plugins.vfs.workspace import VirtualFilesystem
from toolstile_plugins.vfs.write_set import Checkpoint

PATHS = ["a", "b", "a/x", "a/y", "b/x", "a/x/z", "d/e/f"]

Tree = dict[str, tuple[bytes, int | None] | None]

paths = st.sampled_from(PATHS)
contents = st.sampled_from([b"", b"one", b"two\r\n"])
steps = st.one_of(
    st.tuples(st.just("write"), paths, contents),
    st.tuples(st.just("mkdir"), paths),
    st.tuples(st.just("delete"), paths),
    st.tuples(st.sampled_from(["copy", "move"]), paths, paths),
)


def do(files: Filesystem, step: tuple[object, ...]) -> None:
    """Do one thing; what is refused changes nothing."""
    try:
        match step:
            case ("write", str(path), bytes(content)):
                files.write_bytes(path, content)
            case ("mkdir", str(path)):
                files.mkdir(path)
            case ("delete", str(path)):
                files.delete(path, recursive=True)
            case ("copy", str(path), str(target)):
                files.copy(path, target, overwrite=True)
            case (_, str(path), str(target)):
                files.move(path, target, overwrite=True)
            case _:
                raise AssertionError(step)
    except (OSError, ValueError):
        pass


def held_by(files: Filesystem) -> dict[str, bytes | None]:
    """Return all that files hold."""
    return {
        each.path: files.read_bytes(each.path) if each.kind == "file" else None
        for each in files.glob("**")
    }


class Snapshots(RuleBasedStateMachine):
    """Commits, with snapshots taken, restored and dropped between."""

    @initialize()
    def begin(self) -> None:
        self.files = self.make()
        self.held: list[tuple[Checkpoint, Tree]] = []

    def make(self) -> VirtualFilesystem:
        return VirtualFilesystem.in_memory()

    def tree(self) -> Tree:
        found = held_by(self.files).items()
        return {path: None if data is None else (data, self.mode(path)) for path, data in found}

    def mode(self, path: str) -> int | None:
        return None

    @rule(step=steps)
    def change(self, step: tuple[object, ...]) -> None:
        do(self.files, step)

    @rule(steps=st.lists(steps, min_size=2, max_size=6), kept=st.booleans())
    def call(self, steps: list[tuple[object, ...]], *, kept: bool) -> None:
        branch = self.files.branch(ToolContext(session=None), None)
        for step in steps:
            do(branch.resource, step)
        assert branch.prepare() is None
        if kept:
            branch.commit()
        else:
            branch.rollback()

    @rule()
    def take(self) -> None:
        self.held.append((self.files.snapshot(), self.tree()))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        snapshot, then = self.held[data.draw(st.integers(0, len(self.held) - 1))]
        self.files.restore(snapshot)
        assert self.tree() == then

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    @rule(steps=st.lists(steps, max_size=4), within=st.lists(steps, max_size=4))
    def take_within_a_call(
        self, steps: list[tuple[object, ...]], within: list[tuple[object, ...]]
    ) -> None:
        branch = self.files.branch(ToolContext(session=None), None)
        for step in steps:
            do(branch.resource, step)
        files = branch.resource
        before = held_by(files)
        snapshot = files.snapshot()
        for step in within:
            do(files, step)
        files.restore(snapshot)
        assert held_by(files) == before
        assert branch.prepare() is None
        branch.commit()

    @invariant()
    def nothing_is_noted_for_nobody(self) -> None:
        if hasattr(self, "files"):
            assert len(self.files._checkpoints._held) == len(self.held)


class SnapshotsOnDisk(Snapshots):
    """The same on a directory, with modes."""

    def make(self) -> VirtualFilesystem:
        self.root = Path(tempfile.mkdtemp(prefix="toolstile-test-"))
        return VirtualFilesystem.on_disk(self.root)

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.files.close()
            shutil.rmtree(self.root)

    def mode(self, path: str) -> int:
        return (self.root / path).stat().st_mode

    @rule(path=paths, mode=st.sampled_from([0o600, 0o755]))
    def make_a_file_with_a_mode(self, path: str, mode: int) -> None:
        if not self.files.exists(path):
            do(self.files, ("write", path, b"#!"))
            # Before any snapshot notes it; a change of mode alone is no commit.
            if self.files.exists(path) and not self.held:
                (self.root / path).chmod(mode)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "examples"), [(Snapshots, 60), (SnapshotsOnDisk, 30)], ids=["memory", "disk"]
)
def test_histories(machine: type[RuleBasedStateMachine], examples: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
