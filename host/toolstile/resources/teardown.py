"""Closing and undoing of several things, with the failures of all collected."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import CoroutineType
from typing import Any, Final, cast

from toolstile_hookspecs.errors import ResourceError, UnboundResourceError
from toolstile_hookspecs.resources import Closeable
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import allowed_interrupts
from toolstile_hookspecs.support.text import nearest

LoopOf = Callable[[], asyncio.AbstractEventLoop]

# --- Names of types


def name_of(kind: Any) -> str:
    """Return the name of a type without the functions it was defined in."""
    name = getattr(kind, "__qualname__", None)
    if not isinstance(name, str):
        return str(kind)
    return name.rpartition("<locals>.")[2]


def unbound(kind: Any, bound: Iterable[Any]) -> UnboundResourceError:
    """Return the error for a type without a binding; it lists the bound types."""
    wanted = name_of(kind)
    names = sorted({name_of(each) for each in bound})
    if isinstance(kind, str):
        return UnboundResourceError(
            f"No resource is bound for the text {kind!r}: resources are asked for by their type. "
            f"Bound are: {', '.join(names) or 'none'}."
        )
    near = nearest(wanted, names)
    hint = f" Did you mean {near}?" if near else ""
    there = f".{hint} Bound are: {', '.join(names)}" if names else "; none is bound at all"
    return UnboundResourceError(
        f"No resource is bound for {wanted}{there}. Bind it, or ask with get({wanted}, default)."
    )


# --- Closing everything, whatever fails


class Failures:
    """Collects failures of an action, such as "closing", to be raised together at the end."""

    __slots__ = ("_doing", "_errors", "_texts")

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._errors: list[BaseException] = []
        self._texts: list[str] = []

    def add(self, subject: object, error: BaseException) -> None:
        self._errors.append(error)
        text = f"{type(error).__name__}: {error}".rstrip(": .")
        self._texts.append(f"{name_of(type(subject))} ({text})")

    @contextmanager
    def collecting(self, subject: object) -> Generator[None]:
        """Keep a failure of the block, or its interruption, with its subject."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - raised when all is done
            self.add(subject, error)

    def text(self) -> str:
        """Return one line about all of them, empty if there are none."""
        return f"{self._doing} failed for {', '.join(self._texts)}" if self._texts else ""

    def raise_any(self) -> None:
        """Raise a `ResourceError` that lists all failures, if any; an interrupt stays unchanged."""
        self.raise_interruption()
        if self._errors:
            text = self.text()
            group = BaseExceptionGroup(text, self._errors)
            raise ResourceError(f"{text[0].upper()}{text[1:]}.") from group

    def raise_interruption(self, cause: BaseException | None = None) -> None:
        """Raise the first of them that is not a failure but asks to stop, such as Ctrl-C."""
        for error in self._errors:
            if not isinstance(error, Exception):
                raise error from cause

    def add_to(self, cause: BaseException) -> str:
        """Add them to the error that was there before, which they must not hide; return the text.

        Raises the interruption, if there is one and that error is only a failure.
        """
        if note := self.text():
            cause.add_note(note)
        if isinstance(cause, Exception):
            self.raise_interruption(cause)
        return note


_RETURN_IT: Final = (
    "Open and close the resource in an async toolstile_lifespan, and let the provider return it."
)


def refuse_coroutine(returned: object, what: str, remedy: str = _RETURN_IT) -> None:
    """Raise `ResourceError` if a method was async, and so did not run: nothing awaits it here."""
    if isinstance(returned, CoroutineType):
        returned.close()
        raise ResourceError(
            f"{what} is async and did not run, since nothing awaits it here. {remedy}"
        )


def closing_method(instance: Any) -> Callable[[], Any] | None:
    """Return the `close` or `aclose` of an instance that wants to be closed; a class does not."""
    if isinstance(instance, type):
        return None
    if isinstance(instance, Closeable):
        return instance.close
    has_aclose = callable(getattr(cast("type[object]", type(instance)), "aclose", None))
    return instance.aclose if has_aclose else None


def close_all(instances: Iterable[object], loop_of: LoopOf | None = None) -> Failures:
    """Close everything that can be closed, in the order given, also after errors.

    Async instances are closed on the loop that `loop_of` gives, else on a new one.
    """
    failures = Failures("closing")
    for instance in instances:
        if (close := closing_method(instance)) is None:
            continue
        with failures.collecting(instance), allowed_interrupts():
            closing = close()
            if inspect.isawaitable(closing):
                _wait_for(closing, loop_of)
    return failures


def _wait_for(closing: Awaitable[object], loop_of: LoopOf | None) -> None:
    async def awaited() -> None:
        await closing

    loop = None if loop_of is None else loop_of()
    # The loop cannot run while its own thread waits.
    if (
        loop is None
        or not loop.is_running()
        or (is_on_loop() and asyncio.get_running_loop() is loop)
    ):
        with ThreadPoolExecutor(1) as worker:
            worker.submit(asyncio.run, awaited()).result()
    else:
        asyncio.run_coroutine_threadsafe(awaited(), loop).result()
