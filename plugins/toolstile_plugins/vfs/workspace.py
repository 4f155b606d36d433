"""The workspace as a resource: each call has a branch, kept as a whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, Final, Literal, ParamSpec, TypeVar

from toolstile_hookspecs import CallRefused, ConflictError, Deadline, StateError, ToolContext
from toolstile_hookspecs.execution.options import Durability
from toolstile_hookspecs.services.workspace import FileChanges, WorkspaceLayers
from toolstile_plugins.vfs.backends.base import (
    Base,
    Changes,
    HeldWorkspace,
    Lock,
    MemoryStore,
    Store,
    Transaction,
    WatchMark,
    check_emptied,
    check_seen,
    wait,
    wait_async,
)
from toolstile_plugins.vfs.diff import diff, file_changes, redo, told
from toolstile_plugins.vfs.nodes import Node, WriteStream
from toolstile_plugins.vfs.overlay import Overlay
from toolstile_plugins.vfs.write_set import Checkpoint, Checkpoints, Layer

if TYPE_CHECKING:
    from toolstile_plugins.vfs.protected_paths import ProtectedPaths

P = ParamSpec("P")
T = TypeVar("T")


def _looking(
    method: Callable[Concatenate[Overlay, P], T],
) -> Callable[Concatenate[VirtualFilesystem, P], T]:
    """Return a method of `Overlay` as one of the workspace that shows it as it is now."""

    @wraps(method)
    def look(self: VirtualFilesystem, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.own_branch().resource, *args, **kwargs)

    return look


def _changing(
    method: Callable[Concatenate[Overlay, P], T],
) -> Callable[Concatenate[VirtualFilesystem, P], T]:
    """Return a method of `Overlay` as one of the workspace that is a commit of its own."""

    @wraps(method)
    def change(self: VirtualFilesystem, /, *args: P.args, **kwargs: P.kwargs) -> T:
        branch = self.own_branch()
        result = method(branch.resource, *args, **kwargs)
        _commit(branch)
        return result

    return change


class VirtualFilesystem:
    """A workspace that takes part in calls, and outside of any a `Filesystem` itself.

    Used directly, each method that changes something is a commit of its own.

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
        """Return a workspace in memory.

        Args:
            files: What it holds at first, by path; `ValueError` for a file that holds others.
        """
        contents = {
            path: content.encode() if isinstance(content, str) else content
            for path, content in (files or {}).items()
        }
        return cls(MemoryStore(contents))

    @classmethod
    def on_disk(
        cls, root: str | os.PathLike[str], *, durability: Durability = "power"
    ) -> VirtualFilesystem:
        """Return a workspace in a directory, finishing what a crash has left there.

        Args:
            root: The directory.
            durability: `power` costs some milliseconds a commit; see `Durability`.

        Raises:
            OSError: When it is not a directory that can be opened.
        """
        # Late: a platform without directory descriptors has workspaces in memory.
        from toolstile_plugins.vfs.backends.disk.store import DiskStore

        return cls(DiskStore(root, durability=durability))

    # --- for the host ---

    def branch(
        self, context: ToolContext, parent: Any | None, held: HeldWorkspace | None = None
    ) -> WorkspaceBranch:
        """Return a call's own version; a nested call's is of its parent's.

        Args:
            context: The call's.
            parent: The branch of the call around it.
            held: What is held where the call runs once more.
        """
        above = parent if isinstance(parent, WorkspaceBranch) else None
        if above is None:
            # Somebody may have helped since recovery stopped.
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
        # Late: most calls change no files.
        from toolstile_plugins.vfs.protected_paths import ProtectedPaths

        return ProtectedPaths(*self._globs)

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Finish after a crash what was decided, drop what was not.

        Args:
            decided: Tells of a top-level key whether it was; None while nobody can say.
        """
        self.store.recover(decided)

    def close(self) -> None:
        """Give back what it holds."""
        self.store.close()

    # --- for transactions by hand ---

    def snapshot(self) -> Checkpoint:
        """Return a checkpoint of now; as long as it is held, commits note what they replace.

        Changes by other programs and other workspaces are not noted.
        """
        return self._checkpoints.make()

    def restore(self, snapshot: Checkpoint) -> None:
        """Put back, in one commit, what was replaced since a checkpoint; as often as wanted.

        Raises:
            ConflictError: When somebody has put something into a directory that has to go.
            OSError: When it cannot be kept, or something cannot be made again: a FIFO, say.
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
        """Open a file as a stream; what is written is committed when the stream is closed."""
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
        """The directories of this machine that it shows."""
        return self.store.directories

    # --- underneath ---

    _put_back = _changing(Overlay.put_back)

    def own_branch(self) -> WorkspaceBranch:
        """Return a branch that belongs to no call."""
        self.store.notice()
        return WorkspaceBranch(self.store, None, now=_now, checkpoints=self._checkpoints)


class WorkspaceBranch:
    """A call's version of a workspace; a `ResourceBranch`.

    Attributes:
        name: The name for people.
        resource: The `Filesystem` for the handler.
        key: The call's top-level key, set before `prepare`, by which a decider (a ledger) knows
            its outcome after a crash.
    """

    name: Final = "the workspace"

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
        self._first: frozenset[str] = frozenset()
        self._layer: Layer = Layer(base)
        self._preparing = threading.Lock()
        self._prepared: Changes | None = None
        self._transaction: Transaction | None = None
        self.resource = Overlay(self._layer, now, self._exclusive_path, self._watch, self._layers)

    @property
    def waits(self) -> bool:
        """True when keeping the changes may wait, so that it is kept off event loops."""
        return self._store.waits

    @property
    def changed(self) -> bool:
        """True when the call has changed anything so far."""
        return self._layer.changed

    def diff(self) -> str:
        """Return what the call has changed, as a unified diff; empty when nothing is."""
        return diff(self._layer, self._first)

    def file_changes(self) -> FileChanges:
        """Return the changed files, for policies to check; no more can be changed after that."""
        self._checked, self._layer.changed_late = True, False
        return file_changes(self._layer, getattr(self._store, "root", None))

    @cached_property
    def policies(self) -> Sequence[ProtectedPaths]:
        """The policy about protected paths, which notes what the call makes."""
        return () if self._protecting is None else (self._protecting(),)

    def show_first(self, paths: Sequence[str]) -> None:
        """Have the diff begin with some paths."""
        self._first = self._first.union(paths)

    def told(self) -> str:
        """Return what the call has changed, and what it looked at, to be made again later."""
        return told(self._layer)

    def redo(self, text: str) -> None:
        """Change what another call has told.

        Raises:
            ConflictError: When a file that it looked at has changed.
            SnapshotError: When the text is not what `told` returned.
        """
        redo(self._layer, text)

    def prepare(self) -> Awaitable[None] | None:
        """Check what was read and prepare what was written.

        Returns:
            None when done, or what to await while another commit holds the workspace.

        Raises:
            ConflictError: When a file this call looked at has changed meanwhile.
            CallRefused: When the changes cannot be kept, as the disk is full, say.
        """
        with _refusing():
            prepared = self._attempt()
        return self._prepare_async() if prepared is None else None

    def prepare_waiting(self) -> None:
        """Prepare, blocking the thread while another commit holds the workspace."""
        wait(self._attempt)

    def hold_for_rerun(self) -> HeldWorkspace | None:
        """Return what keeps others from committing, where this call conflicted or was watched."""
        concerned = self._layer.conflicted or self._layer.watches
        if self._again is None or not concerned:
            return None
        return HeldWorkspace(self._store, self._again, self._deadline)

    def commit(self) -> None:
        """Make the changes those of the workspace, or of the parent's branch."""
        self._layer.close("This call is over, so its workspace cannot be used any more.")
        if self._parent is None and self._layer.watches:
            # First: its own commit marks no watch of this call.
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
        """Drop the changes; any later use of the file system says that the call is over."""
        self._layer.close("This call was rolled back, so its workspace cannot be used any more.")
        with self._preparing:
            self._prepared = None
            transaction, self._transaction = self._transaction, None
        self._end_watches()
        if transaction is not None:
            transaction.rollback()

    def leave(self) -> None:
        """Leave what is prepared to recovery, since nobody knows whether the call was kept."""
        self._layer.close("Whether this call was kept is unknown, so it can use no files now.")
        self._end_watches()
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            self._store.leave(transaction)

    async def _prepare_async(self) -> None:
        with _refusing():
            await wait_async(self._attempt, self._deadline, in_threads=self.waits)

    def _attempt(self) -> Literal[True] | None:
        """Try to prepare; None while another commit holds the workspace."""
        # The last attempt may be on its way in a thread when the call is rolled back.
        with self._preparing:
            try:
                return self._prepare_now()
            except ConflictError:
                self._layer.conflicted = True
                raise

    def _prepare_now(self) -> Literal[True] | None:
        changes = self._layer.changes(self.key)
        if self._checked and self._layer.changed_late:
            raise CallRefused(
                "The call changed files after they had been checked, so nothing of it was kept. "
                "Its handler must have ended all its work when it returns; retry it."
            )
        if self._parent is not None:
            base = self._parent._layer  # noqa: SLF001 - of the same class
            check_seen(base, changes)
            check_emptied(base, changes)
        elif changes.seen or changes.made or changes.watches:
            # Before anything is staged: that moves files.
            self._replaced = self._replaced or self._checkpoints.kept(self._layer, changes)
            self._transaction = self._store.begin(changes, self._own_lock())
            if self._transaction is None:
                return None
        self._prepared = changes
        return True

    def _own_lock(self) -> Lock | None:
        """Return the lock where this call, or the one around it, runs once more and holds it."""
        if self._parent is not None:
            return self._parent._own_lock()  # noqa: SLF001 - of the same class
        return self._held.lock if self._held is not None else None

    def _watch(self) -> WatchMark:
        return wait(lambda: self._store.watch(self._own_lock()), self._deadline)

    def _layers(self) -> WorkspaceLayers:
        return replace(self._store.layers(), changed=self._changed_paths())

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
    """Tell the model why changes cannot be kept; the system's own words would tell it nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise CallRefused(str(error)) from error
        raise


def _commit(branch: WorkspaceBranch) -> None:
    branch.prepare_waiting()
    branch.commit()


def _now() -> datetime:
    return datetime.now(UTC)
