"""The schema of a record's lines.

The first line of each run says that it begins, and the last line that it ended. Between them stands
a line for each call, for each end of a transaction, for each check of the completion of an agent's
task, and for each answer of a person, grant and revocation, from any process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, from_json

from toolstile_hookspecs import (
    Principal,
    RequestTurn,
    Stage,
    Status,
    ToolstileError,
    TransactionStatus,
    Verdict,
)
from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.execution.principal import APPLICATION, MAIN_AGENT
from toolstile_hookspecs.support.text import counted

FORMAT: Final = "toolstile.record"
VERSION: Final = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Line(_Part):
    n: int
    prev: str
    hash: str


class Begin(_Line):
    """A run that began to record; `torn` bytes of an earlier incomplete line were cut off."""

    kind: Literal["begin"]
    format: Literal["toolstile.record"]
    version: Literal[1]
    at: datetime
    torn: int = 0


class End(_Line):
    """A run that ended; `lost` calls since the last line that counts them could not be recorded."""

    kind: Literal["end"]
    at: datetime
    lost: int = 0


class Decision(_Part):
    """The decision of a policy that did not simply allow."""

    policy: str | None = None
    verdict: Verdict
    reason: str | None = None


class Approval(_Part):
    """A person's answer (approved, denied, edited, pending or unanswered), and the reason."""

    answer: str
    reason: str | None = None


class Raised(_Part):
    """The exception behind a call that failed: the name of its class, and its text."""

    type: str
    text: str = ""
    section_keys: tuple[str, ...] = ()  # of a `VisibilityExpansionRequired`


class RecordedPrincipal(_Part):
    """The principal of a call, beside its id: the source that vouches for it, and the groups."""

    source: str
    groups: tuple[str, ...] = ()


def _naming_its_tool(envelope: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(envelope.get("tool"), str):
        raise PydanticCustomError("nameless", "Names no tool")
    return envelope


class RecordedCall(_Line):
    """A call. Secrets are masked in all of it."""

    kind: Literal["call"]
    session: str
    id: str
    parent: str | None = None  # the id of the call that made this call
    agent: str = MAIN_AGENT  # the path of the agent that made it
    user: str | None = None  # the id of the principal
    # The source and groups of the principal, if it has more than an id.
    principal: RecordedPrincipal | None = None
    # The user's request, unless it equals that of the call of the session before it in the run.
    request: tuple[RequestTurn, ...] | None = None
    name: str | None = None  # the requested name, if it is not the tool's own name
    arguments: Any = None  # the arguments as they came; a text if they were not JSON
    params: Any = None  # the arguments as typed, None if they did not fit
    # Whether `***` in either stands for a secret. False if it is literal text.
    masked: bool = True
    status: Status
    stage: Stage
    at: datetime
    seconds: float
    handler_seconds: float | None = None  # the duration of its handler, None if it did not run
    # The message that went out.
    envelope: Annotated[dict[str, Any], AfterValidator(_naming_its_tool)]
    message: str = ""
    # The text that the model read, if the envelope does not have it literally.
    text: str | None = None
    # Where the value is: on the wire, kept from it, or there was none.
    value: Literal["wire", "kept", "none"] = "none"
    decisions: tuple[Decision, ...] = ()
    approval: Approval | None = None
    # The notes of plugins, by `plugin.name`.
    attributes: dict[str, Any] = Field(default_factory=dict[str, Any])
    rolled_back: bool = False  # whether its changes were rolled back
    pending_parent: bool = False  # whether its changes waited for its parent's commit
    batch: str | None = None  # the id of the batch that it was dispatched in
    # Its changes as an approver reads them, if diffs are recorded and it changed anything.
    diff: str | None = None
    transaction: str | None = None  # the id of its transaction, whose end has its own line
    replayed: bool = False  # whether it was answered from a record or ledger
    reruns: int = 0  # how often it ran again
    error: Raised | None = None
    changes: str | None = None  # its changes of the session, as JSON for a `Replay`
    changes_lost: str | None = None  # the reason why those are unknown
    lost: int = 0  # the number of calls before it that could not be recorded
    # The stages that it entered in order, each with the seconds since it began. A repeated stage
    # stands there again.
    stages: tuple[tuple[Stage, float], ...] = ()
    trace: str | None = None  # the id of its trace, if it was traced

    @property
    def tool(self) -> str:
        """The tool's own name, or the requested name."""
        return str(self.envelope["tool"])

    @property
    def asked_by(self) -> Principal | None:
        """The recorded part of the principal."""
        if self.user is None:
            return None
        more = self.principal or RecordedPrincipal(source=APPLICATION)
        return Principal(more.source, self.user, more.groups)

    @property
    def asked_for(self) -> str:
        """The requested name."""
        return self.tool if self.name is None else self.name

    @property
    def read(self) -> str:
        """The text that the model read."""
        if self.text is not None:
            return self.text
        said = self.envelope.get("error", self.envelope.get("data"))
        return said if isinstance(said, str) else ""

    @property
    def success(self) -> bool:
        """True when it succeeded."""
        return self.status is Status.SUCCEEDED

    @property
    def stage_seconds(self) -> list[tuple[Stage, float]]:
        """The stages in their order, each with the seconds until the next one or the end."""
        ends = [*(began for _, began in self.stages[1:]), self.seconds]
        stages = zip(self.stages, ends, strict=False)
        return [(stage, max(0.0, end - began)) for (stage, began), end in stages]


class RecordedTransaction(_Line):
    """The end of a transaction, after the lines of its calls."""

    kind: Literal["transaction"]
    id: str
    title: str
    session: str
    status: TransactionStatus
    calls: tuple[str, ...] = ()  # the ids of the calls that were to be kept
    at: datetime
    seconds: float = 0.0
    reason: str = ""  # why it was not kept
    parent: str | None = None  # the id of the transaction around it
    reruns: int = 0

    @property
    def described(self) -> str:
        """The end without its time, in words."""
        why = f": {self.reason}" if self.reason else ""
        calls = counted(len(self.calls), "call")
        return f"transaction {self.title!r} of {calls} {self.status.replace('_', ' ')}{why}"


class RecordedCheck(_Line):
    """A check of the completion of an agent's task, with the fields of the agent's event."""

    kind: Literal["check"]
    session: str
    at: datetime
    check: dict[str, Any]


class RecordedApproval(_Line):
    """An answer to a question, its end without one, or a grant that was given or revoked."""

    kind: Literal["approval"]
    # Its name. After a crash a line may come again, with the same id.
    id: str
    act: str  # `approved`, `denied`, `edited`, `expired`, `withdrawn`, `granted` or `revoked`
    at: datetime
    tool: str
    subject: str  # the ticket of the question, or the id of the grant
    session: str  # the id of the session that it concerns
    call: str = ""  # the id of the call in question
    by: Principal | None = None
    via: str = ""  # the channel of the answer
    reason: str | None = None  # the reason of a denial, or the scope of a grant

    @property
    def described(self) -> str:
        """The answer without its time, in words."""
        by = "" if self.by is None else f" by {self.by.source} {self.by.id} ({self.via})"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.tool} {self.subject} {self.act}{by}{why}"


Said = Begin | RecordedCall | RecordedTransaction | RecordedCheck | RecordedApproval | End
Line = Annotated[Said, Field(discriminator="kind")]

_LINES: Final[TypeAdapter[Line]] = TypeAdapter(Line)


def read_line(text: bytes) -> Said:
    """Return the content of a line; raise `ValueError` with the reason if it cannot be read."""
    try:
        return _validated(_LINES.validate_json, text)
    except ValueError:
        return _validated(_LINES.validate_python, plain_line(text))


def plain_line(text: bytes) -> Any:
    """Return a line as JSON data, with a question mark for each lone surrogate."""
    try:
        return from_json(text)
    except ValueError:
        # Calls hold any text and any depth. Pydantic reads no lone surrogate, and rejects data
        # that is nested as deeply as it writes.
        legible = json.dumps(json.loads(text), ensure_ascii=False).encode(errors="replace")
        return json.loads(legible)


def _validated(read: Callable[[Any], Line], given: object) -> Line:
    try:
        return read(given)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None


class RecordError(ToolstileError):
    """A record cannot be written, continued or read; names the file, the cause and the remedy."""


class RecordInUseError(RecordError):
    """Another recorder writes the file."""
