"""The dispatcher: subscribers and their events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.support.callables import is_async_callable

E = TypeVar("E")
Handler = Callable[[Any], None]

log = logging.getLogger("toolstile.state")


class Subscribers:
    """The subscribers of one session; events reach them at once, on the publisher's thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.handlers: dict[type[Any], tuple[Handler, ...]] = {}

    def subscribe(self, event: type[E], handler: Callable[[E], None]) -> Callable[[], None]:
        """Call `handler` with each event of the type or a subtype; return a function to stop that.

        Raises:
            StateError: The event is not a type, or the handler not a plain function.
        """
        if fault := fault_of(event, handler, "handler"):
            raise StateError(f"Nobody is subscribed: {fault}.")

        # A wrapper of its own, so that one handler can subscribe twice and leave once.
        def subscriber(item: E) -> None:
            handler(item)

        with self._lock:
            there = self.handlers.get(event, ())
            self.handlers = {**self.handlers, event: (*there, subscriber)}

        def unsubscribe() -> None:
            with self._lock:
                left = tuple(
                    other for other in self.handlers.get(event, ()) if other is not subscriber
                )
                self.handlers = {**self.handlers, event: left}

        return unsubscribe

    def publish(self, event: object) -> None:
        """Call the subscribers of the event's type and of its base classes."""
        handlers = self.handlers
        if not handlers:
            return
        for kind in type(event).__mro__:
            for handler in handlers.get(kind, ()):
                try:
                    handler(event)
                except Exception:
                    log.exception(
                        "A subscriber of %s raised; the event stays published.", kind.__qualname__
                    )


def fault_of(event: object, function: object, role: str) -> str | None:
    """Return why a function, called by its role, cannot be given events of a type, or None."""
    if not isinstance(event, type):
        return f"events are known by their class, and {event!r} is not a class"
    if not callable(function):
        return f"{function!r} is not a function; give a {role}"
    if is_async_callable(function):
        return f"its {role} is async, and nothing would await it; give a plain function"
    return None
