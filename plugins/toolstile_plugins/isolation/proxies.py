"""The context of an isolated handler, whose parts ask the parent process."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, Literal, cast

from toolstile_hookspecs import (
    CallRecord,
    Deadline,
    FileMatch,
    FileStat,
    Filesystem,
    HandlerState,
    Heartbeat,
    InflightCall,
    Outcome,
    Secret,
    SnapshotError,
    StateError,
    ToolCall,
    ToolContext,
)
from toolstile_hookspecs.codecs import as_json, imported_from
from toolstile_hookspecs.resources import Closeable, PostConstruct
from toolstile_plugins.isolation.messages import (
    Answer,
    Ask,
    Call,
    HandlerValues,
    MessageError,
    SocketChannel,
    raised,
)


class Parent:
    """The parent process; answers one request at a time, from any thread."""

    def __init__(self, channel: SocketChannel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.values = HandlerValues()

    def ask(self, target: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """Send a request to the parent; return its answer, or raise its exception."""
        try:
            given = [self.values.write(value, "it") for value in args]
            named = self.values.write(kwargs, "it")
            request = Ask(next(self._numbers), target, method, given, named)
            with self._lock:
                self._channel.send(request)
                answer = self._channel.receive()
        except (MessageError, SnapshotError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise StateError(f"{method} cannot be asked of its host: {why}") from error
        if not isinstance(answer, Answer):
            raise StateError("The host gave no answer.")
        if answer.fault is not None:
            raise raised(answer.fault)
        return self.values.read(answer.value)


class Remote:
    """An object of the parent, known by a name; `first` precedes the arguments of each method."""

    def __init__(self, parent: Parent, target: str, *first: object) -> None:
        self.parent = parent
        self.target = target
        self.first = first


def asked(method: str) -> Callable[..., Any]:
    """Return a method of a `Remote` that calls the same method in the parent."""

    def ask(self: Remote, *args: Any, **kwargs: Any) -> Any:
        return self.parent.ask(self.target, method, *self.first, *args, **kwargs)

    return ask


def make_context(call: Call, parent: Parent, stack: ExitStack) -> ToolContext:
    """Return the context of an isolated handler; the stack closes its resources."""
    control: Any = RemoteControl(parent, "control")
    session: Any = RemoteSession(call.session_id, parent)
    fields = parent.values.read(call.context)
    left, auth = fields.pop("deadline", None), fields.pop("auth", None)
    return ToolContext(
        session=session,
        resources=RemoteResources(parent, stack),
        control=control,
        deadline=None if left is None else Deadline.after(left),
        heartbeat=Heartbeat(control.beat) if call.has_heartbeat else None,
        auth=None if auth is None else Secret(auth),
        inflight=RemoteInflight(parent),
        **fields,
    )


class RemoteControl(Remote):
    """The host's side of the call."""

    beat, progress = asked("beat"), asked("progress")
    set_attribute, check_exclusive = asked("set_attribute"), asked("check_exclusive")

    def call(self, call: ToolCall) -> Outcome:
        """Dispatch a nested call and wait for it."""
        given: Any = call.arguments
        if not isinstance(given, (str, bytes)):
            given = json.loads(as_json(given))
        return cast("Outcome", self.parent.ask("control", "call", call.name, given))

    def acall(self, call: ToolCall) -> Awaitable[Outcome]:
        """Dispatch a nested call."""
        return asyncio.to_thread(self.call, call)

    @property
    def handler_state(self) -> HandlerState:
        """Always `BEGUN`, because the handler asks."""
        return HandlerState.BEGUN

    def on_abandoned(self, callback: Callable[[], object]) -> Callable[[], None]:  # noqa: ARG002 - the protocol's
        """Refuse, because a killed process calls no callback."""
        raise StateError(
            "An isolated process is killed with all it started when its call is abandoned, so no "
            "callback can run. Use isolation='thread' to end work that runs elsewhere."
        )

    def crossings(self) -> Sequence[bytes]:
        """Return none, because `Call` has carried the traces."""
        return ()

    def keep(self, effect_id: str) -> CallRecord:  # noqa: ARG002 - for plugins, not for handlers
        """Refuse, because a running handler has no outcome yet."""
        raise StateError("The call has not ended, so nothing of it can be kept yet.")


class RemoteInflight(Sequence[InflightCall]):
    """The calls of the session in flight, read again for each operation."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def _now(self) -> Any:
        return self._parent.ask("control", "inflight")

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[InflightCall]:
        return iter(self._now())

    def __getitem__(self, index: Any) -> Any:
        return self._now()[index]


class RemoteSession(Remote):
    """The call's branch of the session."""

    dispatch, reset = asked("dispatch"), asked("reset")
    snapshot, restore = asked("snapshot"), asked("restore")

    def __init__(self, session_id: str, parent: Parent) -> None:
        super().__init__(parent, "session")
        self.id = session_id
        self.dispatcher = RemoteDispatcher(parent, "dispatcher")

    def __getitem__(self, kind: type[Any]) -> RemoteSlice:
        return RemoteSlice(self.parent, "slice", kind)

    def clone(self, *, id: str | None = None) -> Any:  # noqa: A002, ARG002 - the contract's name
        """Refuse, because a copy would end with this process."""
        raise StateError("A session cannot be cloned within an isolated process; clone it outside.")


class RemoteDispatcher(Remote):
    """The dispatcher of the branch; subscribers get its events after the commit."""

    publish = asked("publish")

    def subscribe(self, event: type[Any], handler: Callable[[Any], None]) -> Callable[[], None]:  # noqa: ARG002 - the protocol's
        """Refuse, because a subscriber would end with the handler."""
        raise StateError(
            "A handler cannot subscribe within an isolated process; subscribe outside."
        )


class RemoteSlice(Remote):
    """One slice; predicates run in this process."""

    latest, all, append = asked("latest"), asked("all"), asked("append")

    def replace(self, *items: Any) -> None:
        """Replace all items by these."""
        self.parent.ask("slice", "replace", *self.first, list(items))

    seed = replace

    def where(self, predicate: Callable[[Any], bool]) -> Sequence[Any]:
        """Return the items that match the predicate."""
        return [item for item in self.all() if predicate(item)]

    def clear(self, predicate: Callable[[Any], bool] | None = None) -> None:
        """Remove all items, or the items that match the predicate."""
        kept = () if predicate is None else (item for item in self.all() if not predicate(item))
        self.replace(*kept)

    def register(self, event: type[Any], reducer: Any, policy: Any = None) -> None:  # noqa: ARG002 - the protocol's
        """Refuse, because reducers belong to the session, not to a call."""
        raise StateError(
            "A reducer cannot be registered within an isolated process; do it in the section."
        )


class RemoteResources:
    """Resources of the call: a proxy of the workspace, and new or copied portable resources."""

    def __init__(self, parent: Parent, stack: ExitStack) -> None:
        self._parent = parent
        self._stack = stack
        self._found: dict[type[Any], Any] = {}

    def get(self, kind: type[Any], default: Any = ...) -> Any:
        """Return the resource of a type, if it is portable."""
        if kind not in self._found:
            if default is not ... and kind not in self:
                return default
            if kind is Filesystem:
                self._parent.ask("resources", "check", kind)
                made: Any = RemoteFilesystem(self._parent, "files")
            elif "provider" in (answer := self._parent.ask("resources", "copy", kind)):
                made = imported_from(answer["provider"])(self)
                if isinstance(made, PostConstruct):
                    made.post_construct()
                if isinstance(made, Closeable):
                    self._stack.callback(made.close)
            else:
                made = answer["value"]
            self._found[kind] = made
        return self._found[kind]

    async def aget(self, kind: type[Any]) -> Any:
        """Return the resource of a type, if it is portable."""
        return await asyncio.to_thread(self.get, kind)

    def __contains__(self, kind: type[Any]) -> bool:
        return bool(self._parent.ask("resources", "contains", kind))

    def is_portable(self, kind: type[Any]) -> bool:
        """Return whether the resource is portable."""
        return bool(self._parent.ask("resources", "is_portable", kind))


class RemoteFilesystem(Remote):
    """The call's branch of the workspace."""

    read, read_bytes = asked("read"), asked("read_bytes")
    write, write_bytes = asked("write"), asked("write_bytes")
    exists, stat, is_readonly = asked("exists"), asked("stat"), asked("is_readonly")
    list, mkdir, link, chmod = asked("list"), asked("mkdir"), asked("link"), asked("chmod")
    delete, copy, move = asked("delete"), asked("copy"), asked("move")

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        """Open a file as a stream; closing the stream sends its content to the parent."""
        if mode == "rb":
            return io.BytesIO(self.read_bytes(path))
        if mode not in {"wb", "ab"}:
            raise ValueError(f"A file cannot be opened with mode {mode!r}; use rb, wb or ab.")
        # Late, because most handlers write no streams.
        from toolstile_plugins.vfs.nodes import WriteStream

        stream = WriteStream(lambda content: self.write_bytes(path, content.read()))
        if mode == "ab" and self.exists(path):
            stream.write(self.read_bytes(path))
        return cast("BinaryIO", stream)

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        """Yield the matching files."""
        yield from self.parent.ask("files", "glob", pattern, path)

    def search(
        self, pattern: str, path: str = "", *, glob: str | None = None, limit: int | None = None
    ) -> Iterator[FileMatch]:
        """Yield the matching lines."""
        yield from self.parent.ask("files", "search", pattern, path, glob=glob, limit=limit)

    @contextmanager
    def exclusive_path(self) -> Generator[str]:
        """Give exclusive use of the real directory."""
        path = self.parent.ask("files", "enter_exclusive_path")
        try:
            yield path
        finally:
            self.parent.ask("files", "leave_exclusive_path")
