"""The parts that adapters share: their tools within our calls, and calls that wait for a person."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from importlib_metadata import PackageNotFoundError, requires, version
from pydantic_core import to_jsonable_python

from toolstile_hookspecs import (
    ApprovalAnswer,
    DefinitionError,
    ExecutorHandle,
    ForeignCall,
    ForeignTool,
    Interrupt,
    Outcome,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    ToolValidationError,
)
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.calls import APPROVAL_TICKET, APPROVAL_TOKEN, DIFF
from toolstile_hookspecs.execution.approvals import WaitingCall
from toolstile_hookspecs.execution.schemas import ToolSchema
from toolstile_hookspecs.support.text import extra_remedy

_NAME: Final = re.compile(r"[\w.-]+")


@contextmanager
def importing(extra: str) -> Generator[None]:
    """Explain why an import of a framework failed, and name the releases in its extra."""
    try:
        yield
    except ImportError as error:
        stated = [each.partition("; extra == ") for each in requires("toolstile") or ()]
        needed = [release for release, _, of in stated if of.strip("\"'") == extra]
        here: list[str] = []
        for name in (_NAME.findall(each)[0] for each in needed):
            try:
                here.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                here.append(f"no {name}")
        raise ImportError(
            f"The adapter works with {' and '.join(needed)}, and here is {' and '.join(here)} "
            f"({error}). {extra_remedy(extra)}.",
            name=error.name,
        ) from error


class ForeignPause(Interrupt):
    """Their tool has paused their run."""


class ForeignRun:
    """One run of their tool: `using` runs it within our call, and `given` returns its result.

    The call is only rolled back for an exception in `pauses`, with which the framework pauses or
    ends its run; for one in `failures`, which the framework shows to its model, the call has
    failed.
    """

    def __init__(
        self,
        pauses: tuple[type[BaseException], ...],
        failures: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._pauses = pauses
        self._failures = failures
        self._raised: BaseException | None = None
        self._returned: Any = None
        self._shown: Any = self  # as no result is

    def using(
        self, call: Callable[[dict[str, Any]], Awaitable[Any]]
    ) -> Callable[[dict[str, Any], ToolContext], Awaitable[Any]]:
        """Return a function that runs an async tool within our call."""

        async def run(arguments: dict[str, Any], _: ToolContext) -> Any:
            with self._steered():
                return self._keep(await call(arguments))

        return run

    def using_sync(
        self, call: Callable[[dict[str, Any]], Any]
    ) -> Callable[[dict[str, Any], ToolContext], Any]:
        """Return a function that runs a sync tool within our call."""

        def run(arguments: dict[str, Any], _: ToolContext) -> Any:
            with self._steered():
                return self._keep(call(arguments))

        return run

    def given(self, outcome: Outcome) -> Any:
        """Return the result of a call for their framework.

        That is the object that the tool returned, or our text if the call did not succeed, a
        plugin or the ledger answered, or the object contains a secret of the call's arguments.
        """
        if not outcome.success or outcome.result.value is not self._shown:
            return outcome.text
        data = (outcome.data or b"").decode()
        return self._returned if outcome.event.hide(data) == data else outcome.text

    @contextmanager
    def steering(self) -> Generator[None]:
        """Raise a pause of their tool out of `dispatch` unchanged."""
        try:
            yield
        except ForeignPause:
            self.raise_own()
            raise

    def raise_own(self, outcome: Outcome | None = None) -> None:
        """Raise the exception with which their tool ended our call, or left `dispatch`."""
        ended_by_it = outcome is None or outcome.status is Status.FAILED
        if self._raised is not None and ended_by_it:
            raise self._raised

    def _keep(self, returned: Any) -> Any:
        self._returned = returned
        self._shown = to_jsonable_python(returned, fallback=str, bytes_mode="base64")
        return self._shown

    @contextmanager
    def _steered(self) -> Generator[None]:
        """Raise an exception of ours in place of their control flow."""
        try:
            yield
        except (*self._failures, *self._pauses) as error:
            self._raised = error
            ours = ForeignPause if isinstance(error, self._pauses) else ToolValidationError
            raise ours(str(error)) from error


def foreign_tool(tools: ExecutorHandle, name: str, remedy: str) -> ForeignTool:
    """Return the tool of an executor for one of theirs; `remedy` says how to make the executor."""
    for tool in tools.prompt.tools(tools.session):
        if isinstance(tool, ForeignTool) and name in tool.policy_names:
            return tool
    raise DefinitionError(
        f"The executor does not know the tool {name!r}, so its calls cannot pass the stages. Make "
        f"the executor with host.executor(tools={remedy})."
    )


TOKEN: Final = "toolstile_token"  # noqa: S105 - the key of one
"""The key of the token in the question of a call that waits."""


def offered(tools: ExecutorHandle) -> list[ToolSchema]:
    """Return the schemas of the tools that can be called now."""
    return [ToolSchema.of(tool) for tool in tools.prompt.tools(tools.session)]


def question(outcome: Outcome) -> dict[str, str]:
    """Return the question of a call that waits, and the token that resumes it, as plain text."""
    shown = {"ticket": APPROVAL_TICKET, "diff": DIFF, TOKEN: APPROVAL_TOKEN}
    attributes = outcome.event.attributes
    return {
        "question": outcome.text,
        **{key: str(attributes[name]) for key, name in shown.items() if name in attributes},
    }


def read_json(text: str) -> Any:
    """Return the value of a JSON text, or None."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def digest_of(call: ToolCall) -> str:
    """Return a digest that tells apart calls of the same id in different runs of a session."""
    given = call.arguments
    read = read_json(given) if isinstance(given, str) else given
    made = given if read is None else json.dumps(read, sort_keys=True)
    return sha256(f"{call.name} {made!r}".encode()).hexdigest()


def waits(tools: ExecutorHandle, outcome: Outcome, call: ToolCall) -> WaitingCall:
    """Keep a call that waits, as its framework made it, in the session."""
    id_, digest = outcome.call.id, digest_of(call)
    kept = WaitingCall(call.wire_id, question(outcome), digest=digest, id=id_)
    tools.session[WaitingCall].append(kept)
    return kept


def waiting(
    tools: ExecutorHandle, call_id: str, call: ToolCall | None = None
) -> WaitingCall | None:
    """Return the newest call of an id that waits, first one without an answer, or None.

    Since models repeat ids, only a call of the same tool with the same arguments is the same call.
    """
    # An earlier release kept no digest.
    digests = None if call is None else {digest_of(call), ""}
    newest: dict[str, WaitingCall] = {}
    for kept in reversed(tools.session[WaitingCall].where(lambda kept: kept.call_id == call_id)):
        if digests is None or kept.digest in digests:
            newest.setdefault(kept.digest, kept)
    left = [kept for kept in newest.values() if kept.question]
    return max(left, key=lambda kept: kept.answer is None, default=None)


def dispatch(tools: ExecutorHandle, call: ToolCall, using: ForeignCall | None) -> Outcome:
    """Dispatch a call, or resume it if it waits and has an answer."""
    kept = waiting(tools, call.wire_id, call)
    if kept is None or kept.answer is None:
        return tools.dispatch(call, using=using)
    asked = replace(call, id=kept.id or kept.call_id)
    outcome = tools.resume(asked, kept.question[TOKEN], kept.answer, using=using)
    end_waiting(tools, kept)
    return outcome


async def adispatch(
    tools: ExecutorHandle,
    call: ToolCall,
    using: ForeignCall | None,
    unanswered: ApprovalAnswer | None = None,
) -> Outcome:
    """Dispatch or resume a call; `unanswered` is the answer if the framework has asked itself."""
    kept = waiting(tools, call.wire_id, call)
    given = None if kept is None else kept.answer or unanswered
    if kept is None or given is None:
        return await tools.adispatch(call, using=using)
    asked = replace(call, id=kept.id or kept.call_id)
    outcome = await tools.aresume(asked, kept.question[TOKEN], given, using=using)
    end_waiting(tools, kept)
    return outcome


def end_waiting(tools: ExecutorHandle, kept: WaitingCall) -> None:
    """Note that a call does not wait any longer."""
    tools.session[WaitingCall].append(WaitingCall(kept.call_id, digest=kept.digest))


def answer(
    tools: ExecutorHandle, call_id: str, given: GivenAnswer, call: ToolCall | None = None
) -> None:
    """Answer a call that waits; it continues with its run.

    Args:
        tools: An executor of its session.
        call_id: The model's id of the call; of several such calls, the newest is answered.
        given: The answer: an approval, a denial with its reason, or an edit.
        call: The call, if it is known.

    Raises:
        StateError: When no call of that id waits in the session.
    """
    kept = waiting(tools, call_id, call)
    if kept is None:
        raise StateError(
            f"No call {call_id!r} waits in the session {tools.session.id!r}. Answer it in an "
            "executor of the session in which it was asked about."
        )
    if isinstance(given, bool):
        given = ApprovalAnswer.approve() if given else ApprovalAnswer.deny()
    tools.session[WaitingCall].append(replace(kept, answer=given))
