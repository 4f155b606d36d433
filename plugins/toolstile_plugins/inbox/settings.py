"""The settings of the inbox: the place of questions, their times, and who may answer them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from toolstile_hookspecs import ConfigurationError, Principal
from toolstile_hookspecs.services.approval_store import Question

_ALL: Final = ("low", "medium", "high")
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DEFAULT_EXPIRY = 60 * 60.0


class Answerers(BaseModel):
    """People who may answer some questions; a missing field restricts nothing.

    Args:
        users: Ids of principals from any source; `SOURCE ID` names a principal of one source.
        groups: Groups; a person needs one of them.
        tools: The names of tools, as globs.
        consequences: The consequences of tools.

    Example:
        >>> Answerers(groups=["treasury"], tools=["pay_*"]).tools
        ('pay_*',)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    consequences: tuple[Literal["low", "medium", "high"], ...] = ()

    def allow(self, person: Principal, question: Question) -> bool:
        """Tell whether a person may answer a question."""
        # An id with a space needs its source, so that no other id can read like `SOURCE ID`.
        ids = {f"{person.source} {person.id}", *([] if " " in person.id else [person.id])}
        named = bool(ids & {*self.users} or {*self.groups} & {*person.groups})
        is_theirs = named or not (self.users or self.groups)
        is_about = any(fnmatchcase(question.tool, pattern) for pattern in self.tools or ("*",))
        return is_theirs and is_about and question.consequence in (self.consequences or _ALL)


class InboxSettings(BaseModel):
    """The table `[plugins.inbox]`.

    Args:
        path: The file of the questions, outside every workspace. Without a path, a key enables the
            inbox if `[plugins.database]` has a database, which then stores the questions.
        key: The file of the key that seals questions and answers; made beside the questions if
            missing. Read access to this file is enough to answer.
        secret: A text of 32 characters or more, the same for all hosts. Each host derives its key
            from this text; without it, a new key is random.
        wait: `answer` lets a call wait for the answer; `pending` ends the call, to be resumed.
        expiry: Seconds until a question expires.
        ask: The people to ask directly while the question is open: `terminal`, at the terminal of
            this process; `mcp`, at the client that made the call, if it supports elicitation.
        interval: Seconds between two polls for an answer; longer if many calls wait.
        keep: Seconds after the expiry for which an answered call can be resumed. Its question is
            removed then.
        lease: Seconds for which a process claims the call that it resumes.
        widest_grant: The widest scope of an approval that lasts: `none`, `session`, `principal` or
            `everybody`.
        four_eyes: Whether another person than the principal of a call must answer. The same id
            from two sources, such as the system and a chat, counts as one person.
        answerers: Who may answer; by default every holder of the key.

    Example:
        >>> InboxSettings(path="/var/lib/toolstile/inbox.db").key_file
        PosixPath('/var/lib/toolstile/inbox.key')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path | None = None
    key: Path | None = None
    secret: Annotated[SecretStr, Field(min_length=32)] | None = None
    wait: Literal["answer", "pending"] = "answer"
    ask: tuple[Literal["terminal", "mcp"], ...] = ()
    expiry: Seconds = DEFAULT_EXPIRY
    keep: Seconds = 30 * 24 * 60 * 60.0
    interval: Seconds = 0.2
    lease: Seconds = 600.0
    widest_grant: Literal["none", "session", "principal", "everybody"] = "principal"
    four_eyes: bool = False
    answerers: tuple[Answerers, ...] = ()

    @property
    def key_file(self) -> Path | None:
        """The file of the key; None without an inbox."""
        return self.key or (self.path and self.path.with_suffix(".key"))

    def fault_of(self, person: Principal, question: Question) -> str | None:
        """Return why a person may not answer a question; None if they may."""
        if not person.id:
            return "An answer needs a name."
        caller = question.principal
        # By id alone, because two sources may name one person, who could approve their own call.
        if self.four_eyes and caller is not None and caller.id == person.id:
            return f"{person.id} made the call, so another person must answer (four_eyes)."
        if self.answerers and not any(rule.allow(person, question) for rule in self.answerers):
            return f"No table of [[plugins.inbox.answerers]] lets {person.id} answer for it."
        return None


def refuse_within(directories: Iterable[str | Path], settings: InboxSettings) -> None:
    """Raise `ConfigurationError` if files of the inbox lie within reach of tools."""
    for root in directories:
        whole = Path(root).expanduser().resolve()
        for name, file in {"path": settings.path, "key": settings.key_file}.items():
            if file is not None and file.resolve().is_relative_to(whole):
                raise ConfigurationError(
                    f"[plugins.inbox] {name}: {file} lies in the workspace {root}, where tools "
                    "could answer in a person's place. Name a file outside of it."
                )
