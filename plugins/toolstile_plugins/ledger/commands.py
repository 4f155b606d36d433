"""The commands of `toolstile ledger`, for people as tables and for programs as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from toolstile_hookspecs import HostHandle, LedgerError
from toolstile_hookspecs.services.ledger import EffectState, LedgerEntry, LedgerStore
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.leases import now_of
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.ledger.entries import (
    Due,
    Finding,
    due_of,
    hash_of,
    is_undo_owed,
    place_of,
    settle,
    state_of,
    store_of,
    unless_secret,
    wire_of,
)
from toolstile_plugins.ledger.reconcile import reconcile_pass
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.memory import PAST
from toolstile_plugins.ledger.stores.sqlite import SqliteStore, has_entries_left
from toolstile_plugins.screen import Screen, show_line, shown_time, tell

SHOWN_OF_HASH: Final = 12
SHOWN_KEYS: Final = 5
SETTLED: Final = ("happened", "did_not", "undone")
NOT_ASKED: Final = "was not asked about"
_STYLES: Final = {
    EffectState.CLAIMED: "cyan",
    EffectState.DONE: "green",
    EffectState.UNKNOWN: "bold red",
}


def show_table(entries: Iterable[LedgerEntry], settings: LedgerSettings, now: datetime) -> None:
    """Show entries, one a line."""
    rows = (
        (
            hash_of(entry)[:SHOWN_OF_HASH],
            entry.claim.tool_name,
            (state_of(entry), _STYLES[entry.state]),
            shown_time(entry.claim.created_at),
            _end(entry, now),
            _what(entry, due_of(entry, settings, now)),
        )
        for entry in entries
    )
    Screen("").table(("hash", "tool", "state", "since", "expires", "what"), rows)


def _what(entry: LedgerEntry, due: Due | None) -> str:
    if entry.result is not None:
        return printable(unless_secret(entry.result, entry.result.message))
    late = f"{due}: " if due is not None and due.is_over else ""
    return printable(f"{late}{entry.reason or ''}")


def _end(entry: LedgerEntry, now: datetime) -> str:
    if entry.expires_at is None:
        return "never"
    if entry.expires_at == PAST:
        return "over"
    moment = shown_time(entry.expires_at)
    return f"{moment} (over)" if entry.expires_at <= now else moment


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry out a command; raises `LedgerError` if the ledger fails or has no such entry."""
    with host.executor() as tools:
        ledger = tools.resources.get(EffectLedger)
    commands: dict[str, Callable[[HostHandle, EffectLedger, argparse.Namespace], None]] = {
        "list": _list,
        "show": _show,
        "resolve": _resolve,
        "reconcile": _reconcile,
        "invalidate": _invalidate,
        "prune": _prune,
        "move": _move,
    }
    commands[args.what](host, ledger, args)
    return 0


def _list(host: HostHandle, ledger: EffectLedger, args: argparse.Namespace) -> None:
    settings: LedgerSettings = host.settings("ledger")
    entries = [
        entry
        for entry in store_of(ledger).entries(tool_name=args.tool)
        if args.state in (None, str(entry.state), state_of(entry))
    ]
    if args.out is None:
        if entries:
            show_table(entries, settings, host.clock.now())
            return
        what = " ".join(part for part in (args.state, args.tool and f"call of {args.tool}") if part)
        nothing = f"No {what}" if what else "Nothing"
        show_line(f"{nothing} is recorded in {place_of(ledger.store)}.")
        return
    for entry in entries:
        args.out.write(wire_of(entry, due_of(entry, settings, host.clock.now())))


def _show(host: HostHandle, ledger: EffectLedger, args: argparse.Namespace) -> None:
    entry = _find(store_of(ledger), args.key)
    settings: LedgerSettings = host.settings("ledger")
    if args.out is None:
        # Show all that is known of an entry.
        now = host.clock.now()
        claim = entry.claim
        lines = {
            "key": claim.key,
            "hash": hash_of(entry)[:SHOWN_OF_HASH],
            "tool": claim.tool_name,
            "state": state_of(entry),
            "since": shown_time(claim.created_at),
            "expires": _end(entry, now),
            "session": claim.session_id,
            "call": claim.call_id,
            "effect": claim.effect_id,
            "params": f"{claim.params_hash} (hash)",
        }
        if (result := entry.result) is not None:
            value = "" if result.value is None else result.value.decode(errors="replace")
            lines["message"] = printable(unless_secret(result, result.message))
            lines["value"] = printable(unless_secret(result, value))
        if claim.params is not None:
            lines["with"] = printable(claim.params.decode(errors="replace"))
        if entry.reason is not None:
            lines["reason"] = printable(entry.reason)
        if (due := due_of(entry, settings, now)) is not None:
            lines["due"] = printable(str(due))
        if entry.state is EffectState.CLAIMED and entry.owner is not None:
            lines["owner"] = entry.owner
        width = max(map(len, lines))
        for name, text in lines.items():
            show_line(f"{name:<{width}}  {text}")
    else:
        args.out.write(wire_of(entry, due_of(entry, settings, host.clock.now())))


def _resolve(host: HostHandle, ledger: EffectLedger, args: argparse.Namespace) -> None:
    store = store_of(ledger)
    entry = _find(store, args.key)
    claim = entry.claim
    tool = host.catalog.get(claim.tool_name)
    found = Finding(has_happened=args.done, message=args.message, value=args.value)
    settle(store, entry, found, tool=tool, now=now_of(store, host.clock))
    text = f"{claim.key} is resolved."
    if is_undo_owed(entry):
        text = f"The undo of {claim.key} is recorded: its effect is gone, and the next call runs."
    wire: dict[str, object] = {"key": claim.key, "done": bool(args.done)}
    if args.value is not None and tool is None:
        text += (
            f" No plugin here offers {claim.tool_name}, so its value was not checked. If it does "
            "not fit, resolve it again, and load the plugin that does, with --plugin FILE.py, say."
        )
        wire["checked"] = False
    tell(args, text, wire)


def _reconcile(host: HostHandle, ledger: EffectLedger, args: argparse.Namespace) -> None:
    settings: LedgerSettings = host.settings("ledger")
    store = store_of(ledger)
    one = None if args.key is None else _find(store, args.key)
    key, seen = one and one.claim.key, 0
    for entry in [each for each in store.entries() if not one and state_of(each) == "undoing"]:
        seen += 1
        text = f"{hash_of(entry)[:SHOWN_OF_HASH]}  {entry.claim.tool_name}  its undo runs elsewhere"
        tell(args, text, wire_of(entry) | {"found": "undoing"})
    for entry, found, due in reconcile_pass(host, settings, key=key, at_once=True):
        seen += 1
        text = f"{hash_of(entry)[:SHOWN_OF_HASH]}  {entry.claim.tool_name}  {found or NOT_ASKED}"
        still = "" if found in SETTLED else f"; {due}"
        tell(args, f"{text}{still}", wire_of(entry, due) | {"found": found})
    if not seen and args.out is None:
        told = one and f"The call {key} is {state_of(one)}, so its tool is not asked."
        show_line(told or "Nothing is unknown.")


def _invalidate(host: HostHandle, ledger: EffectLedger, args: argparse.Namespace) -> None:  # noqa: ARG001 - one shape for all
    store = store_of(ledger)
    key = None if args.key is None else _find(store, args.key).claim.key
    removed = store.remove(key=key, tool_name=args.tool)
    if key is not None and not removed:
        raise LedgerError(f"The call {key} is running, so it stays. Wait for it, then retry.")
    tell(args, f"{removed} removed.", {"removed": removed})


def _prune(host: HostHandle, ledger: EffectLedger, args: argparse.Namespace) -> None:
    store = store_of(ledger)
    removed = store.prune(now_of(store, host.clock))
    tell(args, f"{removed} removed.", {"removed": removed})


def _move(host: HostHandle, ledger: EffectLedger, args: argparse.Namespace) -> None:
    settings: LedgerSettings = host.settings("ledger")
    moved, told, store = 0, "", ledger.store
    if isinstance(store, SqliteStore):
        if has_entries_left(settings.path, store.path, host.clock.now()):
            moved = store.take_over(settings.path)
        told = f"{moved} moved from {settings.path} to {store.path}."
    tell(args, told if moved else "Nothing is to be moved.", {"moved": moved})


def _find(store: LedgerStore, text: str) -> LedgerEntry:
    """Return the entry of a key, or of the beginning of a hash."""
    entries = list(store.entries())
    found = [entry for entry in entries if entry.claim.key == text]
    for entry in () if found or not text else entries:
        names = hash_of(entry), entry.claim.key.split(":")[-1]
        found += [entry] if any(name.startswith(text) for name in names) else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise LedgerError(f"No call has the key {text!r}. List them with `toolstile ledger list`.")
    keys = [entry.claim.key for entry in found]
    more = "" if len(keys) <= SHOWN_KEYS else f" and {len(keys) - SHOWN_KEYS} more"
    raise LedgerError(
        f"{len(keys)} calls have keys like {text!r}: {', '.join(keys[:SHOWN_KEYS])}{more}. Name "
        "one of them, or give its hash from `toolstile ledger list`."
    )
