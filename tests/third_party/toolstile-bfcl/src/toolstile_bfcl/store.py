"""The backends of a session, and the branches on which calls work.

An instance that anybody else can see is never changed: whoever wants to change a backend
makes a copy of its own and, on commit, puts it in the other's place. So the instances
themselves tell versions apart, a failed call leaves nothing to undo, and only what a call
touches is copied.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from toolstile_bfcl.backends import Backends, start_backend
from toolstile_bfcl.json_form import state_form
from toolstile_hookspecs import ConflictError, ToolContext


class Base(Protocol):
    """The base of a branch: the store, or the branch of the calling call."""

    def lend(self, suite: str) -> Any:
        """Return the instance as it is now; from now on it is never changed in place."""
        ...

    def put(self, suite: str, backend: Any) -> None:
        """Take an instance in place of the one there was."""
        ...


class BackendStore:
    """The backends of one session, as committed.

    Args:
        suites: Their names.
        start: The start state of each suite that does not start from its defaults.
        final_state: Where to write the state when the session is closed, if anywhere.
    """

    def __init__(
        self,
        suites: Iterable[str],
        start: Mapping[str, Mapping[str, Any]],
        final_state: Path | None = None,
    ) -> None:
        self._committed = {suite: start_backend(suite, start.get(suite, {})) for suite in suites}
        self._final_state = final_state

    def lend(self, suite: str) -> Any:
        """Return the committed instance, which nobody changes."""
        return self._committed[suite]

    def put(self, suite: str, backend: Any) -> None:
        """Make an instance the committed one."""
        self._committed[suite] = backend

    def branch(self, context: ToolContext, parent: Any | None) -> BackendBranch:
        """Return a branch for a call, of its parent's branch when it is nested."""
        return BackendBranch(self if parent is None else parent)

    def close(self) -> None:
        """Write the final state, whole or not at all."""
        if self._final_state is None:
            return
        states = {suite: state_form(backend) for suite, backend in self._committed.items()}
        draft = self._final_state.with_name(f"{self._final_state.name}.{os.getpid()}")
        draft.write_text(json.dumps(states, allow_nan=False, sort_keys=True), encoding="utf-8")
        draft.replace(self._final_state)


class BackendBranch(Backends):
    """One call's version of the backends."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._seen: dict[str, Any] = {}
        self._now: dict[str, Any] = {}
        self._own: set[str] = set()

    @property
    def resource(self) -> Backends:
        """The arguments of the handler."""
        return self

    def view(self, suite: str) -> Any:
        """Return a backend to look at."""
        if suite not in self._seen:
            self._seen[suite] = self._now[suite] = self._base.lend(suite)
        return self._now[suite]

    def edit(self, suite: str) -> Any:
        """Return a backend that is this branch's alone."""
        backend = self.view(suite)
        if suite not in self._own:
            self._own.add(suite)
            backend = self._now[suite] = copy.deepcopy(backend)
        return backend

    def lend(self, suite: str) -> Any:
        """Return the instance to a nested call; the next edit here works on another."""
        backend = self.view(suite)
        self._own.discard(suite)
        return backend

    def put(self, suite: str, backend: Any) -> None:
        """Take over what a nested call changed."""
        self.view(suite)
        self._now[suite] = backend
        self._own.discard(suite)

    def prepare(self) -> None:
        """Refuse when another call changed a backend that this one has seen."""
        for suite, backend in self._seen.items():
            if self._base.lend(suite) is not backend:
                msg = f"Another call changed {suite} meanwhile. Look at its state, then retry."
                raise ConflictError(msg)

    def commit(self) -> None:
        """Put the changed backends into the base."""
        for suite, backend in self._now.items():
            if backend is not self._seen[suite]:
                self._base.put(suite, backend)

    def rollback(self) -> None:
        """Forget the copies."""
        self._seen, self._now, self._own = {}, {}, set()
