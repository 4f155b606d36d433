"""The principal is in contexts, events and records; its claims are in nothing that is written."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    ConfigurationError,
    IdempotencyConfig,
    PolicyDecision,
    Principal,
    Secret,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    hookimpl,
    tool,
)
from toolstile_plugins.record import Recording
from toolstile_plugins.record.replayer import replayed

CLAIM = "claim-of-the-north"
ADA = Principal(
    "https://id.example.org", "ada", {"staff"}, Secret({"area": CLAIM}), Secret("hunter2-of-ada")
)


@tool(idempotency=IdempotencyConfig(), requires_confirmation=True)
def pay(amount: int, *, context: ToolContext) -> str:
    """Pay an amount."""
    assert context.principal is not None
    return f"{context.principal.id} of {context.principal.source} paid {amount}"


@tool(category="read", isolation="process")
def who(*, context: ToolContext) -> str:
    """Say who asks."""
    asks = context.principal
    assert asks is not None
    assert context.auth is not None
    return f"{asks.source} {asks.id} {sorted(asks.groups)} {dict(asks.claims.reveal())}"


@tool(category="read")
def leak(*, context: ToolContext) -> Any:
    """Answer with the principal itself."""
    return {"asks": context.principal}


class Areas:
    """A plugin: a policy by claims, and what its hooks have heard."""

    def __init__(self) -> None:
        self.events: list[ToolInvoked] = []

    @hookimpl
    def toolstile_check(self, context: ToolContext) -> PolicyDecision:
        if context.principal is None or context.principal.claims.reveal().get("area") != CLAIM:
            return PolicyDecision.deny("This is out of your area.")
        return PolicyDecision.allow()

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.events.append(event)


def test_claims_are_in_no_event_record_key_token_span_or_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    asked: list[ApprovalRequest] = []

    def later(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request)
        return ApprovalAnswer.pending()

    tables: dict[str, Any] = {
        "record": {"file": "calls.jsonl"},
        "ledger": {"path": "ledger.db"},
        "otel": {"trace": "spans.jsonl", "capture": True, "stages": True},
    }
    areas = Areas()
    names = ["record", "ledger", "otel", "isolation"]
    settings = Settings(plugins=tables)
    with (
        Host(settings=settings, discover=names, plugins=[areas], tools=[pay, who, leak]) as host,
        host.executor(principal=ADA, approver=later) as tools,
    ):
        waits = tools.dispatch(ToolCall("pay", {"amount": 5}))
        token = waits.approval_token
        assert token is not None
        paid = tools.resume(waits.call, token, True)
        assert paid.text == "ada of https://id.example.org paid 5"
        again = tools.resume(waits.call, token, True)
        assert not again.success
        isolated = tools.dispatch(ToolCall("who"))
        assert isolated.text == "https://id.example.org ada ['staff'] {}"
        leaked = tools.dispatch(ToolCall("leak"))
        state = tools.session.to_json()  # type: ignore[attr-defined]
    texts = [repr(asked), token, state, caplog.text, leaked.text]
    for event in areas.events:
        assert (event.principal, event.user_id) == (ADA, "ada")
        assert event.principal is not None
        assert event.principal.groups == {"staff"}
        assert (dict(event.principal.claims.reveal()), event.principal.auth) == ({}, None)
        plain = {name: value for name, value in vars(event).items() if name not in {"tool", "auth"}}
        texts += [repr(event), repr(plain), json.dumps(event.envelope())]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"calls.jsonl", "ledger.db", "spans.jsonl"} <= {path.name for path in files}
    written = [*(text.encode() for text in texts), *(path.read_bytes() for path in files)]
    written += [pickle.dumps([event.principal for event in areas.events])]
    for secret in (CLAIM.encode(), b"hunter2-of-ada"):
        assert [data for data in written if secret in data] == []


def test_groups_and_claims_change_neither_keys_nor_tokens_nor_digests() -> None:
    asked: list[ApprovalRequest] = []

    def later(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request)
        return ApprovalAnswer.pending()

    promoted = Principal(ADA.source, "ada", {"admins"}, Secret({"area": "south"}))
    with Host(discover=False, tools=[pay]) as host:
        with host.executor(session_id="s", principal=ADA, approver=later) as tools:
            waits = tools.dispatch(ToolCall("pay", {"amount": 5}))
            session = tools.session
        with host.executor(session=session, principal=promoted, approver=later) as tools:
            tools.dispatch(ToolCall("pay", {"amount": 5}))
            assert waits.approval_token is not None
            assert tools.resume(waits.call, waits.approval_token, True).success
    assert asked[0].digest == asked[1].digest


def test_a_principal_of_another_source_is_another_user() -> None:
    stranger = Principal("https://evil.example", "ada")
    with Host(discover=False, tools=[pay], approver=lambda _: ApprovalAnswer.pending()) as host:
        with host.executor(principal=ADA) as tools:
            waits = tools.dispatch(ToolCall("pay", {"amount": 5}))
            session = tools.session
        assert waits.approval_token is not None
        for options in ({"principal": stranger}, {"user_id": "ada"}):
            with host.executor(session=session, **options) as foreign:  # type: ignore[misc]
                refused = foreign.resume(waits.call, waits.approval_token, True)
                assert "belongs to another user" in refused.text


def test_a_principal_beside_a_user_or_credentials_is_refused() -> None:
    with Host(discover=False) as host:
        for options in ({"user_id": "ada"}, {"auth": Secret("hunter2")}):
            with pytest.raises(ConfigurationError, match="principal stands beside user_id or auth"):
                host.executor(principal=ADA, **options)  # type: ignore[misc]


class Staff:
    """A plugin: what staff alone may do."""

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any], context: ToolContext) -> PolicyDecision:
        is_staff = context.principal is not None and "staff" in context.principal.groups
        return PolicyDecision.allow() if is_staff else PolicyDecision.deny("Staff only.")


def test_a_replay_decides_by_the_recorded_principal(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    settings = Settings(plugins={"record": {"file": str(file)}})
    guest = Principal(ADA.source, "ada", {"guests"})
    options: dict[str, Any] = {"discover": ["record"], "plugins": [Staff()], "tools": [_add]}
    with Host(settings=settings, **options) as host:
        for principal in (ADA, guest, None):
            with host.executor(session_id="s", principal=principal) as tools:
                tools.dispatch(ToolCall("_add", {"a": 1, "b": 2}))
    line = json.loads(file.read_text().splitlines()[1])
    assert (line["user"], line["principal"]) == (
        "ada",
        {"source": "https://id.example.org", "groups": ["staff"]},
    )
    with Host(settings=Settings(), **options) as host:
        compared = list(replayed(host, Recording.load(file)))
    assert [each.status for each in compared] == ["succeeded", "denied", "denied"]
    assert not any(each.differs for each in compared)


def _add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
