"""The agent: answers requests, each by a run of its prompt on a host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar, Unpack, cast

from toolstile_hookspecs import Cancellation, ExecutorHandle, HostHandle, Prompt, SessionProtocol
from toolstile_hookspecs.agents.messages import StopReason
from toolstile_hookspecs.agents.provider import ProviderAdapter
from toolstile_hookspecs.sessions import Dispatcher
from toolstile_plugins.agent.attempt import (
    AgentConfig,
    Attempt,
    RequestArguments,
    Surroundings,
    WaitingRun,
    alone,
)
from toolstile_plugins.agent.effects import Loop, adrive, drive
from toolstile_plugins.agent.loop import Finished, converse
from toolstile_plugins.agent.result import Answers, Phase, RunFailed, RunResult, RunState
from toolstile_plugins.agent.run import Run
from toolstile_plugins.agent.stream import Piece, Tell, aread, calls_told, read

R = TypeVar("R")
O = TypeVar("O")  # noqa: E741 - the output

UNSAID: Final = "Do what the instructions ask for."
"""The user's words where the prompt holds all of the request."""

_ENDS = {
    StopReason.MAX_TOKENS: "the model's reply was cut off at its longest; raise max_tokens",
    StopReason.REFUSED: "the model, or a filter of its provider, refused",
}
_UNCHECKED = {
    StopReason.DEADLINE,
    StopReason.BUDGET,
    StopReason.CANCELLED,
    StopReason.REFUSED,
}
"""The ends before which completion is not checked."""


class MainLoop(ABC, Generic[R, O]):
    """Answers requests: prepares a prompt for each, and runs it to its end.

    One loop serves several threads and tasks; each request has its own session, unless it names
    one, its own budget and its own deadline.

    Args:
        adapter: The adapter of the provider; it is not closed.
        host: The open host with the tools; it is not closed.
        config: The bounds of each run.
        bus: One more place where the events of runs are published.
    """

    def __init__(
        self,
        adapter: ProviderAdapter,
        host: HostHandle,
        config: AgentConfig | None = None,
        bus: Dispatcher | None = None,
    ) -> None:
        self._around = Surroundings(adapter, host, config or AgentConfig(), bus)

    @abstractmethod
    def prepare(self, request: R) -> Prompt:
        """Return the prompt for a request."""

    def message(self, request: R) -> str | None:
        """Return what the user says; a request that is no text is in the prompt already.

        None says nothing: a run whose process has ended goes on where it was.
        """
        if request is None or isinstance(request, str):
            return request
        return UNSAID

    def finalize(self, prompt: Prompt, session: SessionProtocol, result: RunResult[O]) -> O | None:  # noqa: ARG002 - for those that override it
        """Return the output of a run that has succeeded; what it raises fails the request."""
        return result.output

    def execute(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Run a request to its end, or until it waits for a person.

        Args:
            request: The request.
            given: The session, and what wins over the configuration; see `RequestArguments`.

        Returns:
            The result and the session.

        Raises:
            RunFailed: When the run comes to no answer; its `result` says how far it came.
            StateError: When the session has another run under way.
        """
        return self._execute(self._attempt(request, given))

    async def aexecute(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Run a request on the event loop; see `execute`."""
        return await self._aexecute(self._attempt(request, given))

    def run(self, request: R, **given: Unpack[RequestArguments]) -> RunResult[O]:
        """Run a request, and return a result also where it fails; see `execute`."""
        attempt = None
        try:
            attempt = self._attempt(request, given)
            return self._execute(attempt)[0]
        except Exception as error:  # noqa: BLE001 - the result says so
            return _failed(attempt, error)

    async def arun(self, request: R, **given: Unpack[RequestArguments]) -> RunResult[O]:
        """Run a request on the event loop; see `run`."""
        attempt = None
        try:
            attempt = self._attempt(request, given)
            return (await self._aexecute(attempt))[0]
        except Exception as error:  # noqa: BLE001 - the result says so
            return _failed(attempt, error)

    def resume(
        self,
        state: RunState,
        answers: Answers,
        *,
        request: R | None = None,
        **given: Unpack[RequestArguments],
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Go on with a run that waits, in this process or in another.

        Args:
            state: The state of the run.
            answers: From ticket to answer; calls without one go on waiting.
            request: The request, where `prepare` needs it.
            given: As for `execute`; a session that no store keeps comes from the state.

        Returns:
            The result, which may wait again, and the session.

        Raises:
            RunFailed: When the run comes to no answer.
        """
        return self._execute(self._resumed(state, answers, request, given))

    async def aresume(
        self,
        state: RunState,
        answers: Answers,
        *,
        request: R | None = None,
        **given: Unpack[RequestArguments],
    ) -> tuple[RunResult[O], SessionProtocol]:
        """Go on with a run that waits, on the event loop; see `resume`."""
        return await self._aexecute(self._resumed(state, answers, request, given))

    def stream(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> Generator[Piece | RunResult[O]]:
        """Run a request on a thread; yield its text as it arrives, its calls, then its result.

        Leaving the iteration early cancels the run.

        Args:
            request: The request.
            given: As for `execute`; the stream is what listens.

        Yields:
            Text, a `CallMade` for each call of the model, a `ToolInvoked` for each that has
            ended, and at last the result.

        Raises:
            RunFailed: At the end, when the run comes to no answer.

        Example:
            ```python
            for piece in agent.stream("Which orders are open?"):
                if isinstance(piece, str):
                    print(piece, end="", flush=True)
            ```
        """

        def work(tell: Tell, stop: Cancellation) -> RunResult[O]:
            return self._execute(self._attempt(request, _told(given, tell, stop)), tell)[0]

        return read(work)

    def astream(
        self, request: R, **given: Unpack[RequestArguments]
    ) -> AsyncGenerator[Piece | RunResult[O]]:
        """Run a request as a task; see `stream`."""

        async def work(tell: Tell, stop: Cancellation) -> RunResult[O]:
            attempt = self._attempt(request, _told(given, tell, stop))
            return (await self._aexecute(attempt, tell))[0]

        return aread(work)

    def _execute(
        self, attempt: Attempt, tell: Tell | None = None
    ) -> tuple[RunResult[O], SessionProtocol]:
        with attempt.executor() as tools, self._having(tools.session, tell):
            return drive(self._life(attempt, tools)), tools.session

    async def _aexecute(
        self, attempt: Attempt, tell: Tell | None = None
    ) -> tuple[RunResult[O], SessionProtocol]:
        async with cast("Any", attempt.executor()) as tools:
            with self._having(tools.session, tell):
                return await adrive(self._life(attempt, tools)), tools.session

    @contextmanager
    def _having(self, session: SessionProtocol, tell: Tell | None) -> Generator[None]:
        """Have the session for one run, and tell of its calls where somebody listens."""
        told = nullcontext() if tell is None else calls_told(session, tell)
        with alone(self._around.host, session), told:
            yield

    def _attempt(self, request: R, given: RequestArguments) -> Attempt:
        prompt = self.prepare(request)
        return Attempt(self._around, prompt, given, said=self.message(request))

    def _resumed(
        self, state: RunState, answers: Answers, request: R | None, given: RequestArguments
    ) -> Attempt:
        prompt = self.prepare(cast("R", request))
        return Attempt(self._around, prompt, given, waits=WaitingRun(state, answers))

    def _life(self, attempt: Attempt, tools: ExecutorHandle) -> Loop[RunResult[O]]:
        run = attempt.run(tools)
        with run.under_way() as reasons:
            try:
                finished = yield from converse(run, attempt.said, attempt.answers)
                result: RunResult[O] = _result_of(run, attempt, finished)
                if result.success:
                    output = self.finalize(attempt.prompt, tools.session, result)
                    result = replace(result, output=output)
            except Exception as error:
                reason = attempt.failure(run, error).stop_reason
                if reason in _UNCHECKED:
                    run.guidance.skip(f"the run ended: {reason}")
                reasons.append(reason)
                raise
            reasons.append(result.stop_reason)
            return result


class Agent(MainLoop[str | None, O]):
    """The loop over one prompt, for requests that are texts.

    Args:
        prompt: The prompt.
        adapter: The adapter of the provider.
        host: The open host with the tools.
        config: The bounds of each run.
        bus: One more place where the events of runs are published.
    """

    def __init__(
        self,
        prompt: Prompt,
        *,
        adapter: ProviderAdapter,
        host: HostHandle,
        config: AgentConfig | None = None,
        bus: Dispatcher | None = None,
    ) -> None:
        super().__init__(adapter, host, config, bus)
        self._prompt = prompt

    def prepare(self, request: str | None) -> Prompt:  # noqa: ARG002 - one prompt for all
        """Return the one prompt."""
        return self._prompt


def _result_of(run: Run, attempt: Attempt, finished: Finished) -> RunResult[Any]:
    """Return the result of a run that has ended, or that waits.

    Raises:
        RunFailed: When it has ended without an answer.
    """
    if finished.stop_reason is StopReason.END:
        ended: RunResult[Any] = run.result(StopReason.END, finished.output)
        return ended
    if finished.stop_reason is not StopReason.PENDING:
        told = _ENDS[finished.stop_reason]
        raise RunFailed(
            f"{run.prompt} ended without an answer: {told}.", finished.stop_reason, Phase.RESPONSE
        )
    waits = () if attempt.state is None else attempt.state.waiting
    still = [each for each in waits if attempt.answers[each.call.id] is None]
    state = run.state([*still, *finished.waiting_calls()], is_stored=attempt.is_stored)
    return replace(run.result(StopReason.PENDING), waiting=finished.waiting, state=state)


def _told(given: RequestArguments, tell: Tell, stop: Cancellation) -> RequestArguments:
    """Return the arguments of a request that is streamed; who has cancelled it may do so still."""
    if (theirs := given.get("cancellation")) is not None:
        theirs.on_cancel(stop.cancel)
    return {**given, "listen": tell, "cancellation": stop}


def _failed(attempt: Attempt | None, error: Exception) -> RunResult[Any]:
    """Return the result of a request that raised, also before its run had begun."""
    if attempt is not None and attempt.failed is not None:
        return attempt.failed
    return RunResult(StopReason.ERROR, error=str(error))
