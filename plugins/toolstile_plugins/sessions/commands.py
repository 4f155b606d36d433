"""The commands of `toolstile sessions`, and the finding of `toolstile doctor` on the store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import Diagnostic, HostHandle, StateError
from toolstile_hookspecs.services.session_store import SessionInfo, SessionStore
from toolstile_hookspecs.support.text import printable, suggest, wire_time
from toolstile_plugins.screen import Screen, show_line, shown_time, tell
from toolstile_plugins.sessions.sqlite import SqliteSessions, fault_of_version
from toolstile_plugins.sqlite_file import database_finding

_NO_STORE: Final = (
    "No sessions are stored here. Name in the configuration a file as path in [plugins.sessions], "
    "or a database as url in [plugins.database]; then retry."
)


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry out a command; `StateError` says that the session or the store cannot be used."""
    with host.executor() as tools:
        store = tools.resources.get(SessionStore, None)  # type: ignore[type-abstract]
    if store is None:
        raise StateError(_NO_STORE)
    # Because reading must not make the file.
    is_empty = isinstance(store, SqliteSessions) and not store.path.exists()
    there: Sequence[SessionInfo] = [] if is_empty else store.sessions()
    match args.what:
        case "list":
            _list(store, there, args)
        case "show":
            _show(host, _named(args.name, there), args)
        case "export":
            _export(host, _named(args.name, there), args)
        case _:
            info = _named(args.name, there)
            done = {"id": info.id, "removed": store.delete(info.id)}
            tell(args, f"{printable(info.id)} is removed.", done)
    return 0


def _named(name: str, there: Sequence[SessionInfo]) -> SessionInfo:
    for info in there:
        if info.id == name:
            return info
    near = suggest(name, [info.id for info in there])
    raise StateError(
        f"There is no stored session {printable(name)!r}{near or ''}. List them with "
        "`toolstile sessions list`."
    )


def _list(store: SessionStore, there: Sequence[SessionInfo], args: argparse.Namespace) -> None:
    if args.out is not None:
        for info in there:
            args.out.write(_wire_of(info))
        return
    if not there:
        show_line(f"No session is stored in {store.database or type(store).__qualname__}.")
        return
    rows = [(printable(info.id), str(info.number), shown_time(info.changed_at)) for info in there]
    Screen("").table(("session", "changes", "changed"), rows)


def _show(host: HostHandle, info: SessionInfo, args: argparse.Namespace) -> None:
    document = _document_of(host, info)
    slices: list[dict[str, Any]] = [
        {**slice_, "items": len(slice_["items"])} for slice_ in document["slices"]
    ]
    policies = [record["policy_name"] for record in document["policies"]]
    if args.out is not None:
        args.out.write({**_wire_of(info), "slices": slices, "policies": policies})
        return
    show_line(f"session  {printable(info.id)}")
    show_line(f"changes  {info.number}")
    show_line(f"changed  {shown_time(info.changed_at)}")
    if policies:
        show_line(f"records  {', '.join(map(printable, policies))}")
    if slices:
        rows = [(printable(each["type"]), each["policy"], str(each["items"])) for each in slices]
        show_line("")
        Screen("").table(("slice", "policy", "items"), rows)


def _export(host: HostHandle, info: SessionInfo, args: argparse.Namespace) -> None:
    document = _document_of(host, info)
    if args.out is not None:
        args.out.write(document)
    else:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _document_of(host: HostHandle, info: SessionInfo) -> dict[str, Any]:
    """Return a session as JSON data, because the types of its slices may be unknown here."""
    with host.executor(session_id=info.id) as tools:
        session: Any = tools.session
        document: dict[str, Any] = json.loads(session.to_json())
    return document


def _wire_of(info: SessionInfo) -> dict[str, Any]:
    return {"id": info.id, "number": info.number, "changedAt": wire_time(info.changed_at)}


# --- toolstile doctor


def diagnosed(path: Path | None, *, offering: str | None) -> Iterator[Diagnostic]:
    """Yield a finding on the store in use, which a plugin (`offering`) may bring."""
    if offering not in (None, "sessions"):
        yield Diagnostic.ok("sessions", f"Their store is offered by plugin {offering}.")
        return
    if path is None:
        told = "no path is in [plugins.sessions] or [plugins.database], and no url"
        yield Diagnostic.ok("sessions", f"They stay in memory: {told}.")
        return
    yield database_finding(path, "sessions", fault_of_version)
