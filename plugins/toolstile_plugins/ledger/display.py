"""The ledger's entries for people, as tables, and for programs, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from toolstile_hookspecs._schema.secrets import MASK
from toolstile_hookspecs.calls import wire_time
from toolstile_hookspecs.services.ledger import EffectState, LedgerEntry, RecordedResult
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.cli_support import console, print_table

SHOWN_OF_HASH: Final = 12
_STYLES: Final = {
    EffectState.CLAIMED: "cyan",
    EffectState.DONE: "green",
    EffectState.UNKNOWN: "bold red",
}


def hash_of(entry: LedgerEntry) -> str:
    """Return what an entry is known by in lists: calls of several tools may share their params."""
    return sha256(entry.claim.key.encode("utf-8", "surrogatepass")).hexdigest()


def wire_of(entry: LedgerEntry) -> dict[str, Any]:
    """Return an entry as JSON data."""
    claim, result = entry.claim, entry.result
    wire: dict[str, Any] = {
        "key": claim.key,
        "hash": hash_of(entry),
        "tool": claim.tool_name,
        "state": str(entry.state),
        "paramsHash": claim.params_hash,
        "effectId": claim.effect_id,
        "sessionId": claim.session_id,
        "callId": claim.call_id,
        "createdAt": wire_time(claim.created_at),
        "expiresAt": None if entry.expires_at is None else wire_time(entry.expires_at),
    }
    if result is not None:
        wire["message"] = _unless_secret(result, result.message)
        wire["value"] = _unless_secret(result, _read(result.value))
        wire["excluded"] = result.excluded
        wire["changes"] = _unless_secret(result, _read(result.changes))
    if entry.reason is not None:
        wire["reason"] = entry.reason
    return wire


def show_table(entries: Iterable[LedgerEntry], now: datetime) -> None:
    """Show entries, one a line."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("hash", "tool", "state", "since", "expires"):
        table.add_column(title, no_wrap=True)
    table.add_column("what", no_wrap=True, overflow="ellipsis")
    for each in entries:
        table.add_row(
            hash_of(each)[:SHOWN_OF_HASH],
            Text(each.claim.tool_name),
            Text(str(each.state), _STYLES[each.state]),
            _moment(each.claim.created_at),
            _end(each, now),
            Text(_what(each)),
        )
    print_table(table)


def show_entry(entry: LedgerEntry, now: datetime) -> None:
    """Show all that is known of an entry."""
    claim = entry.claim
    lines = {
        "key": claim.key,
        "hash": hash_of(entry)[:SHOWN_OF_HASH],
        "tool": claim.tool_name,
        "state": str(entry.state),
        "since": _moment(claim.created_at),
        "expires": _end(entry, now),
        "session": claim.session_id,
        "call": claim.call_id,
        "effect": claim.effect_id,
        "params": f"{claim.params_hash} (hash)",
    }
    if (result := entry.result) is not None:
        value = "" if result.value is None else result.value.decode(errors="replace")
        lines["message"] = printable(_unless_secret(result, result.message))
        lines["value"] = printable(_unless_secret(result, value))
    if entry.reason is not None:
        lines["reason"] = printable(entry.reason)
    if entry.state is EffectState.CLAIMED and entry.owner is not None:
        lines["owner"] = entry.owner
    width = max(map(len, lines))
    for name, text in lines.items():
        show_line(f"{name:<{width}}  {text}")


def show_line(text: str) -> None:
    """Show a line."""
    console().print(Text(text), soft_wrap=True)


def _what(entry: LedgerEntry) -> str:
    if entry.result is not None:
        return printable(_unless_secret(entry.result, entry.result.message))
    return printable(entry.reason or "")


def _unless_secret(result: RecordedResult, shown: Any) -> Any:
    """Return a mask for what there is of a result that holds a secret, whatever it is."""
    return MASK if result.secret and shown else shown


def _read(text: str | bytes | None) -> Any:
    return None if text is None else json.loads(text)


def _end(entry: LedgerEntry, now: datetime) -> str:
    if entry.expires_at is None:
        return "never"
    moment = _moment(entry.expires_at)
    return f"{moment} (over)" if entry.expires_at <= now else moment


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
