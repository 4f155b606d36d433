"""The contents of a workspace's files, kept so that the changes of an agent's tools can go back.

An agent's command names no file that it will change, so all files are kept before it begins. A
SQLite file has the state of each path and the contents, each once. A look at the workspace reads
only the files whose identity, size or times differ. It leaves out the files that git ignores,
`.git` itself, and names that no path of a workspace can hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import ConflictError
from toolstile_plugins.sqlite_file import connected
from toolstile_plugins.undo.settings import UndoSettings
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import Store
from toolstile_plugins.vfs.backends.disk.descriptors import Pin
from toolstile_plugins.vfs.diff import state_of
from toolstile_plugins.vfs.nodes import PERMISSIONS, Stamp, stamp_of
from toolstile_plugins.vfs.reversal import MODE, TIMED

MOST_PATHS: Final = 20_000
"""The most paths that are watched, because each command looks at all of them twice."""
TOO_MANY: Final = f"the workspace has more than {MOST_PATHS:,} paths, or too many bytes"
_TRIES: Final = 3
_GIT_SECONDS: Final = 30
_GIT_STATE: Final = (
    *("logs/HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
    *("rebase-merge", "rebase-apply"),
)
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS contents (digest TEXT PRIMARY KEY, data BLOB);
CREATE TABLE IF NOT EXISTS ignored (path TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS paths (path TEXT PRIMARY KEY, state TEXT, stamp TEXT);
CREATE TABLE IF NOT EXISTS calls (
    id TEXT PRIMARY KEY, entry TEXT, note TEXT, named INTEGER, shared INTEGER);
CREATE TABLE IF NOT EXISTS before (id TEXT, path TEXT, state TEXT, PRIMARY KEY (id, path));
"""


class TooMany(Exception):
    """The workspace has too many paths or bytes to keep before each command."""


class OpenCall(NamedTuple):
    """A call that has begun and not ended."""

    id: str
    entry: str  # the directory for its note in the store of undos
    note: str  # as JSON
    named: bool  # whether it names its paths
    shared: bool = False  # whether another call may have changed some of its paths


State = str | None
"""The state of a path as the reverse of a call has it; None for absence."""
Changed = Mapping[str, tuple[State, State]]
"""The states of paths before a call and now."""
_Seen = tuple[State, Stamp | None]


class Contents:
    """The states and contents of a workspace, and for each open call the states before it.

    One process at a time uses a file.
    """

    def __init__(self, store: Store, root: Path, file: Path, limits: UndoSettings) -> None:
        self._store = store
        self._root = root
        self._limits = limits
        self._lock = threading.RLock()
        self._database = connected(file, "process", lambda _: None)
        self._database.executescript(_SCHEMA)
        self._load()

    def _load(self) -> None:
        rows = self._database.execute("SELECT * FROM paths")
        self._index: dict[str, _Seen] = {
            path: (state, Stamp(*json.loads(stamp)) if stamp else None)
            for path, state, stamp in rows
        }
        self._ignored = {path for (path,) in self._database.execute("SELECT path FROM ignored")}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    @contextmanager
    def _changing(self) -> Generator[None]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                self._load()
                raise

    # --- calls ---

    def begin(self, call: OpenCall, named: Iterable[str] = ()) -> None:
        """Keep the states before a call: of the paths that it names, else of the workspace.

        Raises:
            TooMany: The workspace is too large.
        """
        with self._changing():
            if not call.named:
                self._look()
            self._database.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", call)
            for path in named:
                self._note(call.id, path, self._seen(path)[0])

    def renote(self, call: OpenCall) -> None:
        """Replace the note of an open call, and the directory for it."""
        with self._changing():
            statement = "UPDATE calls SET entry = ?, note = ? WHERE id = ?"
            self._database.execute(statement, (call.entry, call.note, call.id))

    def changes(self, call: OpenCall) -> Changed:
        """Return the paths whose states differ from those before an open call.

        Raises:
            TooMany: The workspace has become too large.
        """
        with self._changing():
            if not call.named:
                self._look()
            found: dict[str, tuple[State, State]] = {}
            statement = "SELECT path, state FROM before WHERE id = ? ORDER BY path"
            for path, before in self._database.execute(statement, (call.id,)).fetchall():
                # Of a command, the look has just read each path.
                known = None if call.named else self._index.get(path)
                now = known[0] if known else self._seen(path, (before, None))[0]
                if before != now:
                    found[path] = before, now
            return found

    def is_shared(self, call: OpenCall) -> bool:
        """Return whether others may have changed paths of an open call while it ran."""
        return any(each.shared for each in self.open_calls() if each.id == call.id)

    def end(self, call: OpenCall, claimed: Iterable[str] = ()) -> None:
        """Forget a call. Open commands have not changed the claimed paths."""
        with self._changing():
            self._database.execute("DELETE FROM calls WHERE id = ?", (call.id,))
            self._database.execute("DELETE FROM before WHERE id = ?", (call.id,))
            for path in claimed if (commands := self._commands()) else ():
                state = self._seen(path)[0]
                for other in commands:
                    if not self._note(other, path, state):
                        self._share([other])
            if not self.open_calls():
                self._database.execute(
                    "DELETE FROM contents WHERE digest NOT IN "
                    "(SELECT substr(state, 1, 64) FROM paths)"  # the digits of a SHA-256
                )

    def open_calls(self) -> list[OpenCall]:
        """Return the calls that have begun and not ended, in this process or an earlier one."""
        with self._lock:
            return [OpenCall(*row) for row in self._database.execute("SELECT * FROM calls")]

    def data(self, state: State) -> bytes | None:
        """Return the content of a file; None if it is not kept."""
        digest = (state or "").partition(MODE)[0]
        with self._lock:
            statement = "SELECT data FROM contents WHERE digest = ?"
            found: Any = self._database.execute(statement, (digest,)).fetchone()
            return None if found is None else found[0]

    def _commands(self) -> list[str]:
        return [id_ for (id_,) in self._database.execute("SELECT id FROM calls WHERE NOT named")]

    def _note(self, id_: str, path: str, before: State) -> bool:
        """Note the state before a call unless one is noted; return whether none was."""
        statement = "INSERT OR IGNORE INTO before VALUES (?, ?, ?)"
        return self._database.execute(statement, (id_, path, before)).rowcount == 1

    def _share(self, ids: list[str]) -> None:
        for id_ in ids:
            self._database.execute("UPDATE calls SET shared = 1 WHERE id = ?", (id_,))

    # --- looking at the workspace ---

    def _look(self) -> None:
        """Bring the states up to date, and note the former ones for each open command."""
        ignored = self._ignored_by_git()
        found = dict(islice(self._walk(ignored), MOST_PATHS + 1))
        size = sum(each.st_size for each in found.values() if each.st_size <= self._limits.file)
        if len(found) > MOST_PATHS or size > self._limits.most:
            raise TooMany(TOO_MANY)
        index, commands = dict(self._index), self._commands()
        for path in [*found, *(index.keys() - found.keys())]:
            state, stamp = known = index.get(path, (None, None))
            # A path that the walk leaves out now, because of a new rule of git, stays watched.
            status = found.get(path)
            if status is not None and (stamp == stamp_of(status) or state == _directory(status)):
                continue
            now = self._seen(path, known)
            if now == known:
                continue
            if now[0] is None:
                index.pop(path, None)
                self._database.execute("DELETE FROM paths WHERE path = ?", (path,))
            else:
                index[path] = now
                row = (path, now[0], json.dumps(now[1]) if now[1] else None)
                self._database.execute("INSERT OR REPLACE INTO paths VALUES (?, ?, ?)", row)
            # A file that git has ignored until now may be older than the command.
            if now[0] == state or (state is None and self._was_ignored(path)):
                continue
            noted = [id_ for id_ in commands if self._note(id_, path, state)]
            if noted and len(commands) > 1:
                self._share(commands)
        if ignored != self._ignored:
            self._database.execute("DELETE FROM ignored")
            self._database.executemany(
                "INSERT INTO ignored VALUES (?)", [(path,) for path in ignored]
            )
        self._index, self._ignored = index, ignored

    def _seen(self, path: str, known: _Seen = (None, None)) -> _Seen:
        """Return the state of a path; the known one in a directory that its user has closed."""
        try:
            return self._read(path)
        except OSError:
            return known

    def _read(self, path: str) -> _Seen:
        """Return the state of a path, and the stamp that identifies it; keep its content."""
        state: State = None
        for _ in range(_TRIES):
            node = self._store.look(path)
            if node is None or node.kind == "other":
                return None, None
            mode = f"{MODE}{(node.mode or 0) & PERMISSIONS:o}"
            if node.kind == "directory":
                return f"directory{mode}", None
            pin = node.version
            assert isinstance(pin, Pin)  # noqa: S101 - of a store on disk
            if node.content is None:
                return state_of(node), pin.stamp
            # If a change could leave the times as they are, the next look reads the file again.
            stamp = pin.stamp if pin.digest is None else None
            state = f"{node.content.size}{TIMED}{pin.stamp.mtime_ns}{mode}"
            if node.content.size > self._limits.file:
                return state, stamp
            try:
                data = node.content.read()
            except ConflictError:
                continue
            except OSError:
                break
            digest = hashlib.sha256(data).hexdigest()
            self._database.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, data))
            return f"{digest}{mode}", stamp
        return state, None

    def _walk(self, ignored: set[str]) -> Iterator[tuple[str, os.stat_result]]:
        device = self._root.stat().st_dev
        pending = [""]
        while pending:
            directory = pending.pop()
            # Others may remove a directory, or take the right to list it.
            with suppress(OSError), os.scandir(self._root / directory) as entries:
                for entry in entries:
                    path = paths.join(directory, entry.name)
                    if path in ignored or entry.name == ".git" or not paths.is_usable(entry.name):
                        continue
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        yield path, status
                        if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                            pending.append(path)

    def _was_ignored(self, path: str) -> bool:
        return not self._ignored.isdisjoint((path, *paths.ancestors(path)))

    # --- git

    def git_state(self) -> list[int]:
        """Return marks that change if git moves its HEAD, or stops within a merge or the like."""
        found = self._git("rev-parse", "--absolute-git-dir").strip("\n")
        marks = [os.path.join(found, name) for name in _GIT_STATE] if found else []  # noqa: PTH118
        return [os.stat(each).st_mtime_ns if os.path.exists(each) else 0 for each in marks]  # noqa: PTH110, PTH116

    def _ignored_by_git(self) -> set[str]:
        """Return the paths that git ignores; of a directory without other files, only its own."""
        listed = self._git("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
        found = {path.rstrip("/") for path in listed.split("\0")[:-1]}
        # Of a workspace that git ignores as a whole, everything is watched.
        return set() if "." in found else found

    def _git(self, *arguments: str) -> str:
        """Return git's answer; an empty one without git, or outside of a repository."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        done = None
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(  # noqa: S603 - with arguments of ours
                # An agent may have written the configuration: no program of it is started.
                ("git", "-c", "core.fsmonitor=false", *arguments),  # noqa: S607 - the user's git
                cwd=self._root,
                env=environment,
                capture_output=True,
                timeout=_GIT_SECONDS,
                check=False,
            )
        return "" if done is None or done.returncode else os.fsdecode(done.stdout)


def _directory(status: os.stat_result) -> State:
    """Return the state of a directory; an empty one for anything else."""
    is_directory = stat.S_ISDIR(status.st_mode)
    return f"directory{MODE}{status.st_mode & PERMISSIONS:o}" if is_directory else ""
