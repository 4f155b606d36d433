"""Asking the person at the client whether a call may run: by elicitation, for each era.

In the older era the server asks while the call waits. In the newer one it cannot: the call ends as
pending, its result has the question, and the client repeats the request with the answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult, InputResponseRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalCard,
    ApprovalRequest,
    Outcome,
    hide,
    masked,
    secrets_of,
)
from toolstile_hookspecs.calls import APPROVAL
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.approval.beside import KeptQuestion, Reached
from toolstile_plugins.cli_support import described_category
from toolstile_plugins.mcp.server.request import CallRequest, current_request, person_of
from toolstile_plugins.screen import printable_lines

# --- The question


FORM: Final[dict[str, Any]] = {"type": "object", "properties": {}}
"""The form is empty: to accept is to approve, to decline is to deny."""
MOST_ROWS: Final = 20
"""The most rows of a card in one form; the rows of a longer card are asked about one by one."""
LONGEST: Final = 8_000
"""The most characters of the arguments, and of the diff, until each part is shortened."""
SHORTER: Final = ((2_000, 100), (500, 50), (200, 20), (100, 5))
"""Characters of a text and items of a list, tried in turn until all parts fit."""
ENTRIES: Final = 50
"""The most entries of an object within an argument that are shown."""
SHORTEST: Final = 200
"""The fewest characters of the changes of one file that are shown."""
LEFT_OUT: Final = "... and {:,} more {} that are not shown here"
MASK: Final = "***"


def question_of(request: ApprovalRequest) -> str:
    """Return the question, without secrets and terminal escapes."""
    schema = request.tool.params_codec.secret_schema()
    arguments: dict[str, Any] = json.loads(request.arguments)
    secrets = [*secrets_of(arguments, schema)]
    return "\n".join(_lines(request, masked(arguments, schema, MASK), secrets))


def _lines(request: ApprovalRequest, arguments: Any, secrets: list[str]) -> Iterator[str]:
    tool = request.tool
    effect = f"({described_category(tool)}, {tool.consequence} consequence)"
    if request.diff is None:
        yield f"Run {tool.name}? {effect}"
    else:
        yield f"{tool.name} has run {effect}. Keep its changes?"
    for reason in request.reasons:
        yield from _shown(hide(reason, secrets), LONGEST)
    yield "Arguments:"
    yield from _shown(_written(arguments))
    if request.diff is not None:
        yield from _diff_lines(hide(request.diff, secrets))


def _diff_lines(diff: str) -> Iterator[str]:
    yield "It would change:"
    # A long change of one file must not hide that of another.
    parts = _DIFF_PARTS.split(diff)
    for part in parts:
        yield from _shown(part, max(LONGEST // len(parts), SHORTEST))


def question_of_card(card: ApprovalCard) -> str:
    """Return the question about all rows of a card, numbered as the choices of its form."""
    of_title = f" of {printable(card.title)}" if card.title else ""
    head = f"{len(card.rows)} calls wait for your answer."
    if card.diff is not None:
        head = f"The calls{of_title} have run. Keep their changes?"
    lines = [head]
    for number, row in enumerate(card.rows, 1):
        first, _, rest = question_of(row).partition("\n")
        first = first if card.diff is None else row.tool.name
        lines.append(f"{number}. {first}\n{rest}")
    return "\n".join(lines if card.diff is None else [*lines, *_diff_lines(card.diff)])


def form_of_card(card: ApprovalCard) -> dict[str, Any]:
    """Return the form of a card: a choice for each row, named by the id of its call."""
    choices = {
        row.call.id: {"type": "string", "title": f"{number}. {row.tool.name}", "enum": [*CHOICES]}
        for number, row in enumerate(card.rows, 1)
    }
    return {"type": "object", "properties": choices, "required": [*choices]}


CHOICES: Final = {"approve": ApprovalAnswer.approve(), "deny": ApprovalAnswer.deny()}


_DIFF_PARTS: Final = re.compile(r"\n(?=(?:  )?(?:--- |[^\s+\-@\\]))")
"""The ends of lines before the changes of another file or participant."""


def _written(arguments: Any) -> str:
    """Return arguments as JSON; long texts and lists in it are shortened if necessary."""
    text = json.dumps(arguments, ensure_ascii=False, indent=2)
    for limits in SHORTER:
        if len(text) <= LONGEST:
            break
        shortened = {
            name: _shortened(value, *limits)
            for name, value in cast("dict[str, Any]", arguments).items()
        }
        text = json.dumps(shortened, ensure_ascii=False, indent=2)
    return text


def _shortened(value: Any, characters: int, items: int) -> Any:
    if isinstance(value, str):
        more = len(value) - characters
        return value if more <= 0 else f"{value[:characters]}{LEFT_OUT.format(more, 'characters')}"
    if isinstance(value, list):
        found = cast("Sequence[Any]", value)
        shown = [_shortened(item, characters, items) for item in found[:items]]
        more = len(found) - items
        return shown if more <= 0 else [*shown, LEFT_OUT.format(more, "items")]
    if isinstance(value, dict):
        entries = cast("Mapping[str, Any]", value)
        kept = {
            name: _shortened(item, characters, items)
            for name, item in islice(entries.items(), ENTRIES)
        }
        more = len(entries) - ENTRIES
        return kept if more <= 0 else {**kept, LEFT_OUT.format(more, "entries"): "..."}
    return value


def _shown(text: str, most: int | None = None) -> Iterator[str]:
    # Indented, so that no line of it looks like a line of the question.
    for line in printable_lines(text[:most]):
        yield f"  {line}"
    if most is not None and len(text) > most:
        yield f"  {LEFT_OUT.format(len(text) - most, 'characters')}"


# --- Elicitation


log = logging.getLogger("toolstile.mcp")

NO_CLIENT: Final = "No MCP client made this request, so no one can be asked."
CANNOT_ASK: Final = (
    "The MCP client cannot ask a person: it does not have the capability `elicitation`, in the "
    "mode `form`."
)
NO_WAY_BACK: Final = "The MCP client cannot be asked over this connection."
BEFORE_DEADLINE: Final = 0.9
"""The part of a call's time that a person has; the rest is for the end without an answer."""
CLOSED: Final = "The person closed the question without an answer."
NO_ANSWER: Final = "The MCP client's answer cannot be understood."


def ask(request: ApprovalRequest, longest: float) -> ApprovalAnswer | Awaitable[ApprovalAnswer]:
    """Ask the client of the running request, for at most `longest` seconds."""
    asking = current_request.get()
    if asking is None:
        return ApprovalAnswer.unanswered(NO_CLIENT)
    if (fault := _unreachable(asking)) is not None:
        return ApprovalAnswer.unanswered(fault)
    if _is_modern(asking):
        asking.questions[request.call.id] = (question_of(request), None)
        return ApprovalAnswer.pending()
    return _elicit(asking, request, longest)


async def ask_card(card: ApprovalCard, longest: float) -> dict[str, ApprovalAnswer]:
    """Ask the client about all rows of a card, by one form if it can show them all."""
    asking = current_request.get()
    can_ask = asking is not None and _unreachable(asking) is None and not _is_modern(asking)
    if asking is None or not can_ask or len(card.rows) > MOST_ROWS:
        found: dict[str, ApprovalAnswer] = {}
        for row in card.rows:
            one = ask(replace(row, diff=card.diff), longest)
            found[row.call.id] = one if isinstance(one, ApprovalAnswer) else await one
        return found
    question, form = question_of_card(card), form_of_card(card)
    given = await _elicited(asking, question, form, card.rows[0], longest)
    if isinstance(given, ApprovalAnswer) or given.action != "accept":
        return dict.fromkeys(form["required"], meaning_of(given))
    chosen, left = given.content or {}, ApprovalAnswer.unanswered(CLOSED)
    return {id_: CHOICES.get(str(chosen.get(id_)), left) for id_ in form["required"]}


def reached(longest: float) -> Reached | None:
    """Return the person at the client of the running request, if the client can ask them."""
    asking = current_request.get()
    if asking is None or _unreachable(asking) is not None:
        return None
    by = person_of(asking.context)
    if by is None:
        return None
    return Reached(by, partial(_ask_beside, asking, longest), _is_modern(asking))


async def _ask_beside(asking: CallRequest, longest: float, kept: KeptQuestion) -> None:
    request = kept.request
    if _is_modern(asking):
        asking.questions[request.call.id] = (question_of(request), kept.proof())
        return
    given = await _elicit(asking, request, longest)
    if given.answered:
        await asyncio.to_thread(kept.answer, given)


def meaning_of(result: ElicitResult | ApprovalAnswer) -> ApprovalAnswer:
    """Return the answer that a person's reaction to the question means."""
    if isinstance(result, ApprovalAnswer):
        return result
    match result.action:
        case "accept":
            return ApprovalAnswer.approve()
        case "decline":
            return ApprovalAnswer.deny()
        case "cancel":
            return ApprovalAnswer.unanswered(CLOSED)


def _unreachable(asking: CallRequest) -> str | None:
    session = asking.context.session
    capabilities = session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    # Clients from before modes only say that they can ask.
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return CANNOT_ASK
    return None if _is_modern(asking) or session.can_send_request else NO_WAY_BACK


def _is_modern(asking: CallRequest) -> bool:
    return asking.context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _elicit(asking: CallRequest, request: ApprovalRequest, longest: float) -> ApprovalAnswer:
    return meaning_of(await _elicited(asking, question_of(request), FORM, request, longest))


async def _elicited(
    asking: CallRequest,
    question: str,
    form: dict[str, Any],
    request: ApprovalRequest,
    longest: float,
) -> ElicitResult | ApprovalAnswer:
    """Elicit a form before the deadline of a request; return an answer if that fails."""
    context, deadline = asking.context, request.context.deadline
    if deadline is not None:
        longest = min(longest, deadline.remaining() * BEFORE_DEADLINE)

    async def elicited() -> ElicitResult:
        async with asyncio.timeout(longest):
            return await context.session.elicit_form(question, form, context.request_id)

    try:
        # On the loop of the client, from the loop of any nested call.
        if asyncio.get_running_loop() is asking.loop:
            return await elicited()
        running = asyncio.run_coroutine_threadsafe(elicited(), asking.loop)
        return await asyncio.wrap_future(running)
    except TimeoutError:
        told = f"No one answered at the MCP client in {longest:.3g} seconds."
        return ApprovalAnswer.unanswered(told)
    except (MCPError, ValidationError) as error:
        log.warning("An MCP client could not be asked: %s", error)
        return ApprovalAnswer.unanswered(NO_ANSWER)


# --- Rounds


QUESTION: Final = "approval"
"""The key of the question in a result."""
REFUSED: Final = "refused"
ALTERED: Final = "The request state was altered."
LONGEST_ID: Final = 256
DATA: Final = {"reason": "invalid_request_state"}


@dataclass(frozen=True, slots=True)
class RequestState:
    """The state that a client returns when it repeats a request."""

    session: str  # the id of the session of the call
    token: str  # resumes the call
    handle: str | None = None  # of the session, if the request had begun it
    is_proof: bool = False  # the token proves a question of an inbox

    def written(self) -> str:
        """Return the state as the client keeps it."""
        proof = [True] if self.is_proof else []
        return json.dumps([self.session, self.token, self.handle, *proof], separators=(",", ":"))

    @classmethod
    def in_answer(cls, params: Mapping[str, Any] | None) -> RequestState | None:
        """Return the state in the params of a request with an answer, else None.

        Without an answer the state is ignored, because its authenticity cannot be checked then. No
        call runs in the session that it names unless the host finds the token genuine. Raises
        `MCPError` for a state that no server has written.
        """
        given = params or {}
        text = given.get("requestState")
        if text is None or QUESTION not in (given.get("inputResponses") or {}):
            return None
        try:
            session, token, handle, *proof = cast("list[object]", json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise _invalid(ALTERED) from None
        is_id = isinstance(session, str) and session.isprintable() and len(session) <= LONGEST_ID
        if not is_id or not isinstance(token, str):
            raise _invalid(ALTERED)
        handle = handle if isinstance(handle, str) else None
        return cls(str(session), token, handle, proof == [True])


def answer_in(params: InputResponseRequestParams) -> ApprovalAnswer:
    """Return a person's answer in a repeated request; raise `MCPError` for another answer."""
    given = (params.input_responses or {}).get(QUESTION)
    if not isinstance(given, ElicitResult):
        raise _invalid(f"inputResponses[{QUESTION!r}] must be the result of an elicitation.")
    return meaning_of(given)


def question_result(
    outcome: Outcome, asked: tuple[str, str | None], handle: str | None
) -> dict[str, Any]:
    """Return the result that asks for an answer to a pending call.

    `asked` is the question, and an inbox's proof that it keeps the question, if it does.
    """
    question, proof = asked
    token = proof or outcome.approval_token
    assert token is not None  # noqa: S101 - it is pending
    state = RequestState(outcome.event.session_id, token, handle, is_proof=proof is not None)
    params = {"mode": "form", "message": question, "requestedSchema": FORM}
    return {
        "resultType": "input_required",
        "inputRequests": {QUESTION: {"method": "elicitation/create", "params": params}},
        "requestState": state.written(),
    }


def refuse_invalid(outcome: Outcome) -> None:
    """Raise `MCPError` if a call was not resumed because its state does not hold."""
    if outcome.event.attributes.get(APPROVAL) == REFUSED:
        raise _invalid(outcome.text)


def _invalid(why: str) -> MCPError:
    return MCPError(INVALID_PARAMS, why, DATA)
