"""Calling hooks: the host's one loop over their implementations, sync or awaited."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from toolstile.drivers.job import Abandonable, Run, Staged
from toolstile.drivers.limit import ENDLESS, Limit
from toolstile.pipeline.failures import PluginFailed, text_of
from toolstile.pipeline.masking import log_failure
from toolstile.plugins.inspection import Implementation
from toolstile.policies.rules import Rule
from toolstile.resources.transactional import may_wait
from toolstile.settings.table_validation import kind_of
from toolstile_hookspecs import NOTICE, Participant
from toolstile_hookspecs.services.workspace import HeldResource

if TYPE_CHECKING:
    from toolstile.pipeline.call import ActiveCall


# --- Faults of plugins


def add_origin_note(error: BaseException, who: str, hook: str) -> None:
    """Name the origin, such as `Plugin desk`, and the hook in the traceback of the log."""
    note = f"{who} raised it in {hook}."
    # An object that is raised again and again would otherwise collect notes.
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def log_observer_error(
    call: ActiveCall, log: logging.Logger, plugin: str, hook: str, message: str
) -> None:
    """Log the observer's exception that is being handled; the call does not fail by it.

    The first of a plugin in a hook is a notice, because it would go unnoticed otherwise.
    """
    extra = NOTICE if call.executor.engine.fails_first(plugin, hook) else None
    log_failure(call, log, message, plugin, extra=extra)


def hook_failed(hook: Implementation, error: Exception) -> PluginFailed:
    """Return the exception for a hook that raised before the handler could run."""
    told = text_of(error).rstrip(".") or type(error).__name__
    return PluginFailed(f"plugin {hook.plugin} failed in {hook.hook} ({told})")


def wrong_answer(hook: Implementation, answer: object, expected: str) -> PluginFailed:
    """Return the exception for an answer of the wrong type; only the type is named."""
    return PluginFailed(
        f"plugin {hook.plugin} answered {hook.hook} with {kind_of(answer)}; it must return "
        f"{expected}"
    )


def check_participant(hook: Implementation, answer: Any) -> None:
    """Refuse an object that cannot take part in a transaction, before the host relies on it.

    Raises:
        PluginFailed: Naming the plugin, its answer and the answer that it must return.
    """
    takes_part = hasattr(answer, "prepare") and hasattr(answer, "commit")
    if isinstance(answer, type) or not (takes_part and hasattr(answer, "rollback")):
        expected = "a participant, with prepare, commit and rollback, or None"
        raise wrong_answer(hook, answer, expected)


# --- Calls of hooks


log = logging.getLogger("toolstile.pipeline")
SLOW = 0.05

Awaiting = Callable[[Awaitable[Any]], Coroutine[Any, Any, Any]]


class Asker(Abandonable, Protocol):
    """The call on whose behalf hooks are called."""

    on_loop: bool
    """True when an event loop waits meanwhile, so that slow hooks are logged."""

    def limit_without_timeout(self) -> Limit:
        """Return the limit of everything but the handler."""
        ...


def waits(value: object) -> bool:
    """Tell whether a hook's answer must be awaited."""
    return hasattr(value.__class__, "__await__")


def settle(
    call: Asker, value: Any, limit: Limit | None = None, *, via: Awaiting | None = None
) -> Staged:
    """Return the value, awaited if necessary, within the limits of the call.

    A function given as `via` awaits it; it gets the value even if the call was abandoned.
    """
    if not waits(value):
        return value
    if limit is None:
        limit = call.limit_without_timeout()
    awaiting = via or _await
    try:
        return (
            yield Run(lambda: awaiting(value), is_async=True, limit=limit, owner=call, inline=True)
        )
    except BaseException:
        # Python warns if a coroutine that has not begun is never awaited.
        if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
            value.close()
        raise


def settle_for(call: Asker, implementation: Implementation, answer: Any) -> Staged:
    """Return the answer of an implementation, awaited if necessary."""
    try:
        return (yield from settle(call, answer))
    except Exception as error:
        add_origin_note(error, implementation.title, implementation.hook)
        raise


def await_uninterrupted(call: Asker, value: Any) -> Staged:
    """Return the value, awaited if necessary; an interruption waits.

    A commit or a rollback of a call is not left half done.
    """
    if not waits(value):
        return value
    return (yield Run(lambda: _await(value), True, ENDLESS, call, False, uninterruptible=True))  # noqa: FBT003 - see Run


def on_worker(call: Asker, function: Callable[[], Any]) -> Run:
    """Return the step that calls a function on a worker; an interruption waits for its end."""
    return Run(function, False, ENDLESS, call, False, uninterruptible=True)  # noqa: FBT003 - see Run


def off_loop(call: Asker, function: Callable[[], Any]) -> Staged:
    """Return the value of a function that may block: called on a worker if an event loop waits."""
    if not call.on_loop:
        return function()
    try:
        given, error = yield on_worker(call, partial(_ended, function))
    except GeneratorExit:
        # The loop has gone: the rest is done here.
        call.on_loop = False
        raise
    if error is not None:
        raise error
    return given


def _ended(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return a function's value or exception: thrown in, a `GeneratorExit` would end the steps."""
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - raised by the caller
        return None, error


def perform(
    call: Asker,
    participant: Participant | HeldResource,
    step: str,
    settling: Callable[[Asker, Any], Staged] = await_uninterrupted,
) -> Staged | tuple[()]:
    """Call a method of a participant; return the steps that are left, which give its answer.

    On a worker if an event loop would wait for a method that may block: see `may_wait`. Once begun,
    its end is waited for; an interruption comes after it.
    """
    method = getattr(participant, step)
    if call.on_loop and may_wait(participant, step):
        return _perform_aside(call, method, settling)
    given = method()
    # Because most methods give nothing, no generator is made for them.
    return () if given is None else settling(call, given)


def _perform_aside(
    call: Asker, method: Callable[[], Any], settling: Callable[[Asker, Any], Staged]
) -> Staged:
    given = yield from off_loop(call, method)
    return None if given is None else (yield from settling(call, given))


def ask(call: Asker, implementation: Implementation, *args: Any) -> Any:
    """Call one implementation; on an event loop, log an implementation that blocks the loop."""
    started = perf_counter() if call.on_loop else 0.0
    try:
        return implementation.call(*args)
    except Exception as error:
        add_origin_note(error, implementation.title, implementation.hook)
        raise
    finally:
        if started and perf_counter() - started > SLOW:
            tell_of_blocking(implementation, started)


def tell_of_blocking(who: Implementation | Rule, started: float) -> None:
    """Log that a function of a plugin or policy has blocked the event loop since a time."""
    log.warning(
        "%s blocked the event loop for %.0f ms; return an awaitable where it has to wait.",
        who.title,
        (perf_counter() - started) * 1000,
    )


def first_result(call: Asker, implementations: tuple[Implementation, ...], *args: Any) -> Staged:
    """Return the first answer that is not None, also after awaiting."""
    for each in implementations:
        answer = ask(call, each, *args)
        if answer is not None:
            answer = yield from settle_for(call, each, answer)
            if answer is not None:
                return answer
    return None


def observe(
    call: ActiveCall, implementations: tuple[Implementation, ...], what: str, *args: Any
) -> None:
    """Call all implementations, each by itself; their exceptions are logged.

    Raises:
        BaseException: The interruption of one, when all have been called.
    """
    interruption: BaseException | None = None
    for each in implementations:
        try:
            ask(call, each, *args)
        except Exception:  # noqa: BLE001 - logged without secrets
            text = f"Plugin %s failed in {what}; the call is not affected."
            log_observer_error(call, log, each.plugin, what, text)
        except BaseException as error:  # noqa: BLE001 - raised when all have been called
            interruption = error
    if interruption is not None:
        raise interruption


class WrapperStack:
    """Wrappers around a stage: entered before it, left when its awaited answer is there."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: list[Generator[Any, Any, Any]] = []

    def enter(self, implementation: Implementation, *args: Any) -> None:
        """Run one more wrapper, within those entered before, up to its `yield`."""
        wrapper = implementation.call(*args)
        try:
            next(wrapper)
        except StopIteration:
            msg = f"The wrapper of plugin {implementation.plugin} did not yield; it must, once."
            raise RuntimeError(msg) from None
        self._entered.append(wrapper)

    def leave(self, answer: Any) -> Any:
        """Send the answer through the wrappers, innermost first; return the last one's answer."""
        while self._entered:
            wrapper = self._entered.pop()
            try:
                wrapper.send(answer)
            except StopIteration as stop:
                answer = stop.value
            except BaseException as error:  # noqa: BLE001 - the wrappers outside may handle it
                return self.fail(error)
            else:
                return self.fail(_yielded_twice(wrapper))
        return answer

    def fail(self, error: BaseException) -> Any:
        """Throw an error into the wrappers; return their answer, or raise.

        Only an `Exception` can become an answer or another exception: an interruption
        passes through all of them.
        """
        while self._entered:
            wrapper = self._entered.pop()
            interrupted = not isinstance(error, Exception)
            try:
                wrapper.throw(error)
            except StopIteration as stop:
                if not interrupted:
                    return self.leave(stop.value)
            except BaseException as raised:  # noqa: BLE001 - the next one outside sees it
                error = error if interrupted else raised
            else:
                twice = _yielded_twice(wrapper)
                error = error if interrupted else twice
        raise error


def _yielded_twice(wrapper: Generator[Any, Any, Any]) -> RuntimeError:
    # It may refuse to be closed, too; that it yielded twice says enough.
    with suppress(RuntimeError):
        wrapper.close()
    return RuntimeError("A wrapper yielded twice; it must, once.")


async def _await(value: Awaitable[Any]) -> Any:
    return await value
