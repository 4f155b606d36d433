"""The context as an isolated handler sees it: everything it does is done by the parent."""

from __future__ import annotations

import asyncio
import io
import itertools
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast, overload

from toolstile.isolation.messages import Answer, Ask, Rest
from toolstile_hookspecs import (
    CallRecord,
    FileMatch,
    FileStat,
    Filesystem,
    HandlerState,
    Heartbeat,
    InflightCall,
    Outcome,
    StateError,
    ToolCall,
    ToolContext,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Parent:
    """The parent process: asked one thing at a time, from any thread."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def ask(self, target: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Let the parent do something; return what came of it, or raise what it raised."""
        with self._lock:
            self._pipe.send(Ask(next(self._numbers), target, method, args, kwargs))
            answer: Answer = self._pipe.recv()
        if answer.error is not None:
            raise answer.error
        return answer.value


def make_context(rest: Rest, parent: Parent) -> ToolContext:
    """Return the context of an isolated handler."""
    session: Any = SessionProxy(rest.session_id, parent)
    heartbeat = Heartbeat(lambda: parent.ask("control", "beat")) if rest.has_heartbeat else None
    return ToolContext(
        session=session,
        resources=ResourcesProxy(parent),
        control=ControlProxy(parent),
        heartbeat=heartbeat,
        inflight=InflightProxy(parent),
        **rest.fields,
    )


class ControlProxy:
    """The host's side of the call, asked of the parent process."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def call(self, call: ToolCall) -> Outcome:
        """Dispatch a nested call and wait for it."""
        outcome: Outcome = self._parent.ask("control", "call", call.name, call.arguments)
        return outcome

    def acall(self, call: ToolCall) -> Awaitable[Outcome]:
        """Dispatch a nested call."""
        return asyncio.to_thread(self.call, call)

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Pass a progress report on."""
        self._parent.ask("control", "progress", done, total, message)

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the call's event."""
        self._parent.ask("control", "set_attribute", name, value)

    def check_exclusive(self, what: str) -> None:
        """Raise where the call can have nothing for itself alone."""
        self._parent.ask("control", "check_exclusive", what)

    @property
    def handler_state(self) -> HandlerState:
        """The progress of the handler, seen from within."""
        return HandlerState.BEGUN

    def keep(self, effect_id: str) -> CallRecord:  # noqa: ARG002 - for plugins, not for handlers
        """Refuse: a handler that runs has come to nothing yet."""
        raise StateError("The call has not ended, so nothing of it can be kept yet.")


class InflightProxy(Sequence[InflightCall]):
    """The calls admitted and not ended, as the parent sees them at the moment of looking."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._now())

    def __iter__(self) -> Iterator[InflightCall]:
        """Yield them in the order in which they were admitted."""
        return iter(self._now())

    @overload
    def __getitem__(self, index: int) -> InflightCall: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[InflightCall]: ...
    def __getitem__(self, index: int | slice) -> InflightCall | Sequence[InflightCall]:
        """Return those at a place."""
        return self._now()[index]

    def _now(self) -> tuple[InflightCall, ...]:
        calls: tuple[InflightCall, ...] = self._parent.ask("control", "inflight")
        return calls


class SessionProxy:
    """The call's branch of the session, asked of the parent."""

    def __init__(self, session_id: str, parent: Parent) -> None:
        self.id = session_id
        self.dispatcher = DispatcherProxy(parent)
        self._parent = parent

    def __getitem__(self, kind: type[Any]) -> SliceProxy:
        """Return the slice of a type."""
        return SliceProxy(kind, self._parent)

    def dispatch(self, event: object) -> None:
        """Let the reducers of the event's type change their slices."""
        self._parent.ask("session", "dispatch", event)

    def snapshot(self, *, tag: str | None = None) -> Any:
        """Return what names a snapshot that the parent keeps."""
        return self._parent.ask("session", "snapshot", tag=tag)

    def restore(self, snapshot: Any) -> None:
        """Put the branch's state back."""
        self._parent.ask("session", "restore", snapshot)

    def reset(self) -> None:
        """Empty the state slices."""
        self._parent.ask("session", "reset")

    def clone(self, *, id: str | None = None) -> Any:  # noqa: A002, ARG002 - the contract's name
        """Refuse: a copy here would be of no use to anybody."""
        msg = "A session cannot be cloned within an isolated process; clone it outside."
        raise StateError(msg)


class DispatcherProxy:
    """Publishes through the parent."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def publish(self, event: object) -> None:
        """Publish an event; heard after the commit."""
        self._parent.ask("dispatcher", "publish", event)

    def subscribe(self, event: type[Any], handler: Callable[[Any], None]) -> Callable[[], None]:  # noqa: ARG002 - the protocol's
        """Refuse: a subscriber here would end with the handler."""
        msg = "Nobody can subscribe within an isolated process; subscribe outside."
        raise StateError(msg)


class SliceProxy:
    """One slice, asked of the parent; predicates are applied here."""

    def __init__(self, kind: type[Any], parent: Parent) -> None:
        self._kind = kind
        self._parent = parent

    def latest(self) -> Any:
        """Return the newest item, or None."""
        return self._ask("latest")

    def all(self) -> Sequence[Any]:
        """Return all items, oldest first."""
        return tuple(self._ask("all"))

    def where(self, predicate: Callable[[Any], bool]) -> Sequence[Any]:
        """Return the items for which the predicate holds."""
        return [item for item in self.all() if predicate(item)]

    def append(self, item: Any) -> None:
        """Add an item at the end."""
        self._ask("append", item)

    def seed(self, *items: Any) -> None:
        """Replace all items by these."""
        self._ask("seed", *items)

    def clear(self, predicate: Callable[[Any], bool] | None = None) -> None:
        """Remove all items, or those for which the predicate holds."""
        if predicate is None:
            self._ask("clear")
        else:
            self.seed(*(item for item in self.all() if not predicate(item)))

    def register(self, event: type[Any], reducer: Any, policy: Any = None) -> None:  # noqa: ARG002 - the protocol's
        """Refuse: reducers belong to the session, not to a call."""
        msg = "A reducer cannot be registered within an isolated process; do it in the section."
        raise StateError(msg)

    def _ask(self, method: str, *args: Any) -> Any:
        return self._parent.ask("slice", method, self._kind, *args)


class ResourcesProxy:
    """Resources of the call: the workspace is proxied, portable ones are copied here."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._copies: dict[type[Any], Any] = {}

    def get(self, kind: type[Any], default: Any = ...) -> Any:
        """Return the resource of a type, if it may travel."""
        if kind not in self._copies:
            if default is not ... and kind not in self:
                return default
            if kind is Filesystem:
                self._parent.ask("resources", "check", kind)
                self._copies[kind] = FilesystemProxy(self._parent)
            else:
                self._copies[kind] = self._parent.ask("resources", "copy", kind)
        return self._copies[kind]

    async def aget(self, kind: type[Any]) -> Any:
        """Return the resource of a type, if it may travel."""
        return await asyncio.to_thread(self.get, kind)

    def __contains__(self, kind: type[Any]) -> bool:
        """Tell whether something is bound for the type."""
        return bool(self._parent.ask("resources", "contains", kind))


class FilesystemProxy:
    """The call's branch of the workspace, asked of the parent."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._parent.ask("files", method, *args, **kwargs)

    def read(self, path: str) -> str:
        """Return a text file's content."""
        answer: str = self._ask("read", path)
        return answer

    def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        answer: bytes = self._ask("read_bytes", path)
        return answer

    def write(self, path: str, content: str) -> None:
        """Write a text file."""
        self._ask("write", path, content)

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file."""
        self._ask("write_bytes", path, content)

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        """Open a file as a stream; what is written goes to the parent when it is closed.

        Raises:
            ValueError: When the mode is none of these.
        """
        if mode == "rb":
            return io.BytesIO(self.read_bytes(path))
        if mode not in {"wb", "ab"}:
            msg = f"A file cannot be opened with mode {mode!r}; use rb, wb or ab."
            raise ValueError(msg)
        before = self.read_bytes(path) if mode == "ab" and self.exists(path) else b""
        stream = _Written(before, lambda content: self.write_bytes(path, content))
        return cast("BinaryIO", stream)

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory."""
        answer: bool = self._ask("exists", path)
        return answer

    def stat(self, path: str) -> FileStat:
        """Return what is known of a path."""
        answer: FileStat = self._ask("stat", path)
        return answer

    def is_readonly(self, path: str) -> bool:
        """Tell whether the path cannot be changed here."""
        answer: bool = self._ask("is_readonly", path)
        return answer

    def list(self, path: str = "") -> Sequence[FileStat]:
        """Return what a directory holds."""
        answer: Sequence[FileStat] = self._ask("list", path)
        return answer

    def mkdir(self, path: str) -> None:
        """Make a directory and those above it."""
        self._ask("mkdir", path)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or a directory."""
        self._ask("delete", path, recursive=recursive)

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Copy a file or a directory."""
        self._ask("copy", source, target, overwrite=overwrite)

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or a directory."""
        self._ask("move", source, target, overwrite=overwrite)

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        """Yield what matches."""
        yield from self._ask("glob", pattern, path)

    def search(
        self, pattern: str, path: str = "", *, glob: str | None = None, limit: int | None = None
    ) -> Iterator[FileMatch]:
        """Yield the lines that match."""
        yield from self._ask("search", pattern, path, glob=glob, limit=limit)

    @contextmanager
    def exclusive_path(self) -> Generator[str]:
        """Give the real directory, alone."""
        path = self._ask("enter_exclusive_path")
        try:
            yield path
        finally:
            self._ask("leave_exclusive_path")


class _Written(io.RawIOBase):
    """A stream that is written from beginning to end, as those of a workspace are.

    Its content is handed on when it is closed without an exception; left by one, a `with`
    statement drops what was written.
    """

    def __init__(self, before: bytes, hand_on: Callable[[bytes], None]) -> None:
        self._hand_on: Callable[[bytes], None] | None = hand_on
        self._content = bytearray(before)

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        if self.closed:
            raise ValueError("The stream is closed, so nothing more can be written to it.")
        view = memoryview(data).cast("B")
        self._content += view
        return len(view)

    def tell(self) -> int:
        return len(self._content)

    def close(self) -> None:
        hand_on, self._hand_on = self._hand_on, None
        try:
            if hand_on is not None:
                hand_on(bytes(self._content))
        finally:
            super().close()

    def _discard(self) -> None:
        self._hand_on = None
        self.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._discard()
        self.close()

    def __del__(self) -> None:
        # Collected without having been closed: nobody said that this was all.
        self._discard()
