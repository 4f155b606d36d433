"""Who hears of which events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, TypeVar

E = TypeVar("E")
Handler = Callable[[Any], None]

logger = logging.getLogger("toolyard.state")


class Subscribers:
    """The subscribers of one session; events reach them at once, on the publisher's thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.handlers: dict[type[Any], tuple[Handler, ...]] = {}

    def subscribe(self, event: type[E], handler: Callable[[E], None]) -> Callable[[], None]:
        """Call `handler` with each event of the type or a subtype; returns what takes it back."""

        # A wrapper of its own, so that one handler can subscribe twice and leave once.
        def heard(item: E) -> None:
            handler(item)

        with self._lock:
            there = self.handlers.get(event, ())
            self.handlers = {**self.handlers, event: (*there, heard)}

        def unsubscribe() -> None:
            with self._lock:
                left = tuple(each for each in self.handlers.get(event, ()) if each is not heard)
                self.handlers = {**self.handlers, event: left}

        return unsubscribe

    def publish(self, event: object) -> None:
        """Tell the subscribers of the event's type and of its base classes."""
        handlers = self.handlers
        if not handlers:
            return
        for kind in type(event).__mro__:
            for handler in handlers.get(kind, ()):
                try:
                    handler(event)
                except Exception:
                    logger.exception(
                        "A subscriber of %s raised; the event stays published.", kind.__qualname__
                    )

    def publish_all(self, events: Iterable[object]) -> None:
        """Tell of several events, in their order."""
        for event in events:
            self.publish(event)
