"""The workspace as a resource: each call has a branch, committed as a whole or rolled back."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial, wraps
from typing import Any, BinaryIO, Concatenate, Final, Literal, ParamSpec, TypeVar

from toolstile_hookspecs import CallRefused, ConflictError, Deadline, StateError, ToolContext
from toolstile_hookspecs.execution.options import Durability
from toolstile_hookspecs.execution.undo import Difference
from toolstile_hookspecs.services.workspace import FileChanges
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import (
    Base,
    Changes,
    HeldWorkspace,
    Lock,
    MemoryStore,
    Store,
    Transaction,
    Undo,
    check_emptied,
    check_seen,
    wait,
    wait_async,
)
from toolstile_plugins.vfs.diff import diff, file_changes, redo, told
from toolstile_plugins.vfs.nodes import Node, WriteStream, at_hand
from toolstile_plugins.vfs.overlay import Overlay
from toolstile_plugins.vfs.protected_paths import ProtectedPaths
from toolstile_plugins.vfs.reversal import reverse_of, take_back
from toolstile_plugins.vfs.write_set import Checkpoint, Checkpoints, Layer

P = ParamSpec("P")
T = TypeVar("T")


def _looking(
    method: Callable[Concatenate[Overlay, P], T],
) -> Callable[Concatenate[VirtualFilesystem, P], T]:
    """Return a method of `Overlay` as a method that reads the present workspace."""

    @wraps(method)
    def look(self: VirtualFilesystem, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.own_branch().resource, *args, **kwargs)

    return look


def _changing(
    method: Callable[Concatenate[Overlay, P], T],
) -> Callable[Concatenate[VirtualFilesystem, P], T]:
    """Return a method of `Overlay` as a method that commits its change."""

    @wraps(method)
    def change(self: VirtualFilesystem, /, *args: P.args, **kwargs: P.kwargs) -> T:
        branch = self.own_branch()
        result = method(branch.resource, *args, **kwargs)
        _commit(branch)
        return result

    return change


class VirtualFilesystem:
    """A workspace that takes part in calls, and outside of any a `Filesystem` itself.

    Used directly, each changing method commits.

    Args:
        store: Its files; `close` closes them.
        protected: Globs of files to change only after a person agreed, beside the list.
        unprotected: Globs of files on that list that need no question.

    Example:
        >>> files = VirtualFilesystem.in_memory({"a.txt": "one"})
        >>> branch = files.branch(ToolContext(session=None), None)
        >>> branch.resource.write("a.txt", "two")
        >>> files.read("a.txt")
        'one'
        >>> branch.prepare()
        >>> branch.commit()
        >>> files.read("a.txt")
        'two'
    """

    def __init__(
        self, store: Store, protected: Sequence[str] = (), unprotected: Sequence[str] = ()
    ) -> None:
        self.store = store
        self._globs = protected, unprotected
        self.waits = store.waits
        self._checkpoints = Checkpoints()

    @classmethod
    def in_memory(cls, files: Mapping[str, str | bytes] | None = None) -> VirtualFilesystem:
        """Return a workspace in memory; `ValueError` if a path is a file and a directory."""
        contents = {
            path: content.encode() if isinstance(content, str) else content
            for path, content in (files or {}).items()
        }
        return cls(MemoryStore(contents))

    @classmethod
    def on_disk(
        cls, root: str | os.PathLike[str], *, durability: Durability = "power"
    ) -> VirtualFilesystem:
        """Return a workspace in a directory; finishes the commits that a crash has interrupted.

        Args:
            root: The directory.
            durability: `power` costs some milliseconds a commit; see `Durability`.

        Raises:
            OSError: It is not a directory that can be opened.
        """
        # Late: a platform without directory descriptors has workspaces in memory.
        from toolstile_plugins.vfs.backends.disk.store import DiskStore

        return cls(DiskStore(root, durability=durability))

    # --- for the host ---

    def branch(
        self, context: ToolContext, parent: Any | None, held: HeldWorkspace | None = None
    ) -> WorkspaceBranch:
        """Return a call's own version; a nested call's is of its parent's.

        A retry has `held` the workspace.
        """
        above = parent if isinstance(parent, WorkspaceBranch) else None
        if above is None:
            # Because a person may have removed the obstacle since recovery stopped.
            self.store.notice()
        return WorkspaceBranch(
            self.store,
            above,
            now=context.clock.now,
            check_exclusive=context.check_exclusive,
            checkpoints=self._checkpoints,
            deadline=context.deadline,
            held=held,
            again=self.branch,
            protecting=lambda: copy(self._protection),
        )

    @cached_property
    def _protection(self) -> ProtectedPaths:
        return ProtectedPaths(*self._globs)

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """After a crash, finish decided commits and drop all others.

        `decided` tells whether the call of a top-level key was committed; None while unknown.
        """
        self.store.recover(decided)

    def close(self) -> None:
        self.store.close()

    # --- for transactions by hand ---

    def snapshot(self) -> Checkpoint:
        """Return a checkpoint of now. While it is referenced, commits note the nodes they replace.

        Changes by other programs and other workspaces are not noted.
        """
        return self._checkpoints.make()

    def snapshot_of(self, names: Iterable[str]) -> Checkpoint:
        """Return a checkpoint of some paths, also for changes by other programs.

        Absolute paths in the directory of the workspace will do. Missing directories above the
        paths are put back, too; entries of a directory are not.
        """
        checkpoint = Checkpoint()
        for name in names:
            path = paths.canonical(name.removeprefix(f"{getattr(self.store, 'root', '')}/"))
            above = [each for each in paths.ancestors(path) if self.store.look(each) is None]
            for each in (path, *above):
                checkpoint.before[each] = at_hand(self.store.look(each))
        return checkpoint

    def restore(self, snapshot: Checkpoint) -> None:
        """Put back, in one commit, the nodes of a checkpoint. You can repeat it.

        Raises:
            ConflictError: A directory to be removed has new entries.
            OSError: The commit fails, or a FIFO or the like would have to be made.
        """
        lost = self._put_back(self._checkpoints.before(snapshot))
        if lost:
            raise OSError(f"{', '.join(lost)} cannot be put back: FIFOs and the like are not kept.")

    # --- a Filesystem, outside of calls ---

    read = _looking(Overlay.read)
    read_bytes = _looking(Overlay.read_bytes)
    exists = _looking(Overlay.exists)
    stat = _looking(Overlay.stat)
    is_readonly = _looking(Overlay.is_readonly)
    list = _looking(Overlay.list)
    glob = _looking(Overlay.glob)
    search = _looking(Overlay.search)
    attach = _looking(Overlay.attach)
    write = _changing(Overlay.write)
    write_bytes = _changing(Overlay.write_bytes)
    mkdir = _changing(Overlay.mkdir)
    link = _changing(Overlay.link)
    chmod = _changing(Overlay.chmod)
    take = _changing(Overlay.take)
    delete = _changing(Overlay.delete)
    copy = _changing(Overlay.copy)
    move = _changing(Overlay.move)

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        """Open a file as a stream; closing the stream commits the written bytes."""
        branch = self.own_branch()
        stream = branch.resource.open(path, mode)
        if isinstance(stream, WriteStream):
            stream.then(partial(_commit, branch))
        return stream

    def exclusive_path(self) -> AbstractContextManager[str]:
        """Give the real directory, alone, for starting programs; not rolled back."""
        return self.store.exclusive_path()

    @property
    def directories(self) -> Sequence[str]:
        return self.store.directories

    _put_back = _changing(Overlay.put_back)

    def own_branch(self) -> WorkspaceBranch:
        """Return a branch that belongs to no call."""
        self.store.notice()
        return WorkspaceBranch(
            self.store, None, now=partial(datetime.now, UTC), checkpoints=self._checkpoints
        )


class WorkspaceBranch:
    """A call's version of a workspace; a `ResourceBranch`."""

    name: Final = "the workspace"  # the name for people

    def __init__(  # noqa: PLR0913 - each is named
        self,
        store: Store,
        parent: WorkspaceBranch | None,
        *,
        now: Callable[[], datetime],
        check_exclusive: Callable[[str], None] = lambda what: None,  # noqa: ARG005 - all may
        checkpoints: Checkpoints,
        deadline: Deadline | None = None,
        held: HeldWorkspace | None = None,
        again: Callable[..., WorkspaceBranch] | None = None,
        protecting: Callable[[], ProtectedPaths] | None = None,
    ) -> None:
        base: Base = store if parent is None else parent._layer  # noqa: SLF001 - the same class
        # The call's top-level key, set before `prepare`. After a crash, a decider (a ledger) knows
        # the call's outcome by the key.
        self.key: str | None = None
        self._again = again
        self._protecting = protecting
        self._deadline = deadline
        self._held = held
        self._store = store
        self._parent = parent
        self._check_exclusive = check_exclusive
        self._checkpoints = checkpoints
        self._replaced: Mapping[str, Node | None] = {}
        self._checked = False
        self._former: tuple[str, Any] | None = None
        self._undo: Undo | None = None
        self._first: frozenset[str] = frozenset()
        self._layer: Layer = Layer(base)
        self._preparing = threading.Lock()
        self._prepared: Changes | None = None
        self._transaction: Transaction | None = None
        self.resource = Overlay(
            self._layer,
            now,
            self._exclusive_path,
            lambda: wait(lambda: store.watch(self._own_lock()), deadline),
            lambda: replace(store.layers(), changed=self._changed_paths()),
        )

    @property
    def waits(self) -> bool:
        """True if a commit may block, so that it must not run on an event loop."""
        return self._store.waits

    @property
    def changed(self) -> bool:
        return self._layer.changed

    @property
    def touched(self) -> set[str]:
        """The paths that the call has read or changed."""
        return {*self._layer.changes(self.key).paths()}

    def diff(self) -> str:
        """Return the changes of the call as a unified diff, empty without changes."""
        return diff(self._layer, self._first)

    def file_changes(self) -> FileChanges:
        """Return the changed files for policies to check; later changes make the call fail."""
        self._checked, self._layer.changed_late = True, False
        return file_changes(self._layer, getattr(self._store, "root", None))

    @cached_property
    def policies(self) -> Sequence[ProtectedPaths]:
        return () if self._protecting is None else (self._protecting(),)

    def show_first(self, paths: Sequence[str]) -> None:
        """Let the diff begin with some paths."""
        self._first = self._first.union(paths)

    def told(self) -> str:
        """Return the changes and reads of the call as text, for `redo`."""
        return told(self._layer)

    def redo(self, text: str) -> None:
        """Make the changes of another call, from the text of its `told`; see `diff.redo`."""
        redo(self._layer, text)

    def keep_former(self, directory: str, note: Any) -> None:
        """Have the commit move former contents to a directory, with the note of the call."""
        self._former = directory, note

    def reverse(self) -> str:
        keeps, root = self._store.keeps_former, getattr(self._store, "root", None)
        text = reverse_of(self._layer, root, with_contents=not keeps)
        if not keeps or self._former is None:
            return text
        self._undo = Undo(*self._former, text)
        return self._undo.directory

    def undo(self, text: str) -> tuple[list[str], list[Difference]]:
        root = getattr(self._store, "root", None)
        return take_back(self._layer, root, self.resource.put_back, text)

    def prepare(self) -> Awaitable[None] | None:
        """Check the reads and prepare the changes; awaitable during another commit.

        `ConflictError`: a file that this call read has changed. `CallRefused`: the changes cannot
        be kept, for example because the disk is full.
        """
        with _refusing():
            prepared = self._attempt()
        return self._prepare_async() if prepared is None else None

    def prepare_waiting(self) -> None:
        """Prepare, blocking the thread while another commit has the workspace."""
        wait(self._attempt)

    def hold_for_rerun(self) -> HeldWorkspace | None:
        """Return a lock of the workspace for a retry if this call conflicted or was watched."""
        concerned = self._layer.conflicted or self._layer.watches
        if self._again is None or not concerned:
            return None
        return HeldWorkspace(self._store, self._again, self._deadline)

    def commit(self) -> None:
        """Commit the changes to the workspace, or to the parent's branch."""
        self._layer.close("This call is over, so its workspace cannot be used any more.")
        if self._parent is None and self._layer.watches:
            # Before the commit, which would mark this call's own watches.
            self._end_watches()
        changes, self._prepared = self._prepared, None
        transaction, self._transaction = self._transaction, None
        if self._parent is not None and changes is not None:
            self._parent._layer.absorb(changes)  # noqa: SLF001 - of the same class
        elif transaction is not None:
            self._checkpoints.commit(transaction, self._replaced)
            for policy in self.policies if self._checked else ():
                policy.keep()

    def rollback(self) -> None:
        """Drop the changes; any later use of the file system raises `CallClosed`."""
        self._layer.close("This call was rolled back, so its workspace cannot be used any more.")
        with self._preparing:
            self._prepared = None
            transaction, self._transaction = self._transaction, None
        self._end_watches()
        if transaction is not None:
            transaction.rollback()

    def leave(self) -> None:
        """Leave the prepared changes to recovery, because the call's outcome is unknown."""
        self._layer.close("Whether this call was kept is unknown, so it can use no files now.")
        self._end_watches()
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            self._store.leave(transaction)

    async def _prepare_async(self) -> None:
        with _refusing():
            await wait_async(self._attempt, self._deadline, in_threads=self.waits)

    def _attempt(self) -> Literal[True] | None:
        """Try to prepare; None while another commit has the workspace."""
        # Because the last attempt may still run in a thread when the call is rolled back.
        with self._preparing:
            changes = replace(self._layer.changes(self.key), undo=self._undo)
            if self._checked and self._layer.changed_late:
                raise CallRefused(
                    "The call changed files after they had been checked, so nothing of it was "
                    "kept. Its handler must have ended all its work when it returns; retry it."
                )
            try:
                if self._parent is not None:
                    base = self._parent._layer  # noqa: SLF001 - of the same class
                    check_seen(base, changes)
                    check_emptied(base, changes)
                elif changes.seen or changes.made or changes.watches:
                    # Before anything is staged, because staging moves files.
                    self._replaced = self._replaced or self._checkpoints.kept(self._layer, changes)
                    self._transaction = self._store.begin(changes, self._own_lock())
                    if self._transaction is None:
                        return None
            except ConflictError:
                self._layer.conflicted = True
                raise
            self._prepared = changes
            return True

    def _own_lock(self) -> Lock | None:
        """Return the lock if this call, or the call around it, is a retry that has it."""
        if self._parent is not None:
            return self._parent._own_lock()  # noqa: SLF001 - of the same class
        return self._held.lock if self._held is not None else None

    def _changed_paths(self) -> dict[str, bool]:
        changed = {} if self._parent is None else self._parent._changed_paths()  # noqa: SLF001 - the same class
        for path, node in self._layer.made().items():
            changed[path] = changed.get(path, False) or node is None or not node.keeps
        return changed

    def _end_watches(self) -> None:
        for watch in self._layer.watches:
            watch.close()

    def _exclusive_path(self) -> AbstractContextManager[str]:
        self._check_exclusive("The real directory")
        above: WorkspaceBranch | None = self
        while above is not None:
            if above.changed:
                raise StateError(
                    "This call has changed files that are not in the real directory before it "
                    "ends, so no program can be started there now. Change the files in one "
                    "call and start the program in the next."
                )
            above = above._parent  # noqa: SLF001 - of the same class
        return self._store.exclusive_path(self._own_lock(), self._deadline)


@contextmanager
def _refusing() -> Generator[None]:
    """Turn errors in words for models into `CallRefused`."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise CallRefused(str(error)) from error
        raise


def _commit(branch: WorkspaceBranch) -> None:
    branch.prepare_waiting()
    branch.commit()
