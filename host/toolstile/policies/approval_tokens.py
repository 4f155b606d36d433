"""Sealed tokens, which tell a later approval from a forged one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from toolstile.settings import Settings
from toolstile.stored_sessions import Sessions
from toolstile_hookspecs import Clock, Principal, StateError, ToolstileError
from toolstile_hookspecs.execution.principal import APPLICATION, MAIN_AGENT
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.support.process import make_directory

# --- Redeemed tokens


DAY: Final = 24 * 60 * 60.0
"""Seconds for which a token is remembered after its end; clocks are put back, and differ."""


class SpentInMemory:
    """The redeemed tokens of one host."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._lock = threading.Lock()

    def spend(self, token_id: str, expires: float, now: float, _connection: Any = None) -> bool:
        """Note a token, which expires in seconds since 1970; tell whether it is the first time."""
        with self._lock:
            self._ends = {id_: end for id_, end in self._ends.items() if end >= now - DAY}
            is_first = token_id not in self._ends
            self._ends[token_id] = expires
            return is_first

    def is_spent(self, token_id: str) -> bool:
        return token_id in self._ends

    def give_back(self, token_id: str) -> None:
        """Forget a token whose call was not decided after all."""
        with self._lock:
            self._ends.pop(token_id, None)


class SpentInFile:
    """The redeemed tokens of all hosts that share a key, in a SQLite file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def spend(self, token_id: str, expires: float, now: float, connection: Any = None) -> bool:
        """Record a token. Return whether it is new; `OSError` if it cannot be recorded.

        It is noted in the transaction that is open on a connection to the file, else in its own.
        """
        with self._opened(connection) as database:
            database.execute("DELETE FROM spent WHERE expires < ?", (now - DAY,))
            row = (token_id, expires)
            noted = database.execute("INSERT OR IGNORE INTO spent VALUES (?, ?)", row)
            return bool(noted.rowcount == 1)

    def is_spent(self, token_id: str) -> bool:
        with self._opened() as database:
            found = database.execute("SELECT 1 FROM spent WHERE id = ?", (token_id,))
            return found.fetchone() is not None

    def give_back(self, token_id: str) -> None:
        """Do nothing: a transaction that is undone notes nothing."""

    @contextmanager
    def _opened(self, connection: Any = None) -> Generator[Any]:
        try:
            with ExitStack() as stack:
                if connection is None:
                    make_directory(self._file.parent)
                    connection = stack.enter_context(closing(sqlite3.connect(self._file)))
                    stack.enter_context(connection)  # commits
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS spent (id TEXT PRIMARY KEY, expires REAL NOT NULL)"
                )
                yield connection
        except sqlite3.Error as error:
            raise OSError(f"{self._file} cannot be written: {error}") from error


class SpentInCounter:
    """The redeemed tokens of all hosts that share a key, in the database of a counter.

    In an open decision a token is noted with it.
    """

    def __init__(self, counter: Counter, clock: Clock) -> None:
        self._counter = counter
        self._clock = clock

    def spend(self, token_id: str, expires: float, now: float, _connection: Any = None) -> bool:
        key, moment = f"approval {token_id}", datetime.fromtimestamp(now, UTC)
        with _told_as_os_error():
            return self._counter.reserve(key, 1, 1, expires + DAY - now, key, now=moment).is_new

    def is_spent(self, token_id: str) -> bool:
        with _told_as_os_error():
            return self._counter.read(f"approval {token_id}", now=self._clock.now()) > 0

    def give_back(self, token_id: str) -> None:
        """Do nothing: a transaction that is undone notes nothing."""


Spent = SpentInMemory | SpentInFile | SpentInCounter


@contextmanager
def _told_as_os_error() -> Generator[None]:
    try:
        yield
    except StateError as error:
        raise OSError(str(error)) from error


# --- Sealed tokens


VERSION: Final = "1"
_USED: Final = "The approval was used before: it is valid for one call."
_NOT_OURS: Final = "The approval's token was altered, or this host did not make it."
_SHARED: Final = (
    "Hosts that resume each other's calls, or their own after a restart, need the same "
    "approval_key and approval_spent."
)
_IN_USE: Final = "The approval is in use: another call that it was given for has not ended yet."


class TokenRefused(ToolstileError):
    """A token does not hold; the text says why, as a sentence."""


@dataclass(frozen=True, slots=True)
class TokenSubject:
    """The subject of a token: a call, by tool and session, and who may use it."""

    tool: str
    session: str
    principal: Principal | None
    dry_run: bool
    agent: str = MAIN_AGENT


@dataclass(frozen=True, slots=True)
class RedeemedToken:
    """A redeemed token: one call with the params and the diff that were shown.

    It `expires` in seconds since 1970. `shown` is the mark of the digest of the shown question,
    `place` that of the params with which the call was admitted.
    """

    signer: TokenSigner
    id: str
    expires: float
    shown: str
    place: str

    def spend(self, connection: Any = None) -> None:
        """Use the token up, in the transaction that is open on a connection, else at once.

        `TokenRefused`: it was used before. `OSError`: the use cannot be noted.
        """
        now = self.signer.clock.now().timestamp()
        if not self.signer.spent.spend(self.id, self.expires, now, connection):
            raise TokenRefused(_USED)

    def hold(self) -> None:
        """Keep other calls of this host from coming with it, until it is released.

        `TokenRefused`: it is in use, or was used before. `OSError`: that is unknown.
        """
        if self.signer.in_use.setdefault(self.id, self) is not self:
            raise TokenRefused(_IN_USE)
        if self.signer.spent.is_spent(self.id):
            raise TokenRefused(_USED)

    def release(self) -> None:
        """Let the next call come with it, if it is not used up."""
        if self.signer.in_use.get(self.id) is self:
            del self.signer.in_use[self.id]

    def covers(self, digest: str) -> bool:
        """Return whether this is the digest of the shown question."""
        return hmac.compare_digest(self.shown, self.signer.mark("digest", digest))

    def has_place(self, digest: str) -> bool:
        """Tell whether the call was admitted before, with the params that have this digest."""
        return hmac.compare_digest(self.place, self.signer.mark("place", digest))


@dataclass(frozen=True, slots=True)
class TokenSigner:
    """Seals tokens and takes them back, each once.

    A token reveals nothing to its holder, because it holds a keyed hash of its call only. Hosts
    with the same `key` take each other's tokens. `spent` remembers used tokens, `in_use` has those
    of calls that have not ended.
    """

    key: bytes = field(repr=False)
    clock: Clock
    expiry: float
    spent: Spent
    in_use: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    def seal(
        self,
        bearer: TokenSubject,
        digest: str,
        *,
        place: str | None = None,
        seconds: float | None = None,
    ) -> str:
        """Return a token with which `bearer` may come back, bound to the digest of an approval.

        `place` is the digest of the params with which the call was admitted. The token holds for
        `seconds`, by default for `expiry`.
        """
        claims = {
            "id": os.urandom(16).hex(),
            "expires": self.clock.now().timestamp() + (seconds or self.expiry),
            **self._marks(bearer),
            "digest": self.mark("digest", digest),
            "place": "" if place is None else self.mark("place", place),
        }
        text = json.dumps(claims, separators=(",", ":"))
        # The text itself is signed, so that the token has one form only.
        body = f"{VERSION}.{base64.urlsafe_b64encode(text.encode()).decode()}"
        return f"{body}.{self._sign('token', body)}"

    def redeem(self, token: object, bearer: TokenSubject) -> RedeemedToken:
        """Take a token back, to `spend` or `hold`; `TokenRefused` unless it is a valid one."""
        if token is None:
            raise TokenRefused("The approval has no token: only a call that is pending has one.")
        if not isinstance(token, str) or not self._is_ours(token):
            raise TokenRefused(_NOT_OURS, for_operator=_SHARED)
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1]))
        now = self.clock.now().timestamp()
        expires: float = claims["expires"]
        if now >= expires:
            until = datetime.fromtimestamp(expires, UTC).isoformat(timespec="seconds")
            raise TokenRefused(f"The approval came too late: it could be given until {until}.")
        for name, mark in self._marks(bearer).items():
            # Tokens that were sealed before children were name no agent.
            if not hmac.compare_digest(claims.get(name, mark), mark):
                raise TokenRefused(f"The approval belongs to another {name}.")
        return RedeemedToken(self, claims["id"], expires, claims["digest"], claims.get("place", ""))

    def takes(self, token: str) -> bool:
        """Return False if a token was sealed with another key than the lasting one of a host.

        Without a lasting key, the process that sealed the token may still run.
        """
        return not self.lasts or self._is_ours(token)

    @property
    def lasts(self) -> bool:
        """True if the key outlives the host, and used tokens are noted where others see them."""
        return not isinstance(self.spent, SpentInMemory)

    def _is_ours(self, token: str) -> bool:
        body, _, signature = token.rpartition(".")
        return hmac.compare_digest(_bytes(signature), _bytes(self._sign("token", body)))

    def mark(self, what: str, value: str) -> str:
        return self._sign(what, value)[:32]

    def _marks(self, bearer: TokenSubject) -> dict[str, str]:
        principal = bearer.principal
        if principal is None:
            user = "nobody"
        elif principal.source == APPLICATION:
            user = f"user {principal.id}"  # as tokens say it that were sealed before sources were
        else:
            user = json.dumps([principal.source, principal.id])
        return {
            "session": self.mark("session", f"{bearer.dry_run} {bearer.session}"),
            "user": self.mark("user", user),
            "tool": self.mark("tool", bearer.tool),
            "agent": self.mark("agent", bearer.agent),
        }

    def _sign(self, what: str, text: str) -> str:
        message = f"toolstile approval {what}\0".encode() + _bytes(text)
        return hmac.new(self.key, message, hashlib.sha256).hexdigest()


def seal_for(settings: Settings, clock: Clock, sessions: Sessions) -> TokenSigner:
    """Return the signer of a host: with the configured key, else the offered one, else its own.

    Used tokens are noted in the configured file, else by the sessions.
    """
    file, counter = settings.approval_spent, sessions.counter
    spent: Spent = SpentInMemory()
    if file is not None:
        spent = SpentInFile(file)
    elif counter is not None:
        spent = SpentInCounter(counter, clock)
    if file is None and counter is None:
        key = os.urandom(32)
    elif settings.approval_key is not None:
        key = settings.approval_key.encode()
    else:
        assert sessions.key is not None  # noqa: S101 - else nothing counts used tokens
        key = sessions.key.approval_key()
    return TokenSigner(key, clock, settings.approval_expiry, spent)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
