"""Attacks of an agent's own shell, which is to answer for its person.

`shell_attacks.py ATTACK PLACE ADDRESS`: the place is a folder with `toolstile.toml`, and `inbox/`
with the questions and the key; the address is that of the console.
"""

from __future__ import annotations

import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import urllib.request
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import URLError

from toolstile_hookspecs import Answer, Principal, StateError
from toolstile_hookspecs.services.approval_store import AnswerRecord, QuestionState
from toolstile_plugins.inbox.seal import Seal
from toolstile_plugins.inbox.sql import SqliteApprovals

PLACE, ADDRESS = Path(sys.argv[2]), sys.argv[3]
STORE, KEY = PLACE / "inbox" / "inbox.db", PLACE / "inbox" / "inbox.key"
MOMENT = "2026-01-01T12:00:00+00:00"


def approvals(*typed: str) -> list[str]:
    config = str(PLACE / "toolstile.toml")
    return [sys.executable, "-m", "toolstile", "--config", config, "approvals", *typed]


def tickets() -> list[str]:
    listed = subprocess.run(
        approvals("list", "--json"), check=False, capture_output=True, text=True
    )
    return [json.loads(line)["ticket"] for line in listed.stdout.splitlines()]


def command_line() -> None:
    """Approve as a person does."""
    for ticket in tickets():
        subprocess.run(approvals("approve", ticket), check=False)


def terminal() -> None:
    """Approve within a terminal that it makes."""
    for ticket in tickets():
        pty.spawn(approvals("approve", ticket))


def rows(sql: str, *values: object) -> list[tuple[object, ...]]:
    # One that is not there is not made.
    with closing(sqlite3.connect(f"file:{STORE}?mode=rw", uri=True)) as connection, connection:
        return connection.execute(sql, values).fetchall()


def state() -> None:
    """Write another state."""
    rows("UPDATE toolstile_questions SET state = 'approved' WHERE state = 'waiting'")


def answer() -> None:
    """Write an answer with a proof that proves nothing."""
    told = json.dumps(["approved", ["os", "bob", []], "console", MOMENT, None])
    change = "UPDATE toolstile_questions SET state = 'approved', answer = ?, proof = ?"
    rows(f"{change} WHERE state = 'waiting'", told, b"gAAAAA" + b"A" * 90)


def swapped() -> None:
    """Let the answer to one question stand for another, with its call."""
    columns = ("question", "sealed", "answer", "proof", "state")
    taken = ", ".join(f"{name} = approved.{name}" for name in columns[2:])
    source = "(SELECT * FROM toolstile_questions WHERE state = 'approved') AS approved"
    rows(
        f"UPDATE toolstile_questions SET {taken} FROM {source} "
        "WHERE toolstile_questions.state = 'waiting'"
    )


def key() -> None:
    """Seal an answer with the key, as the inbox does."""
    store, seal = SqliteApprovals(STORE), Seal(KEY)
    for question in store.questions({QuestionState.WAITING}):
        given = AnswerRecord(Answer.APPROVED, Principal("os", "bob"), "console", question.created)
        store.answer(question.ticket, seal.seal_answer(question, given))


def token() -> None:
    """Look for secrets among the files, and open the console with what is found."""
    found: set[bytes] = set()
    for place in PLACE.rglob("*"):
        if place.is_file():
            found.update(re.findall(rb"[\w-]{32}", place.read_bytes())[:20])
    visit([text.decode() for text in sorted(found)])


def console() -> None:
    """Open the console without a secret."""
    visit(["", "0" * 32])


def visit(tokens: list[str]) -> None:
    # Its port is told here; a real shell finds it among those that the machine listens on.
    with suppress(URLError):
        door = urllib.request.urlopen(f"{ADDRESS}/", timeout=20).read().decode()
        sys.stdout.write(f"The door has {len(door)} characters.\n")
        for each in tokens:
            headers = {"cookie": f"toolstile-console={each}", "origin": ADDRESS}
            request = urllib.request.Request(f"{ADDRESS}/login", f"token={each}".encode(), headers)
            with suppress(URLError):
                urllib.request.urlopen(request, timeout=20)
                sys.stdout.write("The console is open.\n")


if __name__ == "__main__":
    with suppress(sqlite3.Error, StateError, OSError):
        globals()[sys.argv[1]]()
    sys.stdout.write(f"tried as {os.getuid()} at {datetime.now(UTC)}\n")
