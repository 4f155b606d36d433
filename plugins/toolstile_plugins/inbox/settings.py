"""The settings of the inbox: where questions are kept, how long, and who may answer them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from toolstile_hookspecs import (
    ConfigurationError,
    Principal,
)
from toolstile_hookspecs.services.approval_store import Question

log = logging.getLogger("toolstile.inbox")

T = TypeVar("T")

_ALL: Final = ("low", "medium", "high")
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DEFAULT_EXPIRY = 60 * 60.0


class Answerers(BaseModel):
    """People who may answer some questions; what is left out narrows nothing.

    Args:
        users: The ids of principals, whatever their source. `SOURCE ID` names one of one source.
        groups: Groups of which a person has one.
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
        named = self._names(person) or not {*self.groups}.isdisjoint(person.groups)
        is_theirs = named or not (self.users or self.groups)
        is_about = any(fnmatchcase(question.tool, pattern) for pattern in self.tools or ("*",))
        return is_theirs and is_about and question.consequence in (self.consequences or _ALL)

    def _names(self, person: Principal) -> bool:
        # With a space it is of one source, so that no id of another one can spell it.
        ids = {f"{person.source} {person.id}", *([] if " " in person.id else [person.id])}
        return not ids.isdisjoint(self.users)


class InboxSettings(BaseModel):
    """The table `[plugins.inbox]`.

    Args:
        path: The file of the questions, outside every workspace. None for no inbox, unless there
            is a key: then sessions are stored in a database, which has the questions, too.
        key: The file of the key with which questions and answers are sealed; made beside the
            questions where it is not there. Who can read it can answer.
        secret: A text of 32 characters or more, the same for all hosts, from which each host makes
            the file of the key. Without one a new key is random.
        wait: `answer` lets a call wait until somebody answers; `pending` ends it, to be resumed.
        expiry: Seconds after which nobody can answer any more.
        ask: The people who are asked beside the inbox, while it keeps the question: `terminal`, at
            that of this process; `mcp`, at the client that made the call, where it can elicit.
        interval: Seconds between two looks for an answer; more where many calls wait.
        keep: Seconds after the expiry for which an answered call can be resumed. Its question is
            removed then.
        lease: Seconds for which a process that resumes a call keeps others from it.
        widest_grant: The widest scope of an approval that lasts: `none`, `session`, `principal` or
            `everybody`.
        four_eyes: Whether the principal of a call may not answer for it. The same id of another
            source, such as a user of the system and of a chat, counts as the same person.
        answerers: Who may answer; everybody who has the key where there are none.

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
        """The file of the key, None where there is no inbox."""
        return self.key or (self.path and self.path.with_suffix(".key"))

    def fault_of(self, person: Principal, question: Question) -> str | None:
        """Return why a person may not answer a question; None where they may."""
        if not person.id:
            return "An answer needs a name."
        caller = question.principal
        # Two sources may name one person, who would be their own second pair of eyes.
        if self.four_eyes and caller is not None and caller.id == person.id:
            return f"{person.id} made the call, so another person must answer (four_eyes)."
        if self.answerers and not any(rule.allow(person, question) for rule in self.answerers):
            return f"No table of [[plugins.inbox.answerers]] lets {person.id} answer for it."
        return None


def refuse_within(directories: Iterable[str | Path], settings: InboxSettings) -> None:
    """Refuse files of the inbox that tools could read or write, in directories of a workspace.

    Raises:
        ConfigurationError: Naming the file.
    """
    for root in directories:
        whole = Path(root).expanduser().resolve()
        for name, file in {"path": settings.path, "key": settings.key_file}.items():
            if file is not None and file.resolve().is_relative_to(whole):
                raise ConfigurationError(
                    f"[plugins.inbox] {name}: {file} lies in the workspace {root}, where tools "
                    "could answer in a person's place. Name a file outside of it."
                )
