"""Arguments edited by a person: in their editor, or as one line of JSON."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any, cast

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs.support.text import printable, printable_lines
from toolstile_plugins.approval.display import Shown, unmasked
from toolstile_plugins.approval.terminal import Terminal


def edit(shown: Shown, terminal: Terminal) -> str | None:
    """Return the arguments as a person edits them, as JSON, or None to go back.

    What does not fit the tool is told, and nothing comes of it.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    written = _in_editor(editor, shown, terminal) if editor else _in_line(shown, terminal)
    if written is None:
        return None
    try:
        edited = _read(written, shown)
        shown.request.tool.parse(edited)
    except ToolValidationError as error:
        for line in printable_lines(str(error).removesuffix("\nMend these, then retry.")):
            terminal.show(line)
        return None
    return edited


def _read(written: str, shown: Shown) -> str:
    try:
        values: Any = json.loads(written)
    except ValueError as error:
        raise ToolValidationError(f"That is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ToolValidationError("That is not a JSON object.")
    try:
        return json.dumps(unmasked(cast("object", values), shown.arguments))
    except ValueError as error:
        raise ToolValidationError(str(error)) from None


def _in_line(shown: Shown, terminal: Terminal) -> str | None:
    terminal.show(printable(json.dumps(shown.masked, ensure_ascii=False)))
    line = terminal.ask("The arguments as JSON, on one line (Enter goes back):")
    return line if line and line.strip() else None


def _in_editor(editor: str, shown: Shown, terminal: Terminal) -> str | None:
    before = json.dumps(shown.masked, ensure_ascii=False, indent=2) + "\n"
    with tempfile.TemporaryDirectory(prefix="toolstile-") as folder:
        path = Path(folder, f"{shown.request.tool.name}.json")
        path.write_text(before, encoding="utf-8", errors="surrogatepass")
        try:
            # The person's own editor, on the terminal that the question is asked at.
            status = subprocess.run(  # noqa: S603 - which is what they ask for
                [*shlex.split(editor), str(path)], stdin=terminal.source, check=False
            ).returncode
            after = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            terminal.show(f"{printable(editor)} cannot be used: {printable(str(error))}")
            return None
    if status != 0:
        terminal.show(f"{printable(editor)} ended with status {status}; nothing was edited.")
        return None
    if after == before:
        terminal.show("Nothing was changed.")
        return None
    return after
