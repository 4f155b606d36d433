"""The servers in a client's file: wrapped in place, and unwrapped again.

All other characters of the file stay. A copy of the file from before is kept in the user's
directory for state, so that `unwrap` can restore each byte if the file was not edited since.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from toolstile_hookspecs import ConfigurationError, HostHandle, StatusPart
from toolstile_hookspecs.support.process import make_directory, replaced
from toolstile_plugins.cli_support import needing
from toolstile_plugins.dialects.parse import items
from toolstile_plugins.inbox.cli import wrapped
from toolstile_plugins.mcp.gateway.import_config import REACHED, Place, blanked, servers_in

PROGRAM: Final = "toolstile"
WRAPPED: Final = "it is wrapped already"
OURS: Final = "it is Toolstile"
_BOM: Final = "\ufeff"
_LOST: Final = (
    " Its program {program} is missing, so the server does not start. Run `toolstile unwrap --in "
    "{file}`, then `toolstile wrap --in {file}`."
)
NOTHING: Final = "No server was found that can be wrapped, so nothing was changed."
_DECODE: Final = json.JSONDecoder().raw_decode
_BLANK: Final = re.compile(r"\s*")


class Change(NamedTuple):
    """A server's new command."""

    name: str
    place: Place
    words: list[str]


@dataclass(slots=True)
class Edit:
    """The changes of a text, and the servers that are left unchanged with the reasons."""

    text: str = ""
    changes: list[Change] = field(default_factory=list[Change])
    left: dict[str, str] = field(default_factory=dict[str, str])


def wrap(file: Path) -> int:
    """Wrap the servers of a client's file, and keep a copy of it."""
    file, now = content_of(file)
    found = wrapping(now.decode(), file)
    if found.changes:
        write_wrapped(file, now, found)
    for name, why in found.left.items():
        sys.stdout.write(f"{name}: left unchanged, because {why}.\n")
    for change in found.changes:
        sys.stdout.write(f"{change.name}: wrapped.\n")
    end = f"`toolstile unwrap --in {file}` restores the file." if found.changes else NOTHING
    sys.stdout.write(f"{end}\n")
    return 0


def wrapping(text: str, file: Path) -> Edit:
    """Return the text of a client's file with its servers wrapped."""
    return edited(text, file, _wrapped)


def write_wrapped(file: Path, now: bytes, found: Edit) -> None:
    """Write a client's file that still has its content of now, and keep a copy of it."""
    copy, after = _kept(file)
    is_wrapped = copy.is_file() and after == _digest(now)
    plain = copy.read_bytes() if is_wrapped else edited(now.decode(), file, _plain).text.encode()
    make_directory(copy.parent)
    copy.parent.chmod(0o700)  # a client's file may have secrets
    copy.write_bytes(plain)
    copy.with_suffix(".sha256").write_text(_digest(found.text.encode()))
    _write(file, now, found.text.encode())


def unwrap(_: HostHandle, args: argparse.Namespace) -> int:
    """Restore a client's file, or take out our own words if it was edited since."""
    if args.file is None:
        raise ConfigurationError("Name the file with --in FILE, or the client with --client NAME.")
    file, now = content_of(args.file)
    copy, after = _kept(file)
    if copy.is_file() and after == _digest(now):
        _write(file, now, copy.read_bytes())
        told = "restored: each byte is as it was."
    elif (found := edited(now.decode(), file, _plain)).changes:
        _write(file, now, found.text.encode())
        why = "it was edited since" if copy.is_file() else "no copy of it from before is kept"
        names = ", ".join(change.name for change in found.changes)
        told = f"unwrapped {names}; all else stays, because {why}."
    else:
        told = "nothing in it is wrapped."
    if copy.is_file():
        copy.unlink()
        copy.with_suffix(".sha256").unlink(missing_ok=True)
    sys.stdout.write(f"{file}: {told}\n")
    return 0


def reported(files: Iterable[Path]) -> Iterator[StatusPart]:
    """Yield the wrapped servers in clients' files, and their last calls."""
    servers, lines = list[dict[str, str]](), list[str]()
    for file in files:
        # A broken file wraps nothing.
        with suppress(ConfigurationError, OSError, UnicodeDecodeError):
            for name, _, (program, *_) in edited(file.read_text("utf-8"), file, _wrapping).changes:
                servers.append({"server": name, "file": str(file), "program": program})
                lost = "" if shutil.which(program) else _LOST.format(program=program, file=file)
                lines.append(f"Server: {name}, wrapped in {file}.{lost}")
    yield StatusPart("servers", servers, lines)
    if servers:
        from toolstile_plugins.record.commands import last_calls  # a wrapper shows no record

        yield last_calls([*wrapped().parent.glob("*/records")])


# --- Files


def content_of(named: Path) -> tuple[Path, bytes]:
    """Return a file and its content; the file that a link leads to, so that the link stays."""
    file = named.expanduser().resolve()
    try:
        if not file.stat().st_mode & 0o222:
            raise ConfigurationError(f"{file} is read-only. Make it writable: chmod u+w {file}")
        content = file.read_bytes()
        content.decode()
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not UTF-8. Convert it first.") from error
    return file, content


def _write(file: Path, now: bytes, content: bytes) -> None:
    """Write a file that still has its content of now, whole or not at all."""
    try:
        with replaced(file) as new:
            new.write(content)
            if file.read_bytes() != now:
                raise ConfigurationError(f"{file} was changed meanwhile. Run the command again.")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}.") from error


def _kept(file: Path) -> tuple[Path, str]:
    """Return the place of the copy of a file, and the digest of the file that we have written."""
    copy = wrapped().parent / "copies" / f"{_digest(bytes(file))[:16]}.copy"
    note = copy.with_suffix(".sha256")
    return copy, note.read_text() if note.is_file() else ""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- Texts


Words = Callable[[str, list[str]], list[str]]
"""Returns a server's new command, empty to leave it; raises `ValueError` with the reason."""


def _wrapped(name: str, words: list[str]) -> list[str]:
    """Return the command that wraps a server."""
    if Path(words[0]).stem == PROGRAM:
        raise ValueError(WRAPPED if words[1:2] == ["wrap"] else OURS)
    # Because a client starts elsewhere, where no virtual environment is active, the path is whole.
    beside = str(Path(sys.executable).with_name(PROGRAM))
    program = Path(shutil.which(beside) or shutil.which(PROGRAM) or beside).absolute()
    return [str(program), "wrap", f"--name={name}", "--", *words]


def _wrapping(_: str, words: list[str]) -> list[str]:
    """Return the command of a server if it is wrapped."""
    is_ours = Path(words[0]).stem == PROGRAM and words[1:2] == ["wrap"] and "--" in words
    return words if is_ours else []


def _plain(name: str, words: list[str]) -> list[str]:
    """Return the command of a server that is wrapped, without our words."""
    return words[words.index("--") + 1 :] if _wrapping(name, words) else []


def edited(text: str, file: Path, words: Words) -> Edit:
    """Return the text of a file after `words` has chosen the command of each server.

    Raises `ConfigurationError` if it is neither JSON, with comments or not, nor TOML.
    """
    is_toml = file.suffix == ".toml"
    try:
        if is_toml:
            with needing("Files in TOML need {name}.", "mcp"):
                # Because only Codex has such files, this import is late.
                import tomlkit
            document: Any = tomlkit.parse(text)
            edit = _chosen(document, words)
            for change in edit.changes:
                _change_toml(document, change)
            edit.text = tomlkit.dumps(document) if edit.changes else text
        else:
            plain = blanked(text.replace(_BOM, " ", 1) if text.startswith(_BOM) else text)
            edit = _chosen(json.loads(plain if plain.strip() else "{}"), words)
            edit.text = _changed_json(text, plain, edit.changes) if edit.changes else text
    except (ValueError, RecursionError) as error:
        form = "TOML" if is_toml else "JSON"
        msg = f"{file} is not {form}: {error}. Correct it; nothing was changed."
        raise ConfigurationError(msg) from error
    return edit


def _chosen(document: Any, words: Words) -> Edit:
    """Return the changes of the servers in a document."""
    edit = Edit()
    for name, place, keys, _ in servers_in(document):
        args: object = keys.get("args", [])
        old = [keys.get("command"), *items(args)]
        if not any(key in keys for key in REACHED):
            continue
        if old[0] is None:
            edit.left[name] = "it is reached over HTTP; see `toolstile wrap --http`"
        elif not isinstance(args, list) or not all(isinstance(word, str) for word in old):
            edit.left[name] = "its command is not made of texts"
        else:
            try:
                if new := words(name, [str(word) for word in old]):
                    edit.changes.append(Change(name, place, new))
            except ValueError as error:
                edit.left[name] = str(error)
    return edit


def _change_toml(document: Any, change: Change) -> None:
    table = document
    for key in change.place:
        table = table[key]
    table["command"], *new = change.words
    listed = table.setdefault("args", [])
    for at, word in enumerate(new[: max(0, len(new) - len(listed))]):
        listed.insert(at, word)
    while len(listed) > len(new):
        del listed[0]


def _parts(plain: str, at: int) -> dict[str | int, int]:
    """Return the places of the parts of a JSON object or array, by key or index."""
    is_object, found = plain[at] == "{", dict[str | int, int]()
    at = _after_blanks(plain, at + 1)
    while plain[at] not in "}]":
        key: str | int = len(found)
        if is_object:
            key, at = _DECODE(plain, at)
            at = _after_blanks(plain, _after_blanks(plain, at) + 1)
        found[key] = at
        at = _after_blanks(plain, _end(plain, at))
        if plain[at] == ",":
            at = _after_blanks(plain, at + 1)
    return found


def _end(plain: str, at: int) -> int:
    return int(_DECODE(plain, at)[1])


def _after_blanks(plain: str, at: int) -> int:
    return cast("re.Match[str]", _BLANK.match(plain, at)).end()


def _changed_json(text: str, plain: str, changes: Sequence[Change]) -> str:
    edits: list[tuple[int, int, str]] = []
    for change in changes:
        at = _after_blanks(plain, 0)
        for key in change.place:
            at = _parts(plain, at)[key]
        parts = _parts(plain, at)
        program, listed = parts["command"], parts.get("args")
        end = _end(plain, program)
        command, *new = (json.dumps(word, ensure_ascii=False) for word in change.words)
        edits.append((program, end, command))
        if listed is None:
            edits.append((end, end, f', "args": [{", ".join(new)}]'))
            continue
        # The words at its end stay, with the comments between them.
        old = [*_parts(plain, listed).values()]
        stay = min(len(old), len(new))
        start = end = old[0] if old else listed + 1
        if len(old) > stay:
            end = old[-stay] if stay else _end(plain, old[-1])
        head = new[: len(new) - stay]
        edits.append((start, end, ", ".join([*head, ""] if head and stay else head)))
    for start, end, told in sorted(edits, reverse=True):
        text = text[:start] + told + text[end:]
    return text
