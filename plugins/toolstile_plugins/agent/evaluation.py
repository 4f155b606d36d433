"""An adapter's own way in: one reply at a time by `step`, a whole run by `evaluate`."""

from __future__ import annotations

from typing import Any, Unpack, cast

from toolstile_hookspecs import ConfigurationError, HostHandle, Prompt, SessionProtocol, StateError
from toolstile_hookspecs.agents.messages import Message, ToolResults, Turn
from toolstile_hookspecs.agents.provider import ProviderAdapter
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.agent.agent import Agent
from toolstile_plugins.agent.config import AgentConfig, RequestArguments, known
from toolstile_plugins.agent.conversation import UNSAID, Conversation, answer_of
from toolstile_plugins.agent.guidance.prompt_guidance import nowhere
from toolstile_plugins.agent.result import RunResult
from toolstile_plugins.agent.run import Run, Surroundings


class EvaluationArguments(RequestArguments, total=False):
    """The arguments beside the prompt; see `RequestArguments` for the others.

    Args:
        said: What the user says.
        tool_results: Outcomes of the calls of the last reply, or their texts, in its order.
        config: The bounds and the manner of the run.
    """

    said: str | None
    tool_results: ToolResults
    config: AgentConfig | None


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

    def step(self, prompt: Prompt, **given: Unpack[EvaluationArguments]) -> Turn:
        """Ask for one reply, whose calls are the caller's to carry out.

        The conversation is that of `session`, or of the session of `executor`.

        Raises:
            ProviderError: When the provider does not answer.
            StateError: When the results are not those of the last reply's calls.
        """
        run = _step(self, prompt, given)
        return run.replied(run.ask().perform())

    async def astep(self, prompt: Prompt, **given: Unpack[EvaluationArguments]) -> Turn:
        """Ask for one reply on the event loop; see `step`."""
        run = _step(self, prompt, given)
        return run.replied(await run.ask().aperform())

    def evaluate(self, prompt: Prompt, **given: Unpack[EvaluationArguments]) -> RunResult[Any]:
        """Ask until the model has ended, and carry out its calls.

        Raises:
            RunFailed: When the run comes to no answer.
            ConfigurationError: When there is neither an executor nor a host.
        """
        agent, said, more = _agent(self, prompt, given)
        return agent.execute(said, **more)[0]

    async def aevaluate(
        self, prompt: Prompt, **given: Unpack[EvaluationArguments]
    ) -> RunResult[Any]:
        """Evaluate on the event loop; see `evaluate`."""
        agent, said, more = _agent(self, prompt, given)
        return (await agent.aexecute(said, **more))[0]


def _step(adapter: Evaluation, prompt: Prompt, given: EvaluationArguments) -> Run:
    session = _session(given)
    if session is None:
        raise ConfigurationError("A step goes on with a conversation: give session= or executor=.")
    said = _told(session, given)
    if calls := Conversation(session).open_calls():
        names = ", ".join(call.name for call in calls)
        raise StateError(f"These calls have no result yet: {names}. Give tool_results.")
    around = Surroundings(cast("Any", adapter), None, given.get("config") or AgentConfig())
    run = Run(around, prompt, known(given, EvaluationArguments))
    # Nothing is carried out, so that no executor is needed.
    executor = given.get("executor")
    run.begin(nowhere(prompt, session, None if executor is None else executor.resources))
    if said is not None:
        run.conversation.add(Message.user(said, run.context.request_id))
    return run


def _agent(
    adapter: Evaluation, prompt: Prompt, given: EvaluationArguments
) -> tuple[Agent[Any], str | None, RequestArguments]:
    session = _session(known(given, EvaluationArguments))
    said = given.get("said") or UNSAID if session is None else _told(session, given)
    sends, config = cast("ProviderAdapter", adapter), given.get("config")
    agent = Agent[Any](prompt, adapter=sends, host=adapter.host, config=config)
    more = {k: v for k, v in given.items() if k not in ("said", "tool_results", "config")}
    return agent, said, cast("RequestArguments", more)


def _session(given: EvaluationArguments) -> SessionProtocol | None:
    executor = given.get("executor")
    return given.get("session") if executor is None else executor.session


def _told(session: SessionProtocol, given: EvaluationArguments) -> str | None:
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
