"""The changes of a call as a person reads them."""

from __future__ import annotations

import textwrap
from collections.abc import Generator
from contextlib import suppress
from typing import Any, cast

from toolstile.drivers.job import Staged, Step
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.hook_calls import perform, settle
from toolstile.pipeline.masking import mask
from toolstile_hookspecs.calls import NO_CHANGES


def describe(call: ActiveCall) -> Generator[Step, Any, str]:
    """Return a call's changes, secrets included."""
    parts: list[str] = []
    silent: list[str] = []
    if first := dict.fromkeys(path for each in call.decisions for path in each.paths):
        parts.append(_part("decide on", "\n".join(first)))
    changes = call.branch.describe_changes()
    if changes:
        parts.append(_part("session", "\n".join(changes)))
    for each in [*call.participants, *call.scope.participants()]:
        name = str(getattr(each, "name", None) or type(each).__name__)
        if not callable(getattr(each, "diff", None)):
            silent.append(name)
            continue
        shown = cast("object", (yield from perform(call, each, "diff", settle)))
        if shown:
            parts.append(_part(name, str(shown)))
    if silent:
        parts.append(f"also used, but cannot show changes: {', '.join(silent)}")
    return "\n".join(parts) or NO_CHANGES


def note_diff(call: ActiveCall) -> Staged:
    """Note a call's changes for observers, without secrets."""
    # Because observers change nothing, a participant that cannot show its changes fails no call.
    with suppress(Exception):
        call.diff = mask(call, (yield from describe(call)))


def _part(name: str, text: str) -> str:
    return f"{name}:\n{textwrap.indent(text.rstrip(), '  ')}"
