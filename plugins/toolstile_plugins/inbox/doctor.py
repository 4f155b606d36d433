"""The findings of `toolstile doctor` on the files of the inbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

from toolstile_hookspecs import Diagnostic, HostHandle, StateError
from toolstile_hookspecs.services.approval_store import ApprovalStore, QuestionState
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.directories import file_finding
from toolstile_plugins.inbox.inbox import lost_in
from toolstile_plugins.inbox.seal import Seal
from toolstile_plugins.inbox.settings import InboxSettings
from toolstile_plugins.inbox.sql import SqliteApprovals


def diagnosed(settings: InboxSettings, host: HostHandle) -> Iterator[Diagnostic]:
    """Yield findings on the files of the inbox, and on questions with a lost key."""
    path, key = settings.path, settings.key_file
    if key is None:
        yield Diagnostic.note("inbox", "No questions are kept: no path is in [plugins.inbox].")
        return
    if find_spec("cryptography") is None:
        yield Diagnostic.error(
            "inbox",
            "cryptography is not installed, so no question can be sealed.",
            extra_remedy("policies"),
        )
    if path is not None:
        yield file_finding(path, "inbox")
    found = file_finding(key, "key of the inbox")
    if key.exists() and key.stat().st_mode & 0o077:
        found = Diagnostic.warning(
            found.subject,
            "Other users can read it, so they can answer in a person's place.",
            f"Run: chmod 600 {key}",
        )
    yield found
    yield Diagnostic.note(
        found.subject,
        "Who reads it can answer: an agent's shell under this user can, outside of a sandbox.",
    )
    if path is not None:
        with closing(SqliteApprovals(path)) as store:
            yield from lost_questions(store, settings, host)


def lost_questions(
    store: ApprovalStore, settings: InboxSettings, host: HostHandle
) -> Iterator[Diagnostic]:
    """Yield an error for each waiting question of a store whose key is lost."""
    if settings.key_file is None:
        return
    seal = Seal(settings.key_file, settings.secret)
    try:
        for question in store.questions({QuestionState.WAITING}):
            if (lost := lost_in(question, seal, host)) is not None:
                fault, _, remedy = lost.partition(". ")
                yield Diagnostic.error(f"question {question.ticket}", f"{fault}.", remedy)
    except StateError as error:
        yield Diagnostic.error("inbox", str(error), "When it is fixed, run this again.")
