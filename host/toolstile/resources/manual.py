"""Transactions by hand, for code that runs tools past the host.

Calls that the host dispatches need none of this: each works on a branch. Where something else
runs the tool - another framework's native ones, say - these undo its changes.

Participants are:

- the session: its STATE slices; LOG slices are never put back;
- of the resources that were given as instances or have been built so far, each that can be put
  back: one with `snapshot()` and `restore(snapshot)` (`Snapshotable`), as the built-in workspace
  has them, and within `tool_transaction` and `PendingToolTracker` also an `Exclusive` one, through
  `begin`, `commit` and `rollback`.

Nothing else does: resources that can only be branched, resources that are built later, and
effects outside, such as other programs' changes of a workspace. The exception are the paths that
a tool names to `PendingToolTracker`: a resource with `snapshot_of(paths)` keeps these. An exclusive
resource is held for the whole transaction; other requests are refused at once, also the
transaction's own. Changes that others make to the session meanwhile are put back as well, so run
one such tool at a time.

Example:
    >>> from toolstile.resources.bindings import ResourceRegistry
    >>> from toolstile.state.session import Session
    >>> session, resources = Session(), ResourceRegistry.build({}).open()
    >>> with tool_transaction(session, resources, tag="import") as snapshot:
    ...     session[str].append("half done")
    ...     restore_snapshot(session, resources, snapshot)
    >>> list(session[str].all())
    []
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

from toolstile.resources.call_scope import CallScope
from toolstile.resources.exclusive import Claim, lock_of
from toolstile.resources.teardown import Failures
from toolstile.resources.transactional import Role, has_savepoints, is_snapshotable, role_of
from toolstile_hookspecs.errors import SnapshotError, StateError
from toolstile_hookspecs.sessions import SessionProtocol, SessionSnapshot

log = logging.getLogger(__name__)


@runtime_checkable
class Snapshotable(Protocol):
    """A resource whose state can be kept and put back."""

    def snapshot(self) -> Any:
        """Return the data with which `restore` restores the present state."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Put the state back; the same snapshot may be restored more than once."""


class Present(Protocol):
    """Resources that list the built ones: a container, or `context.resources`."""

    def present(self) -> Sequence[Any]:
        """Return the resources built so far."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ToolSnapshot:
    """A moment of a session and its resources, and the transaction that holds exclusive ones."""

    tag: str | None
    session: SessionSnapshot
    kept: tuple[tuple[Snapshotable, Any], ...]
    resources: Present
    transaction: _Transaction | None = None


def create_snapshot(
    session: SessionProtocol, resources: Present, *, tag: str | None = None
) -> ToolSnapshot:
    """Return the present state of a session and its resources.

    Args:
        session: The session.
        resources: Its open resources; the module says which of them take part.
        tag: A name for the snapshot.

    Raises:
        SnapshotError: The resources are not open.
    """
    taking_part = filter(is_snapshotable, _built(resources))
    kept = tuple((resource, resource.snapshot()) for resource in taking_part)
    return ToolSnapshot(tag, session.snapshot(tag=tag), kept, resources)


def restore_snapshot(session: SessionProtocol, resources: Present, snapshot: ToolSnapshot) -> None:
    """Put a session and its resources back; as often as wanted.

    Every resource is tried, also after errors.

    Raises:
        SnapshotError: When it is not a snapshot, was taken of another session or of other
            resources, or holds exclusive ones and its transaction is over; nothing has been put
            back.
        ResourceError: Listing the resources that could not be restored.
    """
    if not isinstance(cast("object", snapshot), ToolSnapshot):
        raise SnapshotError(
            f"A {type(snapshot).__qualname__} is not a snapshot of a session and its resources. "
            "Pass one that `create_snapshot` returned or `tool_transaction` gave."
        )
    if resources is not snapshot.resources:
        raise SnapshotError(
            f"Snapshot {snapshot.tag!r} was taken of other resources; restore it with those."
        )
    transaction = snapshot.transaction
    if transaction is not None and transaction.over and transaction.exclusive:
        raise SnapshotError(
            f"Snapshot {snapshot.tag!r} cannot be restored: its transaction is over, and what it "
            "did to exclusive resources is kept. Restore it within the `with` block."
        )
    session.restore(snapshot.session)
    failures = Failures("restoring")
    if transaction is not None:
        transaction.restart(failures)
    _restore(snapshot, failures)
    failures.raise_any()


@contextmanager
def tool_transaction(
    session: SessionProtocol, resources: Present, *, tag: str | None = None
) -> Generator[ToolSnapshot]:
    """Keep the changes of the block; on any exception in it, undo them.

    Args:
        session: The session.
        resources: Its open resources; the module says which of them take part.
        tag: A name for the snapshot and for messages.

    Yields:
        The snapshot of the beginning; restore it to undo the changes and continue.

    Raises:
        ResourceBusyError: When a call holds an exclusive resource.
    """
    transaction = _Transaction(session, resources, tag)
    try:
        yield transaction.snapshot
    except BaseException as error:
        transaction.undo(error)
        raise
    transaction.keep()


class PendingToolTracker:
    """Undoes the changes of failed tools that run outside of the host.

    Args:
        session: The session.
        resources: Its open resources; the module says which of them take part.

    Example:
        >>> from toolstile.resources.bindings import ResourceRegistry
        >>> from toolstile.state.session import Session
        >>> session, resources = Session(), ResourceRegistry.build({}).open()
        >>> tracker = PendingToolTracker(session=session, resources=resources)
        >>> tracker.begin_tool_execution(tool_use_id="abc", tool_name="write_file")
        >>> session[str].append("half done")
        >>> tracker.end_tool_execution(tool_use_id="abc", success=False)
        True
        >>> list(session[str].all())
        []
    """

    def __init__(self, *, session: SessionProtocol, resources: Present) -> None:
        self._session = session
        self._resources = resources
        self._pending: dict[str, tuple[str, _Transaction | _PathSet]] = {}
        self._lock = threading.Lock()

    @property
    def pending(self) -> Mapping[str, str]:
        """The tools that have begun and not ended: their names by tool-use id."""
        with self._lock:
            return {tool_use_id: name for tool_use_id, (name, _) in self._pending.items()}

    def begin_tool_execution(
        self, *, tool_use_id: str, tool_name: str, paths: Collection[str] | None = None
    ) -> None:
        """Remember the state before a tool runs.

        Args:
            tool_use_id: The id of the use, of one at a time.
            tool_name: The tool.
            paths: The files that it changes, if it names them. Then these alone are put back, also
                changes by other programs, and others may use the session and resources meanwhile.

        Raises:
            StateError: When a tool with this id is pending already.
            ResourceBusyError: When a call, or another pending tool, holds an exclusive resource.
        """
        with self._lock:
            if tool_use_id in self._pending:
                raise StateError(
                    f"Tool use {tool_use_id!r} of {tool_name} has begun already; end it first, or "
                    "give each use an id of its own."
                )
            if paths is None:
                whole = _Transaction(self._session, self._resources, tool_name)
                self._pending[tool_use_id] = (tool_name, whole)
            else:
                self._pending[tool_use_id] = (tool_name, _PathSet(self._resources, paths))

    def end_tool_execution(self, *, tool_use_id: str, success: bool) -> bool:
        """Keep the tool's changes, or restore the state.

        An id that has not begun is ignored: not every tool is announced.

        Returns:
            Whether all that the tool may have changed within reach was put back. It is not if
            another pending tool names one of its paths, or no resource keeps them.

        Raises:
            ResourceError: Listing the resources that could not be kept or restored.
        """
        with self._lock:
            _, transaction = self._pending.pop(tool_use_id, (None, None))
            others = [each for _, each in self._pending.values()]
        if transaction is None:
            return False
        if isinstance(transaction, _PathSet):
            return not success and transaction.put_back(others)
        if success:
            transaction.keep()
        else:
            transaction.undo(None)
        return not success


class _PathSet:
    """The states of the paths that a tool names."""

    def __init__(self, resources: Present, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        holding = (each for each in _built(resources) if hasattr(each, "snapshot_of"))
        self._kept = [(each, each.snapshot_of(self._paths)) for each in holding]

    def put_back(self, others: Sequence[_Transaction | _PathSet]) -> bool:
        """Put the paths back unless another tool names one of them; return whether."""
        sets = [each._paths for each in others if isinstance(each, _PathSet)]  # noqa: SLF001 - the same class
        if not self._kept or not self._paths.isdisjoint(path for each in sets for path in each):
            return False
        failures = Failures("restoring")
        for resource, state in self._kept:
            with failures.collecting(resource):
                resource.restore(state)
        failures.raise_any()
        return True


class _Transaction:
    """A snapshot of the beginning, and the exclusive resources that are held until it is `over`."""

    parent: None = None

    def __init__(self, session: SessionProtocol, resources: Present, tag: str | None) -> None:
        self.exclusive = [
            each
            for each in _built(resources)
            if role_of(each) is Role.EXCLUSIVE and has_savepoints(each)
        ]
        self.over = False
        self._session = session
        self._tag = tag
        self._claims: list[Claim] = []
        self._begun: list[tuple[Any, Any]] = []
        try:
            for resource in self.exclusive:
                # The call of a scope has its locks already.
                if not isinstance(resources, CallScope):
                    claim = Claim(lock_of(resource), self, waitable=False)
                    claim.request(fail_fast=True)
                    self._claims.append(claim)
                self._begun.append((resource, resource.begin()))
            whole = create_snapshot(session, resources, tag=tag)
        except BaseException:
            self._end("rollback", Failures("rolling back"))
            raise
        kept = tuple((each, state) for each, state in whole.kept if each not in self.exclusive)
        self.snapshot = replace(whole, kept=kept, transaction=self)

    @property
    def root_id(self) -> Hashable:
        return id(self)

    def __str__(self) -> str:
        return f"the transaction {self._tag!r}" if self._tag else "a transaction"

    def keep(self) -> None:
        failures = Failures("committing")
        self._end("commit", failures)
        failures.raise_any()

    def undo(self, cause: BaseException | None) -> None:
        """Put everything back; with a cause, failures are added to it and do not hide it."""
        failures = Failures("restoring")
        with failures.collecting(self._session):
            self._session.restore(self.snapshot.session)
        self._end("rollback", failures)
        _restore(self.snapshot, failures)
        if cause is None:
            failures.raise_any()
        elif note := failures.add_to(cause):
            log.error("After %s, %s.", type(cause).__name__, note)

    def restart(self, failures: Failures) -> None:
        self._end_savepoints("rollback", failures)
        for resource in self.exclusive:
            with failures.collecting(resource):
                self._begun.append((resource, resource.begin()))

    def _end(self, how: str, failures: Failures) -> None:
        """Commit or roll back, newest first, and give the locks back."""
        self.over = True
        self._end_savepoints(how, failures)
        for claim in self._claims:
            claim.leave()

    def _end_savepoints(self, how: str, failures: Failures) -> None:
        while self._begun:
            resource, savepoint = self._begun.pop()
            with failures.collecting(resource):
                getattr(resource, how)(savepoint)


def _built(resources: Present) -> Sequence[Any]:
    if not hasattr(resources, "present"):
        raise SnapshotError(
            f"A {type(resources).__qualname__} is not open resources, so no snapshot can be taken "
            "of it. Pass what `registry.open()` returned, or `context.resources`."
        )
    return resources.present()


def _restore(snapshot: ToolSnapshot, failures: Failures) -> None:
    for resource, state in reversed(snapshot.kept):
        with failures.collecting(resource):
            resource.restore(state)
