"""Grants: approvals that last, each bound to the subject of one question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, get_args, runtime_checkable
from uuid import uuid4

from toolstile_hookspecs import ApprovalAnswer, Principal
from toolstile_hookspecs.services.approval_store import Moment, Question
from toolstile_hookspecs.services.json_forms import JsonForm
from toolstile_hookspecs.support.text import wire_time

Scope = Literal["session", "principal", "everybody"]
SCOPES: Final = get_args(Scope)
"""The scopes of a grant, each wider than the one before."""
HOURS: Final = 8.0
"""The hours for which a grant is valid by default."""
MOST_HOURS: Final = 720.0
"""The maximum hours of a grant."""
_FOR: Final[dict[Scope, str]] = {
    "session": "in this session",
    "principal": "in every session of this principal",
    "everybody": "for everybody",
}


@dataclass(frozen=True, slots=True)
class Grant:
    """An approval of calls like the call of a question.

    Args:
        id: The id.
        tool: The name of the tool.
        definition: The digest of the tool's definition; a changed tool is not covered.
        asked_by: The policies that asked; calls with questions of other policies are not covered.
        has_run: Whether the calls have run, and the grant approves their changes.
        digest: The digest of the shown arguments and changes; None for any.
        scope: Whose calls it approves.
        session_id: The session of the question.
        principal: The principal of the question.
        expires: The time of expiry; aware.
        times: How many calls it approves; None for any number.
        by: The person.
        via: The way of the answer, such as `terminal`.
    """

    id: str
    tool: str
    definition: str
    asked_by: tuple[str, ...]
    has_run: bool
    digest: str | None
    scope: Scope
    session_id: str
    principal: Principal | None
    expires: Moment
    times: int | None
    by: Principal
    via: str

    def covers(self, question: Question) -> bool:
        """Tell whether the grant covers the subject of a new question."""
        return (
            not question.by_person
            and question.created < self.expires
            and (question.tool, question.definition) == (self.tool, self.definition)
            and self.has_run is (question.diff is not None)
            and self.digest in {None, question.digest}
            and {*question.asked_by} <= {*self.asked_by}
            and (self.scope == "everybody" or question.principal == self.principal)
            and (self.scope != "session" or question.session_id == self.session_id)
        )

    @property
    def answer(self) -> ApprovalAnswer:
        """The answer that the grant gives, with the id of the grant."""
        by = f"{self.by.source} {self.by.id} (grant {self.id}, {self.via})"
        return replace(ApprovalAnswer.approve(), by=by)

    @property
    def described(self) -> str:
        """The calls that the grant approves, in words."""
        arguments = "whatever its arguments" if self.digest is None else "with the same arguments"
        times = "" if self.times is None else f", {self.times} times"
        until = f"until {wire_time(self.expires)}"
        return f"{self.tool}, {arguments}, {_FOR[self.scope]}, {until}{times}"


GRANT: Final = JsonForm(Grant)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a grant, as a person chooses them.

    An exact grant approves only the shown arguments and changes; without `times`, any number of
    calls.
    """

    is_exact: bool = True
    scope: Scope = "session"
    hours: float = HOURS
    times: int | None = None

    def fault(self) -> str | None:
        """Return why the terms are invalid; None if they are valid."""
        if self.scope not in SCOPES:
            return f"it is for one of {', '.join(SCOPES)}."
        if not 0 < self.hours <= MOST_HOURS:
            return f"it holds for some hours, at most {MOST_HOURS:g}."
        return "it is for 1 time or more." if self.times is not None and self.times < 1 else None

    def grant(self, question: Question, by: Principal, via: str, now: datetime) -> Grant:
        """Return a grant of the subject of a question."""
        return Grant(
            id=uuid4().hex[:12],
            tool=question.tool,
            definition=question.definition,
            asked_by=question.asked_by,
            has_run=question.diff is not None,
            digest=question.digest if self.is_exact else None,
            scope=self.scope,
            session_id=question.session_id,
            principal=question.principal,
            expires=now + timedelta(hours=self.hours),
            times=self.times,
            by=by,
            via=via,
        )


@runtime_checkable
class Grants(Protocol):
    """The grants of a host."""

    def answer_to(self, question: Question) -> ApprovalAnswer | None:
        """Return the answer of a grant to a question before it is asked; None without a grant."""
        ...

    def add(self, grant: Grant, question: Question) -> None:
        """Store a grant that a person made of a question.

        Raises:
            StateError: The person may not grant this; the message is for them.
        """


class HeldGrants:
    """Grants that end with the host and cannot be listed or revoked."""

    def __init__(self) -> None:
        self._grants: list[Grant] = []

    def answer_to(self, question: Question) -> ApprovalAnswer | None:
        """Return the answer of a grant, if one covers the question."""
        return next((grant.answer for grant in self._grants if grant.covers(question)), None)

    def add(self, grant: Grant, question: Question) -> None:  # noqa: ARG002 - the protocol's
        """Store a grant."""
        self._grants.append(grant)
