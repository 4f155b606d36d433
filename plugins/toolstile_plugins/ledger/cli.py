"""The commands of `toolstile ledger`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from toolstile_hookspecs import HostHandle, LedgerError, Severity, Tool, ToolValidationError
from toolstile_hookspecs.services.ledger import EffectState, LedgerEntry, LedgerStore
from toolstile_plugins.directories import file_finding
from toolstile_plugins.ledger import display as showing
from toolstile_plugins.ledger.api import DAY, end_of, read_result
from toolstile_plugins.ledger.settings import LedgerSettings, offered_store
from toolstile_plugins.ledger.stores.memory import MemoryStore

BY_HAND: Final = "A person found out that it has not happened."
UNFIT: Final = "Its recorded value did not fit what the tool returns."
SHOWN_KEYS: Final = 5


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry a command out.

    Raises:
        LedgerError: The ledger cannot be used, or has no such entry.
    """
    settings: LedgerSettings = host.settings("ledger")
    with host.executor() as tools:
        offered = offered_store(tools.resources)
    if offered is None and settings.is_empty:
        store: LedgerStore = _nothing_yet(settings.path)
    else:
        store = settings.ledger(offered).store
    commands: dict[str, Callable[[HostHandle, LedgerStore, argparse.Namespace], None]] = {
        "list": _list,
        "show": _show,
        "resolve": _resolve,
        "invalidate": _invalidate,
        "prune": _prune,
    }
    commands[args.what](host, store, args)
    return 0


def _nothing_yet(file: Path) -> LedgerStore:
    """Return a store in the place of a file that is not there yet, so that none is made."""
    found = file_finding(file, "ledger")
    if found.severity is Severity.ERROR:
        raise LedgerError(f"The ledger {file} cannot be used: {found.text} {found.remedy}")
    return MemoryStore()


def _list(host: HostHandle, store: LedgerStore, args: argparse.Namespace) -> None:
    entries = [
        each for each in store.entries(tool_name=args.tool) if args.state in (None, str(each.state))
    ]
    if args.out is None:
        if entries:
            showing.show_table(entries, host.clock.now())
        else:
            settings: LedgerSettings = host.settings("ledger")
            showing.show_line(f"{_nothing(args)} is recorded in {settings.place}.")
        return
    for each in entries:
        args.out.write(showing.wire_of(each))


def _nothing(args: argparse.Namespace) -> str:
    what = " ".join(each for each in (args.state, args.tool and f"call of {args.tool}") if each)
    return f"No {what}" if what else "Nothing"


def _show(host: HostHandle, store: LedgerStore, args: argparse.Namespace) -> None:
    entry = _find(store, args.key)
    if args.out is None:
        showing.show_entry(entry, host.clock.now())
    else:
        args.out.write(showing.wire_of(entry))


def _resolve(host: HostHandle, store: LedgerStore, args: argparse.Namespace) -> None:
    if args.not_done and (args.message is not None or args.value is not None):
        raise LedgerError(
            "What has not happened has no message and no value. Give --done, or leave them out."
        )
    entry = _find(store, args.key)
    claim = entry.claim
    now = host.clock.now()
    tool = host.catalog.get(claim.tool_name)
    is_unfit = _is_unfit(entry, tool)
    if entry.state is not EffectState.UNKNOWN and not is_unfit:
        raise LedgerError(_nothing_to_resolve(entry, tool))
    if args.not_done and entry.state is EffectState.DONE:
        raise LedgerError(
            f"The call {claim.key} is done: it has happened, only {claim.tool_name} returns "
            "something else by now than was recorded. Say what it came to, with --done --value "
            f"JSON; or, if it may happen again, use `toolstile ledger invalidate '{claim.key}'`."
        )
    result = read_result(args.message or "", args.value, tool)
    if is_unfit:
        # Nothing of it is of use to any call: from here on it is unknown like others.
        store.doubt(claim.key, claim.effect_id, UNFIT)
    if args.done:
        ttl = DAY if tool is None or tool.idempotency is None else tool.idempotency.ttl
        kept = store.finish(claim.key, claim.effect_id, result, end_of(now, ttl))
    else:
        # Not removed: what its crash has left behind elsewhere may still have to ask for it.
        kept = store.doubt(claim.key, claim.effect_id, BY_HAND, now)
    if not kept:
        raise LedgerError(
            f"The call {claim.key} changed meanwhile, so nothing was resolved. Look at it again."
        )
    told = f"{claim.key} is resolved."
    wire: dict[str, object] = {"key": claim.key, "done": bool(args.done)}
    if args.value is not None and tool is None:
        told += (
            f" No plugin here offers {claim.tool_name}, so its value was not checked. If it does "
            "not fit, resolve it again, and load the plugin that does, with --plugin FILE.py, say."
        )
        wire["checked"] = False
    _tell(args, told, wire)


def _is_unfit(entry: LedgerEntry, tool: Tool[object, object] | None) -> bool:
    """Tell whether a value is recorded that the tool cannot return."""
    if tool is None or entry.result is None or entry.result.value is None:
        return False
    try:
        tool.result_codec.decode(entry.result.value)
    except ToolValidationError:
        return True
    return False


def _nothing_to_resolve(entry: LedgerEntry, tool: Tool[object, object] | None) -> str:
    name, key = entry.claim.tool_name, entry.claim.key
    told = (
        f"The call {key} is {entry.state}, so there is nothing to resolve. Look at it with "
        f"`toolstile ledger show '{key}'`."
    )
    if tool is None and entry.state is EffectState.DONE:
        told += (
            f" If its value does not fit, load the plugin that offers {name}, with --plugin "
            "FILE.py, say; then it can be resolved again."
        )
    return told


def _invalidate(host: HostHandle, store: LedgerStore, args: argparse.Namespace) -> None:  # noqa: ARG001 - one shape for all
    key = None if args.key is None else _find(store, args.key).claim.key
    removed = store.remove(key=key, tool_name=args.tool)
    if key is not None and not removed:
        raise LedgerError(f"The call {key} is running, so it stays. Wait for it, then retry.")
    _tell(args, f"{removed} removed.", {"removed": removed})


def _prune(host: HostHandle, store: LedgerStore, args: argparse.Namespace) -> None:
    removed = store.prune(host.clock.now())
    _tell(args, f"{removed} removed.", {"removed": removed})


def _find(store: LedgerStore, text: str) -> LedgerEntry:
    """Return the entry of a key, or of the beginning of its hash or of that in it."""
    exact = store.get(text)
    if exact is not None:
        return exact
    found = [each for each in store.entries() if text and _is_meant(each, text)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise LedgerError(f"No call has the key {text!r}. List them with `toolstile ledger list`.")
    keys = [each.claim.key for each in found]
    more = "" if len(keys) <= SHOWN_KEYS else f" and {len(keys) - SHOWN_KEYS} more"
    raise LedgerError(
        f"{len(keys)} calls have keys like {text!r}: {', '.join(keys[:SHOWN_KEYS])}{more}. Name "
        "one of them, or give its hash from `toolstile ledger list`."
    )


def _is_meant(entry: LedgerEntry, text: str) -> bool:
    return any(
        each.startswith(text) for each in (showing.hash_of(entry), entry.claim.key.split(":")[-1])
    )


def _tell(args: argparse.Namespace, text: str, wire: dict[str, object]) -> None:
    if args.out is None:
        showing.show_line(text)
    else:
        args.out.write(wire)
