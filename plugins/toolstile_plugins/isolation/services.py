"""The host's answers to a handler in another process, from the branch of its call."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final, Self

from toolstile_hookspecs import ResourceError, StateError, ToolContext
from toolstile_hookspecs.services.dispatcher import PortableProviders
from toolstile_plugins.isolation.messages import Answer, Ask, Done, MessageError, SocketChannel
from toolstile_plugins.isolation.values import HostValues, fault_of

METHODS: Final = {
    "control": "call beat progress set_attribute check_exclusive inflight",
    "session": "dispatch snapshot restore reset",
    "dispatcher": "publish",
    "slice": "latest all append replace",
    "resources": "contains is_portable check copy",
    "files": (
        "read read_bytes write write_bytes exists stat is_readonly list mkdir link chmod delete "
        "copy move glob search enter_exclusive_path leave_exclusive_path"
    ),
}
"""The methods that a handler can call, by object."""


def serve(channel: SocketChannel, context: ToolContext, *, is_here: bool = True) -> Done:
    """Answer the requests of a handler until the handler has ended; return its result.

    If `is_here`, the handler runs on this machine, and can use its paths.

    Raises:
        EOFError: The channel ends before the handler.
        MessageError: A message is not a request.
    """
    with Services(context, is_here=is_here) as services:
        while not isinstance(message := channel.receive(), Done):
            if not isinstance(message, Ask):
                raise MessageError(f"a message says {message.says!r}, which the host says itself")
            try:
                channel.send(services.answer(message))
            except MessageError as error:
                channel.send(_unsent(message, error))
    return message


def _unsent(ask: Ask, error: Exception) -> Answer:
    told = f"the result of {ask.method} cannot be sent into an isolated process ({error})"
    return Answer(ask.number, fault=fault_of(ResourceError(told)))


class Services:
    """Answers the requests of one handler; a method for each object of `METHODS`."""

    def __init__(self, context: ToolContext, *, is_here: bool) -> None:
        self._context = context
        self._is_here = is_here
        self._values = HostValues()
        self._snapshots: list[Any] = []
        self._exclusive: list[AbstractContextManager[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        while self._exclusive:
            self._exclusive.pop().__exit__(None, None, None)

    def answer(self, ask: Ask) -> Answer:
        """Return the answer to a request; exceptions become faults."""
        if ask.method not in METHODS.get(ask.target, "").split():
            asked = f"A handler elsewhere cannot ask for {ask.target}.{ask.method}."
            return Answer(ask.number, fault=fault_of(StateError(asked)))
        try:
            serve = getattr(self, f"_{ask.target}")
            args = map(self._values.read, ask.args)
            value = serve(ask.method, *args, **self._values.read(ask.kwargs))
        except BaseException as error:  # noqa: BLE001 - raised in the handler
            return Answer(ask.number, fault=fault_of(error))
        try:
            return Answer(ask.number, self._values.write(value, "it"))
        except Exception as error:  # noqa: BLE001 - writing runs foreign code
            return _unsent(ask, error)

    def _control(self, method: str, *args: Any) -> Any:
        if method == "call":
            return self._context.call(*args)
        if method == "beat":
            return self._context.beat()
        if method == "inflight":
            return tuple(self._context.inflight)
        return getattr(self._context.control, method)(*args)

    def _session(self, method: str, *args: Any, **kwargs: Any) -> Any:
        session = self._context.session
        if method == "snapshot":
            self._snapshots.append(session.snapshot(**kwargs))
            return len(self._snapshots) - 1
        if method == "restore":
            return session.restore(self._snapshots[args[0]])
        return getattr(session, method)(*args, **kwargs)

    def _dispatcher(self, method: str, *args: Any) -> Any:
        return getattr(self._context.session.dispatcher, method)(*args)

    def _slice(self, method: str, kind: type[Any], *args: Any) -> Any:
        view = self._context.session[kind]
        if method == "replace":
            return view.replace(*args[0])
        return tuple(view.all()) if method == "all" else getattr(view, method)(*args)

    def _resources(self, method: str, kind: type[Any]) -> Any:
        resources = self._context.resources
        if method == "contains":
            return kind in resources
        if method == "is_portable":
            return resources.is_portable(kind)
        if method == "check" or not resources.is_portable(kind):
            resources.get(kind)  # raises if the type is not bound
        if method == "check":
            return None
        if not resources.is_portable(kind):
            raise ResourceError(
                f"{kind.__qualname__} cannot go into an isolated process; declare its binding "
                "portable=True, or use isolation='thread'."
            )
        if isinstance(resources, PortableProviders):
            place = resources.portable_provider(kind)
            if place is not None:
                return {"provider": place}
        return {"value": resources.get(kind)}

    def _files(self, method: str, *args: Any, **kwargs: Any) -> Any:
        files: Any = self._context.filesystem
        if method == "enter_exclusive_path":
            if not self._is_here:
                raise StateError(
                    "The directory of the workspace is on the machine of the host, and the handler "
                    "runs on another machine. Read and write its files instead."
                )
            self._exclusive.append(files.exclusive_path())
            return self._exclusive[-1].__enter__()
        if method == "leave_exclusive_path":
            return self._exclusive.pop().__exit__(None, None, None)
        value = getattr(files, method)(*args, **kwargs)
        return list(value) if method in {"list", "glob", "search"} else value
