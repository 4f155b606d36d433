"""Sealed parts of questions: only holders of the key can read calls and give answers.

Fernet of the package cryptography encrypts and authenticates them: https://github.com/fernet/spec.
"""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from toolstile_hookspecs import Answer, ApprovalAnswer, ConfigurationError, StateError, ToolCall
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.services.approval_store import AnswerRecord, GrantRecord, Question
from toolstile_hookspecs.services.json_forms import ANSWER, QUESTION
from toolstile_hookspecs.support.process import sync_names
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.cli_support import needing
from toolstile_plugins.directories import make_directory_of

if TYPE_CHECKING:
    from cryptography.fernet import Fernet
    from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class SealedCall:
    """The call of a question, with the token that resumes it and the shown change set.

    Arguments, changes and schema are JSON. The schema checks an edit without the tool.
    """

    name: str
    arguments: str = field(repr=False)
    id: str
    token: str = field(repr=False)
    changes: str | None = field(default=None, repr=False)
    provider_id: str = ""
    schema: str | None = field(default=None, repr=False)

    @property
    def call(self) -> ToolCall:
        """The call itself."""
        return ToolCall(self.name, self.arguments, id=self.id, provider_id=self.provider_id)


class Seal:
    """Seals texts, so that only holders of the key can read and make them.

    Args:
        file: The file of the key; made at the first use if missing.
        secret: The text that a new key is derived from; without it, a new key is random.

    Every method raises `ConfigurationError` if cryptography is not installed or the file has no
    key, and `OSError` if the file cannot be read or made.
    """

    def __init__(self, file: Path, secret: SecretStr | None = None) -> None:
        self._file = file
        self._secret = secret

    @cached_property
    def _fernet(self) -> Fernet:
        # At the first use, because reading questions must not make a key.
        # Late: cryptography is heavy, and few hosts have an inbox.
        with needing(_NEEDS, "policies"):
            from cryptography.fernet import Fernet
        derived: bytes | None = None
        if self._secret is not None:
            secret = self._secret.get_secret_value().encode()
            derived = urlsafe_b64encode(_derived(secret, b"toolstile inbox"))
        file = self._file
        if not file.exists():
            # Linked when complete, so that no process reads half a key; for this user alone.
            make_directory_of(file)
            new = file.with_name(f"{file.name}.{uuid4().hex}")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as written:
                    written.write(derived or Fernet.generate_key())
                    written.flush()
                    os.fsync(descriptor)
                # Because another process may have been first; its key is used then.
                with suppress(FileExistsError):
                    os.link(new, file)
            finally:
                new.unlink()
            # Because sealed questions survive a loss of power, their key must survive, too.
            sync_names(file.parent)
        key = file.read_bytes().strip()
        if derived not in {None, key}:
            raise ConfigurationError(_NOT_DERIVED.format(file=file))
        try:
            return Fernet(key)
        except ValueError:
            raise ConfigurationError(_NO_KEY.format(file=file)) from None

    def approval_key(self) -> bytes:
        """Return the key of approvals, derived from the inbox's; see `OffersApprovalKey`."""
        _ = self._fernet  # makes the file, or refuses an invalid key
        return _derived(self._file.read_bytes().strip(), b"toolstile approvals")

    def refuse_other(self, questions: Sequence[Question]) -> None:
        """Raise `ConfigurationError` if this key opens none of the questions."""
        # Refused only if all fail: a single altered row must not keep a host from opening.
        sealed = [each for each in questions if each.sealed.startswith(_FERNET)]
        if sealed and not any(self._opens(each) for each in sealed):
            tickets = ", ".join(each.ticket for each in sealed[:10])
            raise ConfigurationError(_OTHER_KEY.format(file=self._file, tickets=tickets))

    def _opens(self, question: Question) -> bool:
        try:
            self._open("call", question.sealed, "")
        except StateError:
            return False
        return True

    def seal_call(self, question: Question, call: SealedCall) -> Question:
        """Return a question with its call, sealed together with the contents shown to people."""
        return replace(question, sealed=self._seal("call", *astuple(call), _shown(question)))

    def call_of(self, question: Question) -> SealedCall:
        """Return the call of a question; raises `StateError` if one of them is not genuine."""
        fault = _NOT_GENUINE.format(ticket=question.ticket)
        *parts, shown = self._open("call", question.sealed, fault)
        if shown != _shown(question):
            raise StateError(fault)
        return SealedCall(*parts)

    def seal_answer(
        self, question: Question, given: AnswerRecord, arguments: str | None = None
    ) -> AnswerRecord:
        """Return an answer with the proof that a holder of the key gave it to the question."""
        told = _told(question, given)
        return replace(given, sealed=self._seal("answer", *told, arguments))

    def answer_to(self, question: Question, given: AnswerRecord) -> ApprovalAnswer:
        """Return the proven answer to a question; raises `StateError` if it is not genuine."""
        fault = _NOT_GENUINE.format(ticket=question.ticket)
        *told, arguments = self._open("answer", given.sealed, fault)
        if told != _told(question, given):
            raise StateError(fault)
        by = f"{given.by.source} {given.by.id} ({given.via})"
        return ApprovalAnswer(given.answer, given.reason, arguments, by=by)

    def seal_grant(self, grant: str) -> bytes:
        """Return the sealed text of a grant."""
        return self._seal("grant", grant)

    def grant_of(self, record: GrantRecord) -> str:
        """Return the text of a grant; raises `StateError` if it is not genuine."""
        (text,) = self._open("grant", record.sealed, f"The grant {record.id} is not genuine.")
        return str(text)

    def seal_event(self, event: str) -> bytes:
        """Return the sealed text of an event."""
        return self._seal("event", event)

    def event_of(self, sealed: bytes) -> str:
        """Return the text of an event; raises `StateError` if it is not genuine."""
        (text,) = self._open("event", sealed, "An event of the inbox is not genuine.")
        return str(text)

    @cached_property
    def revoked(self) -> Path:
        """The file of revoked grants, which keeps a restored row from granting again.

        It lies beside the key, because write access to the store must not undo a revocation.
        """
        return self._file.with_suffix(".revoked")

    def seal_button(self, question: Question, answer: Answer) -> str:
        """Return the value of a button that answers a question; the value proves no answer."""
        return self._seal("button", question.ticket, question.digest, answer.value).decode()

    def button_of(self, value: str) -> tuple[str, str, Answer]:
        """Return a button's ticket, digest and answer; raises `StateError` if it is not genuine."""
        ticket, digest, answer = self._open("button", value.encode(errors="replace"), _NO_BUTTON)
        return ticket, digest, Answer(answer)

    def seal_proof(self, question: Question) -> str:
        """Return the proof that a question was asked, for a later answer."""
        return self._seal("asked", question.ticket, question.digest).decode()

    def proven(self, proof: str) -> tuple[str, str]:
        """Return the ticket and digest in a proof; raises `StateError` if it is not genuine."""
        ticket, digest = self._open("asked", proof.encode(errors="replace"), _NO_PROOF)
        return ticket, digest

    def _seal(self, role: str, *parts: str | None) -> bytes:
        return self._fernet.encrypt(json.dumps([role, *parts]).encode())

    def _open(self, role: str, sealed: bytes, fault: str) -> list[Any]:
        if self._secret is None and not self._file.exists():
            # Because a new key would open nothing, reading makes none.
            raise StateError(fault)
        from cryptography.fernet import InvalidToken  # as heavy as the rest

        # These errors, because an altered row may contain anything.
        with suppress(InvalidToken, TypeError, ValueError):
            opened: list[Any] = json.loads(self._fernet.decrypt(sealed))
            found, *parts = opened
            # By role, so that a sealed button cannot serve as an answer.
            if found == role:
                return parts
        raise StateError(fault)


def _shown(question: Question) -> str:
    """Return the digest of the unchanging parts of a question."""
    form = QUESTION.data(question)
    if (who := form["principal"]) is not None:
        # As a list, so that seals of earlier versions stay valid.
        form["principal"] = [who["source"], who["id"], who.get("groups", [])]
    if form["agent"] == MAIN_AGENT:
        del form["agent"]  # as above
    if turn := form.pop("turn"):  # as above, and in a list, because a text would be an agent
        form["turn"] = [turn]
    return sha256(json.dumps([*form.values()]).encode()).hexdigest()


def _told(question: Question, given: AnswerRecord) -> list[str | None]:
    by, at = given.by, ANSWER.data(given)["at"]
    about = [question.ticket, question.digest, given.answer.value]
    return [*about, by.source, by.id, given.via, at, given.reason]


_NO_BUTTON = (
    "This button was altered, or belongs to another inbox. Have the question shown again, then "
    "retry."
)
_NO_PROOF = "The question was altered, or belongs to a different inbox."
_NOT_GENUINE = (
    "The question {ticket} or its answer was altered, or sealed with another key. Set key in "
    "[plugins.inbox] to the key of the host that asked. If the key is lost, repeat the call."
)


_NEEDS: Final = "The inbox needs cryptography, which is not installed."


def without_cryptography() -> ConfigurationError:
    """Return the error of an inbox without cryptography."""
    return ConfigurationError(f"{_NEEDS} {extra_remedy('policies')}.")


_FERNET: Final = b"gAAAA"
"""The first bytes of every sealed text, whatever its key."""
_NOT_DERIVED: Final = (
    "{file} holds another key than the one of `secret` in [plugins.inbox]. Configure the secret of "
    "the hosts that ask, or remove the file, to have it made from this secret."
)
_NO_KEY: Final = (
    "{file} is not a key of the inbox. Configure the key of the host that asks, as key in "
    "[plugins.inbox], or remove the file, to have a new key made."
)
_OTHER_KEY: Final = (
    "{file} is not the key with which the questions that wait were sealed, so no answer to them "
    "could count. Put the key of the hosts that asked there, or end the questions with `toolstile "
    "approvals withdraw`: {tickets}."
)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    # Late: cryptography is heavy, and few hosts have an inbox.
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt=None, info=purpose).derive(secret)
