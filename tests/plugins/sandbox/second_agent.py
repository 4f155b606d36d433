"""Another session, which commits while a command of the first one runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from toolstile import Host
from toolstile_hookspecs import Outcome, ToolCall


@contextmanager
def second_agent(host: Host, scratch: Path, began: str, files: Mapping[str, str]) -> Iterator[None]:
    """Once the command has written to a file, replace files in another session.

    Args:
        host: The host of both sessions.
        scratch: The directory in which commands write.
        began: The name of the file that says how far the command is.
        files: The texts to write, by path.
    """
    outcomes: list[Outcome] = []

    def write() -> None:
        until = time.monotonic() + 120
        while not any(path.stat().st_size for path in scratch.rglob(began)):
            assert time.monotonic() < until
            time.sleep(0.02)
        with host.executor() as tools:
            for path, text in files.items():
                outcomes.append(tools.dispatch(ToolCall("read_file", {"path": path})))
                arguments = {"path": path, "content": text, "overwrite": True}
                outcomes.append(tools.dispatch(ToolCall("write_file", arguments)))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert [outcome.text for outcome in outcomes if not outcome.success] == []
    assert len(outcomes) == 2 * len(files)
