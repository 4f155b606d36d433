"""The host's side of calls on workers: submits a call and waits for its outcome."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, Final
from uuid import uuid4

from toolstile_hookspecs import (
    Binding,
    EffectUnknownError,
    HostHandle,
    StateError,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolstileError,
    applies_to,
    errors,
    hookimpl,
)
from toolstile_hookspecs.codecs import why_unwritable
from toolstile_hookspecs.services.dispatcher import (
    WORKER_LOST,
    DispatchedCall,
    Dispatcher,
    DispatchOutcome,
    DispatchState,
)
from toolstile_hookspecs.services.ledger import CallEffects
from toolstile_hookspecs.support.network_errors import mark_sent
from toolstile_plugins.isolation.messages import MAX_MESSAGE, MessageError, SocketChannel, written
from toolstile_plugins.isolation.parent import call_of, result_of, serve
from toolstile_plugins.workers.connections import HandlerConnections
from toolstile_plugins.workers.handlers import own_worker
from toolstile_plugins.workers.outcomes import not_submitted
from toolstile_plugins.workers.settings import WorkersSettings, dispatcher_of, endpoint

log = logging.getLogger("toolstile.workers")

LONGEST_PAUSE: Final = 0.5
"""The maximum of seconds between checks whether a worker has taken a call."""
_UNKNOWN: Final = "{name} may have had its effect, but its outcome is unknown: {text} {advice}"
_WAIT: Final = "Do not repeat the call until its outcome is known."
_REPEAT: Final = "The call may be repeated."
_GIVEN_UP: Final = DispatchOutcome(DispatchState.UNKNOWN, "Its host abandoned it while it ran.")
_ONLY_READS: Final = "{name} gave no result: {text} It only reads, so the call may be repeated."


def needs_host(tool: Tool[Any, Any]) -> bool:
    """Return whether the handler of a tool connects to its host while it runs."""
    # Handlers with a context use their host. Secrets need a connection, because params and results
    # that are sent without one are stored in the queue.
    function: Any = getattr(tool, "function", None)
    if function is None or "context" in inspect.signature(function).parameters:
        return True
    return bool(tool.params_codec.secret_schema() or tool.result_codec.secret_schema())


@dataclass(frozen=True)
class RemoteCall:
    """Replaces a handler that runs without its host; `cancelling` cancels abandoned calls."""

    tool: Tool[Any, Any]
    settings: WorkersSettings
    cancelling: Executor

    async def __call__(self, params: Any, *, context: ToolContext) -> ToolResult[Any]:
        """Run the handler on a worker, and return its result or raise its exception.

        `EffectUnknownError`: the handler began, and its outcome is unknown.
        """
        dispatcher = await context.resources.aget(Dispatcher)  # type: ignore[type-abstract]
        text = written(self.tool.params_codec, params, "params")
        if len(text) > MAX_MESSAGE:
            told = f"its params take {len(text):,} characters, and {MAX_MESSAGE:,} are the most"
            raise ValueError(f"{told}; put large data into a file")
        call = _dispatched(self.tool, self.settings, context, params=text)
        context.on_abandoned(partial(_cancel, self.cancelling, dispatcher, call.key))
        waiting = asyncio.ensure_future(_until_taken(dispatcher, call.key, context))
        try:
            outcome = await dispatcher.submit(call)
        except StateError as error:
            raise not_submitted(self.tool, error) from error
        finally:
            waiting.cancel()
        return _told(self.tool, outcome)


@dataclass(frozen=True)
class ConnectedCall:
    """Replaces a handler that uses its host, over a connection that `connections` accepts."""

    tool: Tool[Any, Any]
    settings: WorkersSettings
    cancelling: Executor
    connections: HandlerConnections

    def __call__(self, params: Any, *, context: ToolContext) -> Any:
        """Run the handler on a worker, answer its requests, and return its result.

        Raises the exception of the handler, `EffectUnknownError` if it began and its outcome is
        unknown, and `RuntimeError` if params or result cannot be sent.
        """
        dispatcher = context.resources.get(Dispatcher)  # type: ignore[type-abstract]
        carried = call_of(self.tool, params, context)
        with self.connections.expected() as handler:
            address = json.dumps(handler.address)
            call = _dispatched(self.tool, self.settings, context, connection=address)
            context.on_abandoned(handler.give_up)
            context.on_abandoned(partial(_cancel, self.cancelling, dispatcher, call.key))
            done = None
            refused: Callable[[Tool[Any, Any], StateError], Exception] = not_submitted
            while done is None:
                submitted, connected = _submitted(dispatcher, call), handler.channel
                either: list[Future[Any]] = [submitted, connected]
                with _paused(context):
                    wait(either, return_when=FIRST_COMPLETED)
                try:
                    if submitted.done() or connected.exception() is not None:
                        return _told(self.tool, submitted.result())
                except StateError as error:
                    raise refused(self.tool, error) from error
                channel = connected.result()
                submitted.add_done_callback(partial(_end_where_lost, channel))
                try:
                    channel.send(carried)
                    done = serve(channel, context, is_here=handler.address.certificate is None)
                except (EOFError, OSError):
                    # The dispatcher returns the outcome, or another worker begins the call.
                    refused = _unknown
                    if not handler.expect_another():
                        return _told(self.tool, _GIVEN_UP)
                except MessageError as error:
                    raise _unreadable(self.tool, error) from error
        try:
            return result_of(self.tool, done)
        except MessageError as error:
            raise _unreadable(self.tool, error) from error


def _unreadable(tool: Tool[Any, Any], error: MessageError) -> EffectUnknownError:
    return _unknown(tool, f"a message of its handler cannot be read here ({error}).")


def _paused(context: ToolContext) -> AbstractContextManager[None]:
    return nullcontext() if context.control is None else context.control.paused()


async def _until_taken(dispatcher: Dispatcher, key: str, context: ToolContext) -> None:
    pause = 0.05  # Because most calls are done sooner, and need no check.
    with _paused(context), suppress(StateError):
        while True:
            await asyncio.sleep(pause)
            if await asyncio.to_thread(dispatcher.heartbeat, key) is not None:
                return
            pause = min(pause * 1.5, LONGEST_PAUSE)


def _submitted(dispatcher: Dispatcher, call: DispatchedCall) -> Future[DispatchOutcome]:
    """Submit a call on a new thread, and return the future of its outcome."""
    told: Future[DispatchOutcome] = Future()

    def submit() -> None:
        try:
            told.set_result(asyncio.run(dispatcher.submit(call)))
        except BaseException as error:  # noqa: BLE001 - raised to the waiting caller
            told.set_exception(error)

    threading.Thread(target=submit, name="toolstile-submitted", daemon=True).start()
    return told


def _end_where_lost(channel: SocketChannel, told: Future[DispatchOutcome]) -> None:
    """Shut the channel to a handler whose worker is lost, so that its reader stops waiting."""
    if told.exception() is None and told.result().text == WORKER_LOST:
        channel.shut_down()


def _dispatched(
    tool: Tool[Any, Any],
    settings: WorkersSettings,
    context: ToolContext,
    *,
    params: str = "null",
    connection: str | None = None,
) -> DispatchedCall:
    now = datetime.now(UTC)
    effects = context.resources.get(CallEffects, None)  # type: ignore[type-abstract]
    effect_id = None if effects is None else effects.effect_id(context)
    may_repeat = tool.category == "read" or _is_retried(tool)
    if connection is not None and may_repeat:
        # Because only the host can repeat the call, from an unchanged branch and as a new call.
        effect_id, may_repeat = None, False
    left = math.inf if context.deadline is None else context.deadline.remaining()
    patience = min(settings.patience, left)
    # The host ends the call on time; the deadline ends the call if the host has died.
    longest = tool.timeout if isinstance(tool.timeout, float | int) else math.inf
    left = min(left, patience + longest)
    carrier: dict[str, str] = {}
    # A program that traces has imported it; others need not pay for the import.
    if "opentelemetry" in sys.modules:
        from opentelemetry import propagate

        propagate.inject(carrier)
    # Calls that block more parents get a higher priority.
    depth = 0
    while context.parent is not None:
        depth, context = depth + 1, context.parent
    return DispatchedCall(
        key=effect_id or uuid4().hex,
        tool=tool.name,
        version=tool.version,
        params=params,
        repeatable=may_repeat,
        begin_by=now + timedelta(seconds=patience),
        deadline=None if left == math.inf else now + timedelta(seconds=left),
        priority=depth,
        traceparent=carrier.get("traceparent"),
        connection=connection,
    )


def _cancel(cancelling: Executor, dispatcher: Dispatcher, key: str) -> None:
    def log_failure(done: Future[Any]) -> None:
        if error := done.exception():
            log.warning("An abandoned call may still run: %s", error)

    cancelling.submit(dispatcher.cancel, key).add_done_callback(log_failure)


def _told(tool: Tool[Any, Any], outcome: DispatchOutcome) -> ToolResult[Any]:
    if outcome.state is DispatchState.RESULT:
        encoded = outcome.value
        try:
            value = None if encoded is None else tool.result_codec.decode(encoded)
        except Exception as error:
            # Unknown, because the handler had its effect; only the code of its worker differs.
            told = f"its worker's result does not fit here ({why_unwritable(error)})."
            raise _unknown(tool, told) from error
        return ToolResult(outcome.text, value, exclude_value_from_context=outcome.excluded)
    if outcome.state is DispatchState.UNKNOWN:
        if tool.category == "read":
            return ToolResult.error(_ONLY_READS.format(name=tool.name, text=outcome.text))
        raise _unknown(tool, outcome.text)
    if outcome.error is None:
        if outcome.for_operator:
            raise ToolError(outcome.text, for_operator=outcome.for_operator)
        return ToolResult.error(outcome.text)
    class_: Any = getattr(errors, outcome.error, None)
    raised: BaseException = RuntimeError(outcome.text or outcome.error)
    if isinstance(class_, type) and issubclass(class_, ToolstileError):
        with suppress(TypeError):  # its class needs more than a text
            raised = class_(outcome.text)
    raised = mark_sent(raised, outcome.sent)
    vars(raised)["for_operator"] = outcome.for_operator
    raise raised


def _is_retried(tool: Tool[Any, Any]) -> bool:
    return tool.idempotency is not None and tool.idempotency.on_unknown == "retry"


def _unknown(tool: Tool[Any, Any], told: object) -> EffectUnknownError:
    advice = _REPEAT if _is_retried(tool) else _WAIT
    return EffectUnknownError(_UNKNOWN.format(name=tool.name, text=told, advice=advice))


# --- For a host that is open


_CALLS: Final = "workers.calls"
"""The name of the plugin that replaces the handlers."""


@contextmanager
def calling(host: HostHandle, settings: WorkersSettings) -> Generator[None]:
    """Run calls of the chosen tools on workers during the block."""
    assert settings.runs is not None  # noqa: S101 - used only then
    address = settings.address
    if address is not None and host.purpose != "serve":
        # A command beside a host takes any free port, because the host has the port of the address.
        name, _ = endpoint(address)
        address = f"[{name}]" if ":" in name else name
    with ExitStack() as stack:
        dispatcher = stack.enter_context(closing(dispatcher_of(settings, host)))
        connections = stack.enter_context(closing(HandlerConnections(address)))
        if settings.address is not None and host.purpose == "serve":
            connections.open()
        cancelling = stack.enter_context(ThreadPoolExecutor(thread_name_prefix="toolstile-cancel"))
        if settings.concurrency:
            tools = [tool for tool in host.catalog if tool.handler and settings.runs.selects(tool)]
            stack.enter_context(own_worker(dispatcher, tools, settings.concurrency))

        @hookimpl
        @applies_to(settings.runs.selects)
        def toolstile_execute(tool: Tool[Any, Any]) -> RemoteCall | ConnectedCall | None:
            """Run the handler on a worker."""
            if tool.handler is None:
                return None
            if needs_host(tool):
                return ConnectedCall(tool, settings, cancelling, connections)
            return RemoteCall(tool, settings, cancelling)

        @hookimpl
        def toolstile_resources() -> list[Binding[Any]]:
            """Offer the dispatcher; a binding of the application replaces it."""
            return [Binding[Dispatcher].instance(Dispatcher, dispatcher)]  # type: ignore[type-abstract]

        # A second plugin, because its hooks depend on the settings of this host.
        calls = SimpleNamespace(
            toolstile_execute=toolstile_execute, toolstile_resources=toolstile_resources
        )
        host.register(calls, _CALLS)
        stack.callback(host.unregister, _CALLS)
        yield
