"""An adapter's own way in: one reply at a time by `step`, a whole run by `evaluate`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Required, TypedDict, Unpack, cast

from toolstile_hookspecs import (
    ConfigurationError,
    ExecutorHandle,
    HostHandle,
    Prompt,
    SessionProtocol,
    StateError,
)
from toolstile_hookspecs.agents.messages import Message, ToolResults, Turn
from toolstile_hookspecs.agents.provider import Listener, ModelRequest, ProviderAdapter
from toolstile_hookspecs.limits import SystemClock
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.agent.agent import UNSAID, Agent
from toolstile_plugins.agent.attempt import AgentConfig, RequestArguments
from toolstile_plugins.agent.conversation import Conversation, answer_of
from toolstile_plugins.agent.output import OutputType
from toolstile_plugins.agent.result import RunResult
from toolstile_plugins.agent.run import RunOptions


class Telling(TypedDict, total=False):
    """The part of the arguments that the model is told, and the manner of it.

    Args:
        said: What the user says.
        tool_results: Outcomes of the calls of the last reply, or their texts, in its order.
        options: The settings of the model and the time for each reply; the bounds of a run.
    """

    said: str | None
    tool_results: ToolResults
    options: RunOptions | None


class StepArguments(Telling, total=False):
    """The arguments beside the prompt of a step; see `Telling`.

    Args:
        session: The session whose conversation goes on.
        listen: Receives the text as it arrives.
    """

    session: Required[SessionProtocol]
    listen: Listener | None


class EvaluationArguments(Telling, RequestArguments, total=False):
    """The arguments beside the prompt of a run; see `Telling` and `RequestArguments`.

    Args:
        executor: The executor for the calls; else one of the adapter's host.
    """

    executor: ExecutorHandle | None


class Evaluation:
    """Evaluates prompts; an adapter with `send` and `asend` derives from it.

    Attributes:
        host: The open host for `evaluate`, where it is given no executor.

    Example:
        >>> from toolstile import Host, Prompt
        >>> from toolstile.testing import ScriptedModel
        >>> class Model(Evaluation, ScriptedModel): ...
        >>> with Host(discover=False) as host, host.executor() as tools:
        ...     Model("Hello.").evaluate(Prompt.of("demo", "hello", []), executor=tools).text
        'Hello.'
    """

    host: HostHandle | None = None

    def step(self, prompt: Prompt, **given: Unpack[StepArguments]) -> Turn:
        """Send one request, once, and return the reply; its calls are the caller's to carry out.

        Raises:
            ProviderError: For every fault of the provider.
            StateError: When the results are not those of the last reply's calls.
        """
        adapter, request = cast("ProviderAdapter", self), _next(prompt, given)
        return _kept(adapter.send(request, given.get("listen")), given)

    async def astep(self, prompt: Prompt, **given: Unpack[StepArguments]) -> Turn:
        """Send one request on the event loop; see `step`."""
        adapter, request = cast("ProviderAdapter", self), _next(prompt, given)
        return _kept(await adapter.asend(request, given.get("listen")), given)

    def evaluate(self, prompt: Prompt, **given: Unpack[EvaluationArguments]) -> RunResult[Any]:
        """Ask until the model has ended, and carry out its calls.

        Raises:
            RunFailed: When the run comes to no answer.
            ConfigurationError: When there is neither an executor nor a host.
        """
        agent, said, more = self._agent(prompt, given)
        return agent.execute(said, **more)[0]

    async def aevaluate(
        self, prompt: Prompt, **given: Unpack[EvaluationArguments]
    ) -> RunResult[Any]:
        """Evaluate on the event loop; see `evaluate`."""
        agent, said, more = self._agent(prompt, given)
        return (await agent.aexecute(said, **more))[0]

    def _agent(
        self, prompt: Prompt, given: EvaluationArguments
    ) -> tuple[Agent[Any], str | None, RequestArguments]:
        executor = given.get("executor")
        host = self.host if executor is None else cast("HostHandle", _OneExecutor(executor))
        if host is None:
            msg = "Nothing carries calls out: give executor=, or make the adapter with host=."
            raise ConfigurationError(msg)
        session = given.get("session") if executor is None else executor.session
        said = given.get("said") or UNSAID if session is None else _told(session, given)
        config = AgentConfig(given.get("options") or RunOptions())
        agent = Agent[Any](prompt, adapter=cast("ProviderAdapter", self), host=host, config=config)
        names = RequestArguments.__annotations__
        more = {name: value for name, value in given.items() if name in names}
        return agent, said, cast("RequestArguments", more)


class _OneExecutor:
    """Stands in for a host; its one executor is open already."""

    clock = SystemClock()

    def __init__(self, executor: ExecutorHandle) -> None:
        self._executor = executor

    def executor(self, **_: object) -> AbstractContextManager[ExecutorHandle]:
        """Return the executor, which is left open."""
        return nullcontext(self._executor)


def _told(session: SessionProtocol, given: Telling) -> str | None:
    """Add results to the conversation; return what the user says, at least something at first."""
    conversation, results = Conversation(session), given.get("tool_results", ())
    calls = conversation.open_calls()
    if results and len(calls) != len(results):
        raise StateError(
            f"The last reply waits for {counted(len(calls), 'result')}, and tool_results has "
            f"{len(results)}. Give one for each call, in their order."
        )
    conversation.answer([answer_of(*each) for each in zip(calls, results, strict=False)])
    return given.get("said") or (None if conversation.all() else UNSAID)


def _next(prompt: Prompt, given: StepArguments) -> ModelRequest:
    """Return the next request, once what is new stands in the conversation."""
    session, options = given["session"], given.get("options") or RunOptions()
    conversation, said = Conversation(session), _told(session, given)
    if calls := conversation.open_calls():
        names = ", ".join(call.name for call in calls)
        raise StateError(f"These calls have no result yet: {names}. Give tool_results.")
    if said is not None:
        conversation.add(Message.user(said))
    rendered, output = prompt.render(session), prompt.template.output
    schema = None if output is None else OutputType(output, f"{prompt.ns}:{prompt.key}").schema
    told = (conversation.all(), rendered.tools, schema)
    return ModelRequest(rendered.text, *told, options.settings, options.timeout)


def _kept(turn: Turn, given: StepArguments) -> Turn:
    Conversation(given["session"]).reply(turn)
    return turn
