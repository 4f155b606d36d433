"""The agent: answers requests, each by a run of its prompt on a host."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from concurrent.futures import wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from queue import SimpleQueue
from typing import Any, Final, Generic, Self, Unpack, cast

from typing_extensions import TypeVar

from toolstile_hookspecs import (
    Cancellation,
    DefinitionError,
    ExecutorHandle,
    HostHandle,
    MarkdownSection,
    Prompt,
    SessionProtocol,
    StateError,
    Tool,
    ToolContext,
    ToolInvoked,
    ToolPolicy,
    ToolResult,
    tool,
)
from toolstile_hookspecs.agents.messages import CallMade, Message, StopReason
from toolstile_hookspecs.agents.provider import Delta, ProviderAdapter
from toolstile_hookspecs.execution.children import child_of
from toolstile_hookspecs.execution.options import PlainTool
from toolstile_hookspecs.sessions import Dispatcher
from toolstile_hookspecs.support.process import close_at_exit, renewed_in_forks
from toolstile_plugins.agent.budget import Budget
from toolstile_plugins.agent.conversation import UNSAID
from toolstile_plugins.agent.effects import Loop, adrive, drive, on_thread
from toolstile_plugins.agent.loop import converse
from toolstile_plugins.agent.providers import adapter_named
from toolstile_plugins.agent.result import Answers, ModelReplied, RunResult, RunState
from toolstile_plugins.agent.run import AgentConfig, RequestArguments, Run, Surroundings, known

R = TypeVar("R")
O = TypeVar("O", default=str)  # noqa: E741 - the output

Hosts = HostHandle | Callable[[], AbstractContextManager[HostHandle]]
Piece = Delta | CallMade | ToolInvoked
"""Text and calls as they arrive, a call that the model has made, or a call that has ended."""
Tell = Callable[[Piece], None]
Resumed = tuple[RunState, Answers]

_UNCHECKED: Final = {
    StopReason.DEADLINE,
    StopReason.BUDGET,
    StopReason.CANCELLED,
    StopReason.REFUSED,
}
"""The ends of runs whose completion is not checked."""


class MainLoop(ABC, Generic[R, O]):
    """Answers requests: prepares a prompt for each, and runs it to its end.

    One loop serves several threads and tasks; each request has its own session, unless it names
    one, its own budget and its own deadline.

    Args:
        adapter: The adapter of the provider; it is not closed.
        host: The host with the tools, or a callable that makes one. If it is not open, the loop
            opens it for `with loop:`, or at its first request, and closes it after the block, by
            `close()`, or with the process. None if each request has an executor.
        config: The limits of each run.
        bus: A second place where the events of runs are published.
    """

    def __init__(
        self,
        adapter: ProviderAdapter,
        host: Hosts | None = None,
        config: AgentConfig | None = None,
        bus: Dispatcher | None = None,
    ) -> None:
        self._host: Any = None if callable(host) else host
        self._opens: Any = host if callable(host) or host is None else lambda: host
        self._opened: AbstractContextManager[HostHandle] | None = None
        # Held while the host opens: the first requests may come on several threads.
        self._opening = threading.RLock()
        self._is_ended = False
        self._around = Surroundings(adapter, self._host, config or AgentConfig(), bus)

    def __enter__(self) -> Self:
        with self._opening:
            if self._is_closed:
                opened: AbstractContextManager[HostHandle] = self._opens()
                self._around = replace(self._around, host=opened.__enter__())
                self._opened, self._is_ended = opened, False
        return self

    def __exit__(self, *error: object) -> None:
        with self._opening:
            opened, self._opened, self._is_ended = self._opened, None, True
            if opened is not None:
                self._around = replace(self._around, host=self._host)
                opened.__exit__(*cast("Any", error))

    def close(self) -> None:
        """Close the host if the loop has opened it."""
        self.__exit__(None, None, None)

    def _needs_host(self, given: RequestArguments) -> bool:
        return self._is_closed and not self._is_ended and given.get("executor") is None

    @property
    def _is_closed(self) -> bool:
        if self._host is not None:
            # A handle need not tell whether its host is open.
            return not getattr(self._host, "is_open", True)
        return self._opens is not None and self._opened is None

    def _open(self) -> None:
        self.__enter__()
        # Because a given host may outlive this loop, it closes itself.
        close_at_exit(self._host or self)

    @abstractmethod
    def prepare(self, request: R) -> Prompt:
        """Return the prompt for a request."""

    def message(self, request: R) -> str | None:
        """Return the user's message; a request that is not a text is in the prompt already.

        None adds no message: a run whose process has ended continues.
        """
        if request is None or isinstance(request, str):
            return request
        return UNSAID

    def finalize(self, prompt: Prompt, session: SessionProtocol, result: RunResult[O]) -> O | None:  # noqa: ARG002 - for overrides
        """Return the output of a run that has succeeded; an exception fails the request."""
        return result.output

    def execute(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Run a request to its end, or until it waits for a person.

        Args:
            request: The request.
            given: The session, and overrides of the configuration; see `RequestArguments`.

        Returns:
            The result and the session.

        Raises:
            RunFailed: When the run ends without an answer; its `result` has the part so far.
            StateError: When the session has another run under way.
        """
        return self._execute(self._run(request, given))

    async def aexecute(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Run a request on the event loop; see `execute`."""
        return await self._aexecute(await self._arun(request, given))

    def run(self, request: R, **given: Unpack[RequestArguments]) -> RunResult[O]:
        """Run a request, and return a result even if it fails; see `execute`."""
        run = None
        try:
            run = self._run(request, given)
            return self._execute(run)[0]
        except Exception as error:  # noqa: BLE001 - the result says so
            return _failed(run, error)

    async def arun(self, request: R, **given: Unpack[RequestArguments]) -> RunResult[O]:
        """Run a request on the event loop; see `run`."""
        run = None
        try:
            run = await self._arun(request, given)
            return (await self._aexecute(run))[0]
        except Exception as error:  # noqa: BLE001 - the result says so
            return _failed(run, error)

    def resume(
        self,
        state: RunState,
        answers: Answers,
        *,
        request: R | None = None,
        **given: Unpack[RequestArguments],
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Resume a run that waits, in this process or in another.

        Args:
            state: The state of the run.
            answers: From ticket to answer; calls without an answer keep waiting.
            request: The request, if `prepare` needs it.
            given: As for `execute`; a session that is not stored comes from the state.

        Returns:
            The result, which may wait again, and the session.

        Raises:
            RunFailed: When the run ends without an answer.
            StateError: When prompt, tickets, session or tokens do not belong to the run.
            TypeError: When an answer is without its token.
        """
        return self._execute(self._run(request, given, (state, answers)))

    async def aresume(
        self,
        state: RunState,
        answers: Answers,
        *,
        request: R | None = None,
        **given: Unpack[RequestArguments],
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Resume a run that waits, on the event loop; see `resume`."""
        return await self._aexecute(await self._arun(request, given, (state, answers)))

    def stream(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> Generator[Piece | RunResult[O]]:
        """Run a request on a thread; yield its text as it arrives, its calls, then its result.

        Leaving the iteration early cancels the run.

        Args:
            request: The request.
            given: As for `execute`, without `listen`.

        Yields:
            Text, a `CallMade` for each call of the model, a `ToolInvoked` for each call that has
            ended, and at last the result.

        Raises:
            RunFailed: At the end, when the run ends without an answer.

        Example:
            ```python
            for piece in agent.stream("Which orders are open?"):
                if isinstance(piece, str):
                    print(piece, end="", flush=True)
            ```
        """
        pieces, stop = SimpleQueue[Piece | None](), Cancellation()

        def work() -> RunResult[O]:
            run = self._run(request, _streamed(given, pieces.put, stop))
            return self._execute(run, pieces.put)[0]

        ended = on_thread(work, "toolstile-run")
        ended.add_done_callback(lambda _: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
            yield ended.result()
        finally:
            stop.cancel()
            wait([ended])

    async def astream(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> AsyncGenerator[Piece | RunResult[O]]:
        """Run a request as a task; see `stream`."""
        loop, stop = asyncio.get_running_loop(), Cancellation()
        pieces = asyncio.Queue[Piece | None]()

        def put(piece: Piece | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)  # calls end on any thread

        async def work() -> RunResult[O]:
            run = await self._arun(request, _streamed(given, put, stop))
            return (await self._aexecute(run, put))[0]

        task = loop.create_task(work())
        task.add_done_callback(lambda _: put(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield await task
        finally:
            stop.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _execute(self, run: Run, tell: Tell | None = None) -> tuple[RunResult[O], SessionProtocol]:
        with run.executor() as tools, self._having(tools.session, tell):
            return drive(self._life(run, tools)), tools.session

    async def _aexecute(
        self, run: Run, tell: Tell | None = None
    ) -> tuple[RunResult[O], SessionProtocol]:
        async with cast("Any", run.executor()) as tools:
            with self._having(tools.session, tell):
                return await adrive(self._life(run, tools)), tools.session

    @contextmanager
    def _having(self, session: SessionProtocol, tell: Tell | None) -> Generator[None]:
        """Reserve the session for one run, and pass its calls to the reader of a stream."""

        def made(_: ModelReplied) -> None:
            for call in session[Message].all()[-1].calls:
                cast("Tell", tell)(call)

        def ended(event: ToolInvoked) -> None:
            if event.parent_id is None:
                cast("Tell", tell)(event)

        # A session may be loaded more than once, so its id counts. An agent without the host, in an
        # open executor, has the same session object.
        keys = {(id(session), ""), (id(self._around.host or session), session.id)}
        with _lock:
            if keys & _in_use:
                raise StateError(
                    f"Session {session.id} has a run under way; wait for its end, or give the "
                    "request another session."
                )
            _in_use.update(keys)
        try:
            with ExitStack() as stack:
                if tell is not None:
                    stack.callback(session.dispatcher.subscribe(ModelReplied, made))
                    stack.callback(session.dispatcher.subscribe(ToolInvoked, ended))
                yield
        finally:
            with _lock:
                _in_use.difference_update(keys)

    async def _arun(
        self, request: R | None, given: RequestArguments, resumed: Resumed | None = None
    ) -> Run:
        if self._needs_host(given):
            await asyncio.to_thread(self._open)
        return self._run(request, given, resumed)

    def _run(
        self, request: R | None, given: RequestArguments, resumed: Resumed | None = None
    ) -> Run:
        if self._needs_host(given):
            self._open()
        asked = cast("R", request)  # `prepare` of an agent may take no request
        prompt = self.prepare(asked)
        if resumed is None:
            return Run(self._around, prompt, known(given), said=self.message(asked))
        state, answers = resumed
        if state.prompt != f"{prompt.ns}:{prompt.key}":
            raise StateError(f"This is a run of {state.prompt}; resume it by an agent of that.")
        tickets = [each.ticket for each in state.waiting]
        if answers and not answers.keys() & set(tickets):
            waits, given_for = ", ".join(tickets), ", ".join(answers)
            msg = f"This run waits for answers to {waits}, and none of these is {given_for}."
            raise StateError(msg)
        return Run(self._around, prompt, known(given), resumed=resumed)

    def _life(self, run: Run, tools: ExecutorHandle) -> Loop[RunResult[O]]:
        run.begin(tools)
        with run.lending(), run.under_way() as reasons:
            run.begin_transaction()
            try:
                result: RunResult[O] = yield from converse(run)
                if result.success:
                    output = self.finalize(tools.prompt, run.calls.session, result)
                    result = replace(result, output=output)
                    yield from run.end_transaction()
            except Exception as error:
                reason = run.fail(error)
                if reason in _UNCHECKED:
                    run.guidance.skip(f"the run ended: {reason}")
                reasons.append(reason)
                yield from run.end_transaction(f"the run failed ({reason}).")
                raise
            except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
                yield from run.end_transaction("the run was interrupted.")
                raise
            reasons.append(result.stop_reason)
            return result


class Agent(MainLoop[str | None, O]):
    """The loop over one prompt, for requests that are texts.

    `Agent("openai:gpt-6.2-sol", tools=[add])` is complete. It makes a host with these tools, as
    configured in the working directory, which opens and closes as the host of a `MainLoop` does.

    Args:
        model: The model, `provider:name`; or a `Prompt`, if the model is given by `adapter`.
        prompt: The prompt: a text for the model, or a `Prompt`. With a text, or without a
            prompt, the agent has the tools of `host` as well, if one is given.
        tools: Tools, and plain functions that become tools, beside those of the prompt.
        adapter: The adapter of the provider, in place of a model's name; it is not closed.
        host: The host with the tools, or a callable that makes one; see `MainLoop`.
        config: The limits of each run.
        bus: A second place where the events of runs are published.

    Raises:
        DefinitionError: When there is not one model, or more than one prompt.
        ConfigurationError: When no provider has the name, or it cannot be imported.
    """

    def __init__(  # noqa: PLR0913 - each is named and has a default
        self,
        model: str | Prompt | None = None,
        /,
        *,
        prompt: str | Prompt | None = None,
        tools: Iterable[PlainTool] = (),
        adapter: ProviderAdapter | None = None,
        host: Hosts | None = None,
        config: AgentConfig | None = None,
        bus: Dispatcher | None = None,
    ) -> None:
        name, whole = (model, prompt) if isinstance(model, str) else (None, prompt or model)
        if isinstance(model, Prompt) and prompt is not None:
            raise DefinitionError("Agent: two prompts are given; give one.")
        if (name is None) is (adapter is None):
            remedy = "give a model, such as Agent('openai:gpt-6.2-sol'), or an adapter="
            raise DefinitionError(f"Agent: {remedy}{', not both' if name else ''}.")
        self._own_adapter = None if name is None else adapter_named(name)
        made: list[Any] = [each if isinstance(each, Tool) else tool(each) for each in tools]
        is_alone = host is None
        if is_alone and (name or made):
            # Because an agent without a host is the application, it makes the host as that would.
            # No plugin does so otherwise: the host is imported only here, and by its name.
            host = cast("Hosts", lambda: import_module("toolstile").Host(tools=made))
        super().__init__(cast("Any", adapter or self._own_adapter), host, config, bus)
        text = whole if isinstance(whole, str) else ""
        title, template = "Instructions" if text else "Tools", text.replace("$", "$$")
        own = MarkdownSection(key="agent", title=title, template=template, tools=made)
        self._sections = [own] if text or made else []
        alone = Prompt.of("agent", "main") if is_alone else None
        self._prompt = whole if isinstance(whole, Prompt) else alone

    def prepare(self, request: str | None) -> Prompt:  # noqa: ARG002 - one prompt for all
        """Return the one prompt, or that of the host, with the text and tools of the agent."""
        host = self._around.host
        base = self._prompt or (Prompt.of("agent", "main") if host is None else host.prompt)
        return base.bind(sections=self._sections) if self._sections else base

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        tools: Iterable[str] | None = None,
        rules: Iterable[ToolPolicy] = (),
        budget: Budget | None = None,
    ) -> Tool[Any, Any]:
        """Return a tool that answers a request by a run of this agent, as a child of its caller.

        The model reads the agent's own prompt, and calls tools of the caller: those in `tools`, by
        default those of the agent by their names. The run has a conversation of its own, counts in
        the caller's budget, and cannot wait for a person who answers later.

        Args:
            name: The name of the tool, and of the child.
            description: The description for the caller's model.
            tools: Names and globs of the caller's tools.
            rules: Policies beside the caller's.
            budget: A budget within the caller's.
        """
        sections = [*(() if self._prompt is None else self._prompt.everywhere()), *self._sections]
        own = [each.name for section in sections for each in section.tools]
        only, policies = (own or None) if tools is None else [*tools], [*rules]

        def answer(request: str, *, context: ToolContext) -> ToolResult[str]:
            stop = Cancellation()
            context.on_abandoned(stop.cancel)
            with child_of(context, name, tools=only, rules=policies, session="own") as child:
                result = self.run(
                    request,
                    executor=child,
                    budget=budget,
                    cancellation=stop,
                    deadline=context.deadline,
                )
            if result.success:
                return ToolResult.ok(result.text)
            waiting = ", ".join(each.call.name for each in result.waiting)
            told = f"{waiting} needs a person's answer, and {name} cannot wait. Call it yourself."
            return ToolResult.error(told if waiting else f"{name} has no answer: {result.error}")

        made = tool(name=name, description=description, category="read", timeout=None)
        return made(answer)

    def close(self) -> None:
        """Close the host and the adapter if the agent has made them."""
        super().close()
        if self._own_adapter is not None:
            self._own_adapter.close()


def _streamed(given: RequestArguments, tell: Tell, stop: Cancellation) -> RequestArguments:
    """Return the arguments of a streamed request; its caller's cancellation keeps working."""
    if (theirs := given.get("cancellation")) is not None:
        theirs.on_cancel(stop.cancel)
    return {**given, "listen": tell, "cancellation": stop}


def _failed(run: Run | None, error: Exception) -> RunResult[Any]:
    if run is not None and run.failed is not None:
        return run.failed
    return RunResult(StopReason.ERROR, error=str(error))


_in_use: set[tuple[int, str]] = set()
_lock = renewed_in_forks(__name__, "_lock", threading.Lock)
