"""Persistent policies: their records live in JSON files beyond a session."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ValidationError

from toolstile_hookspecs import (
    ConfigurationError,
    PersistentPolicy,
    PolicyState,
    PolicyStoreLocation,
    SessionProtocol,
)
from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.policies import RESERVED, record_of
from toolstile_hookspecs.support.process import make_directory, replaced, unshared

# --- A lock beside a file


if sys.platform == "win32":
    import msvcrt

    def _acquire(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)

    def _release(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquire(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _release(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Hold the lock of a file; it lies beside it, since the file itself is replaced.

    Makes the file's directory if it is missing. The lock is held for a short time only;
    `ConfigurationError`: it cannot be had.
    """
    with ExitStack() as stack:
        try:
            make_directory(file.parent)
            lock = unshared(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
            stack.callback(lock.close)
            _acquire(lock.fileno())
        except OSError as error:
            raise _unwritable(file, error) from error
        stack.callback(_release, lock.fileno())
        yield


# --- Records in JSON files


class Document(BaseModel):
    """The content of a file."""

    format: Literal["toolstile.policies"]
    version: Literal[1]
    policies: list[PolicyState]


Records = dict[str, PolicyState]
Changes = Mapping[str, tuple[PolicyState | None, PolicyState | None]]
"""From a record's name to its values before and after a call."""


class PolicyStore:
    """Loads and saves the records of the policies that are kept.

    A session begins with the content of the file. A call's changes are written after its
    commit, as a change: other sessions' changes stay. Reservations are made under the
    file's lock, on its present content, so that a limit holds over all sessions.
    """

    def __init__(
        self, policies: Iterable[PersistentPolicy], apart: PolicyStoreLocation | None = None
    ) -> None:
        self._files = {policy.name: policy.file for policy in policies}
        if apart is not None:
            for name, file in self._files.items():
                digest = hashlib.sha256(os.fsencode(file.absolute())).hexdigest()
                stand_in = self._files[name] = apart.folder / f"{digest}.json"
                if not apart.anew and not stand_in.exists():
                    write(stand_in, read(file))

    def load(self, session: SessionProtocol, loaded: set[str]) -> None:
        """Give a session the records of the files, if it has no records yet.

        `loaded` names the policies whose records it was given before.
        """
        records = session[PolicyState]
        for name, file in self._files.items():
            if name in loaded:
                continue
            found = read(file)
            for record in (name, f"{name}{RESERVED}"):
                if record in found and record_of(records, record) is None:
                    records.replace(found[record])
            loaded.add(name)

    @contextmanager
    def counting(self, session: SessionProtocol, names: Collection[str]) -> Generator[None]:
        """Let policies reserve on the records of the files, and save them unless one raises."""
        own = {f"{name}{RESERVED}": self._files[name] for name in names if name in self._files}
        records = session[PolicyState]
        with ExitStack() as locks:
            held: dict[Path, Records] = {}
            for file in sorted(set(own.values())):
                locks.enter_context(locked(file))
                held[file] = read(file)
            before = {name: held[file].get(name) or PolicyState(name) for name, file in own.items()}
            records.replace(*before.values())
            yield
            changed: set[Path] = set()
            for name, file in own.items():
                after = record_of(records, name)
                if after is not None and after != before[name]:
                    held[file][name] = after
                    changed.add(file)
            for file in changed:
                write(file, held[file])

    def saving(self, changes: Changes) -> PolicyStoreParticipant | None:
        """Return the participant that saves a call's changed records; None if none is kept."""
        by_file: dict[Path, dict[str, tuple[PolicyState | None, PolicyState | None]]] = {}
        for name, change in changes.items():
            if name in self._files:
                by_file.setdefault(self._files[name], {})[name] = change
        return PolicyStoreParticipant(by_file) if by_file else None


class PolicyStoreParticipant:
    """Saves a call's changes of records, as a participant of the call."""

    name: Final = "the kept state of policies"

    def __init__(self, changes: Mapping[Path, Changes]) -> None:
        self._changes = changes

    def prepare(self) -> None:
        """Make sure that all of it can be written as JSON, to files that can be read."""
        for file, changes in self._changes.items():
            _text({**read(file), **{name: new for name, (_, new) in changes.items() if new}})

    def commit(self) -> None:
        for file, changes in self._changes.items():
            with locked(file):
                records = read(file)
                for name, (old, new) in changes.items():
                    records[name] = merged(name, old, new, records.get(name))
                write(file, records)

    def rollback(self) -> None:
        """Do nothing: nothing was written."""


def merged(
    name: str, old: PolicyState | None, new: PolicyState | None, theirs: PolicyState | None
) -> PolicyState:
    """Return their record with the changes from old to new in it; ours win key by key."""
    empty = PolicyState(name)
    old, new, theirs = old or empty, new or empty, theirs or empty
    data = dict(theirs.data)
    for key in {**old.data, **new.data}:
        if key not in new.data:
            data.pop(key, None)
        elif key not in old.data or old.data[key] != new.data[key]:
            data[key] = new.data[key]
    return PolicyState(
        name,
        (theirs.invoked_tools - (old.invoked_tools - new.invoked_tools))
        | (new.invoked_tools - old.invoked_tools),
        (theirs.invoked_keys - (old.invoked_keys - new.invoked_keys))
        | (new.invoked_keys - old.invoked_keys),
        data,
    )


def read(file: Path) -> Records:
    """Return the records in a file, if it exists; `ConfigurationError` for a foreign one."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            # Reading a pipe or a device may never end.
            raise _unusable(file, "it is not a file")
        content = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(file, f"it cannot be read ({error})") from error
    try:
        document = Document.model_validate_json(content)
    except ValidationError as error:
        raise _unusable(file, f"its content does not fit ({first_fault(error)})") from error
    return {record.policy_name: record for record in document.policies}


def write(file: Path, records: Records) -> None:
    """Replace the records in a file; raises ValueError if one is not JSON."""
    replace_file(file, _text(records))


def replace_file(file: Path, text: str) -> None:
    """Replace a file at once, so that a reader or a crash never meets half of it.

    Raises `ConfigurationError` if it cannot be written; the old file stays.
    """
    try:
        with replaced(file) as new:
            new.write(text.encode())
    except OSError as error:
        raise _unwritable(file, error) from error


def _text(records: Records) -> str:
    document = Document.model_construct(
        format="toolstile.policies", version=1, policies=list(records.values())
    ).model_dump(mode="json")
    for record in document["policies"]:
        record["invoked_tools"].sort()
        record["invoked_keys"].sort()
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _unwritable(file: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{file} keeps the records of policies, but it cannot be written "
        f"({error.strerror or error}). Give this user the right to write in its folder, or name "
        "another file."
    )


def _unusable(file: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{file} keeps the records of policies, but {what}. Repair the file, or move it away to "
        "start with empty records."
    )
