"""A sealed token holds once, for a time, for whom it was made, and as it was made."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolstile.policies.approval_tokens import (
    DAY,
    SpentInFile,
    SpentInMemory,
    TokenRefused,
    TokenSigner,
    TokenSubject,
)
from toolstile_hookspecs import Principal, SystemClock
from toolstile_hookspecs.execution.principal import APPLICATION

DRIVER = Path(__file__).with_name("redeeming_driver.py")
KEY = b"0123456789abcdef0123456789abcdef"
ADA = Principal(APPLICATION, "ada")
BEARER = TokenSubject("send", "session", ADA, dry_run=False)
DIGEST = "d" * 64


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "file"])
def spent(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return (
        SpentInMemory() if request.param == "memory" else SpentInFile(tmp_path / "a" / "spent.db")
    )


@pytest.fixture
def seal(clock: Clock, spent: Any) -> TokenSigner:
    return TokenSigner(KEY, clock, 60, spent)


def test_a_token_is_good_for_what_was_shown(seal: TokenSigner) -> None:
    approvable = seal.redeem(seal.seal(BEARER, DIGEST), BEARER)
    assert approvable.covers(DIGEST)
    assert not approvable.covers("e" * 64)


def test_a_token_holds_once(seal: TokenSigner) -> None:
    token = seal.seal(BEARER, DIGEST)
    seal.redeem(token, BEARER).spend()
    with pytest.raises(TokenRefused, match="used before"):
        seal.redeem(token, BEARER).spend()


def test_a_token_that_is_held_is_there_again_when_it_is_released(seal: TokenSigner) -> None:
    token = seal.seal(BEARER, DIGEST)
    held, other = seal.redeem(token, BEARER), seal.redeem(token, BEARER)
    held.hold()
    with pytest.raises(TokenRefused, match="is in use"):
        other.hold()
    other.release()
    with pytest.raises(TokenRefused, match="is in use"):
        other.hold()
    held.release()
    other.hold()
    other.spend()
    other.release()
    with pytest.raises(TokenRefused, match="used before"):
        held.hold()


def test_no_two_tokens_are_alike(seal: TokenSigner) -> None:
    one, other = seal.seal(BEARER, DIGEST), seal.seal(BEARER, DIGEST)
    assert one != other
    seal.redeem(one, BEARER).spend()
    seal.redeem(other, BEARER).spend()


def test_a_token_holds_until_it_expires(seal: TokenSigner, clock: Clock) -> None:
    early, late = seal.seal(BEARER, DIGEST), seal.seal(BEARER, DIGEST)
    clock.advance(59.9)
    seal.redeem(early, BEARER)
    clock.advance(0.1)
    with pytest.raises(TokenRefused, match="until 2026-01-01T00:01:00"):
        seal.redeem(late, BEARER)


def test_a_token_is_refused_to_others_who_do_not_use_it_up(
    seal: TokenSigner, subtests: pytest.Subtests
) -> None:
    for change, told in [
        ({"session": "other"}, "another session"),
        ({"principal": Principal(APPLICATION, "eve")}, "another user"),
        ({"principal": Principal("https://id.example.org", "ada")}, "another user"),
        ({"principal": None}, "another user"),
        ({"tool": "receive"}, "another tool"),
        ({"dry_run": True}, "another session"),
    ]:
        with subtests.test(change=change, told=told):
            token = seal.seal(BEARER, DIGEST)
            with pytest.raises(TokenRefused, match=told):
                seal.redeem(token, replace(BEARER, **change))
            assert seal.redeem(token, BEARER).covers(DIGEST)


def test_nobody_is_not_a_user_of_that_name(seal: TokenSigner) -> None:
    token = seal.seal(replace(BEARER, principal=None), DIGEST)
    with pytest.raises(TokenRefused, match="another user"):
        seal.redeem(token, replace(BEARER, principal=Principal(APPLICATION, "nobody")))


def test_a_token_of_another_key_is_refused(seal: TokenSigner, clock: Clock) -> None:
    other = TokenSigner(KEY[::-1], clock, 60, SpentInMemory())
    with pytest.raises(TokenRefused, match="this host did not make it"):
        seal.redeem(other.seal(BEARER, DIGEST), BEARER)


def test_a_token_tells_its_holder_nothing(seal: TokenSigner) -> None:
    ada = Principal(APPLICATION, "ada@example.org")
    bearer = TokenSubject("pay_ransom", "session-of-ada", ada, dry_run=False)
    told = base64.urlsafe_b64decode(seal.seal(bearer, DIGEST).split(".")[1]).decode()
    for secret in ("pay_ransom", "session-of-ada", "ada@example.org", DIGEST[:32]):
        assert secret not in told


_seal = TokenSigner(KEY, Clock(), 60, SpentInMemory())
_token = _seal.seal(BEARER, DIGEST)


@pytest.mark.slow
@given(st.data())
def test_an_altered_token_is_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(_token)))
    until = data.draw(st.integers(at, min(at + 3, len(_token))))
    put = data.draw(st.text(max_size=3) | st.sampled_from(["=", "\n", ".", "A", "\udc80"]))
    altered = _token[:at] + put + _token[until:]
    if altered == _token:
        return
    with pytest.raises(TokenRefused, match="was altered, or this host did not make it"):
        _seal.redeem(altered, BEARER)


@given(st.text())
def test_a_made_up_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused, match="this host did not make it"):
        _seal.redeem(token, BEARER)


def test_what_is_no_token_is_refused(seal: TokenSigner) -> None:
    with pytest.raises(TokenRefused, match="has no token: only a call that is pending has one"):
        seal.redeem(None, BEARER)
    with pytest.raises(TokenRefused, match="this host did not make it"):
        seal.redeem(b"1.e30=.00", BEARER)


def test_of_many_at_once_one_redeems_a_token(seal: TokenSigner) -> None:
    token = seal.seal(BEARER, DIGEST)
    start = threading.Barrier(8)
    ends: list[str] = []

    def redeem() -> None:
        start.wait(30)
        try:
            seal.redeem(token, BEARER).spend()
        except TokenRefused as refused:
            ends.append(str(refused))
        else:
            ends.append("redeemed")

    threads = [threading.Thread(target=redeem) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert ends.count("redeemed") == 1
    assert len([each for each in ends if "used before" in each]) == 7


@pytest.mark.slow
def test_of_several_processes_one_redeems_a_token(tmp_path: Path) -> None:
    file = tmp_path / "spent.db"
    token = TokenSigner(KEY, SystemClock(), 3600, SpentInFile(file)).seal(BEARER, DIGEST)
    who = (BEARER.tool, BEARER.session, "ada")
    processes = [
        subprocess.Popen(
            [sys.executable, DRIVER, file, KEY.hex(), token, *who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "there\n"
    for each in processes:
        assert each.stdin is not None
        each.stdin.close()
        each.stdin = None
    told = sorted(each.communicate(timeout=120)[0] for each in processes)
    assert [each for each in told if "used before" in each] == told[:2]
    assert told[2] == "redeemed\n"


def test_what_expired_long_ago_is_forgotten(spent: Any) -> None:
    assert spent.spend("a", expires=10, now=0)
    assert spent.spend("b", expires=DAY, now=DAY - 1)
    assert not spent.spend("a", expires=10, now=5)
    assert spent.spend("c", expires=2 * DAY, now=DAY + 11)
    assert spent.spend("a", expires=10, now=5)


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "spent.db").write_text("not a database, and long enough to be read as one" * 10)
    with pytest.raises(OSError, match="cannot be written"):
        SpentInFile(tmp_path / "spent.db").spend("a", expires=10, now=0)
