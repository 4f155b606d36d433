"""Any history of calls on a workspace, side by side and nested, is one of a plain dict.

A committed call has had the results, and leaves the tree, that its operations have on the dict
at the moment of its commit: so the history is a serial one. A call that failed leaves no trace,
and none conflicts while nothing has changed under it.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

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

from toolstile_hookspecs import ConflictError, Filesystem, ToolContext
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

pytestmark = pytest.mark.slow

PATHS = ["a", "b", "c", "a/x", "a/y", "b/x", "a/x/z", "b/x/z", "d/e/f"]
CONTENTS = [b"", b"one", b"two", b"\0binary", b"x\r\ny"]

paths = st.sampled_from(PATHS)
contents = st.sampled_from(CONTENTS)

MODES = [0o755, 0o640]
TARGETS = ["nowhere", "else/where"]


class Link(NamedTuple):
    """A symbolic link, which leads to nothing."""

    target: str


Tree = dict[str, bytes | Link | None]
Operation = tuple[Any, ...]


class Model:
    """The plain dict: content of files, links, and None for directories."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def outcome(self, operation: Operation) -> object:
        try:
            return getattr(self, operation[0])(*operation[1:])
        except (OSError, ValueError) as error:
            return type(error)

    def read_bytes(self, path: str) -> bytes:
        content = self._there(path)
        if content is None:
            raise IsADirectoryError
        if isinstance(content, Link):
            raise PermissionError
        return content

    def exists(self, path: str) -> bool:
        return path in self.tree

    def write_bytes(self, path: str, content: bytes) -> None:
        if path in self.tree and self.tree[path] is None:
            raise IsADirectoryError
        if isinstance(self.tree.get(path), Link):
            raise PermissionError
        self._make_parents(path)
        self.tree[path] = content

    def link(self, path: str, target: str) -> None:
        if path in self.tree:
            raise FileExistsError
        self._make_parents(path)
        self.tree[path] = Link(target)

    def chmod(self, path: str, mode: int) -> None:
        if isinstance(self._there(path), Link):
            raise PermissionError

    def mkdir(self, path: str) -> None:
        if self.tree.get(path) is not None:
            raise FileExistsError
        self._make_parents(path)
        self.tree.setdefault(path, None)

    def delete(self, path: str, recursive: bool) -> None:
        self._there(path)
        below = [each for each in self.tree if each.startswith(f"{path}/")]
        if below and not recursive:
            raise OSError
        for each in [path, *below]:
            del self.tree[each]

    def copy(self, source: str, target: str, overwrite: bool) -> None:
        self._transfer(source, target, overwrite=overwrite)

    def move(self, source: str, target: str, overwrite: bool) -> None:
        for path in self._transfer(source, target, overwrite=overwrite):
            del self.tree[path]

    def _there(self, path: str) -> bytes | Link | None:
        if path not in self.tree:
            self._check_parents(path)
            raise FileNotFoundError
        return self.tree[path]

    def _parents(self, path: str) -> list[str]:
        names = path.split("/")[:-1]
        return ["/".join(names[: end + 1]) for end in range(len(names))]

    def _check_parents(self, path: str) -> None:
        for each in self._parents(path):
            if isinstance(self.tree.get(each), Link):
                raise PermissionError
            if self.tree.get(each) is not None:
                raise NotADirectoryError

    def _make_parents(self, path: str) -> None:
        self._check_parents(path)
        for each in self._parents(path):
            self.tree.setdefault(each, None)

    def _transfer(self, source: str, target: str, *, overwrite: bool) -> list[str]:
        moved = self._there(source)
        if target == source or target.startswith(f"{source}/"):
            raise ValueError
        if target in self.tree:
            both = moved, self.tree[target]
            if not overwrite or not all(isinstance(each, bytes) for each in both):
                raise FileExistsError
        self._make_parents(target)
        taken = [path for path in self.tree if path == source or path.startswith(f"{source}/")]
        for path in taken:
            self.tree[target + path[len(source) :]] = self.tree[path]
        return taken


def outcome(files: Filesystem, operation: Operation) -> object:
    """Do the same to the real thing."""
    name, *arguments = operation
    try:
        if name == "delete":
            return files.delete(arguments[0], recursive=arguments[1])
        if name in {"copy", "move"}:
            source, target, overwrite = arguments
            return getattr(files, name)(source, target, overwrite=overwrite)
        return getattr(files, name)(*arguments)
    except ConflictError:
        raise
    except (OSError, ValueError) as error:
        return type(error)


def tree_of(files: Filesystem) -> Tree:
    return {
        each.path: Link(each.target)
        if each.target is not None
        else None
        if each.kind == "directory"
        else files.read_bytes(each.path)
        for each in files.glob("**")
    }


class Signature(NamedTuple):
    """The proof that a file was not touched."""

    inode: int
    mtime_ns: int
    mode: int


@dataclass
class Call:
    """A call under way, and what it has done so far with what it saw."""

    branch: WorkspaceBranch
    epoch: int
    parent: Call | None = None
    done: list[tuple[Operation, object]] = field(default_factory=list)
    child: Call | None = None

    def everything(self) -> list[tuple[Operation, object]]:
        return [*(self.parent.everything() if self.parent else ()), *self.done]


class Histories(RuleBasedStateMachine):
    """Two calls side by side, each with nested ones."""

    @initialize()
    def begin(self) -> None:
        self.files = self.make()
        self.base: Tree = {}
        self.epoch = 0
        self.calls: list[Call | None] = [None, None]

    def make(self) -> VirtualFilesystem:
        return VirtualFilesystem.in_memory()

    # --- calls ---

    def innermost(self, slot: int) -> Call:
        call = self.calls[slot]
        if call is None:
            call = self.calls[slot] = Call(self.branch(None), self.epoch)
        while call.child is not None:
            call = call.child
        return call

    def branch(self, parent: WorkspaceBranch | None) -> WorkspaceBranch:
        return self.files.branch(ToolContext(session=None), parent)

    def do(self, slot: int, *operation: Any) -> None:
        call = self.innermost(slot)
        try:
            seen = outcome(call.branch.resource, operation)
        except ConflictError:
            assert call.epoch != self.epoch
            self.abandon(slot)
        else:
            call.done.append((operation, seen))

    def abandon(self, slot: int) -> None:
        call = self.calls[slot]
        self.calls[slot] = None
        while call is not None:
            call.branch.rollback()
            call = call.child

    @rule(slot=st.integers(0, 1), path=paths, content=contents)
    def write(self, slot: int, path: str, content: bytes) -> None:
        self.do(slot, "write_bytes", path, content)

    @rule(slot=st.integers(0, 1), path=paths)
    def read(self, slot: int, path: str) -> None:
        self.do(slot, "read_bytes", path)

    @rule(slot=st.integers(0, 1), path=paths)
    def ask(self, slot: int, path: str) -> None:
        self.do(slot, "exists", path)

    @rule(slot=st.integers(0, 1), path=paths)
    def mkdir(self, slot: int, path: str) -> None:
        self.do(slot, "mkdir", path)

    @rule(slot=st.integers(0, 1), path=paths, text=st.sampled_from(TARGETS))
    def link(self, slot: int, path: str, text: str) -> None:
        self.do(slot, "link", path, text)

    @rule(slot=st.integers(0, 1), path=paths, mode=st.sampled_from(MODES))
    def chmod(self, slot: int, path: str, mode: int) -> None:
        self.do(slot, "chmod", path, mode)

    @rule(slot=st.integers(0, 1), path=paths, recursive=st.booleans())
    def delete(self, slot: int, path: str, recursive: bool) -> None:
        self.do(slot, "delete", path, recursive)

    @rule(
        slot=st.integers(0, 1),
        verb=st.sampled_from(["copy", "move"]),
        source=paths,
        onto=paths,
        overwrite=st.booleans(),
    )
    def transfer(self, slot: int, verb: str, source: str, onto: str, overwrite: bool) -> None:
        self.do(slot, verb, source, onto, overwrite)

    @rule(slot=st.integers(0, 1))
    def nest(self, slot: int) -> None:
        call = self.innermost(slot)
        call.child = Call(self.branch(call.branch), call.epoch, call)

    @rule(slot=st.integers(0, 1))
    def fail(self, slot: int) -> None:
        call = self.innermost(slot)
        call.branch.rollback()
        if call.parent is None:
            self.calls[slot] = None
        else:
            call.parent.child = None

    @rule(slot=st.integers(0, 1))
    def succeed(self, slot: int) -> None:
        call = self.innermost(slot)
        if call.parent is not None:
            try:
                assert call.branch.prepare() is None
            except ConflictError:
                assert call.epoch != self.epoch
                self.abandon(slot)
                return
            call.branch.commit()
            call.parent.done += call.done
            call.parent.child = None
            return
        self.calls[slot] = None
        made = call.branch._layer.changes().made
        changed = {change.path for change in made if not change.only_empties}
        # Nobody is told of another mode of a directory.
        is_noticed = any(not change.keeps for change in made if not change.only_empties)
        before = self.signatures()
        try:
            assert call.branch.prepare() is None
        except ConflictError:
            assert call.epoch != self.epoch, "nothing has changed under it"
            call.branch.rollback()
            return
        call.branch.commit()
        model = Model(dict(self.base))
        for operation, seen in call.done:
            assert model.outcome(operation) == seen, operation
        if model.tree != self.base or is_noticed:
            self.epoch += 1
        self.base = model.tree
        verbs = {operation[0] for operation, _ in call.done}
        self.check_untouched(before, changed, only_written=verbs <= {"write_bytes", "read_bytes"})

    # --- what holds ---

    def signatures(self) -> dict[str, Signature]:
        return {}

    def check_untouched(
        self, before: dict[str, Signature], changed: set[str], *, only_written: bool
    ) -> None:
        """Check that nothing else was touched; there is nothing to see in memory."""

    @invariant()
    def the_workspace_is_what_was_committed(self) -> None:
        if hasattr(self, "files"):
            assert tree_of(self.files) == self.base

    @invariant()
    def a_call_sees_what_it_has_done(self) -> None:
        for slot, call in enumerate(getattr(self, "calls", ())):
            if call is not None and call.epoch == self.epoch:
                inner = self.innermost(slot)
                model = Model(dict(self.base))
                for operation, _ in inner.everything():
                    model.outcome(operation)
                assert scan(inner.branch.resource) == set(model.tree)


def scan(files: Filesystem) -> set[str]:
    """Return all paths, which looks at no file and so pins none."""
    return {each.path for each in files.glob("**")}


def content_at(path: Path) -> bytes | Link | None:
    """Return what the model holds of a path."""
    if path.is_symlink():
        return Link(str(path.readlink()))
    return None if path.is_dir() else path.read_bytes()


class HistoriesOnDisk(Histories):
    """The same on a directory, which is also changed from outside."""

    def make(self) -> VirtualFilesystem:
        self.root = Path(tempfile.mkdtemp(prefix="toolstile-test-"))
        return VirtualFilesystem.on_disk(self.root)

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.files.close()
            shutil.rmtree(self.root)

    def on_files(self) -> bool:
        return any(isinstance(content, bytes) for content in self.base.values())

    @precondition(on_files)
    @rule(data=st.data(), content=contents)
    def edit_from_outside(self, data: st.DataObject, content: bytes) -> None:
        path = data.draw(st.sampled_from([p for p, c in self.base.items() if isinstance(c, bytes)]))
        (self.root / path).write_bytes(content)
        self.base = {**self.base, path: content}
        self.epoch += 1

    @precondition(on_files)
    @rule(data=st.data(), mode=st.sampled_from([0o600, 0o755, 0o640]))
    def change_a_mode(self, data: st.DataObject, mode: int) -> None:
        path = data.draw(st.sampled_from([p for p, c in self.base.items() if isinstance(c, bytes)]))
        (self.root / path).chmod(mode)
        self.epoch += 1

    @rule()
    def open_anew(self) -> None:
        for slot in (0, 1):
            self.abandon(slot)
        self.files.close()
        self.files = VirtualFilesystem.on_disk(self.root)

    def signatures(self) -> dict[str, Signature]:
        return {path: self.signature(path) for path, c in self.base.items() if c is not None}

    def signature(self, path: str) -> Signature:
        status = (self.root / path).lstat()
        return Signature(status.st_ino, status.st_mtime_ns, status.st_mode)

    def check_untouched(
        self, before: dict[str, Signature], changed: set[str], *, only_written: bool
    ) -> None:
        for path, old in before.items():
            if path not in changed:
                assert self.signature(path) == old
            elif only_written:
                assert self.signature(path).mode == old.mode

    @invariant()
    def the_directory_is_what_was_committed(self) -> None:
        if not hasattr(self, "root"):
            return
        found: Tree = {}
        for path in self.root.rglob("*"):
            relative = path.relative_to(self.root)
            if relative.parts[0] != ".toolstile":
                found[str(relative)] = content_at(path)
        assert found == self.base
        held = self.root / ".toolstile"
        if held.exists():
            assert sorted(each.name for each in held.iterdir()) == [".gitignore", "lock"]


@pytest.mark.parametrize(
    ("machine", "examples"),
    [(Histories, 60), (HistoriesOnDisk, 30)],
    ids=["memory", "disk"],
)
def test_histories(machine: type[RuleBasedStateMachine], examples: int) -> None:
    run(machine, examples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "examples"),
    [(Histories, 600), (HistoriesOnDisk, 200)],
    ids=["memory", "disk"],
)
@pytest.mark.long
def test_many_histories(machine: type[RuleBasedStateMachine], examples: int) -> None:
    run(machine, examples)


def run(machine: type[RuleBasedStateMachine], examples: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
